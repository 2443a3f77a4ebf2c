//! The copy of a mirror to a replica that returns.
//!
//! The owner core of the mirror goes through it in pieces. It locks each piece as a write does, reads it
//! here, asks there for the digests of its blocks, and writes those blocks there that differ. If it is known
//! which parts may differ ([`Written`]), the others are left out. So a write
//! waits for one piece at most, and no write is lost: one that ended before the piece was locked is in the
//! bytes that are read here, and a later one goes to both replicas. In the end both replicas are flushed: they
//! are equal then, whatever is lost with the power of either.
//!
//! A block whose digests are equal is not written, so two blocks with equal digests would stay different
//! and unnoticed. Digests therefore have a random key, which is new for each copy: nobody can prepare such
//! blocks, and chance does not find any.
//!
//! It must not know buffers and how a digest is computed; the caller does, and compares.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range as Bytes;
use std::sync::Arc;

use nearflash_device::{DeviceOperation, DeviceRequest, DeviceResult, OperationId};
use nearflash_request::{BufferId, SentIn};
use nearflash_units::{ByteLen, ByteOffset};
use slab::Slab;

use super::{Asker, COPY, Mirrors, Submission};
use crate::locks::{Range, Ticket};
use crate::mutant::Mutant;
use crate::slots::Slots;
use crate::table::{MirrorEntry, MirrorId, Remote, Role, Side};
use crate::written::Written;

/// The length of a piece.
const PIECE_LEN: ByteLen = if cfg!(test) { ByteLen(8 * 1024) } else { ByteLen(256 * 1024) };

/// The pieces of a mirror that are under way.
const PIECES_MAX: u32 = 2;

/// The operations of a piece, as numbers in their ids: the reads, and from the last one on the writes.
const READ_HERE: u16 = COPY;
const DIGEST_THERE: u16 = COPY + 1;
const WRITE: u16 = COPY + 2;

/// The key of the digests of one copy: random, and used by no other.
pub type DigestKey = [u8; 16];

/// The caller's buffers.
pub trait Buffers {
    /// A buffer of this length, if one is free.
    fn take(&mut self, len: ByteLen) -> Option<BufferId>;
    /// A buffer for the digests of so many bytes, if one is free.
    fn take_for_digests(&mut self, len: ByteLen) -> Option<BufferId>;
    /// Gives a buffer back.
    fn give(&mut self, buffer: BufferId);
    /// The runs of whole blocks, in order, in which the first `len` bytes of `here` do not have the digests
    /// that `there` holds.
    fn differing(
        &mut self,
        here: BufferId,
        there: BufferId,
        len: ByteLen,
        key: &DigestKey,
    ) -> Vec<Bytes<u64>>;
}

/// A mirror whose copy is complete.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Copied {
    /// The mirror.
    pub mirror: MirrorId,
    /// The session of the replica.
    pub session: u32,
    /// The bytes whose digests were compared; more than the mirror has if pieces failed and were compared
    /// again.
    pub compared: u64,
    /// The bytes that differed and were written.
    pub written: u64,
}

/// The copies of one core.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    mirrors: BTreeMap<MirrorId, Copy>,
    pieces: Slab<Piece>,
    slots: Slots,
    /// Pieces whose bytes are here.
    read: VecDeque<usize>,
    /// Buffers that are not used any more.
    free: Vec<BufferId>,
    complete: VecDeque<Copied>,
}

#[derive(Debug)]
struct Copy {
    session: u32,
    key: DigestKey,
    /// The parts to compare; `None` for all.
    scope: Option<Arc<Written>>,
    /// The first byte that no piece has.
    next: u64,
    pieces: u32,
    compared: u64,
    written: u64,
    /// The last piece, which only flushes, has begun.
    is_flushing: bool,
}

#[derive(Debug)]
struct Piece {
    mirror: MirrorId,
    session: u32,
    key: DigestKey,
    offset: ByteOffset,
    len: ByteLen,
    ticket: Option<Ticket>,
    /// For its bytes here and its digests there; `None` for a flush.
    buffers: Option<(BufferId, BufferId)>,
    stage: Stage,
    /// Operations under way.
    under_way: u32,
    has_failed: bool,
    /// The other replica has given its digests.
    has_digests: bool,
    compared: u64,
    written: u64,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Stage {
    Locking,
    Reading,
    Writing,
    Flushing,
}

fn take_two(buffers: &mut impl Buffers, len: ByteLen) -> Option<(BufferId, BufferId)> {
    let here = buffers.take(len)?;
    let there = buffers.take_for_digests(len);
    if there.is_none() {
        buffers.give(here);
    }
    Some((here, there?))
}

impl Copy {
    /// The next bytes to compare; empty at the end of the mirror.
    fn next_piece(&self, mirror_len: u64) -> Bytes<u64> {
        let (from, end) = (self.next.min(mirror_len), mirror_len);
        match &self.scope {
            None => from..end.min(from + PIECE_LEN.0),
            Some(scope) => {
                let run = scope.next(from, PIECE_LEN).unwrap_or(end..end);
                run.start.min(end)..run.end.min(end)
            }
        }
    }
}

impl Copies {
    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty() && self.free.is_empty()
    }
}

/// Public interface.
impl Mirrors {
    /// Copies what differs to the replica with this session, if this core owns the mirror: in the parts of the
    /// scope, or everywhere without one. The key is random, and was not used before.
    ///
    /// # Panics
    /// When the mirror is not whole blocks of 4 KiB, which is a bug of the caller.
    pub fn begin_copy(
        &mut self,
        mirror: MirrorId,
        session: u32,
        scope: Option<Arc<Written>>,
        key: DigestKey,
    ) {
        let Some(entry) = self.entry(mirror).filter(|entry| entry.owner == self.core) else {
            return;
        };
        if entry.remote_in(session).is_some() {
            assert!(entry.len.0.is_multiple_of(4096), "a mirror is whole blocks of 4 KiB");
            let (next, pieces, compared, written, is_flushing) = (0, 0, 0, 0, false);
            let copy = Copy { session, key, scope, next, pieces, compared, written, is_flushing };
            self.copies.mirrors.insert(mirror, copy);
        }
    }

    /// Goes on with copies. To be called in every turn, after the results were handed in.
    pub fn copy(&mut self, buffers: &mut impl Buffers) {
        self.copies.free.drain(..).for_each(|buffer| buffers.give(buffer));
        while let Some(slot) = self.copies.read.pop_front() {
            let piece = &mut self.copies.pieces[slot];
            let (here, there) = piece.buffers.expect("it has been read");
            let runs = buffers.differing(here, there, piece.len, &piece.key);
            piece.compared += piece.len.0;
            self.write_runs(slot, &runs);
        }
        let mirrors: Vec<MirrorId> = self.copies.mirrors.keys().copied().collect();
        for mirror in mirrors {
            while self.begin_piece(mirror, buffers) {}
        }
        self.copies.free.drain(..).for_each(|buffer| buffers.give(buffer));
        self.tell_granted();
    }

    /// The next copy that is complete.
    pub fn poll_copied(&mut self) -> Option<Copied> {
        self.copies.complete.pop_front()
    }

    /// The mirrors that this core copies, and how far each is.
    pub fn copies(&self) -> impl Iterator<Item = (MirrorId, ByteLen)> + '_ {
        self.copies.mirrors.iter().map(|(mirror, copy)| (*mirror, ByteLen(copy.next)))
    }

    /// The number of mirrors that this core copies, and the bytes that it has not gone through yet.
    pub fn left_to_copy(&self) -> (u64, ByteLen) {
        let left = self.copies().map(|(mirror, done)| {
            let len = self.table.entry(mirror).map_or(0, |entry| entry.len.0);
            len.saturating_sub(done.0)
        });
        left.fold((0, ByteLen(0)), |(copies, all), left| (copies + 1, ByteLen(all.0 + left)))
    }

    /// Whether a copy waits for [`Self::copy`] to be called.
    pub fn is_copying(&self) -> bool {
        !self.copies.mirrors.is_empty() || !self.copies.is_empty()
    }
}

impl Mirrors {
    /// The entry of a mirror, and the replica, if it is still to be copied in this session.
    fn copy_entry(&self, mirror: MirrorId, session: u32) -> Option<(MirrorEntry, Remote)> {
        let entry = self.entry(mirror).filter(|entry| entry.role == Role::Primary)?;
        Some((*entry, entry.remote_in(session)?))
    }

    /// Begins the next piece. Returns `false` at the end, and when buffers are missing.
    fn begin_piece(&mut self, mirror: MirrorId, buffers: &mut impl Buffers) -> bool {
        let Some(copy) = self.copies.mirrors.get_mut(&mirror) else { return false };
        let (session, key) = (copy.session, copy.key);
        let len = self.table.entry(mirror).map_or(0, |entry| entry.len.0);
        let piece = copy.next_piece(len);
        let left = piece.end - piece.start;
        if copy.pieces >= PIECES_MAX || left == 0 && (copy.pieces > 0 || copy.is_flushing) {
            return false;
        }
        let (offset, len) = (ByteOffset(piece.start), ByteLen(left));
        let taken = if left == 0 {
            None
        } else {
            let taken = take_two(buffers, len);
            if taken.is_none() {
                self.wait();
                return false;
            }
            taken
        };
        let Some(copy) = self.copies.mirrors.get_mut(&mirror) else { return false };
        copy.pieces += 1;
        copy.next = piece.end;
        copy.is_flushing = left == 0;
        let stage = if left == 0 { Stage::Flushing } else { Stage::Locking };
        let slot = self.copies.pieces.insert(Piece {
            mirror,
            session,
            key,
            offset,
            len,
            ticket: None,
            buffers: taken,
            stage,
            under_way: 0,
            has_failed: false,
            has_digests: false,
            compared: 0,
            written: 0,
        });
        if stage == Stage::Flushing {
            self.flush_copy(slot);
        } else {
            self.lock_piece(slot);
        }
        true
    }

    fn lock_piece(&mut self, slot: usize) {
        if self.is(Mutant::CopyUnlocked) {
            return self.read_piece(slot);
        }
        let asker = Asker { core: self.core, job: self.copies.slots.id(slot, COPY) };
        let piece = &mut self.copies.pieces[slot];
        (piece.stage, piece.has_failed) = (Stage::Locking, false);
        let range = Range { mirror: piece.mirror, offset: piece.offset, len: piece.len };
        let (ticket, is_held) = self.locks.acquire(range, asker);
        piece.ticket = Some(ticket);
        if is_held {
            self.read_piece(slot);
        }
    }

    /// This node cannot read a piece. Writes of hosts, which may mend it, do not wait for that. The other
    /// node has answered, so nothing of an earlier attempt is under way there.
    fn unlock_piece(&mut self, slot: usize) {
        if let Some(ticket) = self.copies.pieces[slot].ticket.take() {
            self.locks.release(ticket, &mut self.granted);
        }
        self.wait();
    }

    fn piece_of(&self, id: OperationId) -> Option<usize> {
        self.copies.slots.slot_of(id).filter(|slot| self.copies.pieces.contains(*slot))
    }

    /// The lock of a piece is held.
    pub(crate) fn copy_locked(&mut self, id: OperationId) {
        if let Some(slot) = self.piece_of(id) {
            self.read_piece(slot);
        }
    }

    fn read_piece(&mut self, slot: usize) {
        let Piece { mirror, session, key, offset, len, buffers, .. } = self.copies.pieces[slot];
        let Some((entry, remote)) = self.copy_entry(mirror, session) else {
            return self.end_piece(slot);
        };
        let (here, there) = buffers.expect("a piece that is read has buffers");
        let local = entry.local.expect("a primary has a replica");
        let piece = &mut self.copies.pieces[slot];
        (piece.stage, piece.under_way, piece.has_failed) = (Stage::Reading, 2, false);
        piece.has_digests = false;
        let read =
            |buffer| DeviceOperation::Read { buffer: Some(buffer), buffer_offset: ByteLen(0) };
        let id = self.copies.slots.id(slot, READ_HERE);
        let place = ByteOffset(local.start.0 + offset.0);
        let operation = read(here);
        let request = DeviceRequest { id, device: local.device, operation, offset: place, len };
        self.submissions.push_back(Submission::new(request, mirror, None));
        let id = self.copies.slots.id(slot, DIGEST_THERE);
        let operation = read(there);
        let request = DeviceRequest { id, device: remote.device, operation, offset, len };
        let sent = SentIn { is_digest: true, ..entry.sent_in(session) };
        let submission = Submission::new(request, mirror, Some(sent));
        self.submissions.push_back(Submission { digests: Some(key), ..submission });
    }

    fn write_runs(&mut self, slot: usize, runs: &[Bytes<u64>]) {
        let Piece { mirror, session, offset, buffers, .. } = self.copies.pieces[slot];
        let Some((entry, remote)) = self.copy_entry(mirror, session) else {
            return self.end_piece(slot);
        };
        if runs.is_empty() {
            return self.complete_piece(slot);
        }
        let (here, _) = buffers.expect("a piece that was read has buffers");
        let piece = &mut self.copies.pieces[slot];
        piece.stage = Stage::Writing;
        for (number, run) in (WRITE..).zip(runs) {
            let len = ByteLen(run.end - run.start);
            self.copies.pieces[slot].under_way += 1;
            self.copies.pieces[slot].written += len.0;
            let id = self.copies.slots.id(slot, number);
            let buffer_offset = ByteLen(run.start);
            let operation = DeviceOperation::Write { buffer: here, buffer_offset, durable: false };
            let offset = ByteOffset(offset.0 + run.start);
            let request = DeviceRequest { id, device: remote.device, operation, offset, len };
            let sent = Some(entry.sent_in(session));
            self.submissions.push_back(Submission::new(request, mirror, sent));
        }
    }

    fn flush_copy(&mut self, slot: usize) {
        let Piece { mirror, session, .. } = self.copies.pieces[slot];
        let Some((entry, remote)) = self.copy_entry(mirror, session) else {
            return self.end_piece(slot);
        };
        let local = entry.local.expect("a primary has a replica");
        let is_exchanged = entry.remotes.iter().all(Option::is_some);
        let is_unflushed =
            self.is(Mutant::CopyUnflushed) || is_exchanged && self.is(Mutant::ExchangedUnflushed);
        let there = remote.volatile_cache && !is_unflushed;
        let here = local.volatile_cache && !self.is(Mutant::SourceUnflushed);
        if !there && !here {
            return self.complete_piece(slot);
        }
        let piece = &mut self.copies.pieces[slot];
        (piece.under_way, piece.has_failed) = (u32::from(there) + u32::from(here), false);
        let (operation, offset, len) = (DeviceOperation::Flush, ByteOffset(0), ByteLen(0));
        if there {
            let id = self.copies.slots.id(slot, WRITE);
            let request = DeviceRequest { id, device: remote.device, operation, offset, len };
            let sent = Some(entry.sent_in(session));
            self.submissions.push_back(Submission::new(request, mirror, sent));
        }
        if here {
            let id = self.copies.slots.id(slot, READ_HERE);
            let request = DeviceRequest { id, device: local.device, operation, offset, len };
            self.submissions.push_back(Submission::new(request, mirror, None));
        }
    }

    /// An operation of a copy has ended.
    pub(crate) fn copied(&mut self, id: OperationId, result: DeviceResult) {
        let Some(slot) = self.piece_of(id) else { return };
        let piece = &mut self.copies.pieces[slot];
        piece.under_way -= 1;
        piece.has_failed |= !result.is_done();
        piece.has_digests |= id.op == DIGEST_THERE && result.is_done();
        if !result.is_done() && !crate::job::is_unreached(result) {
            let side = if id.op == READ_HERE { Side::Local } else { Side::Remote(piece.session) };
            self.failures.push_back((piece.mirror, result, side));
        }
        if piece.under_way > 0 {
            return;
        }
        match piece.stage {
            Stage::Reading if piece.has_failed && piece.has_digests => self.unlock_piece(slot),
            _ if piece.has_failed => self.wait(),
            Stage::Reading => self.copies.read.push_back(slot),
            Stage::Writing | Stage::Flushing => self.complete_piece(slot),
            Stage::Locking => {}
        }
    }

    /// Looks at pieces that failed, or that are not needed any more.
    pub(crate) fn look_at_copies(&mut self) {
        let is_over = |this: &Self, mirror, session| this.copy_entry(mirror, session).is_none();
        let mirrors = self.copies.mirrors.iter().map(|(mirror, copy)| (*mirror, copy.session));
        let over: Vec<MirrorId> = mirrors
            .filter(|(mirror, session)| is_over(self, *mirror, *session))
            .map(|(mirror, _)| mirror)
            .collect();
        for mirror in over {
            self.copies.mirrors.remove(&mirror);
        }
        for slot in 0..self.copies.pieces.capacity() {
            let Some(piece) = self.copies.pieces.get(slot) else { continue };
            let is_over = is_over(self, piece.mirror, piece.session);
            match piece.stage {
                Stage::Locking if is_over => self.end_piece(slot),
                _ if !piece.has_failed || piece.under_way > 0 => {}
                _ if is_over => self.end_piece(slot),
                Stage::Flushing => self.flush_copy(slot),
                _ if piece.ticket.is_none() => self.lock_piece(slot),
                _ => self.read_piece(slot),
            }
        }
    }

    /// A piece is equal on both replicas.
    fn complete_piece(&mut self, slot: usize) {
        let Piece { mirror, session, stage, .. } = self.copies.pieces[slot];
        self.end_piece(slot);
        if stage == Stage::Flushing
            && self.copies.mirrors.get(&mirror).is_some_and(|it| it.session == session)
        {
            let Copy { compared, written, .. } =
                self.copies.mirrors.remove(&mirror).expect("it is there");
            self.copies.complete.push_back(Copied { mirror, session, compared, written });
        }
    }

    fn end_piece(&mut self, slot: usize) {
        _ = self.copies.slots.id(slot, COPY);
        self.copies.slots.end(slot);
        let piece = self.copies.pieces.remove(slot);
        self.copies.read.retain(|read| *read != slot);
        if let Some((here, there)) = piece.buffers {
            self.copies.free.extend([here, there]);
        }
        if let Some(ticket) = piece.ticket {
            self.locks.release(ticket, &mut self.granted);
        }
        let Some(copy) = self.copies.mirrors.get_mut(&piece.mirror) else { return };
        if copy.session != piece.session {
            return;
        }
        copy.pieces -= 1;
        copy.compared += piece.compared;
        copy.written += piece.written;
    }
}
