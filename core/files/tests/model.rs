//! Random histories of operations on names, compared with a model that has no inodes: a map of whole
//! paths. The check finds no fault after any step, and freed blocks are exactly those that no file
//! uses.
#![allow(clippy::unwrap_used)] // a failed test says where

use std::collections::BTreeMap;

use nearflash_files::{
    Change, Error, FreeRuns, Inode, Kind, MemoryTables, Path, Permissions, Refusal, Renaming,
    Replace, Run, Superblock, allocate, check, format, list, locate, stat,
};
use nearflash_units::{ByteLen, MIB, Nanos};
use proptest::prelude::*;

/// One operation. Paths are short, so that operations meet.
#[derive(Clone, Debug)]
enum Step {
    Create { path: String, size: u64, replace: bool },
    Mkdir { path: String },
    Unlink { path: String },
    Rmdir { path: String },
    Rename { from: String, to: String, replace: bool },
}

/// The POSIX error of an operation.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Errno {
    Noent,
    Exist,
    Notdir,
    Isdir,
    Notempty,
    Inval,
    Busy,
}

fn errno(error: &Error<std::convert::Infallible>) -> Errno {
    let Error::Refused(refusal) = error else { panic!("{error}") };
    match refusal {
        Refusal::NotFound(_) => Errno::Noent,
        Refusal::Exists(_) => Errno::Exist,
        Refusal::NotADirectory(_) => Errno::Notdir,
        Refusal::IsADirectory(_) => Errno::Isdir,
        Refusal::NotEmpty(_) => Errno::Notempty,
        Refusal::IntoItself(_) => Errno::Inval,
        Refusal::Root => Errno::Busy,
        _ => panic!("{refusal}"),
    }
}

/// The size of each file, `None` for a directory, by the path without its first slash. The root is
/// the empty path.
#[derive(Clone, Debug)]
struct Model(BTreeMap<String, Option<u64>>);

impl Model {
    fn new() -> Self {
        Self(BTreeMap::from([(String::new(), None)]))
    }

    fn parent(path: &str) -> &str {
        path.rsplit_once('/').map_or("", |(parent, _)| parent)
    }

    /// Fails as the resolution of a path's directories does.
    fn enter(&self, path: &str) -> Result<(), Errno> {
        let ends = path.match_indices('/').map(|(at, _)| at);
        for prefix in ends.map(|end| &path[..end]) {
            match self.0.get(prefix) {
                None => return Err(Errno::Noent),
                Some(Some(_)) => return Err(Errno::Notdir),
                Some(None) => {}
            }
        }
        Ok(())
    }

    fn is_empty(&self, directory: &str) -> bool {
        !self.0.keys().any(|path| !path.is_empty() && Self::parent(path) == directory)
    }

    fn apply(&mut self, step: &Step) -> Result<(), Errno> {
        match step {
            Step::Create { path, size, replace } => {
                self.enter(path)?;
                match self.0.get(path) {
                    Some(None) if path.is_empty() => return Err(Errno::Busy),
                    Some(None) => return Err(Errno::Isdir),
                    Some(Some(_)) if !replace => return Err(Errno::Exist),
                    _ => self.0.insert(path.clone(), Some(*size)),
                };
            }
            Step::Mkdir { path } => {
                self.enter(path)?;
                match self.0.get(path) {
                    Some(_) if path.is_empty() => return Err(Errno::Busy),
                    Some(_) => return Err(Errno::Exist),
                    None => self.0.insert(path.clone(), None),
                };
            }
            Step::Unlink { path } | Step::Rmdir { path } if path.is_empty() => {
                return Err(Errno::Busy);
            }
            Step::Unlink { path } => {
                self.enter(path)?;
                match self.0.get(path) {
                    None => return Err(Errno::Noent),
                    Some(None) => return Err(Errno::Isdir),
                    Some(Some(_)) => self.0.remove(path),
                };
            }
            Step::Rmdir { path } => {
                self.enter(path)?;
                match self.0.get(path) {
                    None => return Err(Errno::Noent),
                    Some(Some(_)) => return Err(Errno::Notdir),
                    Some(None) if !self.is_empty(path) => return Err(Errno::Notempty),
                    Some(None) => self.0.remove(path),
                };
            }
            Step::Rename { from, to, replace } => self.rename(from, to, *replace)?,
        }
        Ok(())
    }

    fn rename(&mut self, from: &str, to: &str, replace: bool) -> Result<(), Errno> {
        // The directories of both paths are found before the names.
        for path in [from, to] {
            if path.is_empty() {
                return Err(Errno::Busy);
            }
            self.enter(path)?;
        }
        let moved = *self.0.get(from).ok_or(Errno::Noent)?;
        if to.starts_with(&format!("{from}/")) {
            return Err(Errno::Inval);
        }
        match (moved, self.0.get(to)) {
            (_, None) => {}
            (_, Some(_)) if !replace => return Err(Errno::Exist),
            (_, Some(_)) if from == to => return Ok(()),
            (None, Some(Some(_))) => return Err(Errno::Notdir),
            (Some(_), Some(None)) => return Err(Errno::Isdir),
            (None, Some(None)) if !self.is_empty(to) => return Err(Errno::Notempty),
            _ => {}
        }
        let prefix = format!("{from}/");
        let below: Vec<String> =
            self.0.keys().filter(|path| path.starts_with(&prefix)).cloned().collect();
        for path in below {
            let value = self.0.remove(&path).unwrap();
            self.0.insert(format!("{to}/{}", &path[prefix.len()..]), value);
        }
        self.0.remove(from);
        self.0.insert(to.to_owned(), moved);
        Ok(())
    }
}

fn parsed(path: &str) -> Path {
    Path::parse(path.as_bytes()).unwrap()
}

const MODE: Permissions = Permissions { mode: 0o755, uid: 0, gid: 0 };

/// Carries out a step on the tables; returns the runs that it frees.
fn apply(
    tables: &mut MemoryTables,
    free: &mut FreeRuns,
    step: &Step,
) -> Result<Vec<Run>, Error<std::convert::Infallible>> {
    // A failed operation may have changed the tables, whose changes are then dropped.
    let (before, mut changed) = (tables.clone(), tables.clone());
    let mut change = Change::new(&mut changed, Nanos(1), &|_| false);
    let new = |kind| Inode::new(kind, MODE, Nanos(1));
    match step {
        Step::Create { path, size, replace } => {
            let (path, size) = (parsed(path), ByteLen(*size));
            let place = locate(&before, &path)?;
            let runs = allocate(free, size).unwrap();
            let replace = if *replace { Replace::Allowed } else { Replace::Never };
            let inode = Inode { size, runs: runs.clone(), ..new(Kind::File) };
            if let Err(error) = change.create(place, inode, replace) {
                runs.into_iter().for_each(|run| free.release(run));
                return Err(error);
            }
        }
        Step::Mkdir { path } => {
            let path = parsed(path);
            change.create(locate(&before, &path)?, new(Kind::Directory), Replace::Never)?;
        }
        Step::Unlink { path } => change.unlink(locate(&before, &parsed(path))?)?,
        Step::Rmdir { path } => change.rmdir(locate(&before, &parsed(path))?)?,
        Step::Rename { from, to, replace } => {
            let renaming = if *replace { Renaming::Replace } else { Renaming::NoReplace };
            let (from, to) = (parsed(from), parsed(to));
            change.rename(locate(&before, &from)?, locate(&before, &to)?, renaming)?;
        }
    }
    let freed = change.finish().freed;
    *tables = changed;
    Ok(freed)
}

/// Every path of the tables, as the model has them.
fn contents(tables: &MemoryTables, directory: &str, all: &mut BTreeMap<String, Option<u64>>) {
    let (number, inode) = stat(tables, &parsed(directory)).unwrap();
    if inode.kind == Kind::File {
        all.insert(directory.to_owned(), Some(inode.size.0));
        return;
    }
    all.insert(directory.to_owned(), None);
    let mut after = None;
    loop {
        // Two at a time, so that a listing continues.
        let entries = list(tables, number, after.as_ref(), 2).unwrap();
        for entry in &entries {
            let separator = if directory.is_empty() { "" } else { "/" };
            contents(tables, &format!("{directory}{separator}{}", entry.name), all);
        }
        match entries.into_iter().next_back() {
            Some(last) => after = Some(last.name),
            None => return,
        }
    }
}

fn path() -> impl Strategy<Value = String> {
    prop::collection::vec("[abc]", 0..4).prop_map(|names| names.join("/"))
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (path(), 0_u64..9000, any::<bool>())
            .prop_map(|(path, size, replace)| Step::Create { path, size, replace }),
        4 => path().prop_map(|path| Step::Mkdir { path }),
        1 => path().prop_map(|path| Step::Unlink { path }),
        1 => path().prop_map(|path| Step::Rmdir { path }),
        4 => (path(), path(), any::<bool>())
            .prop_map(|(from, to, replace)| Step::Rename { from, to, replace }),
    ]
}

proptest! {
    #[test]
    fn operations_have_the_results_of_posix_and_leave_a_sound_volume(
        steps in prop::collection::vec(step(), 1..60)
    ) {
        let area = Superblock::area(ByteLen(8 * MIB)).unwrap();
        let (mut tables, mut model) = (MemoryTables::default(), Model::new());
        let mut free = FreeRuns::new(area);
        format(&mut tables, MODE, Nanos(0)).unwrap();
        for step in &steps {
            let done = apply(&mut tables, &mut free, step);
            prop_assert_eq!(
                done.as_ref().map(|_| ()).map_err(errno), model.apply(step), "{:?}", step
            );
            done.into_iter().flatten().for_each(|run| free.release(run));
            let mut unused = FreeRuns::new(area);
            let report = check(&tables, &mut unused).unwrap();
            prop_assert_eq!(report.faults, []);
            prop_assert_eq!(&unused, &free);
            let mut all = BTreeMap::new();
            contents(&tables, "", &mut all);
            prop_assert_eq!(&all, &model.0);
        }
    }
}
