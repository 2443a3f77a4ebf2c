//! One node for each data directory.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::CatalogError;

/// The lock of a data directory, until dropped or the process ends, however it does. The file says
/// which process has it, for the message of whoever comes second.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

impl Lock {
    pub(super) fn take(data_dir: &Path) -> Result<Self, CatalogError> {
        let refused = |source| CatalogError::DataDir { path: data_dir.to_owned(), source };
        let path = data_dir.join("lock");
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = options.open(path).map_err(refused)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                return Err(CatalogError::Locked {
                    path: data_dir.to_owned(),
                    pid: pid_in(&mut file),
                });
            }
            Err(errno) => return Err(refused(errno.into())),
        }
        write_pid(&mut file).map_err(refused)?;
        Ok(Self { _file: file })
    }
}

fn write_pid(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}

fn pid_in(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(16).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

/// Makes the folder, for nobody else to look into. One that is there stays as it is.
pub(super) fn make_private_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Lets nobody but its owner read a file.
pub(super) fn make_private_file(path: &Path) -> io::Result<()> {
    std::fs::set_permissions(path, Permissions::from_mode(0o600))
}
