//! Unmounting, as root or as the user who mounted.

use std::path::Path;
use std::process::{Command, Stdio};

use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use crate::UnmountError;
use crate::ending::Wait;
use crate::mount_point::{HELPER, has_helper, mounted_on, resolved};
use crate::translator::WAITING_PLACE;

/// The longest name of the place at which the command waits.
const PLACE_LEN_MAX: usize = 108;

/// Unmounts a volume of files, and waits until all its changes are durable.
///
/// # Errors
/// When no volume of files is mounted there, it is in use, or its last changes may be lost.
pub fn unmount(dir: &Path) -> Result<(), UnmountError> {
    let failed = |source| UnmountError::MountPoint { dir: dir.to_owned(), source };
    let dir = resolved(dir).map_err(failed)?;
    match mounted_on(&dir).map_err(failed)? {
        Some(mounted) if mounted.is_ours() => {}
        _ => return Err(UnmountError::NotMounted(dir)),
    }
    let mut place = [0; PLACE_LEN_MAX];
    let wait = match rustix::fs::getxattr(&dir, WAITING_PLACE, &mut place) {
        // The process of the mount has ended: nothing becomes durable any more.
        Err(Errno::NOTCONN) => None,
        found => {
            let not_ours = |source| UnmountError::NotOurs { dir: dir.clone(), source };
            let len = found.map_err(|error| not_ours(error.into()))?;
            Some(Wait::connect(&place[..len]).map_err(not_ours)?)
        }
    };
    detach(&dir, false)?;
    match wait.map(Wait::finish) {
        None | Some(Ok(())) => Ok(()),
        Some(Err(reason)) => Err(UnmountError::Lost { dir, reason }),
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
