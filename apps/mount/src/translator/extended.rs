//! Extended attributes.
//!
//! The mount adds two that can only be read, and are not listed, so that copying programs leave them
//! alone: `user.nearflash.runs` is the number of runs of a file, and `user.nearflash.mount`, of the
//! root, is the place where `nearflash umount` waits.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use fuser::Errno;
use nearflash_files_service::{AttributeWrite, InodeNumber};
use rustix::fs::XattrFlags;

use super::Translator;

/// The number of runs of a file.
const RUNS: &[u8] = b"user.nearflash.runs";
/// The place where `nearflash umount` waits.
pub(crate) const WAITING_PLACE: &str = "user.nearflash.mount";
/// The attributes that this mount computes.
const OWN: &[u8] = b"user.nearflash.";
/// The namespaces of attributes that are stored; xattr(7). There are no access control lists.
const STORED: [&[u8]; 3] = [b"user.", b"trusted.", b"security."];

impl Translator {
    pub(super) fn extended(&self, number: InodeNumber, name: &OsStr) -> Result<Vec<u8>, Errno> {
        let name = name.as_bytes();
        match name {
            RUNS => {
                let inode = self.files.call(|files| files.inode(number))?;
                Ok(inode.runs.len().to_string().into_bytes())
            }
            _ if name == WAITING_PLACE.as_bytes() && number == InodeNumber::ROOT => {
                self.waiting_place.get().cloned().map(String::into_bytes).ok_or(Errno::ENODATA)
            }
            _ => {
                check_namespace(name)?;
                let found = self.files.call(|files| files.attribute(number, name));
                found.map_err(|error| if is_passed(error) { Errno::ENODATA } else { error })
            }
        }
    }

    /// The names, each with a NUL behind it.
    pub(super) fn extended_names(&self, number: InodeNumber) -> Result<Vec<u8>, Errno> {
        let names = match self.files.call(|files| files.attributes(number)) {
            Err(error) if is_passed(error) => Vec::new(),
            names => names?,
        };
        Ok(names.into_iter().flat_map(|name| name.into_iter().chain([0])).collect())
    }

    pub(super) fn set_extended(
        &self,
        number: InodeNumber,
        name: &OsStr,
        value: &[u8],
        flags: i32,
    ) -> Result<(), Errno> {
        let name = changeable(name)?;
        let write = match XattrFlags::from_bits_retain(flags.cast_unsigned()) {
            XattrFlags::CREATE => AttributeWrite::Create,
            XattrFlags::REPLACE => AttributeWrite::Replace,
            flags if flags.is_empty() => AttributeWrite::Any,
            _ => return Err(Errno::EINVAL),
        };
        self.files.call(|files| files.set_attribute(number, name, value, write))
    }

    pub(super) fn remove_extended(&self, number: InodeNumber, name: &OsStr) -> Result<(), Errno> {
        let name = changeable(name)?;
        self.files.call(|files| files.remove_attribute(number, name))
    }
}

/// Whether the node refuses, as it does for the directories above a granted one. Programs such as ls(1) look
/// at these, too, and ask for their attributes.
fn is_passed(error: Errno) -> bool {
    error.code() == Errno::EACCES.code()
}

fn check_namespace(name: &[u8]) -> Result<(), Errno> {
    let is_stored = STORED.iter().any(|namespace| name.starts_with(namespace));
    is_stored.then_some(()).ok_or(Errno::EOPNOTSUPP)
}

fn changeable(name: &OsStr) -> Result<&[u8], Errno> {
    let name = name.as_bytes();
    if name.starts_with(OWN) {
        return Err(Errno::EPERM);
    }
    check_namespace(name)?;
    Ok(name)
}
