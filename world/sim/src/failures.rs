//! Failed device operations: the only reason for a device error in an answer.
//!
//! A command may fail because of its own operation: one on its bytes that ended after the command
//! was sent. A flush is an operation on everything that its device holds. The exception is a device
//! that failed a flush or a durable write: until an operator clears it, or the node starts again,
//! commands that promise durability fail without an operation.

use std::ops::Range;

use nearflash_device::{DeviceOperation, DeviceRequest, DeviceResult};
use nearflash_units::ByteLen;

use crate::history::Block;
use crate::witness::Tick;

/// A part of a volume on a device.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) volume: u32,
    pub(crate) disk: usize,
    /// The bytes on the device.
    pub(crate) bytes: Range<u64>,
    /// The offset in the volume.
    pub(crate) start: u64,
}

/// The bytes of a command, and the time at which it was sent.
#[derive(Clone, Debug)]
pub(crate) struct About {
    pub(crate) volume: u32,
    /// The bytes of the volume.
    pub(crate) bytes: Range<u64>,
    pub(crate) sent: Tick,
    /// It may have promised durability.
    pub(crate) writes: bool,
}

impl About {
    /// `count` blocks that are read.
    pub(crate) fn blocks(first: Block, count: usize, block_len: usize, sent: Tick) -> Self {
        let len = |blocks| blocks * ByteLen::from_usize(block_len).0;
        let start = len(first.lba.0);
        let bytes = start..start + len(ByteLen::from_usize(count).0);
        Self { volume: first.volume, bytes, sent, writes: false }
    }

    /// A whole volume, which is flushed.
    pub(crate) fn all(volume: u32, sent: Tick) -> Self {
        Self { volume, bytes: 0..u64::MAX, sent, writes: true }
    }

    /// The same bytes, but written.
    pub(crate) fn that_writes(self) -> Self {
        Self { writes: true, ..self }
    }
}

#[derive(Clone, Debug)]
struct Failure {
    volume: u32,
    bytes: Range<u64>,
    at: Tick,
    disk: usize,
    /// Its device is suspect from then on.
    loses: bool,
    /// When its device was cleared.
    cleared: Tick,
}

#[derive(Debug, Default)]
pub(crate) struct Failures {
    parts: Vec<Part>,
    failures: Vec<Failure>,
}

impl Failures {
    /// Made with the volumes' places, which are fixed for the run.
    pub(crate) fn new(parts: Vec<Part>) -> Self {
        Self { parts, failures: Vec::new() }
    }

    /// A device has failed an operation.
    pub(crate) fn note(
        &mut self,
        disk: usize,
        request: &DeviceRequest,
        result: DeviceResult,
        at: Tick,
    ) {
        let is_flush = request.operation == DeviceOperation::Flush;
        let loses = request.operation.loses(result);
        let failed = request.offset.0..request.offset.0 + request.len.0;
        for part in self.parts.iter().filter(|part| part.disk == disk) {
            let meant = if is_flush { &part.bytes } else { &failed };
            let (start, end) = (meant.start.max(part.bytes.start), meant.end.min(part.bytes.end));
            if start < end || loses {
                let bytes = part.start + start.saturating_sub(part.bytes.start)
                    ..part.start + end.saturating_sub(part.bytes.start);
                let (volume, cleared) = (part.volume, Tick::NEVER);
                self.failures.push(Failure { volume, bytes, at, disk, loses, cleared });
            }
        }
    }

    /// An operator, or a new start, has cleared a device.
    pub(crate) fn cleared(&mut self, disk: usize, now: Tick) {
        for failure in self.failures.iter_mut().filter(|failure| failure.disk == disk) {
            failure.cleared = failure.cleared.min(now);
        }
    }

    /// Whether a command may have failed because of a device.
    pub(crate) fn explain(&self, about: &About) -> bool {
        self.failures.iter().filter(|failure| failure.volume == about.volume).any(|failure| {
            let is_own = failure.at > about.sent
                && failure.bytes.start < about.bytes.end
                && about.bytes.start < failure.bytes.end;
            is_own || (about.writes && failure.loses && about.sent < failure.cleared)
        })
    }
}

#[cfg(test)]
mod tests {
    use nearflash_device::{DeviceId, OperationId};
    use nearflash_request::BufferId;
    use nearflash_units::ByteOffset;

    use super::*;

    fn failures(operation: DeviceOperation) -> Failures {
        let part = |volume, start| Part { volume, disk: 0, bytes: start..start + 4096, start: 0 };
        let mut failures = Failures::new(vec![part(0, 4096), part(1, 8192)]);
        let request = DeviceRequest {
            id: OperationId { io: 0, op: 0, generation: 0 },
            device: DeviceId(0),
            operation,
            offset: ByteOffset(4608),
            len: ByteLen(512),
        };
        failures.note(0, &request, DeviceResult::MediumError, Tick(5));
        failures
    }

    fn about(volume: u32, bytes: Range<u64>, sent: u64, writes: bool) -> About {
        About { volume, bytes, sent: Tick(sent), writes }
    }

    #[test]
    fn a_failed_read_explains_what_was_sent_before_it_and_is_about_its_bytes() {
        let failures = failures(DeviceOperation::Read { buffer: None, buffer_offset: ByteLen(0) });
        assert!(failures.explain(&about(0, 0..1024, 4, false)));
        assert!(!failures.explain(&about(0, 0..512, 4, false)), "other bytes");
        assert!(!failures.explain(&about(0, 0..1024, 6, false)), "sent after it");
        assert!(!failures.explain(&about(1, 0..1024, 4, false)), "another volume");
    }

    #[test]
    fn a_failed_durable_write_explains_what_promises_durability_from_then_on() {
        let buffer = BufferId(0);
        let operation = DeviceOperation::Write { buffer, buffer_offset: ByteLen(0), durable: true };
        let failures = failures(operation);
        for volume in [0, 1] {
            assert!(failures.explain(&about(volume, 0..512, 6, true)));
            assert!(!failures.explain(&about(volume, 0..512, 6, false)));
        }
    }

    #[test]
    fn a_device_that_was_cleared_explains_what_was_sent_before_that() {
        let mut failures = failures(DeviceOperation::Flush);
        failures.cleared(1, Tick(6));
        assert!(failures.explain(&about(0, 0..512, 9, true)), "another device was cleared");
        failures.cleared(0, Tick(8));
        assert!(failures.explain(&about(0, 0..512, 7, true)));
        assert!(!failures.explain(&about(0, 0..512, 9, true)));
    }
}
