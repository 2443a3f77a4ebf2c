//! Unmounting, as root or as the user who mounted.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use crate::UnmountError;
use crate::ending::{Wait, place_of};
use crate::event::PATIENCE;
use crate::mount_point::{HELPER, Mounted, has_helper, mounted_on, resolved};
use crate::translator::WAITING_PLACE;

/// The longest name of the place at which the command waits.
const PLACE_LEN_MAX: usize = 108;

/// A mount of a volume of files, to be unmounted.
#[derive(Debug)]
pub struct Unmount {
    dir: PathBuf,
    mounted: Mounted,
}

impl Unmount {
    /// Finds the mount on this directory. No call goes to its process.
    ///
    /// # Errors
    /// When no volume of files is mounted there.
    pub fn of(dir: &Path) -> Result<Self, UnmountError> {
        let failed = |source| UnmountError::MountPoint { dir: dir.to_owned(), source };
        let dir = resolved(dir).map_err(failed)?;
        match mounted_on(&dir).map_err(failed)? {
            Some(mounted) if mounted.is_ours() => Ok(Self { dir, mounted }),
            _ => Err(UnmountError::NotMounted(dir)),
        }
    }

    /// The URL of the volume.
    pub fn source(&self) -> &str {
        &self.mounted.source
    }

    /// The longest time that it takes for changes to become durable, or to be given up.
    pub fn time_max(&self) -> Duration {
        PATIENCE
    }

    /// Unmounts the volume, and waits until all its changes are durable. With `force`, it may be in use, and a
    /// node or a process that does not answer is given up soon.
    ///
    /// # Errors
    /// When it is in use, or its last changes may be lost.
    pub fn run(self, force: bool) -> Result<(), UnmountError> {
        let connected = self.connect();
        let wait = match connected {
            Err(_) if force => Err("its process does not answer; see its log".to_owned()),
            connected => Ok(connected?),
        };
        let Self { dir, .. } = self;
        detach(&dir, force)?;
        match wait.and_then(|wait| wait.map_or(Ok(()), |wait| wait.finish(force))) {
            Ok(()) => Ok(()),
            Err(reason) => Err(UnmountError::Lost { dir, reason }),
        }
    }

    /// Connects to the process of the mount; `None` if it has ended: nothing becomes durable any more.
    fn connect(&self) -> Result<Option<Wait>, UnmountError> {
        let dir = &self.dir;
        let no_process = |source| UnmountError::NoProcess { dir: dir.clone(), source };
        let own = rustix::process::geteuid();
        if !own.is_root() && self.mounted.user.is_some_and(|user| user != own.as_raw()) {
            let source = std::io::ErrorKind::PermissionDenied.into();
            return Err(UnmountError::NotOurs { dir: dir.clone(), source });
        }
        if let Some(place) = place_of(&self.mounted).map_err(no_process)? {
            return Wait::connect(&place, self.mounted.user).map(Some).map_err(no_process);
        }
        // A process of an earlier version, or none.
        let mut place = [0; PLACE_LEN_MAX];
        match rustix::fs::getxattr(dir, WAITING_PLACE, &mut place) {
            Err(Errno::NOTCONN) => Ok(None),
            found => {
                let not_ours = |source| UnmountError::NotOurs { dir: dir.clone(), source };
                let len = found.map_err(|error| not_ours(error.into()))?;
                Wait::connect(&place[..len], self.mounted.user).map(Some).map_err(no_process)
            }
        }
    }
}

/// Removes the mount from the tree; with `is_lazy`, also if it is in use. Does not wait for its process.
pub(crate) fn detach(dir: &Path, is_lazy: bool) -> Result<(), UnmountError> {
    let flags = if is_lazy { UnmountFlags::DETACH } else { UnmountFlags::empty() };
    match rustix::mount::unmount(dir, flags) {
        Ok(()) => Ok(()),
        Err(Errno::BUSY) => Err(UnmountError::Busy(dir.to_owned())),
        Err(Errno::PERM) => detach_by_helper(dir, is_lazy),
        Err(error) => Err(UnmountError::Refused { dir: dir.to_owned(), reason: error.to_string() }),
    }
}

fn detach_by_helper(dir: &Path, is_lazy: bool) -> Result<(), UnmountError> {
    if !has_helper() {
        return Err(UnmountError::NoHelper);
    }
    let flags = if is_lazy { &["-u", "-z", "--"][..] } else { &["-u", "--"] };
    let mut command = Command::new(HELPER);
    let ran = command.args(flags).arg(dir).stdin(Stdio::null()).output();
    let refused = |reason| UnmountError::Refused { dir: dir.to_owned(), reason };
    let output = ran.map_err(|error| refused(error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    match said.contains("busy") {
        true => Err(UnmountError::Busy(dir.to_owned())),
        false => Err(refused(said.trim().to_owned())),
    }
}
