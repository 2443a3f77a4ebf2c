//! One core's layout: the maps of the volumes, and the IOs in flight.

use std::collections::VecDeque;
use std::sync::Arc;

use nearflash_device::{
    Believed, Cause, DeviceId, DeviceOperation, DeviceProperties, DeviceRequest, DeviceResult,
    Health, OperationId,
};
use nearflash_request::{BlockRange, Outcome, VolumeId};
use nearflash_space::{Map, Piece, Provisioning, STRIPE_WIDTH_MAX, VolumeEntry, VolumeTable};
use nearflash_units::{Blocks, ByteLen, ByteOffset, Lba, Nanos, index};

use crate::flight::{Flight, Rest, further};
use crate::flush::Flushes;
use crate::io::{BlockIo, IoId, IoKind, IoResult};

/// The most device operations that one IO has in flight. The others follow when these have ended.
pub const OPERATIONS_PER_IO_MAX: u16 = 64;

const _: () = assert!(STRIPE_WIDTH_MAX <= OPERATIONS_PER_IO_MAX as u32, "a whole row has room");

/// One core's volume maps, and the operations in flight on them.
#[derive(Debug)]
pub struct Layout {
    devices: Arc<[DeviceProperties]>,
    /// By device; shared with the other cores.
    health: Arc<[Arc<Health>]>,
    volumes: Arc<VolumeTable>,
    /// By volume number: whether the whole volume reads as zeroes, so that reads need no buffer.
    zero_volumes: Box<[bool]>,
    /// By number of the IO.
    flights: Vec<Flight>,
    /// By device.
    flushes: Vec<Flushes>,
    /// Operations to be submitted, oldest first.
    ready: VecDeque<OperationId>,
    /// IOs that ended together with another one.
    ended: VecDeque<(IoId, IoResult)>,
    /// Flushes and durable writes under way, and those whose success cannot be trusted yet.
    believed: Believed,
    /// The time at the start of the driver's turn.
    now: Nanos,
}

impl Layout {
    /// A layout without IOs. The devices are the node's, by [`DeviceId`].
    pub fn new(
        devices: Arc<[DeviceProperties]>,
        health: Arc<[Arc<Health>]>,
        volumes: Arc<VolumeTable>,
    ) -> Self {
        assert_eq!(devices.len(), health.len(), "each device has its health");
        Self {
            health,
            flushes: devices.iter().map(|_| Flushes::default()).collect(),
            zero_volumes: zero_volumes(&volumes, &devices),
            devices,
            volumes,
            flights: Vec::new(),
            ready: VecDeque::new(),
            ended: VecDeque::new(),
            believed: Believed::default(),
            now: Nanos(0),
        }
    }

    /// Replaces the volumes. Operations in flight go on as they were laid out.
    pub fn set_volumes(&mut self, volumes: Arc<VolumeTable>) {
        self.zero_volumes = zero_volumes(&volumes, &self.devices);
        self.volumes = volumes;
    }

    /// Whether every block of the volume reads as zeroes, always.
    #[inline]
    pub fn reads_as_zeroes(&self, volume: VolumeId) -> bool {
        self.zero_volumes.get(index(volume.0)).is_some_and(|is_zero| *is_zero)
    }

    /// Replaces the devices by the same ones and further ones.
    ///
    /// # Panics
    /// When there are fewer devices than before.
    pub fn set_devices(&mut self, devices: Arc<[DeviceProperties]>, health: Arc<[Arc<Health>]>) {
        assert_eq!(devices.len(), health.len(), "each device has its health");
        assert!(devices.len() >= self.devices.len(), "a device keeps its number");
        self.flushes.resize_with(devices.len(), Flushes::default);
        (self.devices, self.health) = (devices, health);
    }

    /// Whether an IO of that number is in flight.
    #[inline]
    pub fn is_busy(&self, io: IoId) -> bool {
        self.flights.get(index(io.0)).is_some_and(Flight::is_busy)
    }

    /// Takes an IO. Returns its result if it ends at once; otherwise `handle_device` does later.
    #[inline]
    pub fn submit(&mut self, io: BlockIo) -> Option<IoResult> {
        let BlockIo { id, volume, range, more, kind, buffer_offset, cause } = io;
        let Self { volumes, flights, ready, health, .. } = self;
        let Some(entry) = volumes.get(volume) else {
            return Some(IoResult::Failed(Outcome::VolumeGone));
        };
        let keeps_storage = entry.provisioning == Provisioning::Thick;
        let operation = match kind {
            IoKind::Read { buffer } => DeviceOperation::Read { buffer, buffer_offset },
            IoKind::Write { buffer, durable } => {
                DeviceOperation::Write { buffer, buffer_offset, durable }
            }
            IoKind::WritePart { buffer, durable, .. } => {
                DeviceOperation::Write { buffer, buffer_offset, durable }
            }
            IoKind::Zero { deallocate } => {
                DeviceOperation::WriteZeroes { deallocate: deallocate && !keeps_storage }
            }
            IoKind::Discard if keeps_storage => return Some(IoResult::Done),
            IoKind::Discard => DeviceOperation::Deallocate,
            IoKind::Flush if cause.sent_in.is_some() => return self.flush_alone(id, volume, cause),
            IoKind::Flush => return self.flush(id, volume),
            IoKind::Allocation => {
                return ask_allocation(flight_of(flights, id), ready, (id, cause), entry, range);
            }
        };
        let flight = flight_of(flights, id);
        flight.begin(cause);
        if operation.makes_durable() && is_suspect(health, entry) {
            return Some(IoResult::Failed(Outcome::WriteFault));
        }
        if more.is_empty()
            && let Some(piece) = entry.map.locate_whole(range)
        {
            ready.push_back(flight.add(id, operation, piece));
            trim(flight, kind);
            return None;
        }
        flight.divide();
        let ranges = std::iter::once(range).chain(more);
        lay_out(flight, ready, id, (volume, entry), (operation, ranges));
        trim(flight, kind);
        (!flight.is_busy()).then(|| flight.result())
    }

    /// Takes a device operation's result. Returns an ended IO; [`Self::poll_ended`] gives others.
    ///
    /// # Panics
    /// When no such operation is in flight, which is a bug of the caller.
    #[inline]
    pub fn handle_device(
        &mut self,
        id: OperationId,
        result: DeviceResult,
    ) -> Option<(IoId, IoResult)> {
        if self.believed.is_idle() || !self.makes_durable(id) {
            return self.end(id, result);
        }
        let known = self.believed.weigh(id, result, &self.health, self.now);
        let ended = known.and_then(|result| self.end(id, result));
        self.prove();
        ended.or_else(|| self.poll_ended())
    }

    /// Sets the time, once in each turn of the driver, before results are handed in.
    pub fn set_now(&mut self, now: Nanos) {
        self.now = now;
    }

    /// Whether IOs wait for operations of other cores to end.
    pub fn awaits_others(&self) -> bool {
        self.believed.awaits_others()
    }

    /// Ends the operations that need not wait any longer. [`Self::poll_ended`] gives their IOs.
    pub fn prove(&mut self) {
        while let Some((id, result)) = self.believed.poll_proven(&self.health, self.now) {
            let ended = self.end(id, result);
            self.ended.extend(ended);
        }
    }

    /// Ends an operation with `result`, which has been checked against the device's health.
    #[inline]
    fn end(&mut self, id: OperationId, result: DeviceResult) -> Option<(IoId, IoResult)> {
        if let Some(device) = Flushes::device_of(id) {
            self.end_flush(device, id, result);
            return self.poll_ended();
        }
        let flight = self.flights.get_mut(index(id.io)).expect("an operation of an IO");
        let DeviceRequest { operation, len, .. } = flight.end(id);
        flight.end_one(IoResult::of(operation, len, result));
        if flight.is_busy() {
            return None;
        }
        let end = match flight.rest.take() {
            Some(rest) if !flight.has_failed() => self.go_on(IoId(id.io), *rest)?,
            _ => flight.result(),
        };
        Some((IoId(id.io), end))
    }

    /// The next IO that ended together with another one.
    #[inline]
    pub fn poll_ended(&mut self) -> Option<(IoId, IoResult)> {
        self.ended.pop_front()
    }

    /// The next device operation to submit, and the request that it is for.
    #[inline]
    pub fn poll_device(&mut self) -> Option<(DeviceRequest, Cause)> {
        let id = self.ready.pop_front()?;
        let (request, cause) = match Flushes::device_of(id) {
            None => self.flights[index(id.io)].submit(id),
            Some(device) => (self.flushes[index(device.0)].submit(id), Cause::NONE),
        };
        self.believed.begin(&request, &self.health, &self.devices);
        Some((request, cause))
    }

    /// The device operation that is submitted next, if it is on blocks.
    #[inline]
    pub fn peek_device(&self) -> Option<&DeviceRequest> {
        let id = *self.ready.front()?;
        self.flights.get(index(id.io))?.peek(id)
    }

    /// Whether an operation, which has not ended, makes data durable.
    fn makes_durable(&self, id: OperationId) -> bool {
        let request = || self.flights.get(index(id.io))?.peek(id);
        Flushes::device_of(id).is_some()
            || request().is_some_and(|request| request.operation.makes_durable())
    }

    /// Lays out the remaining ranges of an IO. The volume may have been removed or shrunk since.
    fn go_on(&mut self, id: IoId, rest: Rest) -> Option<IoResult> {
        let Rest { volume, ranges, operation, tail } = rest;
        let Some(entry) = self.volumes.get(volume) else {
            return Some(IoResult::Failed(Outcome::VolumeGone));
        };
        let flight = &mut self.flights[index(id.0)];
        flight.begin_operations();
        lay_out(flight, &mut self.ready, id, (volume, entry), (operation, ranges.into_iter()));
        trim_end(flight, tail);
        (!flight.is_busy()).then(|| flight.result())
    }

    /// Flushes every device on which the volume has extents.
    fn flush(&mut self, id: IoId, volume: VolumeId) -> Option<IoResult> {
        if self.volumes.get(volume).is_some_and(|entry| is_suspect(&self.health, entry)) {
            return Some(IoResult::Failed(Outcome::WriteFault));
        }
        let flight = flight_of(&mut self.flights, id);
        flight.begin(Cause::NONE);
        let devices = self.volumes.get(volume).into_iter().flat_map(|entry| entry.map.devices());
        for device in devices {
            flight.await_flush();
            self.ready.extend(self.flushes[index(device.0)].ask(device, id));
        }
        (!flight.is_busy()).then_some(IoResult::Done)
    }

    /// Flushes every device on which the volume has extents, for this IO alone.
    fn flush_alone(&mut self, id: IoId, volume: VolumeId, cause: Cause) -> Option<IoResult> {
        let Self { volumes, flights, ready, health, .. } = self;
        let entry = volumes.get(volume).expect("the caller has seen it");
        if is_suspect(health, entry) {
            return Some(IoResult::Failed(Outcome::WriteFault));
        }
        let flight = flight_of(flights, id);
        flight.begin(cause);
        for device in entry.map.devices() {
            let piece = Piece { device, offset: ByteOffset(0), len: ByteLen(0) };
            ready.push_back(flight.add(id, DeviceOperation::Flush, piece));
        }
        (!flight.is_busy()).then_some(IoResult::Done)
    }

    fn end_flush(&mut self, device: DeviceId, id: OperationId, result: DeviceResult) {
        let (answered, next) = self.flushes[index(device.0)].end(id);
        self.ready.extend(next);
        let result = IoResult::of(DeviceOperation::Flush, ByteLen(0), result);
        for io in answered {
            let flight = &mut self.flights[index(io.0)];
            flight.end_one(result);
            if !flight.is_busy() {
                self.ended.push_back((io, flight.result()));
            }
        }
    }
}

/// Whether the volume has extents on a device with an uncleared failure.
fn is_suspect(health: &[Arc<Health>], entry: &VolumeEntry) -> bool {
    entry.map.devices().any(|device| health[index(device.0)].is_suspect())
}

/// Queries the first piece of the range only; the reported run ends with that piece at the latest,
/// unless all blocks have storage anyway.
fn ask_allocation(
    flight: &mut Flight,
    ready: &mut VecDeque<OperationId>,
    (id, cause): (IoId, Cause),
    entry: &VolumeEntry,
    range: BlockRange,
) -> Option<IoResult> {
    let Some(piece) = entry.map.locate(range).and_then(|mut pieces| pieces.next()) else {
        return Some(IoResult::Failed(Outcome::OutOfRange));
    };
    if entry.provisioning == Provisioning::Thick {
        let len = entry.block_size.len(range.count).unwrap_or(piece.len);
        return Some(IoResult::Run { mapped: true, len });
    }
    flight.begin(cause);
    ready.push_back(flight.add(id, DeviceOperation::Allocation, piece));
    None
}

/// Lays out as much of the ranges as [`OPERATIONS_PER_IO_MAX`] allows, and keeps the rest.
#[inline]
fn lay_out(
    flight: &mut Flight,
    ready: &mut VecDeque<OperationId>,
    id: IoId,
    (volume, entry): (VolumeId, &VolumeEntry),
    (mut operation, mut ranges): (DeviceOperation, impl Iterator<Item = BlockRange>),
) {
    while let Some(range) = ranges.next() {
        let room = usize::from(OPERATIONS_PER_IO_MAX - flight.pending());
        let add = |operation, piece| ready.push_back(flight.add(id, operation, piece));
        let done = match operation {
            DeviceOperation::Read { .. } | DeviceOperation::Write { .. } => {
                lay_out_pieces(&entry.map, range, &mut operation, room, add)
            }
            _ => lay_out_rows(&entry.map, range, operation, room, add),
        };
        let Some(done) = done else {
            return flight.note(IoResult::Failed(Outcome::OutOfRange));
        };
        let left = behind(range, entry.block_size.blocks_in(done));
        if left.count.0 > 0 {
            let ranges = std::iter::once(left).chain(ranges).collect();
            flight.rest = Some(Box::new(Rest { volume, ranges, operation, tail: 0 }));
            return;
        }
    }
}

/// Leaves out the bytes that a write of a part of its blocks does not write.
#[inline]
fn trim(flight: &mut Flight, kind: IoKind) {
    if let IoKind::WritePart { skip, tail, .. } = kind
        && flight.is_busy()
    {
        flight.trim_start(skip);
        trim_end(flight, tail);
    }
}

/// Trims the end, now or when the last blocks are laid out.
fn trim_end(flight: &mut Flight, tail: u32) {
    let is_busy = flight.is_busy();
    match &mut flight.rest {
        Some(rest) => rest.tail = tail,
        None if is_busy => flight.trim_end(tail),
        None => {}
    }
}

/// Adds the pieces of a range, for which there is room, in the order of their bytes in the buffer.
/// Returns their length; `None` when the range ends past the volume's end.
#[inline]
fn lay_out_pieces(
    map: &Map,
    range: BlockRange,
    operation: &mut DeviceOperation,
    room: usize,
    mut add: impl FnMut(DeviceOperation, Piece),
) -> Option<ByteLen> {
    let mut done = ByteLen(0);
    for piece in map.locate(range)?.take(room) {
        add(*operation, piece);
        *operation = further(*operation, piece.len);
        done.0 += piece.len.0;
    }
    Some(done)
}

/// Adds the runs of a range, row by row, for an operation without a buffer. A row is laid out as a
/// whole or, for want of room, not yet. Returns the rows' length; `None` when the range ends past
/// the volume's end.
#[inline]
fn lay_out_rows(
    map: &Map,
    range: BlockRange,
    operation: DeviceOperation,
    mut room: usize,
    mut add: impl FnMut(DeviceOperation, Piece),
) -> Option<ByteLen> {
    let mut done = ByteLen(0);
    for part in map.rows(range)? {
        let Some(left) = room.checked_sub(part.runs().count()) else { break };
        part.runs().for_each(|run| add(operation, run));
        room = left;
        done.0 += part.len().0;
    }
    Some(done)
}

/// The range without its first `done` blocks.
fn behind(range: BlockRange, done: Blocks) -> BlockRange {
    let start = Lba(range.start.0 + done.0);
    BlockRange { start, count: Blocks(range.count.0 - done.0) }
}

/// The flight of an IO number, created at its first use.
#[inline]
fn flight_of(flights: &mut Vec<Flight>, io: IoId) -> &mut Flight {
    let index = index(io.0);
    if flights.len() <= index {
        flights.resize_with(index + 1, Flight::idle);
    }
    &mut flights[index]
}

/// For each volume number, whether all its devices read as zeroes.
fn zero_volumes(volumes: &VolumeTable, devices: &[DeviceProperties]) -> Box<[bool]> {
    let reads_as_zeroes =
        |id: DeviceId| devices.get(index(id.0)).is_some_and(|device| device.reads_as_zeroes);
    let is_zero = |map: &Map| map.devices().all(reads_as_zeroes);
    let mut zero_volumes = Vec::new();
    for (id, entry) in volumes.iter() {
        zero_volumes.resize(index(id.0), false);
        zero_volumes.push(is_zero(&entry.map));
    }
    zero_volumes.into_boxed_slice()
}
