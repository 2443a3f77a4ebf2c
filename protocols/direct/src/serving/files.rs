//! FILES: messages for the owner of the files of a volume.
//!
//! The session does not know their contents. It tells the owner the rights that the client has on the whole
//! volume and on files, as of the time of the message, and passes the answer on. The driver answers [`Demand::Files`](super::Demand::Files) in any
//! order; meanwhile the session takes further messages.

use std::collections::VecDeque;
use std::sync::Arc;

use nearflash_request::VolumeId;

use super::{FilesGrant, ServingEnd, TargetSession};
use crate::error::PeerError;
use crate::wire::{FILES_LEN_MAX, Opcode, RequestHeader, Rights, SMALL_LEN_MAX, Status};

/// The most messages on files of a session that are not answered; a further one is refused as BUSY.
pub const FILES_IN_FLIGHT_MAX: usize = 16;

/// A demand to pass a message to the owner of the files of a volume.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FilesDemand {
    /// The number that the answer names: [`TargetSession::handle_files`].
    pub number: u32,
    /// The volume.
    pub volume: VolumeId,
    /// The name of the key by which the client has its rights; `None` for an anonymous client.
    pub key: Option<Box<str>>,
    /// The client's rights on the whole volume.
    pub rights: Rights,
    /// Its rights on some of the files. Without the right to read the whole volume, there are some.
    pub files: Arc<[FilesGrant]>,
    /// The message, at most [`FILES_LEN_MAX`] bytes.
    pub payload: Box<[u8]>,
}

/// The messages on files of a session.
#[derive(Debug, Default)]
pub(super) struct FilesAsked {
    pub(super) made: VecDeque<FilesDemand>,
    unanswered: usize,
    /// Whether there was ever one.
    is_used: bool,
}

impl TargetSession {
    /// FILES. Its handle is a volume's.
    pub(super) fn on_files(
        &mut self,
        header: &RequestHeader,
        payload: &[u8],
    ) -> Result<(), PeerError> {
        match self.files_demand(header, payload) {
            Ok(demand) => {
                self.files.unanswered += 1;
                self.files.is_used = true;
                self.files.made.push_back(demand);
            }
            Err(status) => self.answer_session(header, status, 0, &[]),
        }
        Ok(())
    }

    fn files_demand(&self, header: &RequestHeader, payload: &[u8]) -> Result<FilesDemand, Status> {
        let handle = self.handles.get(header.volume.get()).ok_or(Status::NO_SUCH_VOLUME)?;
        let (rights, files) = handle.files_rights()?;
        if !rights.has(Rights::READ) && files.is_empty() {
            return Err(Status::NOT_GRANTED);
        }
        if self.files.unanswered >= FILES_IN_FLIGHT_MAX {
            return Err(Status::BUSY);
        }
        let (number, volume) = (header.tag.get(), handle.export.volume);
        let (key, payload) = (self.key().map(Box::from), payload.into());
        Ok(FilesDemand { number, volume, key, rights, files, payload })
    }

    /// Keeps the memory of small payload, unless it is that of a message on files.
    pub(super) fn keep_small(&mut self, payload: Vec<u8>) {
        let len = crate::length(SMALL_LEN_MAX);
        self.small = if payload.capacity() > len { Vec::with_capacity(len) } else { payload };
    }

    /// Whether it has ever had a message on files, so that the owner must learn of its end.
    #[inline]
    pub const fn has_files(&self) -> bool {
        self.files.is_used
    }

    /// The answer to [`Demand::Files`](super::Demand::Files), or the status with which the message is refused.
    ///
    /// # Panics
    /// When the answer is longer than [`FILES_LEN_MAX`], or nothing was demanded.
    pub fn handle_files(&mut self, number: u32, result: Result<&[u8], Status>) {
        self.files.unanswered -= 1;
        if self.is_closing() {
            return;
        }
        let opcode = Opcode::FILES.0;
        let asked = RequestHeader { opcode, tag: number.into(), ..RequestHeader::default() };
        match result {
            Ok(payload) => {
                assert!(payload.len() <= crate::length(FILES_LEN_MAX), "an answer is bounded");
                self.answer_session(&asked, Status::OK, 0, payload);
            }
            Err(status) => self.answer_session(&asked, status, 0, &[]),
        }
    }
}
