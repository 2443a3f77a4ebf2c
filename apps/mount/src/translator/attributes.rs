//! Changes of attributes.

use fuser::{Errno, FileHandle, Request, TimeOrNow};
use nearflash_files_service::{AttributeChanges, Inode, InodeNumber, MODE_MASK};
use nearflash_units::ByteLen;

use super::Translator;
use super::opened::Durable;
use crate::attributes::{moment, without_privileges};

/// The user whose changes of the length keep the set-user-ID bits. The kernel decides by CAP_FSETID,
/// which it does not pass on.
const ROOT: u32 = 0;

pub(super) fn changes(
    mode: Option<u32>,
    (uid, gid): (Option<u32>, Option<u32>),
    size: Option<u64>,
    (accessed_at, modified_at): (Option<TimeOrNow>, Option<TimeOrNow>),
) -> AttributeChanges {
    AttributeChanges {
        mode: mode.map(|mode| mode & MODE_MASK),
        uid,
        gid,
        size: size.map(ByteLen),
        accessed_at: accessed_at.map(moment),
        modified_at: modified_at.map(moment),
    }
}

impl Translator {
    pub(super) fn change(
        &self,
        request: &Request,
        (number, handle): (InodeNumber, Option<FileHandle>),
        mut changes: AttributeChanges,
    ) -> Result<Inode, Errno> {
        let is_given_away = changes.uid.is_some() || changes.gid.is_some();
        let is_written = changes.size.is_some() && request.uid() != ROOT;
        let inode = self.files.call(|files| {
            if changes.mode.is_none() && (is_given_away || is_written) {
                changes.mode = without_privileges(&files.inode(number)?);
            }
            files.change(number, changes)
        })?;
        // ftruncate(2). The kernel gives the handle with it alone.
        if let Some(handle) = handle.filter(|_| changes.size.is_some()) {
            self.make_durable(number, Durable::through(handle))?;
        }
        Ok(inode)
    }
}
