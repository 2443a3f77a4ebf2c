//! An operation on a volume of another node, which is sent in one request or in several.

use nearflash_device::{Cause, DeviceOperation, DeviceRequest, DeviceResult, Owner};
use nearflash_direct::client::ClientOperation;
use nearflash_direct::wire::DIGEST_LEN_MAX;
use nearflash_mirror::DigestKey;
use nearflash_request::{BufferId, Outcome};
use nearflash_units::{ByteLen, Nanos};

use super::{READ_SPAN, WRITE_SPAN};

/// The most bytes of a request without payload: the field has 32 bits, and a request has whole blocks.
const PART_LEN_MAX: u64 = 1 << 30;

/// An operation that has not ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    pub(super) request: DeviceRequest,
    /// The place of its volume among those of its node.
    pub(super) volume: usize,
    pub(super) cause: Cause,
    /// A read gets the digests of the blocks, with this key.
    digests: Option<DigestKey>,
    /// When it came, or its last part was answered.
    since: Nanos,
    /// The bytes that were answered.
    done: u64,
    /// The length of the part that was sent last.
    part: u64,
}

/// A part of an operation, as a request of the direct protocol.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) operation: ClientOperation,
    /// The bytes to send, and their place in the buffer.
    pub(super) payload: Option<(BufferId, usize, usize)>,
    /// The first byte in the buffer.
    pub(super) buffer_offset: u32,
}

impl Pending {
    pub(super) fn new(
        request: DeviceRequest,
        volume: usize,
        (cause, digests): (Cause, Option<DigestKey>),
        now: Nanos,
    ) -> Self {
        Self { request, volume, cause, digests, since: now, done: 0, part: 0 }
    }

    /// Whether it may be sent a second time.
    pub(super) fn is_repeatable(&self) -> bool {
        matches!(self.request.operation, DeviceOperation::Read { .. } | DeviceOperation::Flush)
    }

    /// The time after which it is not sent any more. Over a connection that takes requests, it waits
    /// for its turn.
    pub(super) fn deadline(&self, is_connected: bool) -> Nanos {
        let waits = is_connected || self.is_repeatable();
        let until = self.since.plus(if waits { READ_SPAN } else { WRITE_SPAN });
        // The rest of an operation that has begun follows its first part.
        let may_begin = self.is_repeatable() || self.done > 0;
        if may_begin { until } else { until.min(self.cause.begin_by) }
    }

    /// Whether it is a change of data that this connection has asked for.
    pub(super) fn is_change_of(&self, owner: Owner) -> bool {
        !self.is_repeatable() && self.cause.owner == owner
    }

    /// Its result when it is given up without having been sent as a whole.
    pub(super) fn given_up(&self) -> DeviceResult {
        let is_untouched = self.done == 0 || self.is_repeatable();
        let outcome = if is_untouched { Outcome::DeviceUnavailable } else { Outcome::PathLost };
        DeviceResult::Remote(outcome)
    }

    /// Its result when its last part was answered like this. A part that was not done follows others that
    /// were.
    pub(super) fn refused(&self, result: DeviceResult) -> DeviceResult {
        let is_untouched = result == DeviceResult::Remote(Outcome::DeviceUnavailable);
        if is_untouched { self.given_up() } else { result }
    }

    /// Whether an answer means that the volume may hold data that is not on stable media.
    pub(super) fn leaves_unflushed(&self) -> bool {
        use DeviceOperation as Op;
        matches!(
            self.request.operation,
            Op::Write { durable: false, .. } | Op::WriteZeroes { .. } | Op::Deallocate
        )
    }

    /// Whether the part that was sent last is the whole operation.
    pub(super) fn is_whole(&self) -> bool {
        self.part == self.request.len.0
    }

    /// The next part, of at most `len_max` bytes of payload. `None` for an operation that the protocol
    /// does not have.
    pub(super) fn next_part(&mut self, len_max: u32, zeroes: bool) -> Option<Part> {
        let offset = self.request.offset.0 + self.done;
        let left = self.request.len.0 - self.done;
        self.part = left.min(PART_LEN_MAX);
        let at = |buffer_offset: ByteLen| {
            let at = u32::try_from(buffer_offset.0 + self.done);
            at.expect("a buffer has at most a mebibyte")
        };
        let part = |operation: &dyn Fn(u32) -> ClientOperation| {
            let len = u32::try_from(self.part).expect("a part has at most a gibibyte");
            Part { operation: operation(len), payload: None, buffer_offset: 0 }
        };
        Some(match self.request.operation {
            DeviceOperation::Read { buffer, buffer_offset } => {
                let buffer = buffer.expect("only the null device reads without a buffer");
                if let Some(key) = self.digests {
                    let len = u32::try_from(left).unwrap_or(u32::MAX).min(DIGEST_LEN_MAX);
                    assert_eq!(u64::from(len), left, "the digests of a piece are one request");
                    let operation = ClientOperation::Digest { buffer, offset, len, key };
                    return Some(Part {
                        operation,
                        payload: None,
                        buffer_offset: at(buffer_offset),
                    });
                }
                let len = u32::try_from(left).unwrap_or(u32::MAX).min(len_max);
                self.part = len.into();
                let operation = ClientOperation::Read { buffer, offset, len };
                Part { operation, payload: None, buffer_offset: at(buffer_offset) }
            }
            DeviceOperation::Write { buffer, buffer_offset, durable } => {
                let len = u32::try_from(left).unwrap_or(u32::MAX).min(len_max);
                self.part = len.into();
                let operation = ClientOperation::Write { buffer, offset, len, durable };
                let buffer_offset = at(buffer_offset);
                let (start, len) = (ByteLen(buffer_offset.into()), ByteLen(len.into()));
                let payload = Some((buffer, start.to_usize(), len.to_usize()));
                Part { operation, payload, buffer_offset }
            }
            DeviceOperation::Flush => part(&|_| ClientOperation::Flush),
            DeviceOperation::WriteZeroes { deallocate } if zeroes => {
                part(&|len| ClientOperation::Zero { offset, len, deallocate, durable: false })
            }
            DeviceOperation::Deallocate => part(&|len| ClientOperation::Discard { offset, len }),
            DeviceOperation::WriteZeroes { .. } | DeviceOperation::Allocation => return None,
        })
    }

    /// Takes the answer of the last part. Returns whether more is to be sent.
    pub(super) fn part_done(&mut self, now: Nanos) -> bool {
        self.done += self.part;
        self.since = now;
        self.request.operation != DeviceOperation::Flush && self.done < self.request.len.0
    }
}

#[cfg(test)]
mod tests {
    use nearflash_device::{DeviceId, OperationId};
    use nearflash_units::ByteOffset;

    use super::*;

    #[test]
    fn a_part_that_is_refused_after_others_were_done_is_a_lost_path() {
        let id = OperationId { io: 0, op: 0, generation: 0 };
        let operation = DeviceOperation::WriteZeroes { deallocate: false };
        let (device, offset, len) = (DeviceId(0), ByteOffset(0), ByteLen(PART_LEN_MAX + 4096));
        let request = DeviceRequest { id, device, operation, offset, len };
        let mut pending = Pending::new(request, 0, (Cause::NONE, None), Nanos(0));
        let refused = DeviceResult::Remote(Outcome::DeviceUnavailable);
        assert!(pending.next_part(4096, true).is_some());
        assert_eq!(pending.refused(refused), refused);
        assert!(pending.part_done(Nanos(1)) && pending.next_part(4096, true).is_some());
        assert_eq!(pending.refused(refused), DeviceResult::Remote(Outcome::PathLost));
        let failed = DeviceResult::Remote(Outcome::WriteFault);
        assert_eq!(pending.refused(failed), failed);
    }
}
