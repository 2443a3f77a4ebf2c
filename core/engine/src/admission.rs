//! Admission: the only place on a core where a request waits until the engine can begin it, and
//! where a session waits for a buffer for a command's payload (`wants`). The decision itself is the engine's
//! (`judge`).
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

mod judge;
mod wants;

use std::collections::VecDeque;

use nearflash_device::Owner;
use nearflash_request::{BufferId, Due, Nexus, Outcome, Request, VolumeId};
use nearflash_units::{ByteLen, Nanos};

use crate::accounts::{AccountId, Accounts, HostId};
use crate::depth::{Depths, Devices};
use crate::need::Need;
use crate::pool::Pool;
use crate::stamp::Stamp;
use crate::turns::{Queue, Turns, Waiting as _};
pub use wants::{Grant, Want};

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
