//! One core's mirrors: operations in, operations on devices out.
//!
//! A write at the primary locks its range on the mirror's owner core, is sent to the other replicas, is
//! written locally when these have accepted it, and is answered when all have done it. A read at the
//! primary is local. At any other node, both are forwarded to the primary in one hop. A flush flushes
//! all replicas. There is one other replica, or two while a third one takes the place of another.
//!
//! A part that fails while other replicas are in sync is tried again with the same bytes under the same
//! lock, until it succeeds or a table comes in which that replica is not in sync any more. The caller that
//! makes the tables learns of it from [`Mirrors::poll_failure`]. A flush that a device failed is not tried
//! again: it waits until that replica is not in sync any more.
//!
//! A read that the device of the primary fails is read from the other replica in sync (`repair`). A primary
//! that has stopped for a handover completes its writes ([`Mirrors::is_drained`]).
//!
//! It must not know which connections or devices there are, nor why a table changes.

mod copy;
mod faces;
mod jobs;
mod lost;
mod repair;
mod replica;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use nearflash_device::{
    Cause, DeviceId, DeviceOperation, DeviceRequest, DeviceResult, Health, MirrorKey, OperationId,
    Owner,
};
use nearflash_request::{Outcome, SentIn};
use nearflash_units::{ByteLen, ByteOffset, Nanos, index};
use slab::Slab;

use crate::job::{Job, Part, Stage, is_unreached};
use crate::locks::{Range, RangeLocks, Ticket};
use crate::mutant::Mutant;
use crate::slots::Slots;
use crate::table::{Core, MirrorId, MirrorTable, REMOTES_MAX, Role, Side, Term};
use crate::written::Written;
use copy::Copies;
pub use copy::{Buffers, Copied, DigestKey};
use faces::Faces;
use lost::Losses;
use replica::Accepted;
pub use replica::Refusal;

/// The time for which an operation that changes no data waits for a primary.
pub const HOLD: Nanos = Nanos::from_secs(10);

/// The age from which on a write is not started any more: its host may have given it up, and have
/// written by another path.
pub const REDRIVE: Nanos = Nanos::from_secs(1);

/// The time between two looks at operations that wait, and between two attempts of a part.
pub const RETRY_PERIOD: Nanos = Nanos::from_millis(20);

/// The age of an operation from which on a replica that has not done it counts as failed.
pub const REPLICA_TIMEOUT: Nanos = Nanos::from_secs(10);

/// The time between two looks for replicas that are slow.
const SLOW_PERIOD: Nanos = Nanos::from_secs(1);

/// The operations of a job, as numbers in their ids: at this node, and at the others by their places in the table.
const LOCAL: u16 = 0;
const REMOTES: [u16; REMOTES_MAX] = [1, 2];
/// An operation that a replica has accepted; these have slots of their own.
pub(crate) const APPLY: u16 = 3;
/// Operations of a copy have this number and higher ones; these have slots of their own, too.
pub(crate) const COPY: u16 = 4;

/// The place of another replica, if the operation of a job is one at that.
fn place_of(op: u16) -> Option<usize> {
    REMOTES.iter().position(|remote| *remote == op)
}

/// An operation on a device, local or remote.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Submission {
    /// The operation.
    pub request: DeviceRequest,
    /// The mirror that it is for.
    pub mirror: MirrorId,
    /// The request that it is for. To a remote device, it carries a term and a session.
    pub cause: Cause,
    /// It is a read on the replica of another node that gets the digests of the blocks in place of their
    /// bytes, with this key.
    pub digests: Option<DigestKey>,
}

impl Submission {
    pub(crate) fn new(request: DeviceRequest, mirror: MirrorId, sent_in: Option<SentIn>) -> Self {
        Self { request, mirror, cause: Cause { sent_in, ..Cause::NONE }, digests: None }
    }
}

/// A job of a core, as its owner core knows it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Asker {
    pub(crate) core: Core,
    pub(crate) job: OperationId,
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
        /// The last term of those who held locks of the mirror before.
        term: Term,
    },
    /// To the owner: the lock is given back.
    Unlock {
        /// The lock.
        ticket: Ticket,
        /// The term of the one who held it.
        term: Term,
    },
}

/// The mirrors of one core.
#[derive(Debug)]
pub struct Mirrors {
    pub(crate) core: Core,
    pub(crate) now: Nanos,
    pub(crate) table: Arc<MirrorTable>,
    /// The locks of the mirrors that this core owns.
    pub(crate) locks: RangeLocks<Asker>,
    /// By mirror that this core owns: the last term of those who held locks of it.
    terms: Vec<Term>,
    pub(crate) jobs: Slab<Job>,
    slots: Slots,
    pub(crate) accepted: Slab<Accepted>,
    pub(crate) applying: Slots,
    pub(crate) submissions: VecDeque<Submission>,
    pub(crate) ended: VecDeque<(OperationId, DeviceResult)>,
    messages: VecDeque<(Core, MirrorMessage)>,
    pub(crate) failures: VecDeque<(MirrorId, DeviceResult, Side)>,
    faces: Faces,
    /// Mirrors of which a read was repaired.
    repaired: VecDeque<MirrorId>,
    losses: Losses,
    /// By mirror: until when its reads may be answered.
    leases: Vec<Nanos>,
    pub(crate) copies: Copies,
    /// The parts that this core has written, or accepted writes of, since the process started.
    written: BTreeMap<MirrorKey, Written>,
    /// Locks of this core that were granted to anyone, and are not told yet.
    pub(crate) granted: Vec<(Ticket, Asker)>,
    /// When the operations that wait are looked at.
    look_at: Option<Nanos>,
    /// When the operations under way are looked at.
    slow_at: Option<Nanos>,
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
            terms: Vec::new(),
            jobs: Slab::new(),
            slots: Slots::default(),
            accepted: Slab::new(),
            applying: Slots::default(),
            submissions: VecDeque::new(),
            ended: VecDeque::new(),
            messages: VecDeque::new(),
            failures: VecDeque::new(),
            faces: Faces::default(),
            repaired: VecDeque::new(),
            losses: Losses::default(),
            leases: Vec::new(),
            copies: Copies::default(),
            written: BTreeMap::new(),
            granted: Vec::new(),
            look_at: None,
            slow_at: None,
            #[cfg(test)]
            mutant: None,
        }
    }

    /// The time of this turn.
    pub fn set_now(&mut self, now: Nanos) {
        self.now = now;
    }

    #[cfg(test)]
    pub(crate) fn submit(&mut self, mirror: MirrorId, request: DeviceRequest) {
        self.submit_from(mirror, request, Cause::NONE);
    }

    #[cfg(test)]
    pub(crate) fn submit_forwarded(&mut self, mirror: MirrorId, request: DeviceRequest) {
        let sent = SentIn { term: 0, session: 0, is_digest: false };
        self.submit_from(mirror, request, Cause { sent_in: Some(sent), ..Cause::NONE });
    }

    /// Takes an operation on a mirror.
    pub fn submit_from(&mut self, mirror: MirrorId, request: DeviceRequest, cause: Cause) {
        let (since, owner, unneeded) = (self.now, self.core, Part::Unneeded);
        let is_flush = request.operation == DeviceOperation::Flush;
        let covered = if is_flush { self.losses.covered(mirror) } else { 0 };
        let job = Job {
            request,
            mirror,
            since,
            stage: Stage::Held,
            term: Term(0),
            has_effect: false,
            cause,
            stay: 0,
            kept_since: Term::first(),
            covered,
            owner,
            ticket: None,
            local: unneeded,
            remotes: [unneeded; REMOTES_MAX],
        };
        let slot = self.jobs.insert(job);
        self.begin(slot);
        self.tell_granted();
    }

    /// The connection is closed: its changes of data that have not begun end without effect. Its host may repeat
    /// them elsewhere.
    pub fn withdraw(&mut self, owner: Owner) {
        for slot in 0..self.jobs.capacity() {
            let Some(job) = self.jobs.get_mut(slot) else { continue };
            if job.cause.owner != owner || !job.changes_data() {
                continue;
            }
            // One that is forwarded may come back, and does not begin anew.
            job.cause.begin_by = Nanos(0);
            if matches!(job.stage, Stage::Held | Stage::Locking) {
                self.end(slot, DeviceResult::Remote(Outcome::DeviceUnavailable));
            }
        }
        self.tell_granted();
    }

    /// The next operation on a device.
    pub fn poll_device(&mut self) -> Option<Submission> {
        self.submissions.pop_front()
    }

    /// Whether [`Self::poll_device`] has more.
    pub fn has_submissions(&self) -> bool {
        !self.submissions.is_empty()
    }

    /// Another replica has accepted a write. Its result follows.
    pub fn handle_received(&mut self, id: OperationId) {
        let Some((slot, place)) = self.slot_of(id).zip(place_of(id.op)) else { return };
        let job = &mut self.jobs[slot];
        if job.remotes[place] == Part::UnderWay && job.stage == Stage::Writing {
            (job.remotes[place], job.has_effect) = (Part::Received, true);
            self.advance(slot);
            self.tell_granted();
        }
    }

    /// An operation has ended.
    pub fn handle_device(&mut self, id: OperationId, result: DeviceResult) {
        if id.op == APPLY {
            return self.end_accepted(id, result);
        }
        if id.op >= COPY {
            self.copied(id, result);
            return self.tell_granted();
        }
        let Some(slot) = self.slot_of(id) else { return };
        let job = &mut self.jobs[slot];
        match job.stage {
            Stage::Passing(device) => self.passed(slot, device, result),
            Stage::Reading if result.is_done() => {
                job.stage = Stage::Judging(result);
                self.judge(slot, result);
            }
            Stage::Reading => self.read_failed(slot, result),
            Stage::Repairing => self.repair_ended(slot, place_of(id.op), result),
            Stage::Writing | Stage::Flushing => {
                job.end_part(place_of(id.op), result);
                let mirror = job.mirror;
                if !result.is_done() && !is_unreached(result) {
                    self.note_failure(mirror, result, place_of(id.op));
                }
                self.advance(slot);
            }
            Stage::Held | Stage::Locking | Stage::GivenUp | Stage::Judging(_) => return,
        }
        self.tell_granted();
    }

    /// The next operation that has ended, on a mirror or on a replica.
    pub fn poll_ended(&mut self) -> Option<(OperationId, DeviceResult)> {
        self.ended.pop_front()
    }

    /// The next failure of a part: the mirror, the result, and the replica. Each attempt that fails adds one,
    /// so take them in every turn.
    pub fn poll_failure(&mut self) -> Option<(MirrorId, DeviceResult, Side)> {
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
                self.answer(asker, ticket, is_held);
            }
            MirrorMessage::Locked { asker, ticket, is_held, term } => {
                self.locked(asker, ticket, is_held, term);
            }
            MirrorMessage::Unlock { ticket, term } => self.release(ticket, term),
        }
        self.tell_granted();
    }

    /// Replaces the table. Operations under way follow it from now on.
    pub fn set_table(&mut self, table: Arc<MirrorTable>) {
        let before = std::mem::replace(&mut self.table, table);
        self.faces.leave(&before, &self.table, self.now);
        self.forget_terms();
        self.look_for_losses();
        self.look();
    }

    /// Takes the times until which reads of mirrors may be answered.
    pub fn set_leases(&mut self, leases: &[(MirrorId, Nanos)]) {
        for (mirror, until) in leases {
            let place = index(mirror.0);
            if self.leases.len() <= place {
                self.leases.resize(place + 1, Nanos(0));
            }
            self.leases[place] = self.leases[place].max(*until);
        }
        self.judge_all();
    }

    /// The next remote device that the table needs no more. Nothing that was sent there can take effect
    /// from now on, or it does not matter: the caller ends all operations on it at once.
    pub fn poll_abandoned(&mut self) -> Option<DeviceId> {
        self.faces.poll_abandoned()
    }

    /// Tells the health of the device that stands for a mirror.
    pub fn set_health(&mut self, mirror: MirrorId, health: Arc<Health>) {
        self.losses.set_health(mirror, health);
        if !self.is(Mutant::LossUntold) {
            self.losses.look_at(mirror, &self.table);
        }
    }

    /// The next mirror of which answered writes may be lost. Its device is suspect.
    pub fn poll_lost(&mut self) -> Option<MirrorId> {
        self.losses.poll()
    }

    fn look_for_losses(&mut self) {
        if !self.is(Mutant::LossUntold) {
            self.losses.look(&self.table);
        }
    }

    /// The time at which [`Self::handle_timeout`] must be called.
    pub fn poll_timeout(&self) -> Option<Nanos> {
        self.look_at.into_iter().chain(self.slow_at).min()
    }

    /// Ends what has waited for too long, and tries again what failed.
    pub fn handle_timeout(&mut self) {
        if self.look_at.is_some_and(|at| at <= self.now) {
            self.look();
        }
        if self.slow_at.is_some_and(|at| at <= self.now) {
            self.look_for_slow_replicas();
        }
    }

    /// The role of this core for the mirror, and its term. An operation that another node forwards is
    /// submitted only if this is the primary in the term that it carries: nobody forwards on.
    pub fn role(&self, mirror: MirrorId) -> Option<(Role, Term)> {
        self.entry(mirror).map(|entry| (entry.role, entry.term))
    }

    /// The parts of a mirror that this core has written, or accepted writes of, since the process started.
    pub fn written(&self, mirror: MirrorId) -> Written {
        let key = self.entry(mirror).map(|entry| entry.key);
        key.and_then(|key| self.written.get(&key).cloned()).unwrap_or_default()
    }

    /// Notes a write, before it is started or accepted.
    pub(crate) fn note_written(&mut self, mirror: MirrorId, offset: ByteOffset, len: ByteLen) {
        if let Some(entry) = self.table.entry(mirror) {
            self.written.entry(entry.key).or_default().add(offset, len);
        }
    }

    /// Whether nothing is under way, waits or is locked.
    pub fn is_idle(&self) -> bool {
        let is_copying = !self.copies.is_empty();
        self.jobs.is_empty() && self.accepted.is_empty() && self.locks.is_empty() && !is_copying
    }
}
