//! Requests over rings: headers are entries, and payload is in a data area that the client shares.
//!
//! An entry is copied out of the client's memory once, and is then checked like any header. This
//! includes its place in the data area, which the client chooses. Whole blocks at places that
//! devices can use are transferred directly between the device and the client's memory; all other
//! payload passes through a pool buffer. Operands of atomic operations are copied once.

use std::collections::VecDeque;

use nearflash_request::{BufferId, Payload, Request, Tag};
use nearflash_session::{BufferQueue, offset};
use nearflash_units::ByteLen;
use zerocopy::FromBytes;

use super::demands::{Around, Ready, Span, parts_of};
use super::slots::{Kind, Slot};
use super::{
    AttachDemand, CopyInDemand, Demand, LendDemand, Place, RingOutput, ServingEnd, State,
    TargetSession,
};
use crate::error::PeerError;
use crate::segments::{self, Segment};
use crate::stream::bytes_of;
use crate::wire::{AttachRequest, HEADER_LEN, Opcode, RequestHeader, Status};

/// The length of a data area is a multiple of this, in bytes.
const PAGE_LEN: u64 = 4096;

/// The maximum length of a data area in bytes, because places have 32 bits.
const DATA_LEN_MAX: u64 = 1 << 32;

/// The session's state of its rings.
#[derive(Debug)]
pub(super) struct Rings {
    data_len: u64,
    /// Segments of writes whose payload is copied, waiting for a buffer, oldest first.
    awaiting: BufferQueue<Ready>,
    outputs: VecDeque<RingOutput>,
    outputs_max: usize,
}

impl Rings {
    fn new(demand: AttachDemand) -> Self {
        let entries = crate::length(demand.entries);
        Self {
            data_len: demand.data_len,
            awaiting: BufferQueue::default(),
            outputs: VecDeque::with_capacity(2 * entries),
            outputs_max: 4 * entries,
        }
    }

    /// The segment that waits for a buffer, and the required length of the buffer.
    pub(super) fn wants_buffer(&self) -> Option<(Ready, ByteLen)> {
        self.awaiting.first()
    }

    /// Hands out the segment that waited for the buffer.
    pub(super) fn provide_buffer(&mut self, buffer: BufferId) -> Ready {
        let ready = self.awaiting.pop().expect("a buffer comes only when wanted");
        Ready { buffer: Some(buffer), ..ready }
    }

    #[inline]
    pub(super) fn push_entry(&mut self, words: [u64; 4]) {
        self.outputs.push_back(RingOutput::Entry(bytes_of(words)));
    }

    /// Passes on every buffer that waits for its copy.
    pub(super) fn release_all(&mut self, released: &mut impl FnMut(BufferId)) {
        self.awaiting.clear();
        for output in self.outputs.drain(..) {
            match output {
                RingOutput::Copy { buffer, .. } | RingOutput::Release(buffer) => released(buffer),
                RingOutput::Zeroes(_) | RingOutput::Entry(_) => {}
            }
        }
    }

    /// Whether this many bytes at a place lie within the data area.
    #[inline]
    pub(super) fn contain(&self, place: u32, len: u32) -> bool {
        u64::from(place) + u64::from(len) <= self.data_len
    }
}

impl TargetSession {
    /// ATTACH. Nothing may be in flight, so that the descriptors accompany the answer.
    pub(super) fn on_attach(
        &mut self,
        header: &RequestHeader,
        payload: &[u8],
    ) -> Result<(), PeerError> {
        match self.check_attach(payload) {
            Ok(demand) => {
                let State::Ready(who) = std::mem::replace(&mut self.state, State::Closing) else {
                    unreachable!("the dispatch has looked")
                };
                self.state = State::Attaching(who, demand, header.tag.get());
                self.attach = Some(demand);
            }
            Err(status) => self.answer_session(header, status, 0, &[]),
        }
        Ok(())
    }

    fn check_attach(&self, payload: &[u8]) -> Result<AttachDemand, Status> {
        let request = AttachRequest::read_from_bytes(payload).map_err(|_| Status::INVALID_FIELD)?;
        if !self.config.local {
            return Err(Status::UNSUPPORTED);
        }
        if self.rings.is_some() || self.slots.in_use() > 0 || !self.output.is_empty() {
            return Err(Status::BUSY);
        }
        let (entries, data_len) = (request.entries.get(), request.data_len.get());
        let is_sound = entries.is_power_of_two()
            && crate::length(entries) <= self.slots.count()
            && (PAGE_LEN..=DATA_LEN_MAX).contains(&data_len)
            && data_len.is_multiple_of(PAGE_LEN);
        if !is_sound {
            return Err(Status::INVALID_FIELD);
        }
        Ok(AttachDemand { entries, data_len })
    }

    /// The answer to [`Demand::Attach`]. The rings' descriptors accompany the next bytes sent.
    ///
    /// # Panics
    /// When no rings were demanded.
    pub fn handle_attached(&mut self, made: Result<(), Status>) {
        if self.is_closing() {
            return;
        }
        let State::Attaching(who, demand, tag) = std::mem::replace(&mut self.state, State::Closing)
        else {
            panic!("rings are made only when demanded")
        };
        self.state = State::Ready(who);
        let asked =
            RequestHeader { opcode: Opcode::ATTACH.0, tag: tag.into(), ..RequestHeader::default() };
        if made.is_ok() {
            self.slots.shrink(crate::length(demand.entries));
            self.credits = self.credits.min(demand.entries);
            self.rings = Some(Rings::new(demand));
        }
        self.answer_session(&asked, made.err().unwrap_or(Status::OK), 0, &[]);
    }

    /// Whether the driver should call [`Self::handle_entry`]: rings are attached, and have room.
    #[inline]
    pub fn takes_entries(&self) -> bool {
        let has_room = |rings: &Rings| rings.outputs.len() < rings.outputs_max;
        self.is_in() && self.rings.as_ref().is_some_and(has_room)
    }

    /// Handles an entry that was copied out of the submission ring. `copy_in` copies bytes out of
    /// the data area at an offset; it is called only for bytes within the area. After an error, and
    /// on a session that is closing, entries are ignored.
    ///
    /// # Errors
    /// When the client violated the protocol: the session is closing.
    ///
    /// # Panics
    /// When no rings are attached.
    #[inline]
    pub fn handle_entry(
        &mut self,
        entry: &[u8; HEADER_LEN],
        copy_in: &mut dyn FnMut(u64, &mut [u8]),
    ) -> Result<(), PeerError> {
        if !self.is_in() {
            return Ok(());
        }
        let header: &RequestHeader = zerocopy::transmute_ref!(entry);
        self.check_tag(header).map_err(|error| self.terminate(error))?;
        match Opcode(header.opcode) {
            Opcode::READ => self.take_read(header),
            Opcode::WRITE => self.take_write_entry(header),
            Opcode::FLUSH | Opcode::DISCARD | Opcode::ZERO => self.take_plain(header),
            Opcode::COMPARE_AND_SWAP => self.take_operands(header, &mut [0; 16], copy_in),
            Opcode::FETCH_ADD => self.take_operands(header, &mut [0; 8], copy_in),
            _ => self.refuse(header, Status::INVALID_OPCODE, 0),
        }
        Ok(())
    }

    /// A write: segments that are copied wait for a buffer first.
    #[inline]
    fn take_write_entry(&mut self, header: &RequestHeader) {
        let segments = match self.admit(header, Kind::Write) {
            Ok(segments) => segments,
            Err((status, value)) => return self.refuse(header, status, value),
        };
        let tag = header.tag.get();
        for number in 0..segments {
            let slot = &self.slots[tag];
            let segment = segments::segment(slot.offset, slot.len, number);
            let ready = Ready::new(tag, number, None);
            if is_direct(slot, segment) {
                self.ready.push_back(ready);
            } else {
                let len = ByteLen::from_usize(Span::of(slot, segment).buffer_len);
                self.rings_mut().awaiting.push(ready, len);
            }
        }
    }

    /// An atomic operation, whose operands are in the data area.
    fn take_operands(
        &mut self,
        header: &RequestHeader,
        operands: &mut [u8],
        copy_in: &mut dyn FnMut(u64, &mut [u8]),
    ) {
        let len = u32::try_from(operands.len()).expect("16 bytes at most");
        let place = header.place.get();
        if header.len.get() != len {
            let at = u64::from(offset!(RequestHeader, len));
            return self.refuse(header, Status::INVALID_FIELD, at);
        }
        if !self.rings().contain(place, len) {
            return self.refuse_place(header);
        }
        copy_in(u64::from(place), operands);
        self.take_atomic(header, operands);
    }

    #[cold]
    fn refuse_place(&mut self, header: &RequestHeader) {
        self.refuse(header, Status::INVALID_FIELD, u64::from(offset!(RequestHeader, place)));
    }

    /// The demand for a segment of a request from the rings.
    #[inline]
    pub(super) fn ring_demand(
        &mut self,
        tag: Tag,
        number: u32,
        buffer: Option<BufferId>,
    ) -> Option<Demand> {
        let slot = &self.slots[parts_of(tag).0];
        if !matches!(slot.kind, Kind::Read | Kind::Write) {
            return self.request_of(tag, number, buffer).map(Demand::Request);
        }
        let segment = segments::segment(slot.offset, slot.len, number);
        let place = place_of(slot, segment);
        let Around { range, skip, .. } = Around::of(slot, segment);
        if is_direct(slot, segment) {
            return Some(Demand::Lend(LendDemand {
                place,
                tag,
                volume: slot.volume,
                range,
                is_write: slot.kind == Kind::Write,
                force_unit_access: slot.durable,
            }));
        }
        let request: Request = self.request_of(tag, number, buffer)?;
        Some(match buffer {
            None => Demand::Request(request),
            Some(buffer) => {
                let offset = crate::length(skip);
                Demand::CopyIn(CopyInDemand { place, buffer, offset, request })
            }
        })
    }

    /// The engine has answered a segment.
    #[inline]
    pub(super) fn complete_by_ring(&mut self, number: u32, segment: u32, payload: Payload) {
        let slot = &mut self.slots[number];
        let output = match payload {
            Payload::Word(word) => {
                if slot.failed.is_ok() {
                    slot.value = word;
                }
                None
            }
            Payload::Buffer(buffer) if slot.kind == Kind::Read && slot.failed.is_ok() => {
                let segment = segments::segment(slot.offset, slot.len, segment);
                Some(if is_direct(slot, segment) {
                    RingOutput::Release(buffer)
                } else {
                    let offset = crate::length(Around::of(slot, segment).skip);
                    RingOutput::Copy { buffer, offset, place: place_of(slot, segment) }
                })
            }
            Payload::Buffer(buffer) => Some(RingOutput::Release(buffer)),
            Payload::Zeroes if slot.kind == Kind::Read && slot.failed.is_ok() => {
                let segment = segments::segment(slot.offset, slot.len, segment);
                Some(RingOutput::Zeroes(place_of(slot, segment)))
            }
            _ => None,
        };
        self.rings_mut().outputs.extend(output);
        self.end_part(number);
    }

    /// The next output for a client with rings, oldest first.
    #[inline]
    pub fn poll_ring(&mut self) -> Option<RingOutput> {
        self.rings.as_mut()?.outputs.pop_front()
    }

    #[inline]
    fn rings(&self) -> &Rings {
        self.rings.as_ref().expect("entries come only by rings")
    }

    #[inline]
    fn rings_mut(&mut self) -> &mut Rings {
        self.rings.as_mut().expect("entries come only by rings")
    }
}

/// Whether a device can read or write the client's memory for this segment. A device may require
/// memory that is aligned to its blocks, and partial blocks need memory of the node.
#[inline]
fn is_direct(slot: &Slot, segment: Segment) -> bool {
    let unit = slot.unit.bytes();
    let start = slot.runs.place(slot.offset + u64::from(segment.start));
    let end = start + u64::from(segment.len);
    let place = slot.place.wrapping_add(segment.start);
    !slot.is_remote && place.is_multiple_of(unit) && (start | end).is_multiple_of(unit.into())
}

/// The place of a segment's bytes in the data area. The whole request's bytes lie within the area.
#[inline]
fn place_of(slot: &Slot, segment: Segment) -> Place {
    Place { offset: u64::from(slot.place) + u64::from(segment.start), len: segment.len }
}
