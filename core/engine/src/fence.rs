//! Fences: exclusive access of one request to a range, although every core may write.
//!
//! A compare-and-write, an atomic operation on a word and a write of partial blocks must see no
//! other write between their two halves. But cores share nothing, and plain writes take no lock.
//! Therefore only these rare requests acquire a fence, and a plain write only checks an empty list.
//! The requesting core sends `Acquire` to the arbiter (one core of the node), which sends `Hold` to
//! every core. Each core starts no more writes on the range, waits for those under way, and answers
//! `Held`. When all have answered, the arbiter sends `Granted`. `Release` lifts the fence in the
//! same way.
//!
//! This module does not depend on how messages travel. A core's messages to itself take the same
//! path.
//!
//! Invariants: two active fences never overlap; fences on overlapping ranges are granted in the
//! order of their requests, so none starves.

use std::collections::VecDeque;

use nearflash_request::{BlockRange, VolumeId};

/// A core of the node, counted from 0. Core 0 is the arbiter of fences.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct CoreId(pub u16);

impl CoreId {
    /// The core that listens, keeps the controllers and arbitrates fences.
    pub const FIRST: Self = Self(0);
}

/// Identifies a fence while it exists: the requesting core, and the job on that core.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FenceId {
    /// The core that wants the fence.
    pub core: CoreId,
    /// That core's job.
    pub job: u32,
}

/// The blocks that a fence covers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Fenced {
    /// The volume.
    pub volume: VolumeId,
    /// The blocks.
    pub range: BlockRange,
}

impl Fenced {
    /// Whether the two have a block in common.
    pub fn overlaps(&self, other: &Self) -> bool {
        let end = |r: &BlockRange| r.start.0.saturating_add(r.count.0);
        self.volume == other.volume
            && self.range.start.0 < end(&other.range)
            && other.range.start.0 < end(&self.range)
    }
}

/// The messages between cores about fences.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FenceMessage {
    /// To the arbiter: wanted.
    Acquire(FenceId, Fenced),
    /// To every core: start no more writes on the range, and answer `Held` when those under way
    /// have ended.
    Hold(FenceId, Fenced),
    /// To the arbiter: no write of this core is under way on the range.
    Held(FenceId),
    /// To the requesting core: the fence is granted.
    Granted(FenceId),
    /// To the arbiter: no longer wanted.
    Release(FenceId),
    /// To every core: writes may start again.
    Lift(FenceId),
}

/// The maximum number of active fences; others wait. It bounds the comparisons that each write
/// makes.
const ACTIVE_MAX: usize = 64;

#[derive(Debug)]
struct Active {
    fence: FenceId,
    fenced: Fenced,
    cores_awaited: u16,
}

#[derive(Debug)]
struct Waiting {
    fence: FenceId,
    fenced: Fenced,
    /// Earlier fences, active or waiting, that it overlaps.
    blockers: usize,
}

/// The arbiter's side, on [`CoreId::FIRST`].
///
/// Acquiring and releasing visit every fence once, however many wait for one word.
#[derive(Debug)]
pub(crate) struct Arbiter {
    core_count: u16,
    active: Vec<Active>,
    /// Oldest first.
    waiting: VecDeque<Waiting>,
    /// The number of waiting fences that have no blockers.
    ready: usize,
}

/// Outgoing messages, each with its receiving core.
pub(crate) type Outbox = VecDeque<(CoreId, FenceMessage)>;

impl Arbiter {
    pub(crate) fn new(core_count: u16) -> Self {
        Self { core_count, active: Vec::new(), waiting: VecDeque::new(), ready: 0 }
    }

    pub(crate) fn acquire(&mut self, fence: FenceId, fenced: Fenced, out: &mut Outbox) {
        let active = self.active.iter().map(|active| &active.fenced);
        let earlier = active.chain(self.waiting.iter().map(|waiting| &waiting.fenced));
        let blockers = earlier.filter(|earlier| earlier.overlaps(&fenced)).count();
        self.ready += usize::from(blockers == 0);
        self.waiting.push_back(Waiting { fence, fenced, blockers });
        self.activate_ready(out);
    }

    pub(crate) fn held(&mut self, fence: FenceId, out: &mut Outbox) {
        let active = self.active.iter_mut().find(|a| a.fence == fence);
        let active = active.expect("a core answers a hold before the fence is released");
        active.cores_awaited -= 1;
        if active.cores_awaited == 0 {
            out.push_back((fence.core, FenceMessage::Granted(fence)));
        }
    }

    pub(crate) fn release(&mut self, fence: FenceId, out: &mut Outbox) {
        let place = self.active.iter().position(|active| active.fence == fence);
        let place = place.expect("a fence is released once, after it was granted");
        let released = self.active.swap_remove(place).fenced;
        for waiting in self.waiting.iter_mut().filter(|w| w.fenced.overlaps(&released)) {
            waiting.blockers -= 1;
            self.ready += usize::from(waiting.blockers == 0);
        }
        self.tell_all(FenceMessage::Lift(fence), out);
        self.activate_ready(out);
    }

    fn activate_ready(&mut self, out: &mut Outbox) {
        while self.ready > 0 && self.active.len() < ACTIVE_MAX {
            let place = self.waiting.iter().position(|waiting| waiting.blockers == 0);
            let waiting = place.and_then(|place| self.waiting.remove(place));
            let Waiting { fence, fenced, .. } = waiting.expect("a ready fence waits");
            self.ready -= 1;
            self.active.push(Active { fence, fenced, cores_awaited: self.core_count });
            self.tell_all(FenceMessage::Hold(fence, fenced), out);
        }
    }

    fn tell_all(&self, message: FenceMessage, out: &mut Outbox) {
        out.extend((0..self.core_count).map(|core| (CoreId(core), message)));
    }
}

/// One core's side: the ranges on which it starts no writes.
#[derive(Debug, Default)]
pub(crate) struct Holds {
    holds: Vec<Hold>,
}

#[derive(Debug)]
struct Hold {
    fence: FenceId,
    fenced: Fenced,
    answered: bool,
}

impl Holds {
    pub(crate) fn is_empty(&self) -> bool {
        self.holds.is_empty()
    }

    pub(crate) fn add(&mut self, fence: FenceId, fenced: Fenced) {
        self.holds.push(Hold { fence, fenced, answered: false });
    }

    pub(crate) fn lift(&mut self, fence: FenceId) {
        self.holds.retain(|h| h.fence != fence);
    }

    /// Whether a write to these blocks must wait.
    pub(crate) fn stops(&self, fenced: &Fenced) -> bool {
        self.holds.iter().any(|hold| hold.fenced.overlaps(fenced))
    }

    /// Answers every hold whose range no write under way touches any more.
    pub(crate) fn answer_quiet(
        &mut self,
        busy: impl Fn(&FenceId, &Fenced) -> bool,
        out: &mut Outbox,
    ) {
        for hold in self.holds.iter_mut().filter(|h| !h.answered) {
            if !busy(&hold.fence, &hold.fenced) {
                hold.answered = true;
                out.push_back((CoreId::FIRST, FenceMessage::Held(hold.fence)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearflash_units::{Blocks, Lba};

    fn fenced(start: u64, count: u64) -> Fenced {
        let range = BlockRange { start: Lba(start), count: Blocks(count) };
        Fenced { volume: VolumeId(0), range }
    }

    fn fence(core: u16, job: u32) -> FenceId {
        FenceId { core: CoreId(core), job }
    }

    #[test]
    fn a_fence_is_granted_when_every_core_holds() {
        let (mut arbiter, mut out) = (Arbiter::new(2), Outbox::new());
        arbiter.acquire(fence(1, 7), fenced(0, 8), &mut out);
        let hold = FenceMessage::Hold(fence(1, 7), fenced(0, 8));
        assert_eq!(out.drain(..).collect::<Vec<_>>(), [(CoreId(0), hold), (CoreId(1), hold)]);
        arbiter.held(fence(1, 7), &mut out);
        assert!(out.is_empty());
        arbiter.held(fence(1, 7), &mut out);
        assert_eq!(out.pop_back(), Some((CoreId(1), FenceMessage::Granted(fence(1, 7)))));
    }

    #[test]
    fn no_more_than_so_many_fences_are_active_and_each_gets_its_turn() {
        let (mut arbiter, mut out) = (Arbiter::new(1), Outbox::new());
        let count = u32::try_from(ACTIVE_MAX).unwrap() + 3;
        for job in 0..count {
            arbiter.acquire(fence(0, job), fenced(u64::from(job), 1), &mut out);
        }
        let mut held: VecDeque<FenceId> = VecDeque::new();
        let mut turns = 0;
        loop {
            held.extend(out.drain(..).filter_map(|m| match m.1 {
                FenceMessage::Hold(fence, _) => Some(fence),
                _ => None,
            }));
            assert!(held.len() <= ACTIVE_MAX);
            let Some(next) = held.pop_front() else { break };
            turns += 1;
            arbiter.held(next, &mut out);
            arbiter.release(next, &mut out);
        }
        assert_eq!(turns, count);
    }

    #[test]
    fn overlapping_fences_are_granted_in_turn_and_disjoint_ones_at_once() {
        let (mut arbiter, mut out) = (Arbiter::new(1), Outbox::new());
        arbiter.acquire(fence(0, 1), fenced(0, 8), &mut out);
        arbiter.acquire(fence(0, 2), fenced(4, 8), &mut out);
        arbiter.acquire(fence(0, 3), fenced(10, 1), &mut out);
        arbiter.acquire(fence(0, 4), fenced(100, 1), &mut out);
        let held = |m: &(CoreId, FenceMessage)| match m.1 {
            FenceMessage::Hold(f, _) => Some(f.job),
            _ => None,
        };
        // 3 overlaps the waiting 2, so it stays behind it; 4 overlaps nothing.
        assert_eq!(out.drain(..).filter_map(|m| held(&m)).collect::<Vec<_>>(), [1, 4]);
        arbiter.held(fence(0, 1), &mut out);
        arbiter.release(fence(0, 1), &mut out);
        assert_eq!(out.drain(..).filter_map(|m| held(&m)).collect::<Vec<_>>(), [2]);
    }
}
