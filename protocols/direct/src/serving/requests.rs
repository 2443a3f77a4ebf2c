//! From a header to a slot: checks whether a request is allowed.
//!
//! An error in a request becomes the status of its answer. An error in its tag ends the connection,
//! because an answer could not be assigned to a request.

use nearflash_request::Tag;
use nearflash_session::offset;
use nearflash_units::BlockSize;
use zerocopy::FromBytes;
use zerocopy::little_endian::U64;

use super::TargetSession;
use super::data::Sink;
use super::demands::{Ready, parts_of};
use super::faces::sent_in;
use super::handles::Wanted;
use super::runs::Runs;
use super::slots::{Kind, Slot};
use crate::Face;
use crate::block_digest::has_digests;
use crate::error::PeerError;
use crate::segments;
use crate::wire::{DigestRequest, Opcode, RequestHeader, Rights, Status, WORD_LEN};

/// A refused request: the status and value of its answer.
pub(super) type Refusal = (Status, u64);

impl TargetSession {
    /// READ, by the stream.
    #[inline]
    pub(super) fn on_read(&mut self, header: &RequestHeader) -> Result<(), PeerError> {
        self.check_transport(Opcode::READ)?;
        self.check_tag(header)?;
        self.take_read(header);
        Ok(())
    }

    /// READ, by either way.
    #[inline]
    pub(super) fn take_read(&mut self, header: &RequestHeader) {
        let admitted = self.admit(header, Kind::Read);
        self.hand_out_admitted(header, admitted);
    }

    /// WRITE, over the stream. Its payload follows, whether it is allowed or not.
    #[inline]
    pub(super) fn on_write(&mut self, header: &RequestHeader) -> Result<(), PeerError> {
        self.check_transport(Opcode::WRITE)?;
        self.check_tag(header)?;
        let (tag, offset, len) = (header.tag.get(), header.offset.get(), header.len.get());
        let sink = match self.admit(header, Kind::Write) {
            Ok(_) => Sink::Slot(tag),
            Err((status, value)) => {
                self.refuse(header, status, value);
                Sink::Drop
            }
        };
        if len > 0 {
            self.incoming.begin(offset, len, sink);
            self.begin_segment();
        }
        Ok(())
    }

    /// FLUSH, DISCARD and ZERO, by the stream.
    pub(super) fn on_plain(&mut self, header: &RequestHeader) -> Result<(), PeerError> {
        self.check_transport(Opcode(header.opcode))?;
        self.check_tag(header)?;
        self.take_plain(header);
        Ok(())
    }

    /// FLUSH, DISCARD and ZERO, by either way.
    pub(super) fn take_plain(&mut self, header: &RequestHeader) {
        let kind = match Opcode(header.opcode) {
            Opcode::FLUSH => Kind::Flush,
            Opcode::DISCARD => Kind::Discard,
            _ => Kind::Zero { deallocate: header.flags & RequestHeader::DEALLOCATE != 0 },
        };
        let admitted = self.admit(header, kind);
        self.hand_out_admitted(header, admitted);
    }

    /// COMPARE_AND_SWAP and FETCH_ADD, over the stream, with their operands.
    pub(super) fn on_atomic(
        &mut self,
        header: &RequestHeader,
        operands: &[u8],
    ) -> Result<(), PeerError> {
        self.check_tag(header)?;
        self.take_atomic(header, operands);
        Ok(())
    }

    /// COMPARE_AND_SWAP and FETCH_ADD, over the stream or the rings.
    pub(super) fn take_atomic(&mut self, header: &RequestHeader, operands: &[u8]) {
        let admitted = match atomic_kind(Opcode(header.opcode), operands) {
            Some(kind) => self.admit(header, kind),
            None => Err((Status::INVALID_FIELD, u64::from(offset!(RequestHeader, len)))),
        };
        self.hand_out_admitted(header, admitted);
    }

    /// DIGEST, by the stream, with its key and length.
    pub(super) fn on_digest(
        &mut self,
        header: &RequestHeader,
        payload: &[u8],
    ) -> Result<(), PeerError> {
        self.check_tag(header)?;
        let admitted = match DigestRequest::read_from_bytes(payload) {
            Ok(DigestRequest { key, range_len, .. }) => {
                self.admit(header, Kind::Digest { range_len: range_len.get(), key })
            }
            Err(_) => Err((Status::INVALID_FIELD, u64::from(offset!(RequestHeader, len)))),
        };
        self.hand_out_admitted(header, admitted);
        Ok(())
    }

    /// Once rings are attached, requests on volumes use only the rings.
    pub(super) fn check_transport(&self, opcode: Opcode) -> Result<(), PeerError> {
        if self.rings.is_some() { Err(PeerError::Sequence(opcode)) } else { Ok(()) }
    }

    /// A tag is below the credits, and names one request at a time.
    #[inline]
    pub(super) fn check_tag(&self, header: &RequestHeader) -> Result<(), PeerError> {
        let tag = header.tag.get();
        match self.slots.is_free(tag) {
            Some(true) => Ok(()),
            Some(false) => Err(PeerError::DuplicateTag(tag)),
            None => {
                let credits = u32::try_from(self.slots.count()).expect("credits are 32 bits");
                Err(PeerError::CreditsExceeded { tag, credits })
            }
        }
    }

    /// Checks whether a request is allowed. If so, puts it into its slot, field by field from
    /// registers, and returns its number of segments.
    #[inline]
    pub(super) fn admit(&mut self, header: &RequestHeader, kind: Kind) -> Result<u32, Refusal> {
        if header.flags & !kind.flags() != 0 {
            return Err((Status::INVALID_FIELD, u64::from(offset!(RequestHeader, flags))));
        }
        let handle = self.handles.get(header.volume.get());
        let handle = handle.ok_or((Status::NO_SUCH_VOLUME, 0))?;
        let (offset, epoch) = (header.offset.get(), header.epoch.get());
        let len = check_len(kind, offset, header.len.get(), self.config.len_max)?;
        handle.check(kind.wanted(epoch, offset, len))?;
        let face = handle.export.face;
        match kind {
            Kind::Zero { .. } => check_blocks(handle.export.block_size, offset, len)?,
            Kind::Digest { .. } if face != Some(Face::Replica) => {
                return Err((Status::UNSUPPORTED, 0));
            }
            Kind::Digest { .. } => {
                let unit = handle.export.block_size.max(BlockSize::B4096);
                check_blocks(unit, offset, len)?;
            }
            _ => {}
        }
        if face.is_some() && self.rings.is_some() {
            return Err((Status::UNSUPPORTED, 0));
        }
        if let Some(rings) = &self.rings
            && kind.has_payload()
            && !rings.contain(header.place.get(), len)
        {
            return Err((Status::INVALID_FIELD, u64::from(offset!(RequestHeader, place))));
        }
        let runs = handle.runs.of_range(offset, len);
        let segments = kind.segments(offset, len, &runs);
        let slot = self.slots.take(header.tag.get());
        slot.kind = kind;
        slot.durable = header.flags & RequestHeader::DURABLE != 0;
        slot.handle = header.volume.get();
        slot.serial = handle.serial;
        slot.generation = self.generation;
        slot.volume = handle.export.volume;
        slot.block_size = handle.export.block_size;
        slot.unit = handle.export.block_size.max(self.config.unit);
        slot.is_remote = handle.export.is_remote;
        slot.offset = offset;
        slot.len = len;
        slot.runs = runs;
        slot.place = header.place.get();
        slot.pending = segments;
        slot.sent_in = face.map(|face| sent_in(face, header, kind));
        slot.unaccepted = if face == Some(Face::Replica) && kind.is_told() { segments } else { 0 };
        Ok(segments)
    }

    /// Hands out a request without payload from the client, if it is allowed.
    #[inline]
    fn hand_out_admitted(&mut self, header: &RequestHeader, admitted: Result<u32, Refusal>) {
        match admitted {
            Ok(segments) => {
                let tag = header.tag.get();
                self.ready.extend((0..segments).map(|segment| Ready::new(tag, segment, None)));
            }
            Err((status, value)) => self.refuse(header, status, value),
        }
    }

    /// Whether a request that was handed out, but has not begun, is still allowed. If it is not,
    /// the engine must complete it as aborted; the answer has the reason.
    #[cold]
    pub fn is_still_allowed(&mut self, tag: Tag) -> bool {
        let (number, _) = parts_of(tag);
        let checked = self.check_again(number);
        if let Err((status, value)) = checked {
            self.slots[number].fail(status, value);
        }
        checked.is_ok()
    }

    /// Checks a request again, because the exports have changed since it was allowed, or a seal is void.
    /// It does not check the epoch of a volume, which was right when the request arrived: a client that
    /// gets the status for a stale epoch assumes that the request had no effect, but parts of a long
    /// request may have taken effect already.
    #[cold]
    pub(super) fn check_again(&mut self, tag: u32) -> Result<(), Refusal> {
        let slot = &self.slots[tag];
        let handle = self.handles.get(slot.handle);
        let handle = handle.filter(|handle| handle.export.volume == slot.volume);
        let handle = handle.ok_or((Status::NO_SUCH_VOLUME, 0))?;
        let checked = if handle.serial == slot.serial {
            handle.check(slot.kind.wanted(handle.epoch, slot.offset, slot.len))
        } else {
            // Its seal is not that of the handle any more.
            Err((Status::STALE_EPOCH, u64::from(handle.epoch)))
        };
        match checked {
            Ok(()) => self.slots[tag].generation = self.generation,
            Err((Status::STALE_EPOCH, _)) if slot.may_be_done_in_part() => {
                return Err((Status::NOT_GRANTED, 0));
            }
            Err(refused) => return Err(refused),
        }
        Ok(())
    }
}

impl Slot {
    /// Whether a part of it may have taken effect before another one.
    fn may_be_done_in_part(&self) -> bool {
        self.kind != Kind::Read && self.kind.segments(self.offset, self.len, &self.runs) > 1
    }
}

impl Kind {
    #[inline]
    const fn wanted(self, epoch: u32, offset: u64, len: u32) -> Wanted {
        let rights = match self {
            Self::Read | Self::Digest { .. } => Rights::READ,
            Self::Write | Self::Zero { .. } | Self::Discard | Self::Flush => Rights::WRITE,
            Self::CompareAndSwap { .. } | Self::FetchAdd { .. } => Rights::READ_WRITE,
        };
        Wanted { epoch, offset, len, rights, is_anywhere: matches!(self, Self::Flush) }
    }

    /// The flags that it may have.
    #[inline]
    const fn flags(self) -> u8 {
        match self {
            Self::Zero { .. } => RequestHeader::DURABLE | RequestHeader::DEALLOCATE,
            Self::Digest { .. } => 0,
            _ => RequestHeader::DURABLE,
        }
    }

    /// Whether the primary of a mirror is told that a replica has accepted it.
    const fn is_told(self) -> bool {
        matches!(self, Self::Write | Self::Zero { .. })
    }

    /// Whether it transfers a volume's bytes.
    const fn has_payload(self) -> bool {
        matches!(self, Self::Read | Self::Write)
    }

    /// The number of engine requests that it becomes.
    #[inline]
    pub(super) fn segments(self, offset: u64, len: u32, runs: &Runs) -> u32 {
        match self {
            Self::Read | Self::Write => segments::count(offset, len),
            Self::Zero { .. } => runs.count(offset, len),
            _ => 1,
        }
    }
}

/// The length of a request's range in bytes, if it is valid.
#[inline]
fn check_len(kind: Kind, offset: u64, len: u32, len_max: u32) -> Result<u32, Refusal> {
    const REFUSED: Refusal = (Status::INVALID_FIELD, offset!(RequestHeader, len) as u64);
    match kind {
        Kind::Read | Kind::Write if len > 0 && len <= len_max => Ok(len),
        Kind::Discard | Kind::Zero { .. } if len > 0 => Ok(len),
        Kind::Digest { range_len, .. } if has_digests(range_len) => Ok(range_len),
        Kind::Flush => Ok(0),
        Kind::CompareAndSwap { .. } | Kind::FetchAdd { .. } => {
            if offset.is_multiple_of(u64::from(WORD_LEN)) {
                Ok(WORD_LEN)
            } else {
                Err((Status::INVALID_FIELD, u64::from(offset!(RequestHeader, offset))))
            }
        }
        _ => Err(REFUSED),
    }
}

/// Whether a range is whole blocks. An engine has no payload to put around parts of blocks.
fn check_blocks(block_size: BlockSize, offset: u64, len: u32) -> Result<(), Refusal> {
    let unit = block_size.bytes();
    if !offset.is_multiple_of(unit.into()) {
        return Err((Status::INVALID_FIELD, u64::from(offset!(RequestHeader, offset))));
    }
    if !len.is_multiple_of(unit) {
        return Err((Status::INVALID_FIELD, u64::from(offset!(RequestHeader, len))));
    }
    Ok(())
}

/// The kind of an atomic operation with its operands; `None` if their length is wrong.
fn atomic_kind(opcode: Opcode, operands: &[u8]) -> Option<Kind> {
    if opcode == Opcode::COMPARE_AND_SWAP {
        let [expected, new] = <[U64; 2]>::read_from_bytes(operands).ok()?;
        return Some(Kind::CompareAndSwap { expected: expected.get(), new: new.get() });
    }
    let addend = U64::read_from_bytes(operands).ok()?;
    Some(Kind::FetchAdd { addend: addend.get() })
}
