use std::collections::BTreeMap;

use nearflash_request::{Attention, Expected, Modes, ReservationType, TaskSet};
use proptest::prelude::*;

use super::*;

/// Volumes 0 and 1 are of one target, and 2 is of another one.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
struct Shelf(BTreeMap<u32, Reservations>);

impl Shelf {
    fn new() -> Self {
        Self((0..3).map(|volume| (volume, Reservations::default())).collect())
    }
}

impl Volumes for Shelf {
    fn of_target(&self, volume: VolumeId) -> Vec<VolumeId> {
        match volume.0 {
            0 | 1 => vec![VolumeId(0), VolumeId(1)],
            2 => vec![volume],
            _ => Vec::new(),
        }
    }

    fn held_by(&self, nexus: Nexus) -> Vec<VolumeId> {
        let held = self.0.iter().filter(|(_, it)| it.legacy_holder() == Some(nexus));
        held.map(|(volume, _)| VolumeId(*volume)).collect()
    }

    fn reservations(&self, volume: VolumeId) -> Option<&Reservations> {
        self.0.get(&volume.0)
    }

    fn apply(&mut self, change: &Change) -> Changed {
        match self.0.get_mut(&change.volume.0) {
            Some(reservations) => reservations.apply(change),
            None => (ChangeResult::Refused(Refusal::VolumeGone), Vec::new()),
        }
    }
}

fn identity() -> Identity {
    Identity::Iscsi { initiator: "iqn.a".into(), isid: [0x80, 0, 0, 0, 0, 1], portal_group: 1 }
}

fn change(volume: u32, nexus: u128, kind: ChangeKind) -> Box<Change> {
    let (volume, nexus) = (VolumeId(volume), Nexus(nexus));
    Box::new(Change { volume, nexus, identity: identity(), kind })
}

const UNIT_RESET: ChangeKind = ChangeKind::Reset(ResetScope::LogicalUnit);
const TARGET_RESET: ChangeKind = ChangeKind::Reset(ResetScope::Target);

/// The requests of a node whose older requests end when the test says so.
#[derive(Default)]
struct Bench {
    requests: Requests<u32>,
    shelf: Shelf,
    under_way: Vec<u64>,
    steps: Vec<Steps>,
    answers: Vec<(u32, ChangeResult)>,
}

impl Bench {
    fn new() -> Self {
        Self { shelf: Shelf::new(), ..Self::default() }
    }

    fn ask(&mut self, by: u32, volume: u32, nexus: u128, kind: ChangeKind) {
        self.requests.handle_change(by, change(volume, nexus, kind));
        self.pump(&|_| false);
    }

    fn end_session(&mut self, nexus: u128) {
        self.requests.handle_session_over(Nexus(nexus), identity());
        self.pump(&|_| false);
    }

    /// Begins what can begin. The store refuses the records of changes for which `fails` is true.
    fn pump(&mut self, fails: &dyn Fn(&Change) -> bool) {
        while let Some(number) = self.requests.poll_request(&self.shelf) {
            let mut copy = self.shelf.clone();
            let steps = self.requests.decide(number, &mut copy);
            if self.requests.change(number).is_some_and(fails) {
                self.requests.handle_not_recorded(number);
            } else {
                self.shelf = copy;
                self.under_way.push(number);
                self.steps.push(steps);
            }
        }
        self.answers.extend(std::iter::from_fn(|| self.requests.poll_answer()));
    }

    fn end(&mut self, index: usize) {
        let number = self.under_way.remove(index);
        self.requests.handle_over(number);
        self.pump(&|_| false);
    }

    fn answered(&self) -> Vec<u32> {
        self.answers.iter().map(|(by, _)| *by).collect()
    }
}

#[test]
fn a_volume_whose_requests_hang_holds_up_its_own_changes_only() {
    let mut bench = Bench::new();
    bench.ask(1, 0, 1, UNIT_RESET);
    bench.ask(2, 0, 1, UNIT_RESET);
    bench.ask(3, 2, 1, UNIT_RESET);
    assert_eq!(bench.under_way.len(), 2, "the second change of volume 0 waits");
    bench.end(1);
    assert_eq!(bench.answered(), [3]);
    bench.end(0);
    bench.end(0);
    assert_eq!(bench.answered(), [3, 1, 2]);
    assert!(bench.requests.is_empty());
}

#[test]
fn a_reset_of_a_target_waits_for_each_of_its_volumes_and_for_no_other() {
    let mut bench = Bench::new();
    bench.ask(1, 1, 1, UNIT_RESET);
    bench.ask(2, 2, 1, UNIT_RESET);
    bench.ask(3, 0, 2, TARGET_RESET);
    bench.ask(4, 0, 1, ChangeKind::Report);
    assert_eq!(bench.under_way.len(), 2, "nothing of volume 0 overtakes the reset of its target");
    bench.end(0);
    assert_eq!(bench.steps[2].quiesce, [VolumeId(0), VolumeId(1)]);
    assert_eq!((bench.under_way.len(), bench.answered()), (2, vec![1]));
    bench.end(1);
    bench.end(1);
    assert_eq!(bench.answered(), [1, 3, 4]);
}

#[test]
fn the_end_of_a_session_waits_for_its_requests_in_front() {
    let mut bench = Bench::new();
    bench.ask(1, 0, 9, UNIT_RESET);
    bench.ask(2, 0, 1, ChangeKind::LegacyReserve);
    bench.end_session(1);
    assert_eq!(bench.requests.len(), 3);
    bench.end(0);
    assert_eq!(bench.shelf.held_by(Nexus(1)), [VolumeId(0)], "the reservation is being published");
    assert_eq!(bench.requests.len(), 2);
    bench.end(0);
    bench.end(0);
    assert!(bench.shelf.held_by(Nexus(1)).is_empty() && bench.requests.is_empty());
    assert_eq!(bench.answered(), [1, 2]);
}

#[test]
fn a_session_that_comes_back_keeps_what_it_takes() {
    let mut bench = Bench::new();
    bench.ask(1, 0, 9, UNIT_RESET);
    bench.ask(2, 0, 1, ChangeKind::Report);
    bench.end_session(1);
    bench.ask(3, 1, 1, ChangeKind::LegacyReserve);
    while !bench.under_way.is_empty() {
        bench.end(0);
    }
    assert_eq!(bench.shelf.held_by(Nexus(1)), [VolumeId(1)]);
}

#[test]
fn a_session_that_holds_nothing_ends_although_others_hang() {
    let mut bench = Bench::new();
    bench.ask(1, 0, 9, UNIT_RESET);
    bench.end_session(1);
    bench.end(1);
    assert_eq!(bench.requests.len(), 1, "only the reset is left");
}

#[test]
fn a_change_whose_record_fails_is_not_made_and_its_successor_begins() {
    let mut bench = Bench::new();
    let expected = Expected::Anything;
    let register = ChangeKind::Register { expected, new: 7, persist: Some(true) };
    bench.requests.handle_change(1, change(0, 1, register));
    bench.requests.handle_change(2, change(0, 1, ChangeKind::Report));
    bench.pump(&|change| change.kind == register);
    bench.end(0);
    let [(1, refused), (2, ChangeResult::Report(report))] = &bench.answers[..] else {
        panic!("{:?}", bench.answers);
    };
    assert_eq!(*refused, ChangeResult::Refused(Refusal::NotRecorded));
    assert!(report.registrants.is_empty());
}

#[test]
fn the_steps_are_those_that_the_change_needs() {
    let mut bench = Bench::new();
    let mut steps = |nexus, kind| {
        bench.ask(0, 0, nexus, kind);
        bench.end(0);
        bench.steps.pop().unwrap()
    };
    let register =
        |new, persist| ChangeKind::Register { expected: Expected::Anything, new, persist };
    assert_eq!(steps(1, register(1, None)), Steps::default(), "nobody else must know");
    let persists = steps(1, register(1, Some(true)));
    assert!(persists.is_recorded && !persists.concern_cores());
    let reservation = ReservationType::WriteExclusive;
    let reserved = steps(1, ChangeKind::Reserve { key: 1, reservation });
    assert!(reserved.is_recorded && reserved.restricts && reserved.quiesce.is_empty());
    let volume = Some(VolumeId(0));
    assert!(steps(2, register(2, None)).is_recorded, "registrations persist together");
    let preempt = |abort| ChangeKind::Preempt { key: 2, victim: 1, reservation, abort };
    let preempted = steps(2, preempt(true));
    assert_eq!((preempted.quiesce, preempted.restricts), (vec![VolumeId(0)], true));
    assert!(preempted.raised.iter().any(|raised| raised.volume == volume));
    let modes = Modes { descriptor_sense: true, ..Modes::default() };
    let moded = steps(2, ChangeKind::SetModes(modes));
    assert!(moded.changes_modes && !moded.is_recorded && !moded.restricts);
    assert!(moded.raised.iter().all(|it| it.attention == Attention::ModeChanged));
    let ended = steps(2, ChangeKind::EndTasks(TaskSet::Own));
    assert_eq!(ended.quiesce, [VolumeId(0)]);
    assert_eq!(steps(2, ChangeKind::Report), Steps::default());
}

#[test]
fn a_change_of_a_volume_that_is_gone_is_refused() {
    let mut bench = Bench::new();
    bench.ask(1, 7, 1, TARGET_RESET);
    bench.end(0);
    assert_eq!(bench.answers, [(1, ChangeResult::Refused(Refusal::VolumeGone))]);
}

#[derive(Clone, Debug)]
enum Op {
    /// A request, and whether its record fails.
    Change {
        volume: u32,
        nexus: u128,
        kind: ChangeKind,
        fails: bool,
    },
    SessionOver(u128),
    /// The older requests of one of the changes under way have ended.
    End(usize),
}

fn kind() -> impl Strategy<Value = ChangeKind> {
    let reservation = ReservationType::WriteExclusive;
    prop_oneof![
        (0..3_u64, any::<Option<bool>>()).prop_map(|(new, persist)| ChangeKind::Register {
            expected: Expected::Anything,
            new,
            persist
        }),
        (0..3_u64).prop_map(move |key| ChangeKind::Reserve { key, reservation }),
        (0..3_u64, 0..3_u64, any::<bool>()).prop_map(move |(key, victim, abort)| {
            ChangeKind::Preempt { key, victim, reservation, abort }
        }),
        Just(ChangeKind::LegacyReserve),
        Just(ChangeKind::LegacyRelease),
        Just(ChangeKind::Report),
        Just(UNIT_RESET),
        Just(TARGET_RESET),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (0..4_u32, 1..4_u128, kind(), prop::bool::weighted(0.1))
            .prop_map(|(volume, nexus, kind, fails)| Op::Change { volume, nexus, kind, fails }),
        1 => (1..4_u128).prop_map(Op::SessionOver),
        4 => any::<prop::sample::Index>().prop_map(|index| Op::End(index.index(1 << 16))),
    ]
}

/// The results and the state if every request is carried out before the next one arrives.
fn one_after_another(ops: &[Op]) -> (Vec<(u32, ChangeResult)>, Shelf) {
    let (mut requests, mut shelf) = (Requests::default(), Shelf::new());
    let mut answers = Vec::new();
    for (by, op) in (0..).zip(ops) {
        let fails = match op {
            Op::Change { volume, nexus, kind, fails } => {
                requests.handle_change(by, change(*volume, *nexus, *kind));
                *fails
            }
            Op::SessionOver(nexus) => {
                requests.handle_session_over(Nexus(*nexus), identity());
                false
            }
            Op::End(_) => continue,
        };
        let number = requests.poll_request(&shelf).unwrap();
        let mut copy = shelf.clone();
        requests.decide(number, &mut copy);
        if fails {
            requests.handle_not_recorded(number);
        } else {
            shelf = copy;
            requests.handle_over(number);
        }
        answers.extend(requests.poll_answer());
    }
    (answers, shelf)
}

proptest! {
    /// However long older requests take, results and state are those of the requests one after the
    /// other; and a change waits only for an earlier one of its volumes.
    #[test]
    fn waiting_changes_nothing_but_the_time(ops in prop::collection::vec(op(), 0..60)) {
        let mut bench = Bench::new();
        let fails: Vec<bool> = ops.iter().map(|it| matches!(it, Op::Change { fails: true, .. })).collect();
        // The request's place in `ops` is in the identity, so that its record can fail.
        let place_of = |change: &Change| match &change.identity {
            Identity::Iscsi { initiator, .. } => initiator.parse::<usize>().unwrap(),
            Identity::Nvme { .. } => unreachable!("all requests are of initiators"),
        };
        let is_failing = |change: &Change| fails[place_of(change)];
        for (by, op) in (0..).zip(&ops) {
            match op {
                Op::Change { volume, nexus, kind, .. } => {
                    let mut change = change(*volume, *nexus, *kind);
                    let (isid, portal_group) = ([0x80, 0, 0, 0, 0, 1], 1);
                    let initiator = by.to_string().into();
                    change.identity = Identity::Iscsi { initiator, isid, portal_group };
                    bench.requests.handle_change(by, change);
                }
                Op::SessionOver(nexus) => {
                    bench.requests.handle_session_over(Nexus(*nexus), identity());
                }
                Op::End(_) if bench.under_way.is_empty() => {}
                Op::End(index) => {
                    let number = bench.under_way.remove(index % bench.under_way.len());
                    bench.requests.handle_over(number);
                }
            }
            bench.pump(&is_failing);
            prop_assert!(nothing_waits_for_nothing(&bench));
        }
        while let Some(number) = bench.under_way.pop() {
            bench.requests.handle_over(number);
            bench.pump(&is_failing);
        }
        prop_assert!(bench.requests.is_empty());
        let (mut expected, shelf) = one_after_another(&ops);
        let mut answers: Vec<_> = bench.answers.into_iter().map(|(by, it)| (by, without_names(it))).collect();
        answers.sort_by_key(|(by, _)| *by);
        expected.iter_mut().for_each(|(_, it)| *it = without_names(it.clone()));
        prop_assert_eq!(answers, expected);
        for (volume, reservations) in &bench.shelf.0 {
            let expected = &shelf.0[volume];
            prop_assert_eq!(reservations.restriction(), expected.restriction());
            prop_assert_eq!(reservations.legacy_holder(), expected.legacy_holder());
        }
    }
}

/// Changes under way have no volume in common, and each one that waits has one in common with an
/// earlier request, or waits behind the end of a session.
fn nothing_waits_for_nothing(bench: &Bench) -> bool {
    let mut busy: Vec<VolumeId> = Vec::new();
    for it in &bench.requests.under_way {
        if it.volumes.iter().any(|volume| busy.contains(volume)) {
            return false;
        }
        busy.extend(&it.volumes);
    }
    let mut ending: Vec<Nexus> = Vec::new();
    (0..bench.requests.waiting.len()).all(|index| {
        let concerned = bench.requests.concerned(index, &bench.shelf);
        let (nexus, is_end) = bench.requests.waiting[index].nexus();
        let waits = concerned.iter().any(|volume| busy.contains(volume));
        let waits = waits || ending.contains(&nexus);
        busy.extend(concerned);
        ending.extend(is_end.then_some(nexus));
        waits
    })
}

/// The result without the identities of registrants, which differ on purpose.
fn without_names(mut result: ChangeResult) -> ChangeResult {
    if let ChangeResult::Report(report) = &mut result {
        for registrant in &mut report.registrants {
            registrant.identity = identity();
        }
    }
    result
}
