//! Measured points on disk: one line each, written at once, so that an interrupted run can resume.
//!
//! The first line of `points.jsonl` identifies the run. Results of another version, machine or
//! timing are not comparable and are refused.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::error::StudyError;
use crate::folder::POINTS_FILE;
use crate::plan::PointId;
use crate::result::{Outcome, PointEnd, Results};
use crate::timing::Timing;

/// Incremented when an older program would misread a line.
const SCHEMA: u64 = 1;

/// The properties that comparable points share.
#[derive(Clone, Debug, Eq, PartialEq, serde::Deserialize, serde::Serialize)]
pub struct RunKey {
    /// The version of nearflash.
    pub version: String,
    /// The build of that version, as a hash of its programs; `None` in folders of versions that did
    /// not record it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// Processor, cores, memory and kernel.
    pub machine: String,
    /// Duration and number of runs.
    pub timing: Timing,
    /// The value of `--local`.
    pub local: Option<PathBuf>,
    /// The values of `--target`.
    pub targets: Vec<String>,
}

/// The first line.
#[derive(serde::Deserialize, serde::Serialize)]
struct Head {
    schema: u64,
    run: RunKey,
}

/// The points of a folder, open to append to.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    file: File,
    /// The outcomes so far.
    pub results: Results,
    /// Whether the folder held no points before.
    pub is_new: bool,
}

/// Reads a folder: the key of its run and the outcomes so far. Nothing is locked or changed, so a
/// run in progress is not disturbed.
///
/// # Errors
/// When the folder holds no results, or they cannot be read.
pub fn read(out_dir: &Path) -> Result<(RunKey, Results), StudyError> {
    let path = out_dir.join(POINTS_FILE);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(source) => return Err(StudyError::Io { action: "read", path, source }),
    };
    let Kept { run, results, .. } = kept(&text, out_dir, &path, None)?;
    match run {
        Some(run) => Ok((run, results)),
        None => Err(StudyError::NoRun { path: out_dir.to_owned() }),
    }
}

impl Store {
    /// Opens a folder's points, or creates them.
    ///
    /// # Errors
    /// When they belong to another run, are in use, or cannot be read or written.
    pub fn open(out_dir: &Path, key: &RunKey, fresh: bool) -> Result<Self, StudyError> {
        let path = out_dir.join(POINTS_FILE);
        let failed = |action| {
            let path = path.clone();
            move |source| StudyError::Io { action, path, source }
        };
        fs::create_dir_all(out_dir).map_err(|source| StudyError::Io {
            action: "make",
            path: out_dir.to_owned(),
            source,
        })?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(&path).map_err(failed("open"))?;
        // Two concurrent runs would overwrite each other's scratch files. A file system without
        // locks gives no protection.
        if flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
            return Err(StudyError::Busy { path: out_dir.to_owned() });
        }
        if fresh {
            file.set_len(0).map_err(failed("shorten"))?;
        }
        let text = io::read_to_string(&file).map_err(failed("read"))?;
        let Kept { results, whole_len, .. } = kept(&text, out_dir, &path, Some(key))?;
        // Drops a line that was not written completely.
        let whole_len = u64::try_from(whole_len).expect("usize is at most 64 bits wide");
        file.set_len(whole_len).map_err(failed("shorten"))?;
        file.seek(io::SeekFrom::End(0)).map_err(failed("read"))?;
        let mut store = Self { path, file, results, is_new: whole_len == 0 };
        if store.is_new {
            store.append(&Head { schema: SCHEMA, run: key.clone() })?;
        }
        Ok(store)
    }

    /// Stores the outcome of a point, merged with an earlier one. It is on stable media when this
    /// returns.
    ///
    /// # Errors
    /// When the line cannot be written, for example on a full disk.
    pub fn keep(&mut self, id: PointId, outcome: Outcome) -> Result<(), StudyError> {
        let outcome = match self.results.outcomes.get(&id) {
            Some(earlier) => earlier.clone().and(outcome),
            None => outcome,
        };
        let end = PointEnd { id, outcome };
        self.append(&end)?;
        self.results.insert(end.id, end.outcome);
        Ok(())
    }

    /// Whether a point is measured and can be skipped. A failed point is measured again, since the
    /// cause may be gone.
    pub fn has(&self, id: &PointId) -> bool {
        let outcome = self.results.outcomes.get(id);
        matches!(outcome, Some(Outcome::Measured(_) | Outcome::Simulated(_)))
    }

    fn append(&mut self, line: &impl serde::Serialize) -> Result<(), StudyError> {
        let mut text = serde_json::to_string(line).expect("lines have only names as keys");
        text.push('\n');
        let written = self.file.write_all(text.as_bytes()).and_then(|()| self.file.sync_data());
        written.map_err(|source| StudyError::NotKept { path: self.path.clone(), source })
    }
}

struct Kept {
    /// `None` for an empty file.
    run: Option<RunKey>,
    results: Results,
    /// Length in bytes of all complete lines.
    whole_len: usize,
}

/// Parses the complete lines of a text. If `key` is given, they must belong to that run.
fn kept(text: &str, out_dir: &Path, path: &Path, key: Option<&RunKey>) -> Result<Kept, StudyError> {
    let whole_len = text.rfind('\n').map_or(0, |end| end + 1);
    let mut outcomes = BTreeMap::new();
    let mut run = None;
    let damaged = |index| StudyError::Damaged { path: path.to_owned(), line: index + 1 };
    for (index, line) in text[..whole_len].lines().enumerate() {
        if index == 0 {
            let head: Head = serde_json::from_str(line).map_err(|_| damaged(index))?;
            if let Some(what) = difference(&head, key.unwrap_or(&head.run)) {
                return Err(StudyError::OtherRun { path: out_dir.to_owned(), what });
            }
            run = Some(head.run);
            continue;
        }
        let end: PointEnd = serde_json::from_str(line).map_err(|_| damaged(index))?;
        outcomes.insert(end.id, end.outcome);
    }
    Ok(Kept { run, results: Results::new(outcomes), whole_len })
}

/// The first difference between two runs, in words.
fn difference(head: &Head, key: &RunKey) -> Option<String> {
    let RunKey { version, program, machine, timing, local, targets } = &head.run;
    if head.schema != SCHEMA {
        Some(format!("another version of nearflash (schema {})", head.schema))
    } else if *version != key.version {
        Some(format!("nearflash {version}, and this is {}", key.version))
    } else if *program != key.program {
        Some(format!("another build of nearflash {version}"))
    } else if *machine != key.machine {
        Some(format!("another machine ({machine})"))
    } else if *timing != key.timing {
        Some(format!(
            "another timing: {} runs of {} ms each, not {} of {} ms",
            timing.repeats, timing.counted_ms, key.timing.repeats, key.timing.counted_ms
        ))
    } else if *local != key.local {
        Some("another --local".to_owned())
    } else if *targets != key.targets {
        Some("other --target".to_owned())
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Measurement;

    fn key() -> RunKey {
        RunKey {
            version: "1.2.3".into(),
            program: None,
            machine: "a machine".into(),
            timing: Timing::QUICK,
            local: None,
            targets: Vec::new(),
        }
    }

    fn id(name: &str) -> PointId {
        PointId(name.into())
    }

    fn measured() -> Outcome {
        Outcome::Measured(Measurement { tenants: vec![Vec::new()], command: None })
    }

    #[test]
    fn what_was_measured_is_found_again_and_what_failed_is_measured_again() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("out");
        let mut store = Store::open(&out, &key(), false).unwrap();
        store.keep(id("a"), measured()).unwrap();
        store.keep(id("b"), Outcome::Failed("gone".into())).unwrap();
        drop(store);
        let mut store = Store::open(&out, &key(), false).unwrap();
        assert!(store.has(&id("a")) && !store.has(&id("b")) && !store.has(&id("c")));
        assert_eq!(store.results.outcomes[&id("b")], Outcome::Failed("gone".into()));
        store.keep(id("b"), measured()).unwrap();
        drop(store);
        assert!(Store::open(&out, &key(), false).unwrap().has(&id("b")));
        assert!(!Store::open(&out, &key(), true).unwrap().has(&id("a")));
    }

    #[test]
    fn a_line_that_was_cut_short_is_as_if_it_had_not_been() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::open(dir.path(), &key(), false).unwrap();
        store.keep(id("a"), measured()).unwrap();
        store.keep(id("b"), measured()).unwrap();
        drop(store);
        let path = dir.path().join(POINTS_FILE);
        let len = path.metadata().unwrap().len();
        for cut in 1..60 {
            OpenOptions::new().write(true).open(&path).unwrap().set_len(len - cut).unwrap();
            let store = Store::open(dir.path(), &key(), false).unwrap();
            assert!(store.has(&id("a")) && !store.has(&id("b")), "cut by {cut}");
        }
        let mut store = Store::open(dir.path(), &key(), false).unwrap();
        store.keep(id("b"), measured()).unwrap();
        drop(store);
        assert!(Store::open(dir.path(), &key(), false).unwrap().has(&id("b")));
    }

    #[test]
    fn a_folder_that_another_run_writes_to_is_refused_until_it_has_ended() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::open(dir.path(), &key(), false).unwrap();
        store.keep(id("a"), measured()).unwrap();
        for fresh in [false, true] {
            let message = Store::open(dir.path(), &key(), fresh).unwrap_err().to_string();
            assert!(message.contains("another run") && message.contains("--out"), "{message}");
        }
        assert_eq!(read(dir.path()).unwrap().1.outcomes.len(), 1, "nothing is lost");
        drop(store);
        assert!(Store::open(dir.path(), &key(), false).unwrap().has(&id("a")));
    }

    #[test]
    fn a_point_that_cannot_be_kept_is_told_with_what_to_do() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::open(dir.path(), &key(), false).unwrap();
        // A file that is open for reading refuses writes, like a full disk.
        store.file = File::open(dir.path().join(POINTS_FILE)).unwrap();
        let message = store.keep(id("a"), measured()).unwrap_err().to_string();
        assert!(message.contains(POINTS_FILE) && message.contains("make room"), "{message}");
        assert_eq!(message.lines().count(), 1);
        assert!(!store.has(&id("a")), "it is measured again");
    }

    #[test]
    fn results_of_another_run_are_refused_with_what_is_different() {
        let dir = tempfile::tempdir().unwrap();
        Store::open(dir.path(), &key(), false).unwrap();
        let others = [
            (RunKey { version: "1.2.4".into(), ..key() }, "nearflash 1.2.3, and this is 1.2.4"),
            (RunKey { program: Some("b".into()), ..key() }, "another build of nearflash 1.2.3"),
            (RunKey { machine: "b".into(), ..key() }, "another machine (a machine)"),
            (RunKey { timing: Timing::FULL, ..key() }, "2 runs of 100 ms"),
            (RunKey { local: Some("/dev/x".into()), ..key() }, "another --local"),
            (RunKey { targets: vec!["iscsi://a/b".into()], ..key() }, "other --target"),
        ];
        for (other, difference) in others {
            let message = Store::open(dir.path(), &other, false).unwrap_err().to_string();
            assert!(message.contains(difference) && message.contains("--fresh"), "{message}");
            assert_eq!(message.lines().count(), 1);
        }
        assert!(Store::open(dir.path(), &key(), false).is_ok(), "a refusal changes nothing");
    }

    #[test]
    fn two_builds_of_one_version_do_not_share_a_folder() {
        let dir = tempfile::tempdir().unwrap();
        let build = |program: &str| RunKey { program: Some(program.into()), ..key() };
        let mut store = Store::open(dir.path(), &build("0123"), false).unwrap();
        store.keep(id("a"), measured()).unwrap();
        drop(store);
        let message = Store::open(dir.path(), &build("4567"), false).unwrap_err().to_string();
        assert!(message.contains("another build of nearflash 1.2.3"), "{message}");
        assert!(Store::open(dir.path(), &build("0123"), false).unwrap().has(&id("a")));
        let (kept, _) = read(dir.path()).unwrap();
        assert_eq!(kept, build("0123"), "which build it was is told");
    }

    #[test]
    fn what_a_folder_keeps_is_read_while_a_run_writes_to_it() {
        let dir = tempfile::tempdir().unwrap();
        let message = read(dir.path()).unwrap_err().to_string();
        assert!(message.contains("holds no results"), "{message}");
        let mut store = Store::open(dir.path(), &key(), false).unwrap();
        assert!(store.is_new);
        store.keep(id("a"), measured()).unwrap();
        let path = dir.path().join(POINTS_FILE);
        let half = format!("{}{{\"id\": \"b", fs::read_to_string(&path).unwrap());
        fs::write(&path, &half).unwrap();
        let (run, results) = read(dir.path()).unwrap();
        assert_eq!((run, results.outcomes.len()), (key(), 1));
        assert_eq!(fs::read_to_string(&path).unwrap(), half, "nothing is changed");
        drop(store);
        assert!(!Store::open(dir.path(), &key(), false).unwrap().is_new);
    }

    /// The format of the first version.
    const OLD: &str = r#"{"schema":1,"run":{"version":"1.2.3","machine":"a machine","timing":{"repeats":2,"warm_up_ms":50,"counted_ms":100},"local":null,"targets":[]}}
{"id":"jobs/local-file/jobs=1","outcome":{"measured":{"tenants":[[{"ops":9,"seconds":0.5,"warm_up_seconds":0.05,"iops":18.5,"bytes_per_second":75776.0,"latency":{"mean":1.0,"p50":1.0,"p95":2.0,"p99":3.0,"p999":4.0,"max":5.0},"cpu":{"client_user":1.0,"client_system":1.5,"node_user":0.0,"node_system":0.0},"joules":null,"core_to_core":[30.0,31.0],"core_share":0.99,"comparable":"sound"}]],"command":"nearflash bench"}}}
{"id":"jobs/direct-file/jobs=1","outcome":{"failed":"gone"}}
"#;

    #[test]
    fn what_older_ones_have_kept_is_gone_on_with_and_written_as_they_wrote_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(POINTS_FILE);
        fs::write(&path, OLD).unwrap();
        let mut store = Store::open(dir.path(), &key(), false).unwrap();
        let (measured, failed) = (id("jobs/local-file/jobs=1"), id("jobs/direct-file/jobs=1"));
        assert!(store.has(&measured) && !store.has(&failed));
        let [measured, failed] = [measured, failed].map(|id| {
            let outcome = store.results.outcomes[&id].clone();
            (id, outcome)
        });
        let mut new = Store::open(&dir.path().join("new"), &key(), false).unwrap();
        new.keep(measured.0, measured.1).unwrap();
        new.keep(failed.0.clone(), failed.1).unwrap();
        assert_eq!(fs::read_to_string(&new.path).unwrap(), OLD);
        store.keep(failed.0.clone(), self::measured()).unwrap();
        assert!(store.has(&failed.0));
    }

    #[test]
    fn what_is_no_list_of_points_is_refused_and_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(POINTS_FILE);
        fs::write(&path, "my notes\nmore of them").unwrap();
        let message = Store::open(dir.path(), &key(), false).unwrap_err().to_string();
        assert!(message.contains("line 1"), "{message}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "my notes\nmore of them");
    }
}
