//! One core's mirrors: operations in, operations on devices out.
//!
//! A write at the primary locks its range on the mirror's owner core, is sent to the other replica, is
//! written locally when that one has accepted it, and is answered when both have done it. A read at the
//! primary is local. At any other node, both are forwarded to the primary in one hop. A flush flushes
//! both replicas.
//!
//! A part that fails while both replicas are in sync is tried again with the same bytes under the same
//! lock, until it succeeds or a table comes in which that replica is not in sync any more. Whoever makes
//! the tables learns of it from [`Mirrors::poll_failure`].
//!
//! It must not know which connections or devices there are, nor why a table changes.

use std::collections::VecDeque;
use std::sync::Arc;

use nearflash_device::{DeviceOperation, DeviceRequest, DeviceResult, OperationId};
use nearflash_request::Outcome;
use nearflash_units::{ByteOffset, Nanos};
use slab::Slab;

use crate::job::{Job, Next, Part, Stage};
use crate::locks::{Range, RangeLocks, Ticket};
use crate::mutant::Mutant;
use crate::replica::{Accepted, Tag};
use crate::slots::Slots;
use crate::table::{Core, MirrorEntry, MirrorId, MirrorTable, Role, Term};

/// The time for which an operation that changes no data waits for a primary.
pub const HOLD: Nanos = Nanos::from_secs(10);

/// The age from which on a write is not started any more: its host may have given it up, and have
/// written by another path.
pub const REDRIVE: Nanos = Nanos::from_secs(1);

/// The time between two looks at operations that wait, and between two attempts of a part.
pub const RETRY_PERIOD: Nanos = Nanos::from_millis(200);

/// The operations of a job, as numbers in their ids.
const LOCAL: u16 = 0;
const REMOTE: u16 = 1;
/// An operation that a replica has accepted; these have slots of their own.
pub(crate) const APPLY: u16 = 2;

/// An operation on a device, local or remote.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Submission {
    /// The operation.
    pub request: DeviceRequest,
    /// The mirror that it is for.
    pub mirror: MirrorId,
    /// What it has to carry to the remote device.
    pub tag: Option<Tag>,
}

/// A job of a core, as its owner core knows it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Asker {
    core: Core,
    job: OperationId,
}

/// A message between two cores of a node. They arrive in the order in which they were sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum MirrorMessage {
    /// To the owner: a lock is wanted.
    Lock {
        /// Who wants it.
        asker: Asker,
        /// Of this range.
        range: Range,
    },
    /// From the owner: the lock has a ticket, and is held or waits.
    Locked {
        /// The job that asked.
        asker: Asker,
        /// The lock.
        ticket: Ticket,
        /// Whether it is held.
        is_held: bool,
    },
    /// To the owner: the lock is given back.
    Unlock {
        /// The lock.
        ticket: Ticket,
    },
}

/// The mirrors of one core.
#[derive(Debug)]
pub struct Mirrors {
    core: Core,
    now: Nanos,
    table: Arc<MirrorTable>,
    /// The locks of the mirrors that this core owns.
    locks: RangeLocks<Asker>,
    jobs: Slab<Job>,
    slots: Slots,
    pub(crate) accepted: Slab<Accepted>,
    pub(crate) applying: Slots,
    pub(crate) applied: VecDeque<(u64, DeviceResult)>,
    pub(crate) submissions: VecDeque<Submission>,
    ended: VecDeque<(OperationId, DeviceResult)>,
    messages: VecDeque<(Core, MirrorMessage)>,
    pub(crate) failures: VecDeque<(MirrorId, DeviceResult, bool)>,
    /// Locks of this core that were granted to anyone, and are not told yet.
    granted: Vec<(Ticket, Asker)>,
    /// When the operations that wait are looked at.
    look_at: Option<Nanos>,
    #[cfg(test)]
    pub(crate) mutant: Option<Mutant>,
}

/// Public interface.
impl Mirrors {
    /// The mirrors of a core.
    pub fn new(core: Core, table: Arc<MirrorTable>) -> Self {
        Self {
            core,
            now: Nanos(0),
            table,
            locks: RangeLocks::new(),
            jobs: Slab::new(),
            slots: Slots::default(),
            accepted: Slab::new(),
            applying: Slots::default(),
            applied: VecDeque::new(),
            submissions: VecDeque::new(),
            ended: VecDeque::new(),
            messages: VecDeque::new(),
            failures: VecDeque::new(),
            granted: Vec::new(),
            look_at: None,
            #[cfg(test)]
            mutant: None,
        }
    }

    /// The time of this turn.
    pub fn set_now(&mut self, now: Nanos) {
        self.now = now;
    }

    /// Takes an operation on the device that is a mirror.
    pub fn submit(&mut self, request: DeviceRequest) {
        let Some(mirror) = self.table.mirror_of(request.device) else {
            self.ended.push_back((request.id, DeviceResult::Gone));
            return;
        };
        let (since, owner, unneeded) = (self.now, self.core, Part::Unneeded);
        let (stage, ticket, local, remote) = (Stage::Held, None, unneeded, unneeded);
        let job = Job { request, mirror, since, stage, owner, ticket, local, remote };
        let slot = self.jobs.insert(job);
        self.begin(slot);
        self.tell_granted();
    }

    /// The next operation on a device.
    pub fn poll_device(&mut self) -> Option<Submission> {
        self.submissions.pop_front()
    }

    /// The other replica has accepted a write. Its result follows.
    pub fn handle_received(&mut self, id: OperationId) {
        let Some(slot) = self.slot_of(id).filter(|_| id.op == REMOTE) else { return };
        if self.jobs[slot].remote == Part::UnderWay && self.jobs[slot].stage == Stage::Writing {
            self.jobs[slot].remote = Part::Received;
            self.advance(slot);
            self.tell_granted();
        }
    }

    /// An operation has ended.
    pub fn handle_device(&mut self, id: OperationId, result: DeviceResult) {
        if id.op == APPLY {
            return self.end_accepted(id, result);
        }
        let Some(slot) = self.slot_of(id) else { return };
        let job = &mut self.jobs[slot];
        match job.stage {
            Stage::Passing => self.end(slot, result),
            Stage::Writing | Stage::Flushing => {
                let part = if id.op == LOCAL { &mut job.local } else { &mut job.remote };
                *part = Part::of(result);
                if !result.is_done() {
                    self.failures.push_back((job.mirror, result, id.op == LOCAL));
                }
                self.advance(slot);
            }
            Stage::Held | Stage::Locking | Stage::GivenUp => return,
        }
        self.tell_granted();
    }

    /// The next operation on a mirror that has ended.
    pub fn poll_ended(&mut self) -> Option<(OperationId, DeviceResult)> {
        self.ended.pop_front()
    }

    /// The next failure of a part: the mirror, the result, and whether it is the local replica's.
    pub fn poll_failure(&mut self) -> Option<(MirrorId, DeviceResult, bool)> {
        self.failures.pop_front()
    }

    /// The next message to another core.
    pub fn poll_message(&mut self) -> Option<(Core, MirrorMessage)> {
        self.messages.pop_front()
    }

    /// A message from another core.
    pub fn handle_message(&mut self, message: MirrorMessage) {
        match message {
            MirrorMessage::Lock { asker, range } => {
                let (ticket, is_held) = self.locks.acquire(range, asker);
                let answer = MirrorMessage::Locked { asker, ticket, is_held };
                self.messages.push_back((asker.core, answer));
            }
            MirrorMessage::Locked { asker, ticket, is_held } => self.locked(asker, ticket, is_held),
            MirrorMessage::Unlock { ticket } => self.locks.release(ticket, &mut self.granted),
        }
        self.tell_granted();
    }

    /// Replaces the table. What is under way goes by it from now on.
    pub fn set_table(&mut self, table: Arc<MirrorTable>) {
        self.table = table;
        self.look();
    }

    /// The time at which [`Self::handle_timeout`] must be called.
    pub fn poll_timeout(&self) -> Option<Nanos> {
        self.look_at
    }

    /// Ends what has waited for too long, and tries again what failed.
    pub fn handle_timeout(&mut self) {
        if self.look_at.is_some_and(|at| at <= self.now) {
            self.look();
        }
    }

    /// What this core is to the mirror, and in which term. An operation that another node forwards is
    /// submitted only if this is the primary in the term that it carries: nobody forwards on.
    pub fn role(&self, mirror: MirrorId) -> Option<(Role, Term)> {
        self.entry(mirror).map(|entry| (entry.role, entry.term))
    }

    /// Whether nothing is under way, waits or is locked.
    pub fn is_idle(&self) -> bool {
        self.jobs.is_empty() && self.accepted.is_empty() && self.locks.is_empty()
    }
}

impl Mirrors {
    pub(crate) fn entry(&self, mirror: MirrorId) -> Option<&MirrorEntry> {
        self.table.entry(mirror)
    }

    /// Whether a deliberate bug is on.
    pub(crate) fn is(&self, mutant: Mutant) -> bool {
        #[cfg(test)]
        return self.mutant == Some(mutant);
        #[cfg(not(test))]
        return {
            _ = mutant;
            false
        };
    }

    fn slot_of(&self, id: OperationId) -> Option<usize> {
        self.slots.slot_of(id).filter(|slot| self.jobs.contains(*slot))
    }

    /// Begins a job of which nothing was sent.
    fn begin(&mut self, slot: usize) {
        let job = &mut self.jobs[slot];
        job.stage = Stage::Held;
        let Some(entry) = self.table.entry(job.mirror) else {
            return self.end(slot, DeviceResult::Gone);
        };
        let DeviceRequest { operation, offset, len, .. } = job.request;
        if operation != DeviceOperation::Flush && !entry.holds(offset, len) {
            return self.end(slot, DeviceResult::Remote(Outcome::OutOfRange));
        }
        match entry.role {
            Role::Primary => self.begin_at_primary(slot),
            Role::Nobody => self.wait(),
            Role::Secondary | Role::Elsewhere => match entry.primary {
                Some(device) => {
                    let tag = Tag { term: entry.term, session: 0 };
                    let request = DeviceRequest { device, ..job.request };
                    self.pass(slot, request, Some(tag));
                }
                None => self.wait(),
            },
        }
    }

    fn begin_at_primary(&mut self, slot: usize) {
        use DeviceOperation as Op;
        let job = self.jobs[slot];
        let entry = *self.table.entry(job.mirror).expect("the caller has seen it");
        let Some(local) = entry.local else { return self.wait() };
        match job.request.operation {
            Op::Read { .. } | Op::Allocation => {
                let offset = ByteOffset(local.start.0 + job.request.offset.0);
                let request = DeviceRequest { device: local.device, offset, ..job.request };
                self.pass(slot, request, None);
            }
            Op::Flush => self.flush(slot, &entry),
            Op::WriteZeroes { .. } if !entry.zeroes => self.end(slot, DeviceResult::Unsupported),
            // A hint may leave different bytes on different replicas, so it is zeroes or nothing.
            Op::Deallocate if !self.is(Mutant::Hint) => {
                if !entry.zeroes || !entry.deallocates {
                    return self.end(slot, DeviceResult::Done);
                }
                self.jobs[slot].request.operation = Op::WriteZeroes { deallocate: true };
                self.lock(slot, entry.owner);
            }
            Op::Write { .. } | Op::WriteZeroes { .. } | Op::Deallocate => {
                self.lock(slot, entry.owner)
            }
        }
    }

    fn pass(&mut self, slot: usize, request: DeviceRequest, tag: Option<Tag>) {
        self.jobs[slot].stage = Stage::Passing;
        let id = self.slots.id(slot, LOCAL);
        let mirror = self.jobs[slot].mirror;
        self.submissions.push_back(Submission {
            request: DeviceRequest { id, ..request },
            mirror,
            tag,
        });
    }

    fn flush(&mut self, slot: usize, entry: &MirrorEntry) {
        let needs = |is_volatile: bool| if is_volatile { Part::Due } else { Part::Unneeded };
        let job = &mut self.jobs[slot];
        job.stage = Stage::Flushing;
        job.local = needs(entry.local.is_some_and(|local| local.volatile_cache));
        job.remote = needs(entry.remote.is_some_and(|remote| remote.volatile_cache));
        if self.is(Mutant::LocalFlush) {
            self.jobs[slot].remote = Part::Unneeded;
        }
        if self.jobs[slot].remote == Part::Due {
            self.send(slot, REMOTE);
        }
        if self.jobs[slot].local == Part::Due {
            self.send(slot, LOCAL);
        }
        self.advance(slot);
    }

    /// Asks for the range of a write.
    fn lock(&mut self, slot: usize, owner: Core) {
        if self.is(Mutant::NoLock) {
            return self.write(slot);
        }
        let asker = Asker { core: self.core, job: self.slots.id(slot, LOCAL) };
        let job = &mut self.jobs[slot];
        (job.stage, job.owner) = (Stage::Locking, owner);
        let DeviceRequest { offset, len, .. } = job.request;
        let range = Range { mirror: job.mirror, offset, len };
        if owner != self.core {
            self.messages.push_back((owner, MirrorMessage::Lock { asker, range }));
            return self.wait();
        }
        let (ticket, is_held) = self.locks.acquire(range, asker);
        self.jobs[slot].ticket = Some(ticket);
        if is_held { self.write(slot) } else { self.wait() }
    }

    /// The owner has given a ticket to a job of this core, or grants its lock.
    fn locked(&mut self, asker: Asker, ticket: Ticket, is_held: bool) {
        // A job that has ended has given its ticket back: this message was under way meanwhile.
        let Some(slot) = self.slot_of(asker.job) else { return };
        self.jobs[slot].ticket = Some(ticket);
        match self.jobs[slot].stage {
            Stage::GivenUp => {
                self.unlock(slot);
                self.remove(slot);
            }
            Stage::Locking if is_held => self.lock_held(slot),
            _ => {}
        }
    }

    fn lock_held(&mut self, slot: usize) {
        let job = &self.jobs[slot];
        if self.is_too_old(job) {
            return self.end(slot, DeviceResult::Remote(Outcome::DeviceUnavailable));
        }
        match self.table.entry(job.mirror) {
            Some(entry) if entry.role == Role::Primary => self.write(slot),
            _ => {
                self.unlock(slot);
                self.begin(slot);
            }
        }
    }

    fn is_too_old(&self, job: &Job) -> bool {
        let span = if job.changes_data() { REDRIVE } else { HOLD };
        job.since.plus(span) < self.now && !(self.is(Mutant::OldWrite) && job.changes_data())
    }

    /// Starts a write that holds its range.
    fn write(&mut self, slot: usize) {
        let has_remote =
            self.entry(self.jobs[slot].mirror).is_some_and(|entry| entry.remote.is_some());
        let job = &mut self.jobs[slot];
        (job.stage, job.local, job.remote) = (Stage::Writing, Part::Due, Part::Unneeded);
        if has_remote {
            self.send(slot, REMOTE);
        }
        if self.is(Mutant::LocalFirst) {
            self.send(slot, LOCAL);
        }
        self.advance(slot);
    }

    /// Submits one part of a job.
    fn send(&mut self, slot: usize, op: u16) {
        let id = self.slots.id(slot, op);
        let job = &mut self.jobs[slot];
        let entry = self.table.entry(job.mirror).expect("the caller has seen it");
        let submission = if op == LOCAL {
            job.local = Part::UnderWay;
            let local = entry.local.expect("a primary has a replica");
            let offset = ByteOffset(local.start.0 + job.request.offset.0);
            let request = DeviceRequest { id, device: local.device, offset, ..job.request };
            Submission { request, mirror: job.mirror, tag: None }
        } else {
            job.remote = Part::UnderWay;
            let remote = entry.remote.expect("the caller has seen it");
            let tag = Tag { term: entry.term, session: remote.session };
            let request = DeviceRequest { id, device: remote.device, ..job.request };
            Submission { request, mirror: job.mirror, tag: Some(tag) }
        };
        self.submissions.push_back(submission);
    }

    /// Goes on with a job that is under way at both replicas.
    fn advance(&mut self, slot: usize) {
        let job = &self.jobs[slot];
        let mut next = job.next(self.table.entry(job.mirror));
        if self.is(Mutant::OneCopy) && job.local == Part::Done && job.stage == Stage::Writing {
            next = Next::End(DeviceResult::Done);
        }
        match next {
            Next::Wait => {}
            Next::Retry => self.wait(),
            Next::Local => self.send(slot, LOCAL),
            Next::End(result) => self.end(slot, result),
            Next::Lost => self.end(slot, DeviceResult::Remote(Outcome::PathLost)),
            Next::Anew => self.begin(slot),
        }
    }

    /// Something waits, and has to be looked at later.
    pub(crate) fn wait(&mut self) {
        let at = self.now.plus(RETRY_PERIOD);
        self.look_at.get_or_insert(at);
    }

    /// Looks at all that waits.
    fn look(&mut self) {
        self.look_at = None;
        for slot in 0..self.jobs.capacity() {
            if self.jobs.contains(slot) {
                self.look_at_job(slot);
            }
        }
        for slot in 0..self.accepted.capacity() {
            if self.accepted.contains(slot) {
                self.look_at_accepted(slot);
            }
            if self.accepted.contains(slot) {
                self.apply_again(slot);
            }
        }
        self.tell_granted();
    }

    fn look_at_job(&mut self, slot: usize) {
        let job = self.jobs[slot];
        match job.stage {
            Stage::Held | Stage::Locking if self.is_too_old(&job) => {
                self.end(slot, DeviceResult::Remote(Outcome::DeviceUnavailable));
            }
            Stage::Held => self.begin(slot),
            Stage::Locking => self.wait(),
            Stage::Writing | Stage::Flushing => self.try_again(slot),
            Stage::GivenUp | Stage::Passing => {}
        }
    }

    /// Sends those parts again that failed, if they are still needed.
    fn try_again(&mut self, slot: usize) {
        let job = self.jobs[slot];
        if job.next(self.table.entry(job.mirror)) == Next::Retry {
            if matches!(job.remote, Part::Failed(_)) {
                self.send(slot, REMOTE);
            }
            if matches!(job.local, Part::Failed(_)) {
                self.send(slot, LOCAL);
            }
        }
        self.advance(slot);
    }

    /// Ends a job.
    fn end(&mut self, slot: usize, result: DeviceResult) {
        self.ended.push_back((self.jobs[slot].request.id, result));
        if self.jobs[slot].stage == Stage::Locking && self.jobs[slot].ticket.is_none() {
            self.jobs[slot].stage = Stage::GivenUp;
            return;
        }
        self.unlock(slot);
        self.remove(slot);
    }

    fn remove(&mut self, slot: usize) {
        _ = self.slots.id(slot, LOCAL);
        self.slots.end(slot);
        self.jobs.remove(slot);
    }

    fn unlock(&mut self, slot: usize) {
        let Some(ticket) = self.jobs[slot].ticket.take() else { return };
        let owner = self.jobs[slot].owner;
        if owner == self.core {
            self.locks.release(ticket, &mut self.granted);
        } else {
            self.messages.push_back((owner, MirrorMessage::Unlock { ticket }));
        }
    }

    /// Tells everyone whose lock was granted. A job that is too old gives its lock back at once, so
    /// this is a loop instead of a recursion as deep as the queue is long.
    fn tell_granted(&mut self) {
        let mut at = 0;
        while let Some((ticket, asker)) = self.granted.get(at).copied() {
            at += 1;
            if asker.core == self.core {
                self.locked(asker, ticket, true);
            } else {
                let answer = MirrorMessage::Locked { asker, ticket, is_held: true };
                self.messages.push_back((asker.core, answer));
            }
        }
        self.granted.clear();
    }
}
