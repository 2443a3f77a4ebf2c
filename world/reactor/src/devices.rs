//! Device operations: submitted to the ring, to memory, or to the clock, and followed until they
//! are whole.
//!
//! The ring may do less than was asked (a short read or write) or ask for another try; the rest is
//! submitted again, so that the engine sees each operation end once and entirely.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ptr::NonNull;
use std::sync::Arc;

use io_uring::squeue::Entry;
use io_uring::{opcode, types};
use nearflash_device::{DeviceOperation, DeviceRequest, DeviceResult, OperationId};
use nearflash_media::{Device, Kind, NullDelays, RamRegion};
use nearflash_request::BufferId;
use nearflash_shard::{Notice, Submitted};
use nearflash_units::{ByteLen, ByteOffset, Nanos};
use slab::Slab;

use crate::rings::Buffers;
use crate::token::Token;

/// Zeroes are written in parts of this length where a device can do nothing better.
const ZEROES_LEN: u32 = 128 * 1024;

#[repr(align(4096))]
struct Aligned([u8; 128 * 1024]);

static ZEROES: Aligned = Aligned([0; 128 * 1024]);

/// How a range is being zeroed: each way is tried when the one before is refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Zeroing {
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

    /// What to try when `self` is refused; a device that cannot release blocks need not.
    fn next(self) -> Option<Self> {
        match self {
            // Not a hole: who wants zeroes without one relies on the storage.
            Self::ZeroRange | Self::PunchHole => Some(Self::Write),
            Self::Write => None,
        }
    }
}

#[derive(Debug)]
struct InFlight {
    request: DeviceRequest,
    /// How much of it is done.
    done: u64,
    zeroing: Zeroing,
}

/// The node's devices, and what one core has asked of them.
#[derive(Debug)]
pub(crate) struct Devices {
    devices: Vec<Arc<Device>>,
    in_flight: Slab<InFlight>,
    /// Operations of the null device, by the moment they end.
    delayed: BinaryHeap<Reverse<(Nanos, u32)>>,
}

impl Devices {
    pub(crate) fn new(devices: Vec<Arc<Device>>) -> Self {
        Self { devices, in_flight: Slab::new(), delayed: BinaryHeap::new() }
    }

    /// Operations that have not ended.
    pub(crate) fn in_flight_len(&self) -> usize {
        self.in_flight.len()
    }

    /// When the next delayed operation ends.
    pub(crate) fn deadline(&self) -> Option<Nanos> {
        self.delayed.peek().map(|Reverse((at, _))| *at)
    }

    /// Starts an operation. What goes to the ring is handed to `push`.
    #[inline]
    pub(crate) fn submit(
        &mut self,
        request: DeviceRequest,
        now: Nanos,
        buffers: Buffers<'_>,
        push: impl FnOnce(Entry),
    ) -> Submitted {
        let device = &self.devices[index(request.device.0)];
        match device.kind() {
            Kind::Null(delays) => {
                if request.operation == DeviceOperation::Allocation {
                    return Submitted::Done(device.allocation(request.offset, request.len));
                }
                fill_with_zeroes(&request, &buffers);
                let delay = null_delay(delays, &request.operation);
                if delay == Nanos(0) {
                    return Submitted::Done(DeviceResult::Done);
                }
                let slot = self.insert(request);
                self.delayed.push(Reverse((now.plus(delay), slot)));
            }
            Kind::Ram(region) => {
                if request.operation == DeviceOperation::Allocation {
                    return Submitted::Done(device.allocation(request.offset, request.len));
                }
                do_in_memory(region, &request, &buffers);
                return Submitted::Done(DeviceResult::Done);
            }
            // The ring has no such operation; the answer is in memory most of the time.
            Kind::Uring(_) if request.operation == DeviceOperation::Allocation => {
                return Submitted::Done(device.allocation(request.offset, request.len));
            }
            Kind::Uring(_) => {
                let slot = self.insert(request);
                push(self.entry(slot, &buffers));
            }
        }
        Submitted::Queued
    }

    /// Takes a result from the ring for the operation in that slot, of that generation. `None` when the
    /// rest was handed to `push`.
    #[inline]
    pub(crate) fn complete(
        &mut self,
        (slot, generation): (u32, u16),
        result: i32,
        buffers: Buffers<'_>,
        push: impl FnOnce(Entry),
    ) -> Option<(OperationId, DeviceResult)> {
        let named = self.in_flight.get(index(slot)).map(|it| it.request.id.generation);
        assert_eq!(named, Some(generation), "the ring answers each entry once");
        match self.progress(slot, result) {
            Some(result) => {
                let ended = self.in_flight.remove(index(slot));
                Some((ended.request.id, result))
            }
            None => {
                push(self.entry(slot, &buffers));
                None
            }
        }
    }

    /// What is said of the operation in that slot if it fails with `errno`.
    pub(crate) fn fault(&self, slot: u32, errno: i32) -> Notice {
        let InFlight { request, done, .. } = &self.in_flight[index(slot)];
        let offset = ByteOffset(request.offset.0 + done);
        let loses = request.operation.makes_durable();
        Notice::DeviceFailed { device: request.device, offset, errno, loses }
    }

    /// The next delayed operation that has ended by `now`.
    pub(crate) fn take_due(&mut self, now: Nanos) -> Option<(OperationId, DeviceResult)> {
        let Reverse((at, slot)) = *self.delayed.peek()?;
        if at > now {
            return None;
        }
        self.delayed.pop();
        Some((self.in_flight.remove(index(slot)).request.id, DeviceResult::Done))
    }

    fn insert(&mut self, request: DeviceRequest) -> u32 {
        let zeroing = match request.operation {
            DeviceOperation::WriteZeroes { deallocate } => Zeroing::first(deallocate),
            _ => Zeroing::PunchHole,
        };
        let slot = self.in_flight.insert(InFlight { request, done: 0, zeroing });
        u32::try_from(slot).expect("operations are bounded by the queues' entries")
    }

    /// How the operation ended, or `None` when there is more to do.
    fn progress(&mut self, slot: u32, result: i32) -> Option<DeviceResult> {
        let operation = &mut self.in_flight[index(slot)];
        let Ok(moved) = u64::try_from(result) else {
            return failure(operation, -result);
        };
        let moves_bytes = match operation.request.operation {
            DeviceOperation::Read { .. } | DeviceOperation::Write { .. } => true,
            DeviceOperation::WriteZeroes { .. } => operation.zeroing == Zeroing::Write,
            DeviceOperation::Flush | DeviceOperation::Deallocate | DeviceOperation::Allocation => {
                false
            }
        };
        if !moves_bytes {
            return Some(DeviceResult::Done);
        }
        operation.done += moved;
        match operation.done >= operation.request.len.0 {
            true => Some(DeviceResult::Done),
            // The file ends before the device does: somebody cut it off.
            false if moved == 0 => Some(DeviceResult::MediumError),
            false => None,
        }
    }

    /// The ring entry for what is left of an operation.
    #[inline]
    fn entry(&self, slot: u32, buffers: &Buffers<'_>) -> Entry {
        let InFlight { request, done, zeroing } = &self.in_flight[index(slot)];
        let fd = types::Fixed(request.device.0);
        let offset = request.offset.0 + done;
        let left = request.len.0 - done;
        let entry = match request.operation {
            DeviceOperation::Read { buffer, buffer_offset } => {
                let buffer = buffer.expect("only the null device reads without a buffer");
                let memory = place(buffers, buffer, buffer_offset, *done, left);
                opcode::Read::new(fd, memory.as_ptr(), len_u32(left)).offset(offset).build()
            }
            DeviceOperation::Write { buffer, buffer_offset, durable } => {
                let memory = place(buffers, buffer, buffer_offset, *done, left);
                let flags = if durable { libc::RWF_DSYNC } else { 0 };
                opcode::Write::new(fd, memory.as_ptr(), len_u32(left))
                    .offset(offset)
                    .rw_flags(flags)
                    .build()
            }
            DeviceOperation::Flush => {
                opcode::Fsync::new(fd).flags(types::FsyncFlags::DATASYNC).build()
            }
            DeviceOperation::WriteZeroes { .. } if *zeroing == Zeroing::Write => {
                let len = len_u32(left.min(u64::from(ZEROES_LEN)));
                opcode::Write::new(fd, ZEROES.0.as_ptr(), len).offset(offset).build()
            }
            DeviceOperation::WriteZeroes { .. } | DeviceOperation::Deallocate => {
                opcode::Fallocate::new(fd, left)
                    .offset(offset)
                    .mode(fallocate_mode(*zeroing))
                    .build()
            }
            DeviceOperation::Allocation => unreachable!("answered at once"),
        };
        let generation = request.id.generation;
        entry.user_data(Token::Device { slot, generation }.pack())
    }
}

fn fallocate_mode(zeroing: Zeroing) -> i32 {
    let keep = libc::FALLOC_FL_KEEP_SIZE;
    match zeroing {
        Zeroing::ZeroRange => libc::FALLOC_FL_ZERO_RANGE | keep,
        Zeroing::PunchHole | Zeroing::Write => libc::FALLOC_FL_PUNCH_HOLE | keep,
    }
}

/// What an error number means; `None` when the operation is to be submitted again.
fn failure(operation: &mut InFlight, errno: i32) -> Option<DeviceResult> {
    match errno {
        libc::EAGAIN | libc::EINTR => None,
        libc::ENOSPC | libc::EDQUOT | libc::EFBIG => Some(DeviceResult::NoSpace),
        libc::ENODEV | libc::ENXIO | libc::EBADF => Some(DeviceResult::Gone),
        libc::EOPNOTSUPP | libc::ENOSYS => match operation.request.operation {
            DeviceOperation::WriteZeroes { .. } => {
                operation.zeroing = operation.zeroing.next()?;
                None
            }
            _ => Some(DeviceResult::Unsupported),
        },
        _ => Some(DeviceResult::MediumError),
    }
}

fn null_delay(delays: &NullDelays, operation: &DeviceOperation) -> Nanos {
    match operation {
        DeviceOperation::Read { .. } => delays.read,
        DeviceOperation::Flush => Nanos(0),
        _ => delays.write,
    }
}

fn do_in_memory(region: &RamRegion, request: &DeviceRequest, buffers: &Buffers<'_>) {
    let (offset, len) = (request.offset, request.len);
    match request.operation {
        DeviceOperation::Read { buffer, buffer_offset } => {
            let buffer = buffer.expect("only the null device reads without a buffer");
            let memory = place(buffers, buffer, buffer_offset, 0, len.0);
            // SAFETY: `place` found that many bytes, which nobody refers to during the call.
            unsafe { region.read_to(offset, memory, len) };
        }
        DeviceOperation::Write { buffer, buffer_offset, .. } => {
            let memory = place(buffers, buffer, buffer_offset, 0, len.0);
            // SAFETY: as for a read.
            unsafe { region.write_from(offset, memory, len) };
        }
        DeviceOperation::WriteZeroes { .. } | DeviceOperation::Deallocate => {
            region.zero(offset, len)
        }
        DeviceOperation::Flush => {}
        DeviceOperation::Allocation => unreachable!("answered by the caller"),
    }
}

/// The null device reads as zeroes, also where somebody has brought memory for them.
#[inline]
fn fill_with_zeroes(request: &DeviceRequest, buffers: &Buffers<'_>) {
    let DeviceOperation::Read { buffer: Some(buffer), buffer_offset } = request.operation else {
        return;
    };
    let memory = place(buffers, buffer, buffer_offset, 0, request.len.0);
    // SAFETY: `place` found that many bytes, which nobody refers to during the call.
    unsafe { memory.write_bytes(0, request.len.to_usize()) };
}

/// Where the part of a buffer is that is left to be moved.
#[inline]
fn place(
    buffers: &Buffers<'_>,
    buffer: BufferId,
    buffer_offset: ByteLen,
    done: u64,
    left: u64,
) -> NonNull<u8> {
    buffers.memory(buffer, ByteLen(buffer_offset.0 + done).to_usize(), ByteLen(left).to_usize())
}

fn len_u32(len: u64) -> u32 {
    u32::try_from(len).expect("a transfer is at most the largest buffer")
}

fn index(raw: u32) -> usize {
    usize::try_from(raw).expect("usize is at least 32 bits wide")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_keeps_the_storage_gets_zeroes_by_no_way_that_makes_a_hole() {
        let ways = |deallocate| {
            std::iter::successors(Some(Zeroing::first(deallocate)), |way| way.next())
                .collect::<Vec<_>>()
        };
        assert_eq!(ways(false), [Zeroing::ZeroRange, Zeroing::Write]);
        assert_eq!(ways(true), [Zeroing::PunchHole, Zeroing::Write]);
    }
}
