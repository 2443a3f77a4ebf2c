//! The lock that reserves a data directory for one node.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::CatalogError;

/// The time for which a start waits for the lock of a process that has ended.
const PATIENCE: Duration = Duration::from_secs(60);

/// The interval between two attempts.
const POLL: Duration = Duration::from_millis(20);

/// The kernel's flag for a process that is exiting, in field 9 of `/proc/PID/stat`.
const PF_EXITING: u64 = 4;

/// The lock of a data directory. It is released when it is dropped or when the process ends in any
/// way. The file names the process that holds the lock; after that process was killed, the file
/// still names it.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
    ended: Option<u32>,
}

/// A process: its number and its start time, since the system reuses numbers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Owner {
    pid: u32,
    /// In clock ticks since the system's boot; absent in files of earlier versions.
    started: Option<u64>,
}

impl Lock {
    pub(super) fn take(data_dir: &Path) -> Result<Self, CatalogError> {
        let refused = |source| CatalogError::DataDir { path: data_dir.to_owned(), source };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = options.open(data_dir.join("lock")).map_err(refused)?;
        let mut deadline = None;
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => break,
                Err(Errno::WOULDBLOCK) => {}
                Err(errno) => return Err(refused(errno.into())),
            }
            let path = || data_dir.to_owned();
            let owner = Owner::read(&mut file);
            let Some(Owner { pid, .. }) = owner.filter(|owner| !owner.is_alive()) else {
                return Err(CatalogError::Locked { path: path(), pid: owner.map(|it| it.pid) });
            };
            let until = *deadline.get_or_insert_with(|| {
                tracing::warn!(
                    "data directory {}: waiting until process {pid}, which has ended, releases its \
                     lock",
                    data_dir.display()
                );
                Instant::now() + PATIENCE
            });
            if Instant::now() >= until {
                return Err(CatalogError::LockHeld { path: path(), pid });
            }
            std::thread::sleep(POLL);
        }
        let before = Owner::read(&mut file).filter(|owner| !owner.is_alive());
        Owner::this().write(&mut file).map_err(refused)?;
        Ok(Self { file, ended: before.map(|owner| owner.pid) })
    }

    /// The previous owner of the directory, if it was killed rather than stopped: its operations
    /// may still be in flight on the devices.
    pub(super) fn ended(&self) -> Option<u32> {
        self.ended
    }

    /// Empties the lock file once the devices are released in order, so that the next process need
    /// not wait for them.
    pub(super) fn forget_owner(&self) {
        if let Err(error) = self.file.set_len(0) {
            tracing::warn!("cannot truncate the data directory's lock file: {error}");
        }
    }
}

impl Owner {
    fn this() -> Self {
        let pid = std::process::id();
        Self { pid, started: stat_of(pid).map(|stat| stat.started) }
    }

    /// Whether the process runs. A process that is exiting does not; its exit may take as long as
    /// its devices.
    fn is_alive(self) -> bool {
        let same = |stat: &Stat| self.started.is_none_or(|started| started == stat.started);
        stat_of(self.pid).filter(same).is_some_and(|stat| !stat.is_ending)
    }

    fn write(self, file: &mut File) -> io::Result<()> {
        file.set_len(0)?;
        file.rewind()?;
        let started = self.started.map(|started| format!(" {started}")).unwrap_or_default();
        writeln!(file, "{}{started}", self.pid)
    }

    fn read(file: &mut File) -> Option<Self> {
        let mut text = String::new();
        file.rewind().ok()?;
        file.take(64).read_to_string(&mut text).ok()?;
        let mut words = text.split_ascii_whitespace();
        let pid = words.next()?.parse().ok()?;
        Some(Self { pid, started: words.next().and_then(|word| word.parse().ok()) })
    }
}

/// The fields of `/proc/PID/stat` that the lock reads.
struct Stat {
    started: u64,
    is_ending: bool,
}

fn stat_of(pid: u32) -> Option<Stat> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The program's name, in parentheses, may contain any character. Field 3 follows it.
    let fields: Vec<&str> = text.rsplit_once(") ")?.1.split_ascii_whitespace().collect();
    let flags: u64 = fields.get(6)?.parse().ok()?;
    let is_dead = matches!(*fields.first()?, "Z" | "X");
    Some(Stat {
        started: fields.get(19)?.parse().ok()?,
        is_ending: is_dead || flags & PF_EXITING != 0,
    })
}

/// Creates the directory with mode 0700 and makes its entry durable. An existing directory keeps
/// its mode.
pub(super) fn make_private_dir(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    make_private_dir(parent)?;
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {}
        made => made?,
    }
    match sync_dir(parent) {
        // A process may create entries in a directory that it has no right to open.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        synced => synced,
    }
}

/// Makes the entries of a directory durable.
pub(super) fn sync_dir(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Sets a file's mode to 0600.
pub(super) fn make_private_file(path: &Path) -> io::Result<()> {
    std::fs::set_permissions(path, Permissions::from_mode(0o600))
}
