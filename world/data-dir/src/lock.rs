//! The lock that reserves a data directory for one node.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::{DataDirError, Owner};

/// The time for which a start waits for the lock of a process that has ended.
const PATIENCE: Duration = Duration::from_secs(60);

/// The interval between two attempts.
const POLL: Duration = Duration::from_millis(20);

/// The lock of a data directory. It is released when it is dropped or when the process ends in any
/// way. The file names the process that holds the lock; after that process was killed, the file
/// still names it. A process that ends before it serves leaves the file as it was: no operation
/// of it is in flight, and those of the process before it may be.
#[derive(Debug)]
pub struct Lock {
    file: File,
    before: Option<Owner>,
    serves: AtomicBool,
}

impl Lock {
    /// Takes the lock of a directory, which exists. Waits for a process that has ended and still holds it.
    ///
    /// # Errors
    /// When another process holds it, or the system returns an error.
    pub fn take(data_dir: &Path) -> Result<Self, DataDirError> {
        let refused = |source| DataDirError::Unusable { path: data_dir.to_owned(), source };
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
                return Err(DataDirError::Locked { path: path(), pid: owner.map(|it| it.pid) });
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
                return Err(DataDirError::LockHeld { path: path(), pid });
            }
            std::thread::sleep(POLL);
        }
        let before = Owner::read(&mut file).filter(|owner| !owner.is_alive());
        Owner::this().write(&mut file).map_err(refused)?;
        Ok(Self { file, before, serves: AtomicBool::new(false) })
    }

    /// The previous owner of the directory, if it was killed rather than stopped: its operations
    /// may still be in flight on the devices.
    pub fn ended(&self) -> Option<u32> {
        self.before.map(|owner| owner.pid)
    }

    /// From now on, operations may be in flight on the devices.
    pub fn serve(&self) {
        self.serves.store(true, Ordering::Relaxed);
    }

    /// Empties the lock file once the devices are released in order, so that the next process need
    /// not wait for them.
    pub fn forget_owner(&self) {
        if let Err(error) = self.file.set_len(0) {
            tracing::warn!("cannot truncate the data directory's lock file: {error}");
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if self.serves.load(Ordering::Relaxed) {
            return;
        }
        let restored = match self.before {
            Some(owner) => owner.write(&mut self.file),
            None => self.file.set_len(0),
        };
        if let Err(error) = restored {
            tracing::warn!("cannot write the data directory's lock file: {error}");
        }
    }
}

/// The running process whose node uses the data directory.
pub fn owner_of(data_dir: &Path) -> Option<u32> {
    let owner = Owner::read(&mut File::open(data_dir.join("lock")).ok()?)?;
    owner.is_alive().then_some(owner.pid)
}
