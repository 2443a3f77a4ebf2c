//! The steps of an operation on a mirror, from its submission to its end.

use nearflash_device::{
    Cause, DeviceId, DeviceOperation, DeviceRequest, DeviceResult, OperationId,
};
use nearflash_request::{Outcome, SentIn};
use nearflash_units::{ByteOffset, Nanos, index};

use super::{
    Asker, COPY, HOLD, LOCAL, MirrorMessage, Mirrors, REDRIVE, REMOTES, REPLICA_TIMEOUT,
    RETRY_PERIOD, SLOW_PERIOD, Submission, place_of,
};
use crate::job::{Job, Next, Part, Stage, is_unreached, told};
use crate::locks::{Range, Ticket};
use crate::mutant::Mutant;
use crate::table::{Core, MirrorEntry, MirrorId, REMOTES_MAX, Role, Side, Term};

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

    pub(super) fn slot_of(&self, id: OperationId) -> Option<usize> {
        self.slots.slot_of(id).filter(|slot| self.jobs.contains(*slot))
    }

    /// Begins a job of which nothing was sent.
    pub(super) fn begin(&mut self, slot: usize) {
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
            // The node that has forwarded it asks again, or asks the next primary.
            Role::Secondary | Role::Elsewhere | Role::Nobody if job.is_forwarded() => {
                self.end(slot, DeviceResult::Remote(Outcome::DeviceUnavailable));
            }
            Role::Nobody => self.wait(),
            Role::Secondary | Role::Elsewhere => match entry.primary {
                Some(device) => {
                    let (sent, request) =
                        (entry.sent_in(0), DeviceRequest { device, ..job.request });
                    self.pass(slot, request, sent);
                }
                None => self.wait(),
            },
        }
    }

    fn begin_at_primary(&mut self, slot: usize) {
        use DeviceOperation as Op;
        let job = &self.jobs[slot];
        let entry = self.table.entry(job.mirror).expect("the caller has seen it");
        let (zeroes, deallocates, owner) = (entry.zeroes, entry.deallocates, entry.owner);
        if entry.local.is_none() {
            return self.wait();
        }
        match job.request.operation {
            Op::Read { .. } | Op::Allocation => self.read(slot),
            Op::Flush => self.flush(slot),
            Op::WriteZeroes { .. } if !zeroes => self.end(slot, DeviceResult::Unsupported),
            // A hint may leave different bytes on different replicas, so it is zeroes or nothing.
            Op::Deallocate if (!zeroes || !deallocates) && !self.is(Mutant::Hint) => {
                self.end(slot, DeviceResult::Done);
            }
            Op::Write { .. } | Op::WriteZeroes { .. } | Op::Deallocate => self.lock(slot, owner),
        }
    }

    /// Reads the replica of this node.
    fn read(&mut self, slot: usize) {
        let id = self.slots.id(slot, LOCAL);
        let job = &mut self.jobs[slot];
        let entry = self.table.entry(job.mirror).expect("the caller has seen it");
        let local = entry.local.expect("the caller has seen it");
        (job.stage, job.stay) = (Stage::Reading, entry.stay);
        let offset = ByteOffset(local.start.0 + job.request.offset.0);
        let request = DeviceRequest { id, device: local.device, offset, ..job.request };
        self.submissions.push_back(Submission::new(request, job.mirror, None));
    }

    /// The start in which an operation that is sent now is done.
    fn note_start(&mut self, slot: usize) {
        let since = self.entry(self.jobs[slot].mirror).map(|entry| entry.kept_since);
        self.jobs[slot].kept_since = since.unwrap_or(Term::first());
    }

    fn pass(&mut self, slot: usize, request: DeviceRequest, sent: SentIn) {
        self.jobs[slot].stage = Stage::Passing(request.device);
        self.note_start(slot);
        let id = self.slots.id(slot, LOCAL);
        let Job { mirror, cause, .. } = self.jobs[slot];
        let request = DeviceRequest { id, ..request };
        let cause = Cause { sent_in: Some(sent), ..cause };
        self.submissions.push_back(Submission { request, mirror, cause, digests: None });
    }

    /// Another node has answered. An operation that it has not done, or that changes no data, is begun
    /// anew while it is young enough.
    pub(super) fn passed(&mut self, slot: usize, device: DeviceId, result: DeviceResult) {
        let job = self.jobs[slot];
        let is_untouched = result == DeviceResult::Remote(Outcome::DeviceUnavailable);
        let is_repeatable = is_untouched || is_unreached(result) && !job.changes_data();
        if !is_repeatable || self.is_too_old(&job) {
            return self.end(slot, result);
        }
        self.jobs[slot].stage = Stage::Held;
        let has_moved = self.entry(job.mirror).is_none_or(|it| it.primary != Some(device));
        if has_moved { self.begin(slot) } else { self.wait() }
    }

    /// Answers a read, if this node is known to have been the primary when the bytes were read: it holds
    /// leases of all other replicas in sync after that, in the same stay in sync.
    pub(super) fn judge(&mut self, slot: usize, result: DeviceResult) {
        let job = &self.jobs[slot];
        let Some(entry) = self.entry(job.mirror) else {
            return self.end(slot, DeviceResult::Gone);
        };
        let is_same_stay = entry.stay == job.stay;
        let until = self.leases.get(index(job.mirror.0)).copied().unwrap_or(Nanos(0));
        let has_lease =
            !entry.needs_lease || until > self.now || self.is(Mutant::ReadsWithoutLease);
        match entry.role {
            Role::Primary if is_same_stay && has_lease => self.end(slot, result),
            Role::Primary | Role::Nobody if is_same_stay => self.wait(),
            _ => self.begin(slot),
        }
    }

    /// Judges all reads that wait for it.
    pub(super) fn judge_all(&mut self) {
        for slot in 0..self.jobs.capacity() {
            let stage = self.jobs.get(slot).map(|job| job.stage);
            if let Some(Stage::Judging(result)) = stage {
                self.judge(slot, result);
            }
        }
    }

    fn flush(&mut self, slot: usize) {
        let needs = |is_volatile: bool| if is_volatile { Part::Due } else { Part::Unneeded };
        let job = &mut self.jobs[slot];
        let entry = self.table.entry(job.mirror).expect("the caller has seen it");
        job.stage = Stage::Flushing;
        self.slow_at.get_or_insert(self.now.plus(REPLICA_TIMEOUT));
        job.local = needs(entry.local.is_some_and(|local| local.volatile_cache));
        job.remotes = entry.remotes.map(|it| needs(it.is_some_and(|remote| remote.volatile_cache)));
        if self.is(Mutant::LocalFlush) {
            self.jobs[slot].remotes = [Part::Unneeded; REMOTES_MAX];
        }
        self.send_due(slot);
        if self.jobs[slot].local == Part::Due {
            self.send(slot, LOCAL);
        }
        self.advance(slot);
    }

    /// Asks for the range of a write, or of a read that is repaired.
    pub(super) fn lock(&mut self, slot: usize, owner: Core) {
        let is_repair = !self.jobs[slot].changes_data();
        if self.is(Mutant::NoLock) || is_repair && self.is(Mutant::RepairUnlocked) {
            return self.go_on(slot, Term(0));
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
        if is_held { self.go_on(slot, self.last_term(ticket)) } else { self.wait() }
    }

    /// The last term of those who held locks of the mirror of this one.
    fn last_term(&self, ticket: Ticket) -> Term {
        let mirror = self.locks.mirror(ticket);
        self.terms.get(index(mirror.0)).copied().unwrap_or(Term(0))
    }

    /// Another mirror may get the place of one that is gone.
    pub(super) fn forget_terms(&mut self) {
        let Self { terms, table, .. } = self;
        for (mirror, term) in (0..).map(MirrorId).zip(terms) {
            if table.entry(mirror).is_none() {
                *term = Term(0);
            }
        }
    }

    /// Tells another core of a lock.
    pub(super) fn answer(&mut self, asker: Asker, ticket: Ticket, is_held: bool) {
        let term = self.last_term(ticket);
        let answer = MirrorMessage::Locked { asker, ticket, is_held, term };
        self.messages.push_back((asker.core, answer));
    }

    /// Takes back a lock that was held in this term.
    pub(super) fn release(&mut self, ticket: Ticket, term: Term) {
        let place = index(self.locks.mirror(ticket).0);
        if self.terms.len() <= place {
            self.terms.resize(place + 1, Term(0));
        }
        self.terms[place] = self.terms[place].max(term);
        self.locks.release(ticket, &mut self.granted);
    }

    /// The owner has given a ticket to a job of this core, or grants its lock.
    pub(super) fn locked(&mut self, asker: Asker, ticket: Ticket, is_held: bool, term: Term) {
        if asker.job.op >= COPY {
            return self.copy_locked(asker.job);
        }
        // A job that has ended has given its ticket back: this message was under way meanwhile.
        let Some(slot) = self.slot_of(asker.job) else { return };
        self.jobs[slot].ticket = Some(ticket);
        match self.jobs[slot].stage {
            Stage::GivenUp => {
                self.unlock(slot);
                self.remove(slot);
            }
            Stage::Locking if is_held => self.lock_held(slot, term),
            _ => {}
        }
    }

    fn lock_held(&mut self, slot: usize, term: Term) {
        let job = &self.jobs[slot];
        if self.is_too_old(job) {
            return self.end(slot, DeviceResult::Remote(Outcome::DeviceUnavailable));
        }
        match self.table.entry(job.mirror) {
            Some(entry) if entry.role == Role::Primary => self.go_on(slot, term),
            _ => {
                self.unlock(slot);
                self.begin(slot);
            }
        }
    }

    /// Starts what needs the range, which was held before in this term at the latest.
    fn go_on(&mut self, slot: usize, term: Term) {
        self.jobs[slot].term = term;
        if self.jobs[slot].changes_data() { self.write(slot) } else { self.fetch(slot) }
    }

    pub(super) fn is_too_old(&self, job: &Job) -> bool {
        if !job.changes_data() {
            return job.since.plus(HOLD) < self.now;
        }
        let until = job.since.plus(REDRIVE).min(job.cause.begin_by);
        until < self.now && !self.is(Mutant::OldWrite)
    }

    /// Starts a write that holds its range.
    fn write(&mut self, slot: usize) {
        let Job { mirror, request: DeviceRequest { offset, len, .. }, .. } = self.jobs[slot];
        if !self.is(Mutant::WritesUnnoted) {
            self.note_written(mirror, offset, len);
        }
        let entry = self.table.entry(self.jobs[slot].mirror).expect("the caller has seen it");
        let (remotes, term) = (entry.remotes, entry.term);
        let job = &mut self.jobs[slot];
        (job.term, job.has_effect) = (term, false);
        (job.stage, job.local) = (Stage::Writing, Part::Due);
        job.remotes = remotes.map(|remote| remote.map_or(Part::Unneeded, |_| Part::Due));
        self.slow_at.get_or_insert(self.now.plus(REPLICA_TIMEOUT));
        self.note_start(slot);
        self.send_due(slot);
        if self.is(Mutant::LocalFirst) {
            self.send(slot, LOCAL);
        }
        self.advance(slot);
    }

    /// Submits those parts of a job at other nodes that are due.
    fn send_due(&mut self, slot: usize) {
        for (place, op) in REMOTES.into_iter().enumerate() {
            if self.jobs[slot].remotes[place] == Part::Due {
                self.send(slot, op);
            }
        }
    }

    /// Submits one part of a job.
    fn send(&mut self, slot: usize, op: u16) {
        let id = self.slots.id(slot, op);
        let is_hint = self.is(Mutant::Hint);
        let job = &mut self.jobs[slot];
        let operation = match job.request.operation {
            DeviceOperation::Deallocate if !is_hint => {
                DeviceOperation::WriteZeroes { deallocate: true }
            }
            operation => operation,
        };
        let entry = self.table.entry(job.mirror).expect("the caller has seen it");
        let submission = match place_of(op) {
            None => {
                job.local = Part::UnderWay;
                let local = entry.local.expect("a primary has a replica");
                let offset = ByteOffset(local.start.0 + job.request.offset.0);
                let request =
                    DeviceRequest { id, device: local.device, offset, operation, ..job.request };
                Submission::new(request, job.mirror, None)
            }
            Some(place) => {
                job.remotes[place] = Part::UnderWay;
                let remote = entry.remotes[place].expect("the caller has seen it");
                let request = DeviceRequest { id, device: remote.device, operation, ..job.request };
                Submission::new(request, job.mirror, Some(entry.sent_in(remote.session)))
            }
        };
        self.submissions.push_back(submission);
    }

    /// Goes on with a job that is under way at all replicas.
    pub(super) fn advance(&mut self, slot: usize) {
        let job = &self.jobs[slot];
        let entry = self.table.entry(job.mirror);
        let mut next = job.next(entry);
        let is_alone = entry.is_some_and(|e| e.role == Role::Primary && !e.has_remotes());
        if self.is(Mutant::BufferInUse) && is_alone && job.local == Part::Done {
            next = Next::End(DeviceResult::Done);
        }
        if self.is(Mutant::OneCopy) && job.local == Part::Done && job.stage == Stage::Writing {
            next = Next::End(DeviceResult::Done);
        }
        match next {
            Next::Wait => {}
            Next::Retry => self.wait(),
            Next::Local => self.send(slot, LOCAL),
            Next::End(result) => self.end(slot, result),
            Next::Lost => self.end(slot, DeviceResult::Remote(Outcome::PathLost)),
            Next::Anew if self.is_too_old(&self.jobs[slot]) => {
                self.end(slot, DeviceResult::Remote(Outcome::DeviceUnavailable));
            }
            Next::Anew => {
                self.unlock(slot);
                self.begin(slot);
            }
        }
    }

    /// Reports replicas whose part of an operation has been under way for too long, or has failed and is not
    /// tried again. They are waited for until a table comes without them.
    pub(super) fn look_for_slow_replicas(&mut self) {
        let is_open =
            |job: &Job| matches!(job.stage, Stage::Writing | Stage::Flushing | Stage::Repairing);
        let now = self.now;
        let open = self.jobs.iter().map(|(_, job)| job).filter(|job| is_open(job));
        // The parts of one replica would all be reported.
        let mut found: Vec<(MirrorId, Option<usize>)> = Vec::new();
        for job in open.clone() {
            let is_late = job.since.plus(REPLICA_TIMEOUT) <= now;
            let remotes = (0..).map(Some).zip(job.remotes);
            for (place, part) in std::iter::once((None, job.local)).chain(remotes) {
                let has_failed = job.stage != Stage::Repairing
                    && matches!(part, Part::Failed(_))
                    && !part.is_repeatable(job.stage);
                let is_bad = has_failed || is_late && part.is_under_way();
                let replica = (job.mirror, place);
                if is_bad && !found.contains(&replica) {
                    found.push(replica);
                }
            }
        }
        self.slow_at = open.count().gt(&0).then(|| now.plus(SLOW_PERIOD));
        for (mirror, place) in found {
            self.note_failure(mirror, DeviceResult::Gone, place);
        }
    }

    /// A part has failed: that of the replica with this place in the table, or the local one. One that the table
    /// does not have any more matters to nobody.
    pub(super) fn note_failure(
        &mut self,
        mirror: MirrorId,
        result: DeviceResult,
        place: Option<usize>,
    ) {
        let side = match place {
            None => Some(Side::Local),
            Some(place) => {
                let remote = self.entry(mirror).and_then(|entry| entry.remotes[place]);
                remote.map(|remote| Side::Remote(remote.session))
            }
        };
        self.failures.extend(side.map(|side| (mirror, result, side)));
    }

    /// Something waits, and has to be looked at later.
    pub(crate) fn wait(&mut self) {
        let at = self.now.plus(RETRY_PERIOD);
        self.look_at.get_or_insert(at);
    }

    /// Looks at all that waits.
    pub(super) fn look(&mut self) {
        self.look_at = self.faces.look(&self.table, self.now);
        self.look_at_copies();
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
            Stage::Held | Stage::Locking | Stage::Judging(_) if self.is_too_old(&job) => {
                self.end(slot, DeviceResult::Remote(Outcome::DeviceUnavailable));
            }
            Stage::Held => self.begin(slot),
            Stage::Locking if job.is_forwarded() && self.is_stopped(job.mirror) => {
                self.end(slot, DeviceResult::Remote(Outcome::DeviceUnavailable));
            }
            Stage::Locking => self.wait(),
            Stage::Writing | Stage::Flushing => self.try_again(slot),
            Stage::Judging(result) => self.judge(slot, result),
            Stage::Repairing => self.look_at_repair(slot),
            Stage::GivenUp | Stage::Passing(_) | Stage::Reading => {}
        }
    }

    fn is_stopped(&self, mirror: MirrorId) -> bool {
        self.entry(mirror).is_some_and(|entry| entry.role == Role::Nobody)
    }

    /// Sends those parts again that failed, if they are still needed.
    fn try_again(&mut self, slot: usize) {
        let mirror = self.jobs[slot].mirror;
        if let Some(entry) = self.table.entry(mirror).filter(|it| it.role == Role::Primary) {
            self.jobs[slot].term = entry.term;
            self.jobs[slot].forget_dropped(entry);
        }
        let job = self.jobs[slot];
        if job.next(self.table.entry(job.mirror)) == Next::Retry {
            let entry = self.table.entry(job.mirror).expect("a job is tried again at the primary");
            let is_named = entry.remotes.map(|remote| remote.is_some());
            for (place, op) in REMOTES.into_iter().enumerate() {
                if is_named[place] && job.remotes[place].is_repeatable(job.stage) {
                    self.send(slot, op);
                }
            }
            if job.local.is_repeatable(job.stage) {
                self.send(slot, LOCAL);
            }
        }
        self.advance(slot);
    }

    /// Ends a job.
    pub(super) fn end(&mut self, slot: usize, result: DeviceResult) {
        self.losses.note_answer(&self.jobs[slot], result);
        let DeviceRequest { id, operation, .. } = self.jobs[slot].request;
        self.ended.push_back((id, told(operation, result)));
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

    pub(super) fn unlock(&mut self, slot: usize) {
        let Some(ticket) = self.jobs[slot].ticket.take() else { return };
        let Job { owner, term, .. } = self.jobs[slot];
        if owner == self.core {
            self.release(ticket, term);
        } else {
            self.messages.push_back((owner, MirrorMessage::Unlock { ticket, term }));
        }
    }

    /// Tells everyone whose lock was granted. A job that is too old gives its lock back at once, so
    /// this is a loop instead of a recursion as deep as the queue is long.
    pub(crate) fn tell_granted(&mut self) {
        let mut at = 0;
        while let Some((ticket, asker)) = self.granted.get(at).copied() {
            at += 1;
            if asker.core == self.core {
                self.locked(asker, ticket, true, self.last_term(ticket));
            } else {
                self.answer(asker, ticket, true);
            }
        }
        self.granted.clear();
    }
}
