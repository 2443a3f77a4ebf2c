//! The changes of a mirror's membership, step by step.

use std::cmp::Reverse;

use nearflash_device::MirrorKey;

use super::mirror::{Change, Joiner, Mirror, Peer, Phase, Stage, Standing};
use super::record::{Element, Known, Record};
use super::{
    ADVANTAGE, Action, Conflict, HANDOVER_MAX, Membership, NodeKey, Partner, Proposal, Pulse,
    RETRY, Replica, SliceState, StoreAnswer, longer,
};
use crate::Role;
use crate::mutant::Mutant;
use crate::table::{Side, Term};

impl Membership {
    /// Whether a deliberate bug is on.
    pub(super) fn is(&self, mutant: Mutant) -> bool {
        #[cfg(test)]
        return self.mutant == Some(mutant);
        #[cfg(not(test))]
        return {
            _ = mutant;
            false
        };
    }

    /// Adopts a record, unless a later one is known.
    pub(super) fn adopt(&mut self, key: MirrorKey, known: Known) {
        let (now, lease) = (self.now, self.lease);
        let is_later = |mirror: &Mirror| {
            let coming = mirror.coming.as_ref().map(|coming| coming.revision);
            known.revision > coming.unwrap_or(mirror.known.revision)
        };
        let is_taken = |mirror: &Mirror| is_later(mirror) && mirror.phase != Phase::Fenced;
        if !self.mirrors.get(&key).is_some_and(is_taken) || self.holds_back(key, &known) {
            return;
        }
        let Some(mirror) = self.mirrors.get_mut(&key) else { return };
        (mirror.coming, mirror.keeps) = (None, None);
        let before = mirror.standing();
        let had_stopped = mirror.view.is_some_and(|view| view.role == Role::Nobody);
        let proposal = match &mirror.phase {
            Phase::Proposing(record) | Phase::Again(record) => Some(record.clone()),
            _ => None,
        };
        mirror.known = known;
        let after = mirror.standing();
        let is_own = proposal.as_ref() == Some(&mirror.known.record);
        mirror.phase = Phase::Idle;
        mirror.compared = None;
        mirror.retry_at = now;
        mirror.has_failed = false;
        mirror.peers_mut().for_each(|peer| peer.has_failed = false);
        let joiner = mirror.joiner.take();
        mirror.is_open &= after == Standing::Primary && before == after;
        if after == Standing::Primary {
            // A taker has stopped and drained before it proposed.
            mirror.is_open |= is_own && before == Standing::Secondary && had_stopped;
            if let Some(other) = mirror.other().map(|peer| peer.replica.ordinal) {
                mirror.peers_mut().for_each(|peer| peer.needed_since = now);
                let joiner = joiner.filter(|joiner| joiner.replica == other);
                mirror.session = joiner.map_or(mirror.session, |joiner| joiner.session);
            }
        }
        if matches!(after, Standing::Out | Standing::Suspect) {
            mirror.stay += 1;
            mirror.covered = None;
        }
        mirror.cover();
        mirror.pace(before, after, now);
        let has_entered = matches!(after, Standing::Primary | Standing::Secondary)
            && !matches!(before, Standing::Primary | Standing::Secondary);
        if has_entered {
            // The primary may hold a lease that counts on this replica not to take part.
            mirror.given = mirror.given.max(now.plus(longer(lease)));
        }
    }

    /// Adopts a list of replicas, unless a later one is known.
    pub(super) fn replace_peers(
        &mut self,
        key: MirrorKey,
        others: &[Replica],
        leaving: Option<u32>,
        places: i64,
    ) {
        let now = self.now;
        if let Some(mirror) = self.mirrors.get_mut(&key).filter(|it| it.places < places) {
            mirror.set_peers(others, leaving, places, now);
        }
    }

    /// The store has answered.
    pub(super) fn answered(&mut self, key: MirrorKey, call: u64, answer: StoreAnswer) {
        let retry_at = self.now.plus(RETRY);
        let believes_failure = self.is(Mutant::UnknownIsFailure);
        let believes_older = self.is(Mutant::OlderIsAnswer);
        let Some(mirror) = self.mirrors.get_mut(&key).filter(|it| it.call == call) else { return };
        if mirror.coming.is_some() {
            // The outcome is known. Only a later record is news.
            if let StoreAnswer::Read(known) = answer {
                self.adopt(key, known);
            }
            return;
        }
        let is_older = !believes_older && is_older(&answer, &mirror.known);
        let answer = if is_older { StoreAnswer::Unknown } else { answer };
        match (mirror.phase.clone(), answer) {
            (Phase::Reading(change), StoreAnswer::Read(known))
                if known.revision == mirror.known.revision =>
            {
                self.begin(key, change);
            }
            (_, StoreAnswer::Read(known)) => self.adopt(key, known),
            (Phase::Reading(_), _) => {
                mirror.phase = Phase::Idle;
                mirror.retry_at = retry_at;
            }
            (Phase::Proposing(record), StoreAnswer::Committed(revision)) => {
                self.adopt(key, Known { record, revision });
                if self.mirrors.get(&key).is_some_and(|mirror| mirror.coming.is_none()) {
                    self.tell(key);
                }
            }
            (Phase::Proposing(record), StoreAnswer::Refused(conflict)) => {
                self.refused(key, record, conflict);
            }
            (Phase::Proposing(_), _) if believes_failure => {
                mirror.phase = Phase::Idle;
                mirror.retry_at = retry_at;
            }
            (Phase::Proposing(record), _) => {
                // It may still take effect, so the same one is sent until a copy is answered.
                mirror.phase = Phase::Again(record);
                mirror.retry_at = retry_at;
            }
            _ => {}
        }
    }

    /// A proposal was refused. A refusal that shows no reason is that of another store.
    fn refused(&mut self, key: MirrorKey, record: Record, conflict: Conflict) {
        let retry_at = self.now.plus(RETRY);
        let Some(mirror) = self.mirrors.get_mut(&key) else { return };
        if conflict.known.revision != mirror.known.revision {
            return self.adopt(key, conflict.known);
        }
        let has_moved = |compared: i64| conflict.places > compared;
        mirror.phase = if conflict.is_fenced {
            Phase::Fenced
        } else if mirror.compared.is_some_and(has_moved) {
            // No copy of the proposal can take effect.
            (mirror.compared, mirror.joiner) = (None, None);
            Phase::Idle
        } else {
            Phase::Again(record)
        };
        mirror.retry_at = retry_at;
    }

    /// Tells the other nodes the record.
    pub(super) fn tell(&mut self, key: MirrorKey) {
        let Some(mirror) = self.mirrors.get(&key) else { return };
        for peer in mirror.peers() {
            let tell = Pulse::Tell(key, mirror.known.clone());
            self.actions.push_back(Action::Send(peer.replica.node, tell));
        }
    }

    pub(super) fn step_all(&mut self) {
        let keys: Vec<MirrorKey> = self.mirrors.keys().copied().collect();
        keys.into_iter().for_each(|key| self.step(key));
    }

    /// Does what is due for a mirror.
    fn step(&mut self, key: MirrorKey) {
        // While a term waits for the slice, there is nothing else to do.
        let is_ready = |mirror: &&Mirror| mirror.coming.is_none();
        let Some(mirror) = self.mirrors.get(&key).filter(is_ready) else { return };
        let (phase, is_shown) = (mirror.phase.clone(), mirror.is_shown(self.shown));
        let is_due = self.now >= mirror.retry_at;
        match phase {
            Phase::Stopping(change) if is_shown => {
                let number = self.drain(key);
                self.set_phase(key, Phase::Draining(change, number));
                self.bound_handover(key);
            }
            Phase::Draining(Change::HandOver, _) if is_due => self.hand_over(key),
            Phase::Again(record) if is_due => self.propose(key, record),
            Phase::Idle => self.step_idle(key, is_shown, is_due),
            _ => self.step_return(key, is_shown, is_due),
        }
    }

    /// A device that hangs delays a handover for a moment only: what is under way here then reaches a
    /// replica that is out of sync, and the other replica applies what it has accepted before it opens.
    fn bound_handover(&mut self, key: MirrorKey) {
        let until = self.now.plus(HANDOVER_MAX);
        if let Some(mirror) = self.mirrors.get_mut(&key) {
            mirror.retry_at = until;
        }
    }

    /// The writes of this primary are complete, or have been waited for.
    fn hand_over(&mut self, key: MirrorKey) {
        let is_still_wanted = self.wanted_change(key) == Some(Change::HandOver);
        let Some(mirror) = self.mirrors.get_mut(&key) else { return };
        mirror.phase = Phase::Idle;
        if let Some(record) = mirror.proposal(Change::HandOver).filter(|_| is_still_wanted) {
            self.propose(key, record);
        }
    }

    fn step_idle(&mut self, key: MirrorKey, is_shown: bool, is_due: bool) {
        let mirror = &self.mirrors[&key];
        match mirror.standing() {
            Standing::Primary if !mirror.is_open && is_shown && mirror.is_noted() => {
                let number = self.drain(key);
                self.set_phase(key, Phase::Opening(number));
            }
            Standing::Primary if !mirror.is_open => {}
            Standing::Out => self.set_phase(key, Phase::Emptying),
            _ => {
                if let Some(change) = self.wanted_change(key).filter(|_| is_due) {
                    self.set_phase(key, Phase::Reading(change));
                    self.read(key);
                } else {
                    self.step_joiner(key, is_shown);
                }
            }
        }
    }

    /// The change that this node wants, if any.
    fn wanted_change(&self, key: MirrorKey) -> Option<Change> {
        if self.is_stalled {
            return None;
        }
        let mirror = &self.mirrors[&key];
        if mirror.coming.is_some() || !mirror.may_propose() {
            return None;
        }
        match mirror.standing() {
            Standing::Primary => {
                let is_ready = |(joiner, peer): (Joiner, &Peer)| {
                    joiner.stage == Stage::Requiring && peer.held > self.now
                };
                if mirror.joining().is_some_and(is_ready) && mirror.is_shown(self.shown) {
                    return Some(Change::Add);
                }
                let other = mirror.other()?;
                let is_gone = self.is_gone(mirror, other) || other.has_lost_lease(self.now);
                if is_gone || other.has_failed {
                    return Some(Change::Drop);
                }
                // Otherwise, a loss of power could leave it with a slice that knows nothing of a later term.
                let may_follow = other.has_noted() || self.is(Mutant::HandsOverUnnoted);
                let leaves_place = mirror.leaving == Some(mirror.own.ordinal);
                let is_wanted = mirror.has_failed || self.is_leaving || leaves_place;
                (is_wanted && may_follow).then_some(Change::HandOver)
            }
            Standing::Secondary => {
                let is_over = self.now > mirror.given.plus(ADVANTAGE);
                let is_over = is_over || self.is(Mutant::LeaseNotAwaited);
                let is_gone = mirror.other().is_some_and(|other| self.is_gone(mirror, other));
                (is_gone || is_over).then_some(Change::TakeOver)
            }
            Standing::Suspect => self.recovers(key).then_some(Change::Recover),
            Standing::Out => None,
        }
    }

    /// Whether the process of the other replica in sync, on which the record counts, runs no more.
    fn is_gone(&self, mirror: &Mirror, other: &Peer) -> bool {
        let (partner, now) = self.process_of(other);
        let recorded = mirror.other_element().map(|element| element.incarnation);
        partner.is_dead || now.is_some_and(|now| recorded.is_some_and(|it| it < now.incarnation))
    }

    /// The node of another replica, and its slice as it is now.
    pub(super) fn process_of(&self, peer: &Peer) -> (&Partner, Option<&SliceState>) {
        let partner = &self.partners[&peer.replica.node];
        (partner, partner.slices.iter().find(|slice| slice.slice == peer.replica.slice))
    }

    /// Whether this suspect may go on alone: no element can hold more than it does.
    fn recovers(&self, key: MirrorKey) -> bool {
        let mirror = &self.mirrors[&key];
        let record = &mirror.known.record;
        let Some(own) = record.element(mirror.own.ordinal) else { return false };
        if self.is(Mutant::SuspectTakesOver) {
            return true;
        }
        let Some((other, peer)) = mirror.other_element().zip(mirror.other()) else {
            // The place of another replica in sync may not be known yet.
            return record.in_sync.len() < 2;
        };
        let (partner, now) = self.process_of(peer);
        let Some(now) = now.filter(|_| partner.run.is_some()) else { return false };
        if now.incarnation == other.incarnation {
            return false;
        }
        let ahead = partner.ahead.iter().find(|(mirror, _)| *mirror == key).map(|(_, term)| *term);
        // Rather one with bytes of a later term, then one that kept its power, then the primary, then the lower
        // ordinal.
        let rank = |Element { replica, incarnation }, ahead: Option<Term>, power: u64| {
            (Reverse(ahead), incarnation < power, replica != record.primary, replica)
        };
        rank(own, mirror.ahead(), mirror.slice.power) < rank(other, ahead, now.power)
    }

    /// The store has answered, so the change begins.
    fn begin(&mut self, key: MirrorKey, change: Change) {
        let is_still_wanted = self.wanted_change(key) == Some(change);
        let ignores_places = self.is(Mutant::PlacesIgnored);
        let skips_drain = self.is(Mutant::ProposesUndrained) && change == Change::TakeOver;
        let Some(mirror) = self.mirrors.get_mut(&key) else { return };
        mirror.phase = Phase::Idle;
        if !is_still_wanted {
            return;
        }
        mirror.compared = (change == Change::Add && !ignores_places).then_some(mirror.places);
        match change {
            Change::TakeOver | Change::HandOver if !skips_drain => {
                mirror.phase = Phase::Stopping(change);
            }
            _ => {
                if let Some(joiner) = mirror.joiner.as_mut().filter(|_| change == Change::Add) {
                    joiner.stage = Stage::Added;
                }
                if let Some(record) = mirror.proposal(change) {
                    self.propose(key, record);
                }
            }
        }
    }

    fn propose(&mut self, key: MirrorKey, record: Record) {
        self.calls += 1;
        let Some(mirror) = self.mirrors.get_mut(&key) else { return };
        let (revision, places) = (mirror.known.revision, mirror.compared);
        mirror.phase = Phase::Proposing(record.clone());
        mirror.call = self.calls;
        let proposal = Proposal { revision, places, record };
        self.actions.push_back(Action::Propose(key, self.calls, proposal));
    }

    fn read(&mut self, key: MirrorKey) {
        self.calls += 1;
        let Some(mirror) = self.mirrors.get_mut(&key) else { return };
        mirror.call = self.calls;
        self.actions.push_back(Action::Read(key, self.calls));
    }

    pub(super) fn drain(&mut self, key: MirrorKey) -> u64 {
        self.drains += 1;
        self.actions.push_back(Action::Drain(self.drains, key));
        self.drains
    }

    pub(super) fn set_phase(&mut self, key: MirrorKey, phase: Phase) {
        if let Some(mirror) = self.mirrors.get_mut(&key) {
            mirror.phase = phase;
            mirror.retry_at = self.now;
        }
        // The needs of the new phase may be met already.
        if matches!(self.mirrors[&key].phase, Phase::Emptying | Phase::Readying) {
            self.step(key);
        }
    }

    /// A part of an operation failed here, or there by the word of this node's cores.
    pub(super) fn failed_here(&mut self, key: MirrorKey, side: Side) {
        let Some(mirror) = self.mirrors.get_mut(&key) else { return };
        match (mirror.standing(), side) {
            (Standing::Primary, Side::Local) => mirror.has_failed = true,
            (Standing::Primary, Side::Remote(session)) => {
                let joiner = mirror.joiner.filter(|joiner| joiner.session == session);
                let other = mirror.other().filter(|_| mirror.session == session);
                let ordinal = joiner.map(|it| it.replica).or(other.map(|it| it.replica.ordinal));
                if let Some(peer) = ordinal.and_then(|ordinal| mirror.peer_mut(ordinal)) {
                    peer.has_failed = true;
                }
            }
            // It keeps what it has accepted, so it takes over only when that has been applied.
            (Standing::Secondary, Side::Local) => {
                let failed = Pulse::Failed { mirror: key };
                let to = mirror.primary_node();
                self.actions.extend(to.map(|to| Action::Send(to, failed)));
            }
            _ => {}
        }
    }

    /// A node that leaves does not let primaries wait for its leases.
    pub(super) fn ask_to_be_dropped(&mut self) {
        let is_leaving = self.is_leaving;
        let mirrors = self.mirrors.iter().filter(|_| is_leaving);
        for (key, mirror) in mirrors.filter(|(_, it)| it.standing() == Standing::Secondary) {
            let failed = Pulse::Failed { mirror: *key };
            self.actions.extend(mirror.primary_node().map(|to| Action::Send(to, failed)));
        }
    }

    /// Another node says that its replica has failed.
    pub(super) fn failed_there(&mut self, from: NodeKey, key: MirrorKey) {
        let mirror = self.mirrors.get_mut(&key).filter(|it| it.standing() == Standing::Primary);
        if let Some(peer) = mirror.and_then(|mirror| mirror.peer_at_mut(from)) {
            peer.has_failed = true;
        }
    }

    /// Gives the cores the views that have changed.
    pub(super) fn publish(&mut self) {
        let number = self.published + 1;
        let mut views = Vec::new();
        for (key, mirror) in &mut self.mirrors {
            let view = mirror.wanted_view();
            if mirror.view != Some(view) {
                mirror.view = Some(view);
                mirror.published = number;
                views.push((*key, view));
            }
        }
        if !views.is_empty() {
            self.published = number;
            self.actions.push_back(Action::Publish(number, views));
        }
    }
}

/// Whether a store gave this answer that lacks the known record: it was restored from a snapshot, or the
/// address is that of another one. Such an answer tells nothing of the cluster's store, so it is asked again.
fn is_older(answer: &StoreAnswer, known: &Known) -> bool {
    match answer {
        StoreAnswer::Read(found) | StoreAnswer::Refused(Conflict { known: found, .. }) => {
            found.revision < known.revision
                || found.revision == known.revision && found.record != known.record
        }
        StoreAnswer::Committed(_) | StoreAnswer::Unknown => false,
    }
}
