//! Where a request waits until the engine can begin it: the one place of a core.
//!
//! A request is admitted when its device has fewer than so many requests of this core, no fence of
//! another request stops it, and its buffers are free. They are taken there and then: a request that has
//! begun waits for devices and fences alone. Until then it has not begun: what refuses it is looked at
//! when it is admitted.
//!
//! Volumes take turns, and the hosts of each volume, by the bytes that they move (`turns`). What a
//! connection asks for keeps its order, in three lanes that do not wait for one another: what needs no
//! buffer, or changes and compares, may hold the very buffers that reads wait for.
//!
//! A long read whose turn has come and for which the pool has no run gathers one, so that short requests
//! cannot take every page that comes back.
//!
//! Invariant: while nothing waits, a request passes without being put anywhere, and nothing allocates.

use nearflash_device::DeviceId;
use nearflash_request::{BufferId, Nexus, Operation, Outcome, Request, Tag, VolumeId};
use nearflash_units::ByteLen;

use crate::accounts::{AccountId, Accounts, HostId};
use crate::engine::{Engine, Owner};
use crate::fence::Fenced;
use crate::need::Need;
use crate::pool::Pool;
use crate::turns::{Queue, Turns, Waiting as _};

/// Requests of one core that a device has at a time. Others wait here, where they take turns, and not in
/// the queues of the kernel and the device.
pub const DEVICE_DEPTH: u32 = 256;

/// Who asks.
#[derive(Clone, Copy, Debug)]
pub struct Asker {
    /// The driver's number for the connection.
    pub owner: Owner,
    /// What it holds of the pool.
    pub account: AccountId,
    /// Who that is, as reservations know it.
    pub nexus: Nexus,
}

/// A request that has not begun.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) asker: Asker,
    pub(crate) request: Request,
    /// The generation of waits in which it came.
    pub(crate) came: u64,
}

/// What a request was admitted with.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) need: Need,
    pub(crate) buffer: Option<BufferId>,
    pub(crate) scratch: Option<BufferId>,
    pub(crate) edges: Option<BufferId>,
    pub(crate) device: Option<DeviceId>,
}

impl Taken {
    pub(crate) const NOTHING: Self =
        Self { need: Need::NOTHING, buffer: None, scratch: None, edges: None, device: None };
}

/// What becomes of a request now.
#[derive(Debug)]
pub(crate) enum Verdict {
    Begins(Taken),
    Ends(Outcome),
    /// For its device, a fence, or its host's share.
    Waits,
    /// The pool has no run that is as long.
    NoRoom(ByteLen),
}

/// Requests of a connection that do not wait for those of other lanes.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Lane {
    /// Needs no buffer.
    Plain,
    /// Takes a buffer along with its answer.
    Read,
    /// Needs a buffer until it is answered.
    Scratch,
}

type Flows = Turns<VolumeId, Turns<HostId, Turns<(Owner, Lane), Queue<Waiting>>>>;

/// The requests of a core that have not begun, and what decides when they do.
#[derive(Debug)]
pub(crate) struct Admission {
    pub(crate) accounts: Accounts,
    flows: Flows,
    /// Its turn has come, and the pool gathers a run for it.
    gathers: Option<Waiting>,
    len: usize,
    depth_max: u32,
    /// Requests that have begun, by device.
    depths: Box<[u32]>,
    /// What is free of the pool when nobody holds anything.
    whole: ByteLen,
    /// Counts events that may let a request begin, other than returns of buffers and of shares.
    changes: u64,
    /// All of that, when it was last looked at.
    seen: u64,
}

impl Admission {
    /// With nothing waiting, and the engine's reserves taken.
    pub(crate) fn new(depth_max: u32, devices: usize, pool: &Pool) -> Self {
        Self {
            accounts: Accounts::default(),
            flows: Flows::default(),
            gathers: None,
            len: 0,
            depth_max: depth_max.max(1),
            depths: vec![0; devices].into_boxed_slice(),
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

    /// How many of those that wait are meant.
    pub(crate) fn count(&self, is_meant: impl Fn(&Request) -> bool) -> usize {
        let mut count = 0;
        let mut look = |waiting: &Waiting| count += usize::from(is_meant(&waiting.request));
        self.flows.each(&mut look);
        self.gathers.iter().for_each(look);
        count
    }

    /// Something that waits may begin now.
    #[inline]
    pub(crate) fn note_change(&mut self) {
        self.changes += 1;
    }

    /// A request that has begun, on this device, has ended.
    #[inline]
    pub(crate) fn note_end(&mut self, device: Option<DeviceId>) {
        if let Some(device) = device {
            self.depths[index(device)] -= 1;
            self.changes += 1;
        }
    }

    #[inline]
    fn has_depth(&self, device: Option<DeviceId>) -> bool {
        device.is_none_or(|device| self.depths[index(device)] < self.depth_max)
    }

    /// A buffer that goes out with an answer. Some is left for what stands first in streams, unless all
    /// is free.
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
    /// What becomes of a request now. What it begins with is taken. One that `gathers` has had its turn.
    #[inline]
    pub(crate) fn judge(&mut self, waiting: &Waiting, gathers: bool, pool: &mut Pool) -> Verdict {
        let Waiting { asker, request, .. } = waiting;
        let entry = self.volumes.get(request.volume);
        if let Some(outcome) = self.refusal(entry, asker.nexus, request) {
            return Verdict::Ends(outcome);
        }
        let need = self.need(entry, request);
        let is_io = !matches!(request.operation, Operation::Admit(_));
        let device = entry.filter(|_| is_io).and_then(|entry| entry.map.devices().next());
        if !self.admission.has_depth(device) || self.is_stopped(request) {
            return Verdict::Waits;
        }
        let has_edges = self.may_have_edges(request);
        let mut taken = Taken { need, device, ..Taken::NOTHING };
        if (!need.is_empty() || has_edges)
            && let Some(verdict) = self.take(asker.account, &mut taken, (has_edges, gathers), pool)
        {
            return verdict;
        }
        if let Some(device) = device {
            self.admission.depths[index(device)] += 1;
        }
        Verdict::Begins(taken)
    }

    /// Takes all that a request needs, and charges it; or nothing, and says why.
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

    /// Whether a fence of another request stops it. What asks for a fence itself is stopped by that.
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

    /// A request waits for its turn.
    #[cold]
    pub(crate) fn enqueue(&mut self, waiting: Waiting) {
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

    /// Begins what waited and can begin now.
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

    /// Begins the next one that can. Whether there was any.
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

    /// A request waits no more.
    fn leave(&mut self, waiting: Waiting, verdict: Verdict, pool: &mut Pool) {
        self.admission.len -= 1;
        match verdict {
            Verdict::Begins(taken) => self.begin_admitted(waiting, taken, pool),
            Verdict::Ends(outcome) => self.end_unbegun(waiting, outcome, pool),
            Verdict::Waits | Verdict::NoRoom(_) => unreachable!("these wait on"),
        }
    }

    /// Ends, as aborted, the owner's requests that have not begun and are meant. Those under way end by
    /// themselves.
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

#[inline]
fn index(DeviceId(device): DeviceId) -> usize {
    usize::try_from(device).expect("usize is at least 32 bits wide")
}
