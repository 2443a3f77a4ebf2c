//! Requests on the faces of mirrors, which other nodes of the cluster send.
//!
//! They carry the term in which they were sent, and on the replica face the session. The session does not
//! know which ones are right: the mirrors of the core that executes the request do.

use nearflash_request::{SentIn, Tag};
use zerocopy::little_endian::{U32, U64};

use super::demands::parts_of;
use super::slots::Kind;
use super::{ServingEnd, TargetSession};
use crate::Face;
use crate::wire::{AnswerHeader, RequestHeader, Status};

/// When a request on a face was sent.
pub(super) fn sent_in(face: Face, header: &RequestHeader, kind: Kind) -> SentIn {
    let session = if face == Face::Replica { header.place.get() } else { 0 };
    let is_digest = matches!(kind, Kind::Digest { .. });
    SentIn { term: header.epoch.get(), session, is_digest }
}

impl TargetSession {
    /// The kind of the faces that the client has opened.
    #[inline]
    pub const fn face(&self) -> Option<Face> {
        self.face
    }

    /// The replica has accepted the request, or one segment of it: it will be applied. With the last one,
    /// the client is told.
    pub fn handle_accepted(&mut self, tag: Tag) {
        let (number, _) = parts_of(tag);
        let is_closing = self.is_closing();
        let slot = &mut self.slots[number];
        let Some(left) = slot.unaccepted.checked_sub(1) else { return };
        slot.unaccepted = left;
        if left > 0 || !slot.failed.is_ok() || is_closing {
            return;
        }
        let header = AnswerHeader {
            opcode: slot.kind.opcode().answer().0,
            flags: AnswerHeader::RECEIVED,
            tag: U32::new(number),
            value: U64::new(0),
            credits: U32::new(self.credits),
            ..AnswerHeader::default()
        };
        self.push_answer(header);
    }

    /// The mirror has refused the request, or one segment of it, and is in this term. The engine must
    /// complete it as aborted; the answer has the reason. Other segments may have been done, so a request
    /// that has several is answered as one whose effect is not known.
    pub fn handle_refused(&mut self, tag: Tag, status: Status, term: u32) {
        let (number, _) = parts_of(tag);
        let slot = &mut self.slots[number];
        if slot.kind.segments(slot.offset, slot.len, &slot.runs) > 1 {
            slot.fail(Status::PATH_LOST, 0);
        } else {
            slot.fail(status, term.into());
        }
    }
}
