//! Device operations: submitted to the ring, to memory or to a timer, and tracked until they have
//! completed as a whole.
//!
//! The rest of a partial completion is submitted again (`progress`), so that the engine sees each
//! operation end once, as a whole.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ptr::NonNull;
use std::sync::Arc;

use io_uring::squeue::Entry;
use io_uring::{opcode, types};
use nearflash_device::{DeviceId, DeviceOperation, DeviceRequest, DeviceResult, OperationId};
use nearflash_media::{Device, Kind, NullDelays, RamRegion};
use nearflash_request::BufferId;
use nearflash_shard::{Notice, Submitted};
use nearflash_units::{ByteLen, ByteOffset, Nanos};
use slab::Slab;

use crate::progress::{InFlight, ZEROES_LEN, Zeroing};
use crate::rings::Buffers;
use crate::token::Token;

#[repr(align(4096))]
struct Aligned([u8; ZEROES_LEN as usize]);

static ZEROES: Aligned = Aligned([0; ZEROES_LEN as usize]);

/// The node's devices, and the operations of one core on them.
#[derive(Debug)]
pub(crate) struct Devices {
    devices: Vec<Arc<Device>>,
    in_flight: Slab<InFlight>,
    /// When each device's file was looked at.
    looked_at: Vec<Nanos>,
    /// Operations of the null device and of models, by the time of their end.
    delayed: BinaryHeap<Reverse<(Nanos, u32)>>,
}

impl Devices {
    pub(crate) fn new(devices: Vec<Arc<Device>>) -> Self {
        Self { devices, in_flight: Slab::new(), looked_at: Vec::new(), delayed: BinaryHeap::new() }
    }

    /// The number of operations in flight.
    pub(crate) fn in_flight_len(&self) -> usize {
        self.in_flight.len()
    }

    /// The time at which the next delayed operation ends.
    pub(crate) fn deadline(&self) -> Option<Nanos> {
        self.delayed.peek().map(|Reverse((at, _))| *at)
    }

    /// Prefetches the first bytes of a request to a device in memory.
    #[inline]
    pub(crate) fn prepare(&self, next: &DeviceRequest) {
        if let Kind::Ram(region) = self.devices[index(next.device.0)].kind() {
            region.prefetch(next.offset);
        }
    }

    /// Starts an operation. `push` receives its ring entry, if it has one.
    #[inline]
    pub(crate) fn submit(
        &mut self,
        request: DeviceRequest,
        now: Nanos,
        buffers: Buffers<'_>,
        push: impl FnOnce(Entry),
    ) -> Submitted {
        if !self.reaches(&request, now) {
            return Submitted::Done(DeviceResult::MediumError);
        }
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
            Kind::Model(model) => {
                if request.operation == DeviceOperation::Allocation {
                    return Submitted::Done(device.allocation(request.offset, request.len));
                }
                let Ok(answer_at) = model.answer_at(&request, now) else {
                    return Submitted::Done(DeviceResult::WornOut);
                };
                match model.contents() {
                    Some(region) => do_in_memory(region, &request, &buffers),
                    None => fill_with_zeroes(&request, &buffers),
                }
                if answer_at <= now {
                    return Submitted::Done(DeviceResult::Done);
                }
                let slot = self.insert(request);
                self.delayed.push(Reverse((answer_at, slot)));
            }
            Kind::Remote => unreachable!("the shard sends its operations to the other node"),
            // The ring has no such operation; the file system usually has the answer in memory.
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

    /// Takes a result from the ring for the operation with this slot and generation. `None` when
    /// `push` has received an entry for the rest.
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
        match self.in_flight[index(slot)].progress(result) {
            Some(result) => {
                let ended = self.in_flight.remove(index(slot));
                if result == DeviceResult::NoSpace {
                    self.devices[index(ended.request.device.0)].note_refusal();
                }
                Some((ended.request.id, result))
            }
            None => {
                push(self.entry(slot, &buffers));
                None
            }
        }
    }

    /// Whether the device still has what an operation concerns. A write behind the end of a file that another
    /// process has truncated would succeed, and leave a gap that reads as zeroes.
    #[inline]
    fn reaches(&mut self, request: &DeviceRequest, now: Nanos) -> bool {
        match request.operation {
            DeviceOperation::Read { .. } | DeviceOperation::Allocation => {
                self.devices[index(request.device.0)].has(request.offset, request.len)
            }
            _ => self.is_whole(request.device, now),
        }
    }

    /// Whether the file of the device was seen shorter than the device.
    pub(crate) fn is_truncated(&self, device: DeviceId) -> bool {
        self.devices[index(device.0)].is_truncated()
    }

    /// Whether the file of the device has its length. The file is looked at once in each turn.
    #[inline]
    fn is_whole(&mut self, device: DeviceId, now: Nanos) -> bool {
        let number = index(device.0);
        let device = &self.devices[number];
        if !matches!(device.kind(), Kind::Uring(file) if !file.is_block()) {
            return true;
        }
        if self.looked_at.len() <= number {
            self.looked_at.resize(self.devices.len(), Nanos(0));
        }
        if std::mem::replace(&mut self.looked_at[number], now) == now {
            return !device.is_truncated();
        }
        device.look()
    }

    /// The ring's result for the operation in this slot, or 0, as behind the end of the file, for a write during
    /// which the file was truncated.
    #[inline]
    pub(crate) fn weighed(&mut self, slot: u32, result: i32, now: Nanos) -> i32 {
        let request = self.in_flight[index(slot)].request;
        match request.operation {
            DeviceOperation::Write { .. } | DeviceOperation::WriteZeroes { .. }
                if result > 0 && !self.is_whole(request.device, now) =>
            {
                0
            }
            DeviceOperation::Read { .. } if result == 0 => {
                self.devices[index(request.device.0)].look();
                0
            }
            _ => result,
        }
    }

    /// The notice for the operation in this slot if it fails with `errno`, given its result.
    pub(crate) fn fault(
        &self,
        slot: u32,
        errno: i32,
    ) -> impl FnOnce(DeviceResult) -> Notice + use<> {
        let InFlight { request, done, .. } = &self.in_flight[index(slot)];
        let DeviceRequest { device, operation, offset, .. } = *request;
        let offset = ByteOffset(offset.0 + done);
        move |result| {
            let loses = operation.loses(result);
            Notice::DeviceFailed { device, offset, errno, loses }
        }
    }

    /// Takes the next delayed operation that has ended by `now`.
    pub(crate) fn take_due(&mut self, now: Nanos) -> Option<(OperationId, DeviceResult)> {
        let Reverse((at, slot)) = *self.delayed.peek()?;
        if at > now {
            return None;
        }
        self.delayed.pop();
        Some((self.in_flight.remove(index(slot)).request.id, DeviceResult::Done))
    }

    fn insert(&mut self, request: DeviceRequest) -> u32 {
        let slot = self.in_flight.insert(InFlight::new(request));
        u32::try_from(slot).expect("operations are bounded by the queues' entries")
    }

    /// The ring entry for the rest of an operation.
    #[inline]
    fn entry(&self, slot: u32, buffers: &Buffers<'_>) -> Entry {
        let operation = &self.in_flight[index(slot)];
        let InFlight { request, done, zeroing } = operation;
        let fd = types::Fixed(request.device.0);
        let (offset, left) = (operation.offset().0, operation.len().0);
        let entry = match request.operation {
            DeviceOperation::Read { buffer, buffer_offset } => {
                let buffer =
                    buffer.expect("only a device that reads as zeroes reads without a buffer");
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
                opcode::Write::new(fd, ZEROES.0.as_ptr(), len_u32(left)).offset(offset).build()
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
            let buffer = buffer.expect("only a device that reads as zeroes reads without a buffer");
            let memory = place(buffers, buffer, buffer_offset, 0, len.0);
            // SAFETY: `place` returned that many bytes, to which there are no references during the
            // call.
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

/// The null device and a model without contents read as zeroes, also into a buffer that the caller supplies.
#[inline]
fn fill_with_zeroes(request: &DeviceRequest, buffers: &Buffers<'_>) {
    let DeviceOperation::Read { buffer: Some(buffer), buffer_offset } = request.operation else {
        return;
    };
    let memory = place(buffers, buffer, buffer_offset, 0, request.len.0);
    // SAFETY: `place` returned that many bytes, to which there are no references during the call.
    unsafe { memory.write_bytes(0, request.len.to_usize()) };
}

/// The address of the part of a buffer that is left to transfer.
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
