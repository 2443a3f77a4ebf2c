//! The accesses that reservations allow, over time: each answer to a host is compared with them.
//!
//! A change of reservations begins when the control side tells the cores, and is over when each has
//! confirmed. In between, either state may be in force. So a request that was sent at `s` and
//! answered at `n` is checked against every state that was in force, on any core, from `s` to `n`:
//! it may succeed only if one of them allows it, and may be refused only if one of them refuses it.
//! A write of a host that had lost its access before the write was sent never succeeds.
//!
//! The node is not asked who may do what: [`Rules`] decide this, and repeat each change.

mod rules;

use std::collections::BTreeMap;

use nearflash_request::{Access, Change, ChangeKind, Nexus, Report};

pub(crate) use rules::{Ends, Rules};

use crate::machine::NodeId;
use crate::witness::Tick;

/// The rules in force, with the time they were in force.
#[derive(Debug)]
struct State {
    rules: Rules,
    begins: Tick,
    ends: Tick,
}

impl State {
    fn refuses(&self, nexus: Nexus, access: Access) -> bool {
        !self.rules.allow(nexus, access)
    }
}

/// An access to a volume by a nexus, and the time at which its command was sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    /// The volume.
    pub volume: u32,
    /// The nexus that sent the command.
    pub nexus: Nexus,
    /// The kind of access.
    pub access: Access,
    /// When it was sent.
    pub sent: Tick,
}

/// All states of every volume.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    states: BTreeMap<u32, Vec<State>>,
    /// The number of requested changes with this result whose answers are still due.
    unanswered: BTreeMap<(Nexus, Ends), u64>,
    /// Answers that were compared with a restriction.
    pub(crate) judged: u64,
    /// Refusals among these answers.
    pub(crate) refused: u64,
}

impl Ledger {
    /// Whether anything was ever reserved in this run.
    pub(crate) fn is_used(&self) -> bool {
        !self.states.is_empty()
    }

    /// The cores begin to learn the state after a change. Returns the expected result of the
    /// change.
    pub(crate) fn begins(&mut self, change: &Change, now: Tick) -> Ends {
        let free = || vec![State { rules: Rules::default(), begins: Tick(0), ends: Tick::NEVER }];
        let states = self.states.entry(change.volume.0).or_insert_with(free);
        let mut rules = newest(states).clone();
        let ends = rules.change(change);
        states.push(State { rules, begins: now, ends: Tick::NEVER });
        if is_of_reservations(change.kind) {
            *self.unanswered.entry((change.nexus, ends)).or_default() += 1;
        }
        ends
    }

    /// A nexus received this result of a change.
    ///
    /// # Panics
    /// When it received this result more often than its changes had it.
    pub(crate) fn answered(&mut self, nexus: Nexus, ends: Ends) {
        let left = self.unanswered.get_mut(&(nexus, ends)).filter(|left| **left > 0);
        let left =
            left.unwrap_or_else(|| panic!("{nexus:?} is told {ends:?}, and no change ended so"));
        *left -= 1;
    }

    /// Whether a report of a volume's reservations is correct.
    pub(crate) fn agrees_with(&self, volume: u32, report: &Report) -> bool {
        match self.states.get(&volume) {
            Some(states) => newest(states).agree_with(report),
            None => Rules::default().agree_with(report),
        }
    }

    /// A node's power was lost: reservations that do not persist are gone, and older states no longer
    /// matter.
    pub(crate) fn power_lost(&mut self, node: NodeId, now: Tick) {
        for volume in self.volumes(node) {
            if let Some(states) = self.states.get_mut(&volume) {
                let mut rules = newest(states).clone();
                rules.lose_power();
                states.push(State { rules, begins: now, ends: Tick::NEVER });
            }
            self.counts(volume, now);
        }
    }

    /// Every core uses the newest state of a volume.
    pub(crate) fn counts(&mut self, volume: u32, now: Tick) {
        let Some((_, older)) = self.states.get_mut(&volume).and_then(|all| all.split_last_mut())
        else {
            return;
        };
        for state in older.iter_mut().filter(|state| state.ends == Tick::NEVER) {
            state.ends = now;
        }
    }

    /// The states of a volume in force on at least one core.
    pub(crate) fn in_force(&self, volume: u32) -> Vec<Rules> {
        let Some(states) = self.states.get(&volume) else { return vec![Rules::default()] };
        let in_force = states.iter().filter(|state| state.ends == Tick::NEVER);
        in_force.map(|state| state.rules.clone()).collect()
    }

    /// A node's volumes on which a change was ever made.
    pub(crate) fn volumes(&self, node: NodeId) -> Vec<u32> {
        self.states.range(node.volumes()).map(|(volume, _)| *volume).collect()
    }

    /// A request was done.
    ///
    /// # Panics
    /// When no state in force meanwhile allows it.
    pub(crate) fn judge_done(&mut self, asked: Asked, now: Tick) {
        let Some(states) = self.states.get(&asked.volume) else { return };
        self.judged += u64::from(states.iter().any(|state| state.rules.restrict()));
        let is_explained = explains(states, asked, false, now);
        assert!(is_explained, "{asked:?} was done at {now:?}: {states:?}");
    }

    /// A request was refused because of a reservation of one of these volumes.
    ///
    /// # Panics
    /// When no state of any of them in force meanwhile refuses it.
    pub(crate) fn judge_refusal(&mut self, asked: &[Asked], now: Tick) {
        (self.judged, self.refused) = (self.judged + 1, self.refused + 1);
        let of = |asked: &Asked| self.states.get(&asked.volume);
        let is_explained = asked
            .iter()
            .any(|asked| of(asked).is_some_and(|states| explains(states, *asked, true, now)));
        let states: Vec<_> = asked.iter().map(of).collect();
        assert!(is_explained, "{asked:?} was refused at {now:?}: {states:?}");
    }
}

/// Whether any state in force during a request allows it, or refuses it.
fn explains(states: &[State], asked: Asked, is_refused: bool, now: Tick) -> bool {
    let Asked { nexus, access, sent, .. } = asked;
    let mut in_force = states.iter().filter(|it| it.begins <= now && it.ends >= sent);
    in_force.any(|state| state.refuses(nexus, access) == is_refused)
}

/// Whether a host asks for it by a command of reservations.
fn is_of_reservations(kind: ChangeKind) -> bool {
    !matches!(
        kind,
        ChangeKind::Reset(_) | ChangeKind::EndTasks(_) | ChangeKind::NexusLost | ChangeKind::Report
    )
}

fn newest(states: &[State]) -> &Rules {
    &states.last().expect("a volume begins with a state").rules
}

#[cfg(test)]
mod tests {
    use nearflash_request::{Expected, Identity, ReservationType, VolumeId};

    use super::*;

    const HOLDER: Nexus = Nexus(1);
    const OTHER: Nexus = Nexus(2);

    /// Reserved by the holder: told from tick 10 on, in force at tick 20.
    fn ledger() -> Ledger {
        let mut ledger = Ledger::default();
        let identity = Identity::Nvme { host_id: [1; 16], controller: 1 };
        let reservation = ReservationType::WriteExclusive;
        let register = ChangeKind::Register { expected: Expected::Nothing, new: 7, persist: None };
        for kind in [register, ChangeKind::Reserve { key: 7, reservation }] {
            let identity = identity.clone();
            let change = Change { volume: VolumeId(0), nexus: HOLDER, identity, kind };
            assert_eq!(ledger.begins(&change, Tick(10)), Ends::Done);
        }
        ledger.counts(0, Tick(20));
        ledger
    }

    fn write(nexus: Nexus, sent: u64) -> Asked {
        Asked { volume: 0, nexus, access: Access::Write, sent: Tick(sent) }
    }

    #[test]
    fn write_that_was_sent_before_a_reservation_counted_may_be_done_or_refused() {
        ledger().judge_done(write(OTHER, 19), Tick(30));
        ledger().judge_refusal(&[write(OTHER, 19)], Tick(30));
        ledger().judge_done(write(HOLDER, 25), Tick(30));
    }

    #[test]
    #[should_panic(expected = "was done")]
    fn write_of_who_had_lost_the_right_before_it_was_sent_is_found_out() {
        ledger().judge_done(write(OTHER, 21), Tick(30));
    }

    #[test]
    #[should_panic(expected = "no change ended so")]
    fn more_answers_than_changes_are_found_out() {
        let mut ledger = ledger();
        for _ in 0..3 {
            ledger.answered(HOLDER, Ends::Done);
        }
    }

    #[test]
    #[should_panic(expected = "was refused")]
    fn refusal_before_anything_was_reserved_is_found_out() {
        ledger().judge_refusal(&[write(OTHER, 1)], Tick(9));
    }
}
