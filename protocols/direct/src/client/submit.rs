//! From a request to its header and payload.

use nearflash_request::SentIn;
use nearflash_session::Data;
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32, U64};

use super::config::{RequestTag, SubmitError, VolumeHandle};
use super::operation::ClientOperation;
use super::{ClientSession, Request, Transport};
use crate::Face;
use crate::block_digest::has_digests;
use crate::digest::digest;
use crate::segments;
use crate::stream::seal;
use crate::wire::{DIGEST_LEN_MAX, RequestHeader};

impl ClientSession {
    /// Queues a request. `payload` holds a write's bytes, and is read only with data digests.
    ///
    /// # Errors
    /// When the request was not accepted.
    #[inline]
    pub fn submit(
        &mut self,
        volume: VolumeHandle,
        operation: &ClientOperation,
        payload: &[u8],
    ) -> Result<RequestTag, SubmitError> {
        self.submit_at(volume, operation, 0, payload)
    }

    /// Submits an operation whose data begins at byte `buffer_offset` of its buffer.
    ///
    /// # Errors
    /// When the request was not accepted.
    #[inline]
    pub fn submit_at(
        &mut self,
        volume: VolumeHandle,
        operation: &ClientOperation,
        buffer_offset: u32,
        payload: &[u8],
    ) -> Result<RequestTag, SubmitError> {
        if self.transport != Transport::Stream {
            return Err(SubmitError::WrongTransport);
        }
        self.submit_sealed(volume, operation, (buffer_offset, payload), None)
    }

    /// Submits an operation on a face of a mirror. [`super::ClientEvent::Received`] reports that a replica has accepted
    /// a write.
    ///
    /// # Errors
    /// When the request was not accepted.
    pub fn submit_on_face(
        &mut self,
        volume: VolumeHandle,
        operation: &ClientOperation,
        (buffer_offset, payload): (u32, &[u8]),
        sent: (Face, SentIn),
    ) -> Result<RequestTag, SubmitError> {
        if self.transport != Transport::Stream {
            return Err(SubmitError::WrongTransport);
        }
        self.submit_sealed(volume, operation, (buffer_offset, payload), Some(sent))
    }

    #[inline]
    fn submit_sealed(
        &mut self,
        volume: VolumeHandle,
        operation: &ClientOperation,
        (buffer_offset, payload): (u32, &[u8]),
        sent: Option<(Face, SentIn)>,
    ) -> Result<RequestTag, SubmitError> {
        let (tag, mut header) = self.prepare(volume, operation, 0)?;
        let answer = &mut self.posted[tag.index()].answer;
        answer.buffer_offset = crate::length(buffer_offset);
        if let Some((face, SentIn { term, session, .. })) = sent {
            (header.epoch, header.place) = (U32::new(term), U32::new(session));
            answer.awaits_received = face == Face::Replica
                && matches!(
                    operation,
                    ClientOperation::Write { .. } | ClientOperation::Zero { .. }
                );
        }
        self.output.push_words(seal(header.to_words(), self.stream.rules.digests));
        match *operation {
            ClientOperation::Write { buffer, offset, len, .. } => {
                for number in 0..segments::count(offset, len) {
                    let part = segments::segment(offset, len, number);
                    self.output.push_buffer(buffer, buffer_offset + part.start, part.len);
                    if self.stream.rules.digests.data {
                        let bytes =
                            &payload[crate::length(part.start)..][..crate::length(part.len)];
                        self.output.push_digest(digest(bytes));
                    }
                }
                self.posted[tag.index()].sent_until = self.output.end_position();
            }
            ClientOperation::CompareAndSwap { .. } | ClientOperation::FetchAdd { .. } => {
                let (operands, len) = operation.operands();
                self.output.push_bytes(&operands[..len]);
                if self.stream.rules.digests.data {
                    self.output.push_digest(digest(&operands[..len]));
                }
            }
            ClientOperation::Digest { .. } => {
                let request = operation.digest_request();
                let request = request.as_ref().map_or(&[][..], IntoBytes::as_bytes);
                self.output.push_bytes(request);
                if self.stream.rules.digests.data {
                    self.output.push_digest(digest(request));
                }
            }
            ClientOperation::Read { .. }
            | ClientOperation::Flush
            | ClientOperation::Discard { .. }
            | ClientOperation::Zero { .. } => {}
        }
        Ok(tag)
    }

    /// Puts a request into a slot. Returns its header without the digest.
    #[inline]
    pub(super) fn prepare(
        &mut self,
        volume: VolumeHandle,
        operation: &ClientOperation,
        place: u32,
    ) -> Result<(RequestTag, RequestHeader), SubmitError> {
        if !self.is_ready() {
            return Err(SubmitError::NotConnected);
        }
        let epoch = self.volumes.get(volume).ok_or(SubmitError::NotOpen)?.epoch;
        let fields = operation.fields();
        self.check_agreed(operation)?;
        if self.credits_left() == 0 {
            return Err(SubmitError::NoCredit);
        }
        let data = match *operation {
            ClientOperation::Read { buffer, .. } | ClientOperation::Digest { buffer, .. } => {
                Data::Incoming(buffer)
            }
            _ => Data::None,
        };
        let index = self.posted.take().ok_or(SubmitError::NoCredit)?;
        let (opcode, offset) = (fields.opcode, fields.offset);
        let answer = Request { opcode, offset, ..Request::default() };
        self.posted.begin(index, data, operation.data_len(&fields)).answer = answer;
        let tag = RequestTag::of(index);
        let header = RequestHeader {
            opcode: fields.opcode.0,
            flags: fields.flags,
            volume: U16::new(volume.0),
            tag: U32::new(tag.0),
            offset: U64::new(fields.offset),
            len: U32::new(fields.len),
            epoch: U32::new(epoch),
            place: U32::new(place),
            digest: U32::new(0),
        };
        Ok((tag, header))
    }

    #[inline]
    fn check_agreed(&self, operation: &ClientOperation) -> Result<(), SubmitError> {
        let len_max = self.agreed.map_or(0, |agreed| agreed.len_max);
        match *operation {
            ClientOperation::Read { len, .. } | ClientOperation::Write { len, .. }
                if len == 0 || len > len_max =>
            {
                Err(SubmitError::Length(len_max))
            }
            ClientOperation::Zero { .. } if !self.agreed.is_some_and(|agreed| agreed.zero) => {
                Err(SubmitError::NotAgreed)
            }
            ClientOperation::Digest { .. } if self.transport != Transport::Stream => {
                Err(SubmitError::WrongTransport)
            }
            ClientOperation::Digest { len, .. } if !has_digests(len) => {
                Err(SubmitError::Length(DIGEST_LEN_MAX))
            }
            _ => Ok(()),
        }
    }
}
