//! The part of the files that a client may use, if its grants are on directories.
//!
//! A grant is on a path: it covers the directory that has the path at the time of a call, and everything
//! below. Requests name inodes by number, and a number says nothing about a place. So each call looks at
//! the names as they are then:
//!
//! - A directory is within a grant if its parents lead to the granted directory.
//! - Another inode is within a grant if the client has found it in a directory that is, and the name
//!   under which it was found still is the inode's. A rename by any client is followed. An inode
//!   that has lost its last name there stays within, for the clients that have it open.
//! - The directories above a granted one can be passed: a client sees their attributes, and of their
//!   entries only those that lead to the granted directory.
//!
//! Everything else is refused with EACCES, whether it exists or not. An operation that the table below does
//! not have is refused, too.

use std::collections::HashMap;

use nearflash_files::{
    Entry, Error, Inode, InodeNumber, Kind, Name, Path, Place, Renaming, Tables,
};
use nearflash_files_calls::Operation;
use nearflash_files_calls::answer::entries;
use rustix::io::Errno;

use super::{Asked, ClientState, Failed, FilesServer};
use crate::wire;

/// The calls that a client may make.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Allowed {
    /// Those that read, on all files.
    pub may_read: bool,
    /// Those that change, on all files.
    pub may_write: bool,
    /// The directories on whose files it may make some.
    pub below: Vec<Below>,
}

/// A directory whose files, and those below it, a client may read.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Below {
    /// Its path.
    pub path: Path,
    /// Whether the client may also change them.
    pub may_write: bool,
}

impl Allowed {
    /// All files.
    pub fn all(may_write: bool) -> Self {
        Self { may_read: true, may_write, below: Vec::new() }
    }

    /// Whether some files may be changed.
    pub(super) fn may_write_some(&self) -> bool {
        self.may_write || self.below.iter().any(|below| below.may_write)
    }

    /// Whether an operation is allowed on all files.
    pub(super) fn allows(&self, operation: Operation) -> bool {
        if operation.is_change() { self.may_write } else { self.may_read }
    }
}

/// The use of an inode, from the least on.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Use {
    /// Passing a directory, or seeing its attributes.
    Pass,
    Read,
    Write,
}

/// The uses of the two inodes of a request.
type Uses = (Option<Use>, Option<Use>);

/// The uses that an operation makes of the inodes of its request.
const USES: [(Operation, Uses); 24] = [
    (Operation::HELLO, (None, None)),
    (Operation::LOOKUP, (Some(Use::Pass), None)),
    (Operation::INODE, (Some(Use::Pass), None)),
    (Operation::LIST, (Some(Use::Pass), None)),
    (Operation::READ_LINK, (Some(Use::Read), None)),
    (Operation::USAGE, (None, None)),
    (Operation::ATTRIBUTE, (Some(Use::Read), None)),
    (Operation::ATTRIBUTES, (Some(Use::Read), None)),
    (Operation::RETAIN, (Some(Use::Pass), None)),
    // Of what the client has open.
    (Operation::RELEASE, (None, None)),
    (Operation::READ, (Some(Use::Read), None)),
    (Operation::SYNC, (Some(Use::Pass), None)),
    (Operation::SYNC_ALL, (None, None)),
    (Operation::CREATE, (Some(Use::Write), None)),
    // A name in a directory that may be written gives its inode the rights of that directory.
    (Operation::LINK, (Some(Use::Write), Some(Use::Write))),
    (Operation::UNLINK, (Some(Use::Write), None)),
    (Operation::RMDIR, (Some(Use::Write), None)),
    (Operation::RENAME, (Some(Use::Write), Some(Use::Write))),
    (Operation::CHANGE, (Some(Use::Write), None)),
    (Operation::SET_ATTRIBUTE, (Some(Use::Write), None)),
    (Operation::REMOVE_ATTRIBUTE, (Some(Use::Write), None)),
    (Operation::WRITE, (Some(Use::Write), None)),
    (Operation::APPEND, (Some(Use::Write), None)),
    (Operation::ALLOCATE, (Some(Use::Write), None)),
];

/// Where a client has found an inode that is not a directory.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Finding {
    /// In this directory, under this name.
    Named(InodeNumber, Name),
    /// In this directory, under its last name, which has been removed since.
    Removed(InodeNumber),
}

/// The inodes that a client has found, apart from directories.
#[derive(Debug, Default)]
pub(super) struct Found(HashMap<InodeNumber, Finding>);

impl Found {
    /// The most inodes. Beyond them, those are forgotten that are not open; the client finds them again by
    /// a lookup.
    const MAX: usize = 2 * nearflash_files_calls::OPEN_MAX;

    fn add(
        &mut self,
        number: InodeNumber,
        finding: Finding,
        is_open: impl Fn(InodeNumber) -> bool,
    ) {
        if self.0.len() >= Self::MAX && !self.0.contains_key(&number) {
            self.0.retain(|number, _| is_open(*number));
        }
        self.0.insert(number, finding);
    }
}

/// An inode of a request, and what the server knows of it.
struct Known {
    number: InodeNumber,
    finding: Option<Finding>,
    is_open: bool,
}

impl ClientState {
    fn known(&self, number: InodeNumber) -> Known {
        let finding = self.found.0.get(&number).cloned();
        Known { number, finding, is_open: self.open.contains_key(&number) }
    }
}

/// A name that a request is about to take from its inode.
pub(super) struct Parting {
    number: InodeNumber,
    directory: InodeNumber,
    name: Name,
    /// The place that the inode gets instead, if any.
    to: Option<(InodeNumber, Name)>,
}

/// The deepest directory that is followed to the root. A rename leaves none deeper.
const DEPTH_MAX: usize = 1 << 16;

/// The grants of a client, as of the tables.
struct Scope<'a> {
    granted: Vec<(InodeNumber, Use)>,
    /// The directories above them, and the entries that lead to them.
    passed: Vec<(InodeNumber, &'a Name)>,
}

impl<'a> Scope<'a> {
    fn new<T: Tables>(tables: &T, below: &'a [Below]) -> Result<Self, Error<T::Error>> {
        let mut scope = Self { granted: Vec::new(), passed: Vec::new() };
        for Below { path, may_write } in below {
            let mut directory = Some(InodeNumber::ROOT);
            for name in path.names() {
                let Some(number) = directory else { break };
                scope.passed.push((number, name));
                let found = optional(nearflash_files::lookup(tables, Place::new(number, name)))?;
                let is_directory = |(_, inode): &(_, Inode)| inode.kind == Kind::Directory;
                directory = found.filter(is_directory).map(|(number, _)| number);
            }
            let granted = if *may_write { Use::Write } else { Use::Read };
            scope.granted.extend(directory.map(|number| (number, granted)));
        }
        Ok(scope)
    }

    /// The use that is allowed of a directory.
    fn of_directory<T: Tables>(
        &self,
        tables: &T,
        number: InodeNumber,
    ) -> Result<Option<Use>, Error<T::Error>> {
        let (mut allowed, mut at) = (None, number);
        for _ in 0..DEPTH_MAX {
            let granted = self.granted.iter().filter(|(granted, _)| *granted == at);
            allowed = allowed.max(granted.map(|(_, allowed)| *allowed).max());
            if at == InodeNumber::ROOT {
                let is_passed = self.passed.iter().any(|(passed, _)| *passed == number);
                return Ok(allowed.or(is_passed.then_some(Use::Pass)));
            }
            match optional(nearflash_files::inode(tables, at))? {
                // One that was removed is nowhere.
                Some(inode) if inode.kind == Kind::Directory && inode.links > 0 => {
                    at = inode.parent;
                }
                _ => return Ok(None),
            }
        }
        Ok(None)
    }

    /// The use that is allowed of an inode.
    fn of<T: Tables>(&self, tables: &T, known: &Known) -> Result<Option<Use>, Error<T::Error>> {
        let Some(inode) = optional(nearflash_files::inode(tables, known.number))? else {
            return Ok(None);
        };
        if inode.kind == Kind::Directory {
            return self.of_directory(tables, known.number);
        }
        let directory = match &known.finding {
            Some(Finding::Named(directory, name)) => {
                let place = Place::new(*directory, name);
                let there = optional(nearflash_files::lookup(tables, place))?;
                there.filter(|(there, _)| *there == known.number).map(|_| *directory)
            }
            Some(Finding::Removed(directory)) if inode.links == 0 && known.is_open => {
                Some(*directory)
            }
            _ => None,
        };
        let Some(directory) = directory else { return Ok(None) };
        // An entry of a directory that is only passed is not within the grant.
        let allowed = self.of_directory(tables, directory)?;
        Ok(allowed.filter(|allowed| *allowed > Use::Pass))
    }
}

/// The result of a search, or `None` if the names lead to no inode.
fn optional<T, E>(found: Result<T, Error<E>>) -> Result<Option<T>, Error<E>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(Error::Refused(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

impl FilesServer {
    /// Refuses a request that no grant covers. Returns the use of its first inode that is allowed.
    pub(super) fn admit(&self, asked: &Asked<'_>) -> Result<Option<Use>, Failed> {
        let operation = asked.request.head.operation();
        let uses = USES.iter().find(|(known, _)| *known == operation);
        let refused = || self.refused(operation);
        let (first, second) = uses.map(|(_, uses)| *uses).ok_or_else(refused)?;
        let Some(first) = first else { return Ok(None) };
        let name = Name::new(asked.request.name).ok();
        let (one, other) = {
            let mut clients = self.clients();
            let client = clients.of(asked.connection)?;
            (client.known(asked.inode()), client.known(asked.other()))
        };
        let (allowed, is_allowed) = self.files.view(|tables| {
            let scope = Scope::new(tables, &asked.allowed.below)?;
            let allowed = scope.of(tables, &one)?;
            let mut is_allowed = allowed.is_some_and(|allowed| allowed >= first);
            if let Some(second) = second {
                let other = scope.of(tables, &other)?;
                is_allowed &= other.is_some_and(|allowed| allowed >= second);
            }
            if operation == Operation::LOOKUP && allowed == Some(Use::Pass) {
                let leads =
                    |(at, step): &(_, &Name)| *at == asked.inode() && Some(*step) == name.as_ref();
                is_allowed &= scope.passed.iter().any(leads);
            }
            Ok((allowed, is_allowed))
        })?;
        if is_allowed { Ok(allowed) } else { Err(refused()) }
    }

    fn refused(&self, operation: Operation) -> Failed {
        let message = format!(
            "files of volume '{}': no grant covers {} of this inode: add one with --path, and --rights \
             rw for changes, or look the name up again",
            self.files.volume(),
            operation.name()
        );
        Failed::new(Errno::ACCESS, message)
    }

    /// The entries of a directory that is only passed: those that lead to granted ones.
    pub(super) fn steps(&self, asked: &Asked<'_>) -> Result<Vec<Entry>, Failed> {
        let directory = asked.inode();
        let entries = self.files.view(|tables| {
            let scope = Scope::new(tables, &asked.allowed.below)?;
            let steps = scope.passed.iter().filter(|(at, _)| *at == directory);
            let mut names: Vec<&Name> = steps.map(|(_, name)| *name).collect();
            names.sort_unstable();
            names.dedup();
            let mut entries = Vec::new();
            for name in names {
                let found = optional(nearflash_files::lookup(tables, Place::new(directory, name)))?;
                entries.extend(found.map(|(inode, it)| Entry {
                    name: name.clone(),
                    inode,
                    kind: it.kind,
                }));
            }
            Ok(entries)
        })?;
        Ok(entries)
    }

    /// Notes the names under which a client has found inodes by a request that was carried out with this
    /// payload of the answer.
    pub(super) fn note_found(&self, asked: &Asked<'_>, payload: &[u8]) -> Result<(), Failed> {
        let request = &asked.request;
        if request.head.operation() == Operation::LIST {
            return self.note_listed(asked, payload);
        }
        let first = (asked.inode(), request.name);
        let second = (asked.other(), request.second);
        let places = match request.head.operation() {
            Operation::LOOKUP | Operation::CREATE | Operation::LINK => &[first][..],
            Operation::RENAME => &[first, second],
            _ => return Ok(()),
        };
        for (directory, name) in places {
            let name = Name::new(name)?;
            // Another client may have removed the name since.
            let Ok((number, inode)) = self.files.lookup(*directory, &name) else { continue };
            if inode.kind != Kind::Directory {
                let mut clients = self.clients();
                let ClientState { found, open, .. } = clients.of(asked.connection)?;
                let finding = Finding::Named(*directory, name);
                found.add(number, finding, |number| open.contains_key(&number));
            }
        }
        Ok(())
    }

    fn note_listed(&self, asked: &Asked<'_>, payload: &[u8]) -> Result<(), Failed> {
        let mut clients = self.clients();
        let ClientState { found, open, .. } = clients.of(asked.connection)?;
        for entry in entries(payload)? {
            if wire::kind(entry.kind) != Some(Kind::Directory) {
                let finding = Finding::Named(asked.inode(), Name::new(entry.name)?);
                found.add(InodeNumber(entry.inode), finding, |number| open.contains_key(&number));
            }
        }
        Ok(())
    }

    /// The names that a request takes from their inodes, if a client with grants on directories may have found
    /// these there.
    pub(super) fn partings(&self, asked: &Asked<'_>) -> Vec<Parting> {
        let request = &asked.request;
        let first = || Some((asked.inode(), Name::new(request.name).ok()?));
        let second = || Some((asked.other(), Name::new(request.second).ok()?));
        let places = match request.head.operation() {
            Operation::UNLINK | Operation::LINK => vec![(first(), None)],
            Operation::RENAME => {
                let is_exchange = wire::renaming(request.head.variant) == Some(Renaming::Exchange);
                vec![(first(), second()), (second(), first().filter(|_| is_exchange))]
            }
            _ => return Vec::new(),
        };
        if self.clients().clients.values().all(|client| client.found.0.is_empty()) {
            return Vec::new();
        }
        let parting = |(from, to): (Option<(InodeNumber, Name)>, _)| {
            let (directory, name) = from?;
            let (number, _) = self.files.lookup(directory, &name).ok()?;
            Some(Parting { number, directory, name, to })
        };
        places.into_iter().filter_map(parting).collect()
    }

    /// A name was taken from its inode. A client that has found the inode there finds it where it was renamed
    /// to. An inode that has no other name stays within the grants of these clients. After any other way to lose
    /// its names, for example outside the granted directory, it does not.
    pub(super) fn note_parted(&self, parting: Parting) {
        let Parting { number, directory, name, to } = parting;
        let now = match to {
            Some((directory, name)) => Finding::Named(directory, name),
            None if self.files.inode(number).is_ok_and(|inode| inode.links == 0) => {
                Finding::Removed(directory)
            }
            None => return,
        };
        let was = Finding::Named(directory, name);
        for client in self.clients().clients.values_mut() {
            if let Some(finding) = client.found.0.get_mut(&number)
                && *finding == was
            {
                finding.clone_from(&now);
            }
        }
    }
}
