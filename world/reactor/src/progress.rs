//! The progress of a device operation, and the next step to submit to the ring.
//!
//! The ring may transfer less than was requested (a short read or write), require a retry, or
//! refuse a way to zero a range. Invariant: the engine sees each operation end once, and an
//! operation that succeeds has transferred each of its bytes once.

use nearflash_device::{DeviceOperation, DeviceRequest, DeviceResult};
use nearflash_units::{ByteLen, ByteOffset};

/// The length of one write of zeroes, for a device that cannot zero a range by itself.
pub(crate) const ZEROES_LEN: u32 = 128 * 1024;

/// The way in which a range is zeroed: when a way is refused, the next one is tried.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Zeroing {
    /// Blocks stay allocated.
    ZeroRange,
    /// Blocks are released.
    PunchHole,
    /// Zeroes are written.
    Write,
}

impl Zeroing {
    fn first(deallocate: bool) -> Self {
        if deallocate { Self::PunchHole } else { Self::ZeroRange }
    }

    /// The way to try when `self` is refused; releasing storage is optional.
    fn next(self) -> Option<Self> {
        match self {
            // Never a hole instead: a caller that asks for zeroes without deallocation relies on
            // the storage.
            Self::ZeroRange | Self::PunchHole => Some(Self::Write),
            Self::Write => None,
        }
    }
}

/// An operation that the ring executes.
#[derive(Debug)]
pub(crate) struct InFlight {
    pub(crate) request: DeviceRequest,
    /// The number of bytes done.
    pub(crate) done: u64,
    pub(crate) zeroing: Zeroing,
}

impl InFlight {
    pub(crate) fn new(request: DeviceRequest) -> Self {
        let zeroing = match request.operation {
            DeviceOperation::WriteZeroes { deallocate } => Zeroing::first(deallocate),
            _ => Zeroing::PunchHole,
        };
        Self { request, done: 0, zeroing }
    }

    /// The offset of the next submission.
    pub(crate) fn offset(&self) -> ByteOffset {
        ByteOffset(self.request.offset.0 + self.done)
    }

    /// The length of the next submission.
    pub(crate) fn len(&self) -> ByteLen {
        let left = self.request.len.0 - self.done;
        let writes_zeroes = matches!(self.request.operation, DeviceOperation::WriteZeroes { .. })
            && self.zeroing == Zeroing::Write;
        ByteLen(if writes_zeroes { left.min(u64::from(ZEROES_LEN)) } else { left })
    }

    /// Takes a result of the ring: the operation's result, or `None` when there is more to submit.
    pub(crate) fn progress(&mut self, result: i32) -> Option<DeviceResult> {
        let Ok(moved) = u64::try_from(result) else {
            return self.failure(-result);
        };
        let moves_bytes = match self.request.operation {
            DeviceOperation::Read { .. } | DeviceOperation::Write { .. } => true,
            DeviceOperation::WriteZeroes { .. } => self.zeroing == Zeroing::Write,
            DeviceOperation::Flush | DeviceOperation::Deallocate | DeviceOperation::Allocation => {
                false
            }
        };
        if !moves_bytes {
            return Some(DeviceResult::Done);
        }
        self.done += moved;
        match self.done >= self.request.len.0 {
            true => Some(DeviceResult::Done),
            // The file ends before the device does: it has been truncated.
            false if moved == 0 => Some(DeviceResult::MediumError),
            false => None,
        }
    }

    /// The result of an error number; `None` when the operation must be submitted again.
    fn failure(&mut self, errno: i32) -> Option<DeviceResult> {
        match errno {
            libc::EAGAIN | libc::EINTR => None,
            libc::ENOSPC | libc::EDQUOT | libc::EFBIG => Some(DeviceResult::NoSpace),
            libc::ENODEV | libc::ENXIO | libc::EBADF => Some(DeviceResult::Gone),
            libc::EOPNOTSUPP | libc::ENOSYS => {
                match (self.request.operation, self.zeroing.next()) {
                    (DeviceOperation::WriteZeroes { .. }, Some(next)) => {
                        self.zeroing = next;
                        None
                    }
                    _ => Some(DeviceResult::Unsupported),
                }
            }
            _ => Some(DeviceResult::MediumError),
        }
    }
}

#[cfg(test)]
mod tests {
    use nearflash_device::{DeviceId, OperationId};
    use nearflash_request::BufferId;
    use proptest::prelude::*;

    use super::*;

    const START: u64 = 1 << 20;

    fn operations() -> impl Strategy<Value = DeviceOperation> {
        let (buffer, buffer_offset) = (BufferId(0), ByteLen(0));
        prop_oneof![
            Just(DeviceOperation::Read { buffer: Some(buffer), buffer_offset }),
            any::<bool>().prop_map(move |durable| DeviceOperation::Write {
                buffer,
                buffer_offset,
                durable
            }),
            any::<bool>().prop_map(|deallocate| DeviceOperation::WriteZeroes { deallocate }),
            Just(DeviceOperation::Deallocate),
            Just(DeviceOperation::Flush),
        ]
    }

    /// A result of the ring: the transferred part in thousandths of the request, or an error.
    fn answers() -> impl Strategy<Value = Result<u64, i32>> {
        prop_oneof![
            4 => (0..=1000_u64).prop_map(Ok),
            2 => Just(Ok(1000)),
            2 => prop::sample::select(vec![libc::EAGAIN, libc::EINTR]).prop_map(Err),
            1 => prop::sample::select(vec![
                libc::EOPNOTSUPP, libc::ENOSYS, libc::ENOSPC, libc::EIO, libc::ENXIO, libc::EINVAL,
            ])
            .prop_map(Err),
        ]
    }

    fn in_flight(operation: DeviceOperation, blocks: u64) -> InFlight {
        InFlight::new(DeviceRequest {
            id: OperationId { io: 0, op: 0, generation: 0 },
            device: DeviceId(0),
            operation,
            offset: ByteOffset(START),
            len: ByteLen(blocks * 512),
        })
    }

    /// Checks that a part begins where the last one ended, and lies within the operation.
    fn check_next(operation: &InFlight, end: u64) {
        let (offset, len) = (operation.offset().0, operation.len().0);
        assert_eq!(offset, end, "parts follow one another");
        assert!(offset + len <= START + operation.request.len.0);
        assert!(len > 0 || operation.request.len.0 == 0, "the ring is never asked for nothing");
    }

    proptest! {
        #[test]
        fn an_operation_ends_once_and_well_only_when_each_of_its_bytes_was_moved(
            kind in operations(),
            blocks in 1..2000_u64,
            answers in prop::collection::vec(answers(), 1..60),
        ) {
            let mut operation = in_flight(kind, blocks);
            let mut end = START;
            for answer in answers {
                check_next(&operation, end);
                let moves = match kind {
                    DeviceOperation::Read { .. } | DeviceOperation::Write { .. } => true,
                    DeviceOperation::WriteZeroes { .. } => operation.zeroing == Zeroing::Write,
                    _ => false,
                };
                let moved = answer.map_or(0, |part| operation.len().0 * part / 1000);
                end += if moves { moved } else { 0 };
                let result = match answer {
                    Ok(_) => i32::try_from(if moves { moved } else { 0 }).unwrap(),
                    Err(errno) => -errno,
                };
                let Some(ended) = operation.progress(result) else { continue };
                let is_whole = end == START + operation.request.len.0;
                prop_assert_eq!(ended == DeviceResult::Done, answer.is_ok() && (is_whole || !moves));
                return Ok(());
            }
        }
    }

    #[test]
    fn who_keeps_the_storage_gets_zeroes_by_no_way_that_makes_a_hole() {
        let ways = |deallocate| {
            std::iter::successors(Some(Zeroing::first(deallocate)), |way| way.next())
                .collect::<Vec<_>>()
        };
        assert_eq!(ways(false), [Zeroing::ZeroRange, Zeroing::Write]);
        assert_eq!(ways(true), [Zeroing::PunchHole, Zeroing::Write]);
    }

    #[test]
    fn zeroes_that_can_be_made_in_no_way_end_as_unsupported() {
        let mut operation = in_flight(DeviceOperation::WriteZeroes { deallocate: true }, 8);
        assert_eq!(operation.progress(-libc::EOPNOTSUPP), None, "written, then");
        assert_eq!(operation.progress(-libc::EOPNOTSUPP), Some(DeviceResult::Unsupported));
    }
}
