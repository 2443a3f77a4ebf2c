//! The data of writes: unsolicited, or solicited by an R2T.
//!
//! Spec: RFC 7143, 11.7 and 11.8.

use nearflash_request::BufferId;
use nearflash_session::digest::digest;
use nearflash_session::{Data, PayloadPart};
use zerocopy::big_endian::U32;

use super::InitiatorSession;
use super::config::TaskId;
use crate::length;
use crate::pdu::{DataOut, DataSegmentLen, FINAL};
use crate::small::push_tail;

/// Where a command's data is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Source<'a> {
    Buffer(BufferId),
    Bytes(&'a [u8]),
}

/// The part of a command's data that one Data-Out carries, and its R2T.
#[derive(Clone, Copy, Debug)]
pub(super) struct DataPart {
    pub(super) ttt: u32,
    pub(super) offset: u32,
    pub(super) len: u32,
    pub(super) data_sn: u32,
    pub(super) is_final: bool,
}

/// A part of a command's buffer that becomes one Data-Out once its digest is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingPart {
    id: TaskId,
    buffer: BufferId,
    part: DataPart,
}

impl InitiatorSession {
    /// The maximum length of the data of one PDU: only the last of a sequence may need padding.
    pub(super) const fn part_len_max(&self) -> u32 {
        self.connection.send_len_max & !3
    }

    /// Queues the data that an R2T requests. The caller has checked that the command has this data.
    pub(super) fn send_data(&mut self, id: TaskId, ttt: u32, offset: u32, len: u32) {
        let end = offset + len;
        let mut next = offset;
        let mut data_sn = 0;
        while next < end {
            let len = (end - next).min(self.part_len_max());
            let is_final = next + len == end;
            self.send_part(id, DataPart { ttt, offset: next, len, data_sn, is_final });
            next += len;
            data_sn += 1;
        }
    }

    fn send_part(&mut self, id: TaskId, part: DataPart) {
        match std::mem::take(&mut self.posted[id.0].data) {
            Data::Outgoing(buffer) => {
                self.posted[id.0].data = Data::Outgoing(buffer);
                if self.connection.digests.data {
                    self.parts.push_back(PendingPart { id, buffer, part });
                    // It is sent only after its digest is known, so its position in the stream is
                    // not known yet.
                    self.posted[id.0].sent_until = u64::MAX;
                } else {
                    self.push_part(id, part, Source::Buffer(buffer), &[]);
                    self.posted[id.0].sent_until = self.output.end_position();
                }
            }
            Data::SmallOutgoing(bytes) => {
                self.push_part(id, part, Source::Bytes(&bytes), &bytes);
                self.posted[id.0].data = Data::SmallOutgoing(bytes);
            }
            Data::None | Data::Incoming(_) | Data::SmallIncoming(_) => {
                unreachable!("the caller has checked that the command has data of the initiator's")
            }
        }
    }

    /// Queues one Data-Out. `payload` is all of the command's data, for its digest.
    pub(super) fn push_part(
        &mut self,
        id: TaskId,
        part: DataPart,
        source: Source<'_>,
        payload: &[u8],
    ) {
        self.push_part_header(id, part);
        self.push_payload(source, part.offset, part.len, payload);
    }

    fn push_part_header(&mut self, id: TaskId, part: DataPart) {
        let mut header = DataOut::new(self.posted[id.0].answer.lun, self.tag(id), part.ttt);
        header.flags = if part.is_final { FINAL } else { 0 };
        header.data_len = DataSegmentLen::new(part.len);
        header.exp_stat_sn = self.exp_stat_sn.field();
        header.data_sn = U32::new(part.data_sn);
        header.offset = U32::new(part.offset);
        self.output.push_header(header.to_words(), self.connection.digests);
    }

    /// Queues data behind its header, padded and digested.
    #[inline]
    pub(super) fn push_payload(
        &mut self,
        source: Source<'_>,
        offset: u32,
        len: u32,
        payload: &[u8],
    ) {
        match source {
            Source::Buffer(buffer) => self.output.push_buffer(buffer, offset, len),
            Source::Bytes(bytes) => {
                self.output.push_bytes(&bytes[length(offset)..][..length(len)]);
            }
        }
        push_tail(&mut self.output, self.connection.digests, length(len), || {
            digest(&payload[length(offset)..][..length(len)])
        });
    }

    /// The payload that waits for its digest, oldest first.
    #[inline]
    pub(super) fn pending_payload(&self) -> Option<PayloadPart> {
        let PendingPart { buffer, part, .. } = *self.parts.front()?;
        Some(PayloadPart { buffer, offset: length(part.offset), len: length(part.len) })
    }

    /// Queues the payload of [`Self::pending_payload`].
    pub(super) fn push_pending(&mut self, bytes: &[u8]) {
        let PendingPart { id, buffer, part } =
            self.parts.pop_front().expect("payload is provided only when it is wanted");
        assert_eq!(bytes.len(), length(part.len), "exactly the bytes that were named");
        self.push_part_header(id, part);
        self.output.push_buffer(buffer, part.offset, part.len);
        push_tail(&mut self.output, self.connection.digests, bytes.len(), || digest(bytes));
        let is_pending = self.parts.iter().any(|pending| pending.id == id);
        if !is_pending {
            self.posted[id.0].sent_until = self.output.end_position();
        }
    }
}
