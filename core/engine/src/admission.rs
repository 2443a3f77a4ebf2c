//! Admission: the only place on a core where a request waits until the engine can begin it.
//!
//! A request is admitted when its device has fewer than the maximum of requests of this core, no
//! fence of another request stops it, and its buffers are free. The buffers are taken on admission,
//! so that a request that has begun waits for devices and fences alone. Reservations, ranges and
//! volumes are checked on admission, not on arrival.
//!
//! Volumes take turns, and the hosts of each volume, by the bytes that they move (`turns`). The
//! requests of a connection keep their order within each of three lanes. The lanes do not wait for
//! one another: a request that needs no buffer, or that changes or compares, may hold the very
//! buffers that reads wait for.
//!
//! A long read whose turn has come and for which the pool has no run gathers one, so that short requests
//! cannot take every page that comes back.
//!
//! Invariant: while nothing waits, a request passes without being queued and without an allocation.

use nearflash_request::{BufferId, Nexus, Operation, Outcome, Request, Tag, VolumeId};
use nearflash_units::ByteLen;

use crate::accounts::{AccountId, Accounts, HostId};
use crate::depth::{Depths, Devices};
use crate::engine::{Engine, Owner};
use crate::fence::Fenced;
use crate::meters::Stamp;
use crate::need::Need;
use crate::pool::Pool;
use crate::turns::{Queue, Turns, Waiting as _};

/// The most requests of one core that a device has at a time. Others wait in the admission queues,
/// which are fair, and not in those of the kernel and the device.
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
}

/// A request that has not begun.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) asker: Asker,
    pub(crate) request: Request,
    /// The generation of waits on its arrival.
    pub(crate) came: u64,
    pub(crate) stamp: Stamp,
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

/// The decision on a request.
#[derive(Debug)]
pub(crate) enum Verdict {
    Begins(Taken),
    Ends(Outcome),
    /// Waits for its device, a fence, buffers, or its host's share.
    Waits,
    /// The pool has no free run of that length.
    NoRoom(ByteLen),
}

/// Requests of a connection that do not wait for those of other lanes.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Lane {
    /// Needs no buffer.
    Plain,
    /// Passes a buffer on with its answer.
    Read,
    /// Needs a buffer until it is answered.
    Scratch,
}

type Flows = Turns<VolumeId, Turns<HostId, Turns<(Owner, Lane), Queue<Waiting>>>>;

/// The requests of a core that have not begun, and the limits that decide when they do.
#[derive(Debug)]
pub(crate) struct Admission {
    pub(crate) accounts: Accounts,
    flows: Flows,
    /// The request whose turn has come and for which the pool gathers a run.
    gathers: Option<Waiting>,
    len: usize,
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
            depths: Depths::new(depth_max, devices),
            whole: pool.free_len(),
            changes: 0,
            seen: 0,
        }
    }

    /// How many requests wait.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.len == 0
    }

    /// The number of waiting requests for which `is_meant` holds.
    pub(crate) fn count(&self, is_meant: impl Fn(&Request) -> bool) -> usize {
        let mut count = 0;
        let mut look = |waiting: &Waiting| count += usize::from(is_meant(&waiting.request));
        self.flows.each(&mut look);
        self.gathers.iter().for_each(look);
        count
    }

    /// A waiting request may be able to begin now.
    #[inline]
    pub(crate) fn note_change(&mut self) {
        self.changes += 1;
    }

    /// A request that has begun, on these devices, has ended.
    #[inline]
    pub(crate) fn note_end(&mut self, devices: &Devices) {
        self.depths.end(devices);
        self.changes += 1;
    }

    /// A buffer that goes out with an answer. Leaves [`Pool::FRONT_LEN`] for the front of streams,
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
        if !need.is_empty() {
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

    /// Whether a fence of another request stops it. Requests that acquire a fence of their own wait
    /// for that instead.
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
        let Waiting { asker, request, .. } = &waiting;
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
        let host = self.admission.accounts.host_of(asker.account);
        let path = (request.volume, (host, ((asker.owner, lane), ())));
        self.admission.flows.push(path, waiting, bytes.0);
        self.admission.len += 1;
        self.admission.note_change();
    }

    /// Begins the waiting requests that can begin now.
    #[cold]
    pub(crate) fn admit(&mut self, pool: &mut Pool) {
        let now = self.admission.changes + self.admission.accounts.returns() + pool.returns();
        if self.admission.seen != now {
            self.admission.seen = now;
            self.admit_gathering(pool);
            while self.admit_next(pool) {}
        }
    }

    /// Begins the request that a run is gathered for, if it can.
    fn admit_gathering(&mut self, pool: &mut Pool) {
        let Some(waiting) = self.admission.gathers.take() else { return };
        match self.judge(&waiting, true, pool) {
            Verdict::Waits => self.admission.gathers = Some(waiting),
            Verdict::NoRoom(len) => {
                pool.gather(len);
                self.admission.gathers = Some(waiting);
            }
            verdict => {
                pool.end_gathering();
                self.leave(waiting, verdict, pool);
            }
        }
    }

    /// Begins the next request that can begin. Returns whether there was one.
    fn admit_next(&mut self, pool: &mut Pool) -> bool {
        let gathers = self.admission.gathers.as_ref().map(|it| it.asker.owner);
        let mut flows = std::mem::take(&mut self.admission.flows);
        let mut found = None;
        let served = flows.serve(&mut |waiting| {
            let is_read = || matches!(waiting.request.operation, Operation::Read);
            if gathers == Some(waiting.asker.owner) && is_read() {
                return false; // it came after the one that gathers
            }
            let verdict = self.judge(waiting, false, pool);
            let takes = match verdict {
                Verdict::Begins(_) | Verdict::Ends(_) => true,
                Verdict::NoRoom(_) => gathers.is_none(),
                Verdict::Waits => false,
            };
            if takes {
                found = Some(verdict);
            }
            takes
        });
        self.admission.flows = flows;
        let Some(((waiting, _), verdict)) = served.zip(found) else { return false };
        match verdict {
            Verdict::NoRoom(len) => {
                pool.gather(len);
                self.admission.gathers = Some(waiting);
            }
            verdict => self.leave(waiting, verdict, pool),
        }
        true
    }

    /// Removes a request from the waiting ones, and begins or answers it.
    fn leave(&mut self, waiting: Waiting, verdict: Verdict, pool: &mut Pool) {
        self.admission.len -= 1;
        self.note_turn(waiting.stamp);
        match verdict {
            Verdict::Begins(taken) => self.begin_admitted(waiting, taken, pool),
            Verdict::Ends(outcome) => self.end_unbegun(waiting, outcome, pool),
            Verdict::Waits | Verdict::NoRoom(_) => unreachable!("these wait on"),
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
        let mut ended = Vec::new();
        let mut is_meant = |it: &Waiting| it.asker.owner == owner && is_meant(it.request.tag);
        if self.admission.gathers.as_ref().is_some_and(&mut is_meant) {
            ended.extend(self.admission.gathers.take());
            pool.end_gathering();
        }
        self.admission.flows.extract(&mut is_meant, &mut ended);
        for waiting in ended {
            self.leave(waiting, Verdict::Ends(Outcome::Aborted), pool);
        }
        self.admission.note_change();
    }
}
