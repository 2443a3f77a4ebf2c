//! Files without names at another owner, until they are complete.
//!
//! The owner has such a file open for this client. It is therefore removed when the client ends, however that
//! happens.

use nearflash_files::{Inode, InodeNumber, Kind, Name, Permissions, Replace};
use nearflash_files_calls::{Operation, Request};
use uuid::Uuid;
use zerocopy::little_endian::U64;

use super::{RemoteFiles, Repeat};
use crate::wire::{self, Linking};
use crate::{FileCalls as _, FilesError, NewInode};

/// The start of the name that a new file has until its creation has been answered.
const PART_PREFIX: &str = ".nearflash-";

impl RemoteFiles {
    /// [`FileSystem::create_nameless`](crate::FileSystem::create_nameless).
    pub(super) fn begin_nameless(
        &self,
        directory: InodeNumber,
        permissions: Permissions,
    ) -> Result<InodeNumber, FilesError> {
        let part = format!("{PART_PREFIX}{}", Uuid::new_v4().simple());
        let part = Name::new(part.as_bytes()).expect("a short word is a name");
        let new = NewInode { kind: Kind::File, permissions, device: 0, target: Vec::new() };
        let (number, _) = self.create(directory, &part, new)?;
        let retained = self.retain(number);
        let unlinked = self.unlink(directory, &part);
        retained?;
        if let Err(error) = unlinked {
            self.release(number);
            return Err(error);
        }
        Ok(number)
    }

    /// [`FileSystem::publish`](crate::FileSystem::publish). The bytes are durable before the owner is asked for the
    /// name.
    pub(super) fn name_nameless(
        &self,
        number: InodeNumber,
        (directory, name): (InodeNumber, &Name),
        replace: Replace,
    ) -> Result<Inode, FilesError> {
        self.sync(number, false)?;
        let mut request = Request::new(Operation::LINK, directory.0);
        request.name = name.as_bytes();
        request.head.other = U64::new(number.0);
        request.head.variant = wire::linking_number(Linking::Open(replace));
        let answered = self.call(&request, Repeat::No)?;
        let mut state = self.state();
        for changed in [directory, number] {
            state.unsynced.changed(changed, answered.life);
        }
        drop(state);
        Ok(self.decoded(&answered)?.1)
    }
}
