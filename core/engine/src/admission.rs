//! Admission: the only place on a core where a request waits until the engine can begin it, and
//! where a session waits for a buffer for a command's payload (`wants`).
//!
//! A request is admitted when three conditions hold: each of its devices has fewer than the maximum
//! of requests of this core, no fence of another request stops it, and its buffers are free. The
//! buffers are taken on admission, so that a request that has begun waits only for devices and
//! fences. Reservations, ranges, volumes and ages are checked on admission, not on arrival.
//!
//! Volumes take turns, and so do the hosts of each volume, by the bytes that they move (`turns`).
//! The requests of a connection keep their order within each of three lanes. The lanes do not wait
//! for one another, because a request that needs no buffer, modifies or compares may hold the very
//! buffers that reads wait for.
//!
//! When a read or a want has its turn and the pool has no free run for it, the pool gathers one.
//! Otherwise shorter requests would take every page that comes back.
//!
//! Invariant: while nothing waits, a request passes without being queued and without an allocation.

use std::collections::VecDeque;

use nearflash_device::Owner;
use nearflash_request::{Access, BufferId, Due, Nexus, Operation, Outcome, Request, Tag, VolumeId};
use nearflash_space::{Sharing, VolumeEntry};
use nearflash_units::{ByteLen, Nanos};

use crate::accounts::{AccountId, Accounts, HostId};
use crate::depth::{Depths, Devices};
use crate::engine::Engine;
use crate::fence::Fenced;
use crate::meters::Stamp;
use crate::need::Need;
use crate::pool::Pool;
use crate::turns::{Queue, Turns, Waiting as _};
use crate::wants::{Grant, Want};

/// The maximum number of requests of one core that a device has at a time. Others wait in the
/// admission queues, which are fair, and not in those of the kernel and the device.
pub const DEVICE_DEPTH: u32 = 256;

/// The connection that sends a request.
#[derive(Clone, Copy, Debug)]
pub struct Asker {
    /// The driver's number for the connection.
    pub owner: Owner,
    /// The connection's account in the pool.
    pub account: AccountId,
    /// The I_T nexus that reservations know the connection by.
    pub nexus: Nexus,
    /// The time until which a change may begin, on a volume that several nodes serve. Later, its host may have
    /// given it up, and have written over another node.
    pub begin_by: Nanos,
}

/// A request that has not begun.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) asker: Asker,
    pub(crate) request: Request,
    /// The generation of waits at its arrival.
    pub(crate) came: u64,
    pub(crate) stamp: Stamp,
}

/// A request or a want that waits for its turn.
#[derive(Debug)]
pub(crate) enum Item {
    Request(Waiting),
    Want(Asker, Want),
}

/// The resources that a request was admitted with.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) need: Need,
    pub(crate) buffer: Option<BufferId>,
    pub(crate) scratch: Option<BufferId>,
    pub(crate) edges: Option<BufferId>,
    pub(crate) devices: Devices,
}

impl Taken {
    pub(crate) const NOTHING: Self = Self {
        need: Need::NOTHING,
        buffer: None,
        scratch: None,
        edges: None,
        devices: Devices::None,
    };
}

/// The decision on a request or a want.
#[derive(Debug)]
pub(crate) enum Verdict {
    Begins(Taken),
    Ends(Outcome),
    /// The session of the want decides whether it can proceed without a buffer.
    GivesWay,
    /// Waits for its device, a fence, buffers, or its host's share.
    Waits,
    /// The pool has no free run of that length.
    NoRoom(ByteLen),
}

/// Whether a request changes a volume that several nodes serve.
fn is_change_of_many(entry: Option<&VolumeEntry>, request: &Request) -> bool {
    let is_change = request.operation.access() == Access::Write
        && !matches!(request.operation, Operation::Admit(_));
    is_change && entry.is_some_and(|entry| entry.sharing != Sharing::Own)
}

/// A lane: requests and wants of a connection that do not wait for those of its other lanes.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Lane {
    /// Requests that need no buffer.
    Plain,
    /// Requests whose buffer leaves with the answer.
    Read,
    /// Requests that need a buffer until they are answered.
    Scratch,
    /// Wants.
    Payload(Due),
}

/// By volume, host and connection. The volume of a want may be unknown.
type Flows = Turns<Option<VolumeId>, Turns<HostId, Turns<(Owner, Lane), Queue<Item>>>>;

/// The requests of a core that have not begun, and the limits that decide when they do.
#[derive(Debug)]
pub(crate) struct Admission {
    pub(crate) accounts: Accounts,
    flows: Flows,
    /// The read or want that has had its turn, and for which the pool gathers a run.
    gathers: Option<Item>,
    len: usize,
    /// How many of them are wants.
    wants: usize,
    /// Wants that have ended, for their connections.
    pub(crate) grants: VecDeque<Grant>,
    depths: Depths,
    /// The free bytes of the pool when no connection holds any.
    whole: ByteLen,
    /// Counts the events that may let a request begin, except returns of buffers and of shares.
    changes: u64,
    /// `changes` plus the returns of the pool and of the accounts at the last admission.
    seen: u64,
}

impl Admission {
    /// An empty admission. The engine's reserves have already been taken from `pool`.
    pub(crate) fn new(depth_max: u32, devices: usize, pool: &Pool) -> Self {
        Self {
            accounts: Accounts::default(),
            flows: Flows::default(),
            gathers: None,
            len: 0,
            wants: 0,
            grants: VecDeque::new(),
            depths: Depths::new(depth_max, devices),
            whole: pool.free_len(),
            changes: 0,
            seen: 0,
        }
    }

    /// How many requests wait.
    pub(crate) fn len(&self) -> usize {
        self.len - self.wants
    }

    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.len == 0
    }

    /// The number of waiting requests for which `is_meant` holds.
    pub(crate) fn count(&self, is_meant: impl Fn(&Request) -> bool) -> usize {
        let mut count = 0;
        let mut look = |item: &Item| {
            count += usize::from(matches!(item, Item::Request(it) if is_meant(&it.request)));
        };
        self.flows.each(&mut look);
        self.gathers.iter().for_each(look);
        count
    }

    /// A waiting request may be able to begin now.
    #[inline]
    pub(crate) fn note_change(&mut self) {
        self.changes += 1;
    }

    /// There are so many devices from now on, no fewer than before.
    pub(crate) fn set_device_count(&mut self, devices: usize) {
        self.depths.grow(devices);
    }

    /// A request that has begun, on these devices, has ended.
    #[inline]
    pub(crate) fn note_end(&mut self, devices: &Devices) {
        self.depths.end(devices);
        self.changes += 1;
    }

    /// A part of the pool is not for hosts any more.
    pub(crate) fn note_reserved(&mut self, len: ByteLen) {
        self.whole.0 -= len.0;
    }

    /// Takes a buffer for the data of a read. Leaves [`Pool::FRONT_LEN`] for the front of streams,
    /// unless the whole pool is free.
    #[inline]
    fn room(&self, len: ByteLen, gathers: bool, pool: &mut Pool) -> Option<BufferId> {
        let is_whole = pool.free_len() == self.whole;
        if is_whole || pool.would_leave(Pool::FRONT_LEN, len) {
            let taken = pool.take(len);
            if taken.is_some() {
                return taken;
            }
        }
        let leaves_enough = gathers && (is_whole || pool.has_free(Pool::FRONT_LEN));
        if leaves_enough { pool.take_gathered() } else { None }
    }

    fn push(&mut self, item: Item, volume: Option<VolumeId>, lane: Lane, len: ByteLen) {
        let asker = match &item {
            Item::Request(waiting) => &waiting.asker,
            Item::Want(asker, _) => asker,
        };
        let path = (self.accounts.host_of(asker.account), ((asker.owner, lane), ()));
        self.flows.push((volume, path), item, len.0);
        self.len += 1;
        self.changes += 1;
    }

    /// A connection waits for a buffer.
    pub(crate) fn push_want(&mut self, asker: Asker, want: Want) {
        self.wants += 1;
        self.push(Item::Want(asker, want), want.volume, Lane::Payload(want.due), want.len);
    }

    /// Takes out the items for which `is_meant` holds.
    pub(crate) fn take_out(
        &mut self,
        mut is_meant: impl FnMut(&Item) -> bool,
        pool: &mut Pool,
    ) -> Vec<Item> {
        let mut out = Vec::new();
        if self.gathers.as_ref().is_some_and(&mut is_meant) {
            out.extend(self.gathers.take());
            pool.end_gathering();
        }
        self.flows.extract(&mut is_meant, &mut out);
        out.iter().for_each(|item| self.left(item));
        self.changes += 1;
        out
    }

    /// Counts an item that waits no longer.
    fn left(&mut self, item: &Item) {
        self.len -= 1;
        self.wants -= usize::from(matches!(item, Item::Want(..)));
    }
}

impl Engine {
    /// Decides on a request, and takes its resources if it begins. A request that `gathers` has
    /// already had its turn.
    #[inline]
    pub(crate) fn judge(&mut self, waiting: &Waiting, gathers: bool, pool: &mut Pool) -> Verdict {
        let Waiting { asker, request, .. } = waiting;
        let entry = self.volumes.get(request.volume);
        if let Some(outcome) = self.refusal(entry, asker.nexus, request) {
            return Verdict::Ends(outcome);
        }
        if self.clock > asker.begin_by && is_change_of_many(entry, request) {
            return Verdict::Ends(Outcome::PathLost);
        }
        let need = self.need(entry, request);
        let devices = |entry| Devices::of(request, entry, &self.volumes);
        let devices = entry.map_or(Devices::None, devices);
        if !self.admission.depths.have_room(&devices) || self.is_stopped(request) {
            return Verdict::Waits;
        }
        let has_edges = self.may_have_edges(request);
        let mut taken = Taken { need, devices, ..Taken::NOTHING };
        if (!need.is_empty() || has_edges)
            && let Some(verdict) = self.take(asker.account, &mut taken, (has_edges, gathers), pool)
        {
            return verdict;
        }
        self.admission.depths.begin(&taken.devices);
        Verdict::Begins(taken)
    }

    /// Takes and charges all buffers that a request needs, or takes none and returns the reason.
    #[inline]
    fn take(
        &mut self,
        account: AccountId,
        taken: &mut Taken,
        (has_edges, gathers): (bool, bool),
        pool: &mut Pool,
    ) -> Option<Verdict> {
        let need = taken.need;
        if let Need::Read(len) = need
            && !need.is_empty()
        {
            taken.buffer = self.admission.accounts.take_reserved(account, len, pool);
        }
        if !need.is_empty() && taken.buffer.is_none() {
            if !gathers && !self.admission.accounts.may_take(account, need, pool) {
                return Some(Verdict::Waits);
            }
            match need {
                Need::Read(len) => taken.buffer = self.admission.room(len, gathers, pool),
                Need::Scratch(len) => taken.scratch = self.scratch(len, pool),
            }
            if taken.buffer.or(taken.scratch).is_none() {
                let is_read = matches!(need, Need::Read(_));
                return Some(if is_read { Verdict::NoRoom(need.len()) } else { Verdict::Waits });
            }
        }
        if has_edges {
            taken.edges = self.take_edges(pool);
            if taken.edges.is_none() {
                taken.buffer.into_iter().for_each(|buffer| pool.give_back(buffer));
                taken.scratch.into_iter().for_each(|it| self.give_back_scratch(it, pool));
                return Some(Verdict::Waits);
            }
        }
        self.admission.accounts.charge_request(account, need);
        None
    }

    /// Whether a fence of another request stops the request. A request that acquires a fence itself
    /// waits for its own instead.
    #[inline]
    fn is_stopped(&self, request: &Request) -> bool {
        if self.holds.is_empty() {
            return false;
        }
        let volume = request.volume;
        let stops = |range| self.holds.stops(&Fenced { volume, range });
        match &request.operation {
            Operation::Write { .. }
            | Operation::WriteZeroes { .. }
            | Operation::WriteSame { .. }
            | Operation::Copy { .. } => stops(request.range),
            Operation::Deallocate { ranges, .. } => ranges.iter().any(|range| stops(*range)),
            _ => false,
        }
    }

    /// Queues a request until its turn.
    #[cold]
    pub(crate) fn enqueue(&mut self, waiting: Waiting) {
        self.note_wait(waiting.stamp);
        let request = &waiting.request;
        let entry = self.volumes.get(request.volume);
        let lane = match self.need(entry, request) {
            Need::Read(ByteLen(0)) if self.may_have_edges(request) => Lane::Scratch,
            Need::Read(ByteLen(0)) => Lane::Plain,
            Need::Read(_) => Lane::Read,
            Need::Scratch(_) => Lane::Scratch,
        };
        let bytes = match (&request.operation, entry) {
            (Operation::Deallocate { ranges, .. }, _) => ByteLen::from_usize(ranges.len() << 12),
            (_, Some(entry)) => entry.block_size.len(request.range.count).unwrap_or_default(),
            (_, None) => ByteLen(0),
        };
        let volume = Some(request.volume);
        self.admission.push(Item::Request(waiting), volume, lane, bytes);
    }

    fn decide(&mut self, item: &Item, gathers: bool, pool: &mut Pool) -> Verdict {
        match item {
            Item::Request(waiting) => self.judge(waiting, gathers, pool),
            Item::Want(asker, want) => self.judge_want(asker, want, gathers, pool),
        }
    }

    /// Begins the waiting requests that can begin now, and meets the wants that can be met.
    #[cold]
    pub(crate) fn admit(&mut self, pool: &mut Pool) {
        let now = self.admission.changes + self.admission.accounts.returns() + pool.returns();
        if self.admission.seen != now {
            self.admission.seen = now;
            self.admit_gathering(pool);
            while self.admit_next(pool) {}
        }
    }

    /// Begins the request that a run is gathered for, or meets the want, if it can.
    fn admit_gathering(&mut self, pool: &mut Pool) {
        let Some(item) = self.admission.gathers.take() else { return };
        match self.decide(&item, true, pool) {
            Verdict::Waits => self.admission.gathers = Some(item),
            Verdict::NoRoom(len) => {
                pool.gather(len);
                self.admission.gathers = Some(item);
            }
            verdict => {
                pool.end_gathering();
                self.leave(item, verdict, pool);
            }
        }
    }

    /// Admits the next item that can be admitted. Returns whether there was one.
    fn admit_next(&mut self, pool: &mut Pool) -> bool {
        let gathers = self.admission.gathers.is_some();
        let reader = match &self.admission.gathers {
            Some(Item::Request(waiting)) => Some(waiting.asker.owner),
            _ => None,
        };
        let came_later = |item: &Item| {
            matches!(item, Item::Request(it) if reader == Some(it.asker.owner)
                && matches!(it.request.operation, Operation::Read))
        };
        let mut flows = std::mem::take(&mut self.admission.flows);
        let mut found = None;
        let served = flows.serve(&mut |item| {
            if came_later(item) {
                return false; // than the read that gathers
            }
            let verdict = self.decide(item, false, pool);
            let takes = match verdict {
                Verdict::Begins(_) | Verdict::Ends(_) | Verdict::GivesWay => true,
                Verdict::NoRoom(_) => !gathers,
                Verdict::Waits => false,
            };
            if takes {
                found = Some(verdict);
            }
            takes
        });
        self.admission.flows = flows;
        let Some(((item, _), verdict)) = served.zip(found) else { return false };
        match verdict {
            Verdict::NoRoom(len) => {
                pool.gather(len);
                self.admission.gathers = Some(item);
            }
            verdict => self.leave(item, verdict, pool),
        }
        true
    }

    /// Removes an item from the waiting ones: begins or answers the request, or ends the want.
    fn leave(&mut self, item: Item, verdict: Verdict, pool: &mut Pool) {
        self.admission.left(&item);
        if let Item::Request(waiting) = &item {
            self.note_turn(waiting.stamp);
        }
        match (item, verdict) {
            (Item::Request(it), Verdict::Begins(taken)) => self.begin_admitted(it, taken, pool),
            (Item::Request(it), Verdict::Ends(outcome)) => self.end_unbegun(it, outcome, pool),
            (Item::Want(asker, want), Verdict::Begins(taken)) => {
                self.end_want(asker, want, taken.buffer);
            }
            (Item::Want(asker, want), Verdict::GivesWay) => self.end_want(asker, want, None),
            (_, verdict) => unreachable!("{verdict:?} ends nothing"),
        }
    }

    /// Aborts the owner's requests that have not begun and for which `is_meant` holds. Requests
    /// that have begun complete normally.
    pub fn cancel_waiting(
        &mut self,
        owner: Owner,
        mut is_meant: impl FnMut(Tag) -> bool,
        pool: &mut Pool,
    ) {
        let is_meant = |item: &Item| matches!(item, Item::Request(it) if it.asker.owner == owner && is_meant(it.request.tag));
        for item in self.admission.take_out(is_meant, pool) {
            if let Item::Request(waiting) = item {
                self.note_turn(waiting.stamp);
                self.end_unbegun(waiting, Outcome::Aborted, pool);
            }
        }
    }
}
