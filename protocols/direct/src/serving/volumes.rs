//! OPEN and CLOSE: names become handles.

use std::collections::VecDeque;

use zerocopy::IntoBytes;
use zerocopy::little_endian::{U32, U64};

use super::handles::Handle;
use super::{State, TargetSession};
use crate::error::PeerError;
use crate::wire::{NEW_HANDLE, OpenAnswer, RequestHeader, Status};

/// The refused volumes that a session reports.
const REFUSALS_MAX: usize = 16;

/// The refused volumes of a session.
#[derive(Debug, Default)]
pub(super) struct Refused {
    count: usize,
    /// Their names, which are not reported yet.
    pub(super) made: VecDeque<Box<str>>,
}

impl TargetSession {
    /// Opens a volume by name, under a new handle or in place of an existing one.
    pub(super) fn on_open(
        &mut self,
        header: &RequestHeader,
        payload: &[u8],
    ) -> Result<(), PeerError> {
        match self.open(header.volume.get(), payload) {
            Ok((number, answer)) => {
                self.answer_session(header, Status::OK, u64::from(number), answer.as_bytes());
            }
            Err(status) => {
                self.note_refusal(status, payload);
                self.answer_session(header, status, 0, &[]);
            }
        }
        Ok(())
    }

    /// A client that asks for what it has no grant on is reported, but only so often in a connection.
    fn note_refusal(&mut self, status: Status, name: &[u8]) {
        if status == Status::NOT_GRANTED && self.refused.count < REFUSALS_MAX {
            self.refused.count += 1;
            self.refused.made.push_back(String::from_utf8_lossy(name).into());
        }
    }

    fn open(&mut self, number: u16, name: &[u8]) -> Result<(u16, OpenAnswer), Status> {
        let State::Ready(who) = &self.state else { return Err(Status::SEQUENCE) };
        if who.is_bearer() {
            return Err(Status::NOT_GRANTED);
        }
        let name = std::str::from_utf8(name).map_err(|_| Status::NO_SUCH_VOLUME)?;
        if number != NEW_HANDLE && self.handles.get(number).is_none() {
            return Err(Status::INVALID_FIELD);
        }
        let handle = Handle::open(name, who, &self.exports)?;
        let face = handle.export.face;
        if face.is_some() && self.face.is_some_and(|known| Some(known) != face) {
            return Err(Status::SEQUENCE);
        }
        self.face = self.face.or(face);
        let answer = open_answer(&handle);
        if number == NEW_HANDLE {
            let number = self.handles.insert(handle).ok_or(Status::BUSY)?;
            return Ok((number, answer));
        }
        // Earlier requests on the handle are checked again.
        self.generation = self.generation.wrapping_add(1);
        self.handles.replace(number, handle);
        Ok((number, answer))
    }

    /// Closes a handle. Earlier requests on it are still executed.
    pub(super) fn on_close(&mut self, header: &RequestHeader) -> Result<(), PeerError> {
        let was_open = self.handles.remove(header.volume.get());
        let status = if was_open { Status::OK } else { Status::NO_SUCH_VOLUME };
        self.answer_session(header, status, 0, &[]);
        Ok(())
    }
}

/// The answer to OPEN and OPEN_SEALED.
pub(super) fn open_answer(handle: &Handle) -> OpenAnswer {
    OpenAnswer {
        bytes: U64::new(handle.bytes()),
        block_size: U32::new(handle.export.block_size.bytes()),
        epoch: U32::new(handle.epoch),
        uuid: handle.uuid(),
        rights: handle.rights(),
        reserved: [0; 7],
    }
}
