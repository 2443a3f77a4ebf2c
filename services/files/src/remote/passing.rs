//! Reads and writes that pass the owner by, as far as a seal goes.

use nearflash::direct::{Bearer, Seal};
use nearflash_files::InodeNumber;
use nearflash_files_calls::{MessageError, Operation, Request, answer};
use nearflash_units::{ByteLen, ByteOffset};

use super::sealed::{Part, Span, Way};
use super::{RemoteFiles, Repeat};
use crate::{FilesError, SealedFile, wire};

impl RemoteFiles {
    /// Asks for a seal of an open file. Also returns the life of the owner.
    pub(super) fn ask_seal(
        &self,
        number: InodeNumber,
        rights: nearflash::direct::Rights,
    ) -> Result<(SealedFile, u64), FilesError> {
        let mut request = Request::new(Operation::SEAL, number.0);
        request.head.variant = wire::rights_number(rights);
        let answered = self.call(&request, Repeat::Yes)?;
        let parts = answer::seal(&answered.payload).map_err(|error| self.damaged(error))?;
        let seal = Seal::decode(parts.0).map_err(|_| self.damaged(MessageError::Value))?;
        let bearer = Bearer::decode(parts.1).map_err(|_| self.damaged(MessageError::Value))?;
        Ok((SealedFile { seal, bearer, reach: ByteLen(answered.value) }, answered.life))
    }

    /// The part of a call that goes to the volume.
    fn part(&self, number: InodeNumber, span: Span) -> Option<Part> {
        let sealed = self.sealed.as_ref()?;
        let wanted = match sealed.way(number, span) {
            Way::Volume(part) => return Some(part),
            Way::Owner => return None,
            Way::Ask(wanted) => wanted,
        };
        let given = self.ask_seal(number, wanted.rights).ok();
        let given =
            given.and_then(|(file, life)| sealed.given(number, wanted, (file.seal, life)).ok());
        if given.is_none() {
            sealed.refused(number, wanted);
        }
        match sealed.way(number, span) {
            Way::Volume(part) => Some(part),
            Way::Owner | Way::Ask(_) => None,
        }
    }

    /// Reads bytes without the owner, and returns their number.
    pub(super) fn read_past(
        &self,
        number: InodeNumber,
        bytes: &mut [u8],
        offset: ByteOffset,
    ) -> Result<usize, FilesError> {
        let span = Span { offset: offset.0, len: bytes.len(), is_write: false };
        let Some(part) = self.part(number, span) else { return Ok(0) };
        match part.sealed.read(&mut bytes[..part.len], offset.0) {
            Ok(()) => Ok(part.len),
            Err(error) => self.given_up(number, &part, error),
        }
    }

    /// Writes bytes without the owner, and returns their number.
    pub(super) fn write_past(
        &self,
        number: InodeNumber,
        bytes: &[u8],
        offset: ByteOffset,
    ) -> Result<usize, FilesError> {
        let span = Span { offset: offset.0, len: bytes.len(), is_write: true };
        let (Some(part), Some(sealed)) = (self.part(number, span), &self.sealed) else {
            return Ok(0);
        };
        let written = sealed.check().and_then(|()| part.sealed.write(&bytes[..part.len], offset.0));
        match written {
            Ok(()) => {
                let mut state = self.state();
                state.unsynced.changed(number, part.sealed.life);
                let end = offset.0 + ByteLen::from_usize(part.len).0;
                state.grew(number, &(offset.0..end), part.sealed.life);
                self.note_lost(&state);
                drop(state);
                self.writes.add(number);
                Ok(part.len)
            }
            Err(source @ nearflash::Error::Unknown(_)) => {
                // No call of this client begins before the outcome is settled, if the node can be reached; and
                // if it cannot, no call succeeds.
                let _ = sealed.settle();
                sealed.void(number, &part.sealed);
                Err(FilesError::Unknown { volume: self.volume.clone(), source })
            }
            Err(error) => self.given_up(number, &part, error),
        }
    }

    /// A part has failed, without an effect or with one that a repetition does not change: the owner does it,
    /// unless the node cannot be reached.
    fn given_up(
        &self,
        number: InodeNumber,
        part: &Part,
        error: nearflash::Error,
    ) -> Result<usize, FilesError> {
        if let Some(sealed) = &self.sealed {
            sealed.void(number, &part.sealed);
        }
        match error.status() {
            None if error.is_transient() => Err(error.into()),
            _ => Ok(0),
        }
    }

    /// Tells the owner of all writes of a file, so that it changes the time. Returns whether it did not know
    /// them.
    pub(super) fn tell(&self, number: InodeNumber) -> bool {
        self.writes.tell(number, || {
            // A failure costs only the time.
            let _ = self.call(&written(number), Repeat::Yes);
        })
    }
}

/// The message that a file was written.
pub(super) fn written(number: InodeNumber) -> Request<'static> {
    Request::new(Operation::WRITTEN, number.0)
}
