//! The engine's decision on each request and want that waits.

use nearflash_device::Owner;
use nearflash_request::{Access, Operation, Outcome, Request, Tag};
use nearflash_space::{Sharing, VolumeEntry};
use nearflash_units::ByteLen;

use super::{Item, Lane, Taken, Verdict, Waiting};
use crate::accounts::AccountId;
use crate::depth::Devices;
use crate::engine::Engine;
use crate::fence::Fenced;
use crate::need::Need;
use crate::pool::Pool;
use crate::turns::Waiting as _;

/// Whether a request changes a volume that several nodes serve.
fn is_change_of_many(entry: Option<&VolumeEntry>, request: &Request) -> bool {
    let is_change = request.operation.access() == Access::Write
        && !matches!(request.operation, Operation::Admit(_));
    is_change && entry.is_some_and(|entry| entry.sharing != Sharing::Own)
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
        let need = Need::of(request, entry, &self.layout);
        let devices = |entry| Devices::of(request, entry, &self.volumes);
        let devices = entry.map_or(Devices::None, devices);
        if !self.admission.depths.have_room(&devices) || self.is_stopped(request) {
            return Verdict::Waits;
        }
        let has_edges = self.edges.may_have(request);
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
                Need::Scratch(len) => taken.scratch = self.spare.take(len, pool),
            }
            if taken.buffer.or(taken.scratch).is_none() {
                let is_read = matches!(need, Need::Read(_));
                return Some(if is_read { Verdict::NoRoom(need.len()) } else { Verdict::Waits });
            }
        }
        if has_edges {
            taken.edges = self.edges.take(pool);
            if taken.edges.is_none() {
                taken.buffer.into_iter().for_each(|buffer| pool.give_back(buffer));
                taken.scratch.into_iter().for_each(|it| self.spare.give_back(it, pool));
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
        self.meters.note_wait(waiting.stamp);
        let request = &waiting.request;
        let entry = self.volumes.get(request.volume);
        let lane = match Need::of(request, entry, &self.layout) {
            Need::Read(ByteLen(0)) if self.edges.may_have(request) => Lane::Scratch,
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
            Item::Want(asker, want) => self.admission.judge_want(asker, want, gathers, pool),
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
            self.meters.note_turn(waiting.stamp);
        }
        match (item, verdict) {
            (Item::Request(it), Verdict::Begins(taken)) => self.begin_admitted(it, taken, pool),
            (Item::Request(it), Verdict::Ends(outcome)) => self.end_unbegun(it, outcome, pool),
            (Item::Want(asker, want), Verdict::Begins(taken)) => {
                self.admission.end_want(asker, want, taken.buffer);
            }
            (Item::Want(asker, want), Verdict::GivesWay) => {
                self.admission.end_want(asker, want, None)
            }
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
                self.meters.note_turn(waiting.stamp);
                self.end_unbegun(waiting, Outcome::Aborted, pool);
            }
        }
    }
}
