use nearflash_request::{Expected, Outcome};
use proptest::prelude::*;

use super::*;

const VOLUME: VolumeId = VolumeId(3);
const A: Nexus = Nexus(0xA);
const B: Nexus = Nexus(0xB);
const C: Nexus = Nexus(0xC);

/// A's key, B's and so on are their numbers, unless said.
fn key_of(nexus: Nexus) -> u64 {
    u64::try_from(nexus.0).unwrap()
}

fn iscsi(nexus: Nexus) -> Identity {
    let initiator = format!("iqn.2026-11.org.example:{nexus}");
    Identity::Iscsi { initiator: initiator.into(), isid: [0x80, 0, 0, 0, 0, 1], portal_group: 1 }
}

fn nvme() -> Identity {
    Identity::Nvme { host_id: [7; 16], controller: 1 }
}

fn change(nexus: Nexus, kind: ChangeKind) -> Change {
    Change { volume: VOLUME, nexus, identity: iscsi(nexus), kind }
}

fn register(expected: Expected, new: u64) -> ChangeKind {
    ChangeKind::Register { expected, new, persist: None }
}

impl Reservations {
    fn ask(&mut self, nexus: Nexus, kind: ChangeKind) -> Changed {
        self.apply(&change(nexus, kind))
    }

    fn done(&mut self, nexus: Nexus, kind: ChangeKind) -> Vec<(Nexus, Attention)> {
        let (result, told) = self.ask(nexus, kind);
        assert_eq!(result, ChangeResult::Done, "{nexus:?} {kind:?}");
        told.into_iter()
            .map(|raised| {
                assert_eq!(raised.volume, Some(VOLUME));
                let Addressees::Only(nexus) = raised.to else { panic!("{raised:?}") };
                (nexus, raised.attention)
            })
            .collect()
    }

    fn refuses(&mut self, nexus: Nexus, kind: ChangeKind, expected: ChangeResult) {
        let before = self.clone();
        assert_eq!(self.ask(nexus, kind), (expected, Vec::new()), "{nexus:?} {kind:?}");
        assert_eq!(*self, before, "nothing has changed");
    }

    fn conflicts(&mut self, nexus: Nexus, kind: ChangeKind) {
        self.refuses(nexus, kind, ChangeResult::Conflict);
    }

    fn allows(&self, nexus: Nexus, access: Access) -> bool {
        self.restriction().is_none_or(|it| it.refusal(nexus, access).is_none())
    }
}

/// These have registered, in this order.
fn registered(nexuses: &[Nexus]) -> Reservations {
    let mut reservations = Reservations::default();
    for nexus in nexuses {
        reservations.done(*nexus, register(Expected::Nothing, key_of(*nexus)));
    }
    reservations
}

/// A, B and C have registered, and A has reserved.
fn reserved(reservation: ReservationType) -> Reservations {
    let mut reservations = registered(&[A, B, C]);
    reservations.done(A, ChangeKind::Reserve { key: key_of(A), reservation });
    reservations
}

mod registering {
    use super::*;

    #[test]
    fn a_registration_is_what_it_is_expected_to_be_or_nothing_changes() {
        let mut it = registered(&[A]);
        for (nexus, kind) in [
            (A, register(Expected::Nothing, 5)),
            (A, register(Expected::Key(9), 5)),
            (A, register(Expected::Key(0), 5)),
            (A, register(Expected::NothingOrSame, 5)),
            (B, register(Expected::Key(5), 5)),
            (B, register(Expected::AnyKey, 5)),
            (Nexus::NONE, register(Expected::Anything, 5)),
        ] {
            it.conflicts(nexus, kind);
        }
        it.done(A, register(Expected::NothingOrSame, key_of(A)));
        it.done(A, register(Expected::Key(key_of(A)), 5));
        it.done(A, register(Expected::AnyKey, 6));
        it.done(A, register(Expected::Anything, 7));
        it.done(B, register(Expected::Anything, 7));
        let keys: Vec<_> = it.report().registrants.iter().map(|r| (r.nexus, r.key)).collect();
        assert_eq!((keys, it.report().generation), (vec![(A, 7), (B, 7)], 6));
    }

    #[test]
    fn nobody_who_ends_nothing_has_changed_nothing() {
        let mut it = Reservations::default();
        it.done(A, register(Expected::Nothing, 0));
        it.done(A, register(Expected::Anything, 0));
        assert_eq!(it, Reservations::default());
    }

    #[test]
    fn a_holder_that_ends_its_registration_ends_its_reservation() {
        for reservation in ReservationType::ALL {
            let mut it = reserved(reservation);
            let told = it.done(A, register(Expected::AnyKey, 0));
            let (left, expected) = match reservation {
                ReservationType::WriteExclusive | ReservationType::ExclusiveAccess => {
                    (None, vec![])
                }
                ReservationType::WriteExclusiveRegistrantsOnly
                | ReservationType::ExclusiveAccessRegistrantsOnly => {
                    let released = Attention::ReservationsReleased;
                    (None, vec![(B, released), (C, released)])
                }
                _ => (Some(reservation), vec![]),
            };
            assert_eq!((it.report().reservation, told), (left, expected), "{reservation:?}");
        }
    }

    #[test]
    fn a_reservation_of_all_registrants_goes_with_the_last_of_them() {
        let mut it = reserved(ReservationType::ExclusiveAccessAllRegistrants);
        for nexus in [A, B, C] {
            assert!(it.report().reservation.is_some());
            assert_eq!(it.done(nexus, register(Expected::AnyKey, 0)), []);
        }
        assert_eq!((it.report().reservation, it.restriction()), (None, None));
    }

    #[test]
    fn there_are_no_more_registrations_than_so_many() {
        let mut it = Reservations::default();
        for number in 1..=REGISTRATIONS_MAX {
            it.done(Nexus(number as u128), register(Expected::Nothing, 1));
        }
        let too_many = ChangeResult::Refused(Refusal::TooManyRegistrations);
        it.refuses(Nexus(u128::MAX), register(Expected::Nothing, 1), too_many);
        it.done(Nexus(7), register(Expected::AnyKey, 2));
    }
}

mod reserving {
    use super::*;

    #[test]
    fn each_type_lets_in_whom_it_should() {
        use Access::{Look, Manage, Read, Write};
        for reservation in ReservationType::ALL {
            let it = reserved(reservation);
            let reads = reservation.refuses_from() == Manage;
            let others = !reservation.is_holders_alone();
            for access in [Look, Read, Manage, Write] {
                let outside = access == Look || (access == Read && reads);
                assert!(it.allows(A, access), "{reservation:?} {access:?}");
                assert_eq!(it.allows(B, access), outside || others, "{reservation:?} {access:?}");
                for nobody in [Nexus(0xD), Nexus::NONE] {
                    assert_eq!(it.allows(nobody, access), outside, "{reservation:?} {access:?}");
                }
            }
        }
    }

    #[test]
    fn only_the_holder_reserves_again_and_only_with_the_same_type() {
        for held in ReservationType::ALL {
            for reservation in ReservationType::ALL {
                let mut it = reserved(held);
                let again = ChangeKind::Reserve { key: key_of(A), reservation };
                if held == reservation {
                    drop(it.done(A, again))
                } else {
                    it.conflicts(A, again)
                }
                let other = ChangeKind::Reserve { key: key_of(B), reservation };
                let holds = held.is_all_registrants() && held == reservation;
                if holds { drop(it.done(B, other)) } else { it.conflicts(B, other) }
            }
        }
    }

    #[test]
    fn a_key_that_is_not_the_askers_conflicts() {
        let reservation = ReservationType::WriteExclusive;
        for (nexus, key) in [(A, key_of(B)), (A, 0), (Nexus(0xD), key_of(A)), (Nexus::NONE, 0)] {
            let mut it = reserved(reservation);
            it.conflicts(nexus, ChangeKind::Reserve { key, reservation });
            it.conflicts(nexus, ChangeKind::Release { key, reservation });
            it.conflicts(nexus, ChangeKind::Clear { key });
            let victim = key_of(A);
            it.conflicts(nexus, ChangeKind::Preempt { key, victim, reservation, abort: false });
        }
    }

    #[test]
    fn a_release_is_told_to_those_who_had_a_part_and_counts_nothing() {
        for reservation in ReservationType::ALL {
            let mut it = reserved(reservation);
            let generation = it.report().generation;
            let told = it.done(A, ChangeKind::Release { key: key_of(A), reservation });
            let released = Attention::ReservationsReleased;
            let expected = match reservation.is_holders_alone() {
                true => vec![],
                false => vec![(B, released), (C, released)],
            };
            assert_eq!(told, expected, "{reservation:?}");
            assert_eq!((it.restriction(), it.report().generation), (None, generation));
            assert_eq!(it.report().registrants.len(), 3);
        }
    }

    #[test]
    fn a_release_of_another_type_is_refused_and_one_by_another_does_nothing() {
        let mut it = reserved(ReservationType::WriteExclusive);
        let before = it.clone();
        let reservation = ReservationType::ExclusiveAccess;
        let release = |nexus| ChangeKind::Release { key: key_of(nexus), reservation };
        it.refuses(A, release(A), ChangeResult::Refused(Refusal::WrongType));
        assert_eq!(it.done(B, release(B)), []);
        assert_eq!(it, before);
    }

    #[test]
    fn clearing_ends_all_and_is_told_to_all_others() {
        let mut it = reserved(ReservationType::ExclusiveAccess);
        let told = it.done(B, ChangeKind::Clear { key: key_of(B) });
        let preempted = Attention::ReservationsPreempted;
        assert_eq!(told, [(A, preempted), (C, preempted)]);
        assert!(it.is_empty() && it.restriction().is_none());
        assert_eq!(it.report().generation, 4);
    }

    #[test]
    fn the_operator_ends_all_too() {
        let mut it = reserved(ReservationType::ExclusiveAccess);
        assert_eq!(it.clear_all(VOLUME).len(), 3);
        assert!(it.is_empty() && it.restriction().is_none());
        it.done(A, ChangeKind::LegacyReserve);
        assert_eq!(it.clear_all(VOLUME), []);
        assert!(it.restriction().is_none());
    }
}

mod preempting {
    use super::*;

    fn preempt(by: Nexus, victim: u64, reservation: ReservationType) -> ChangeKind {
        ChangeKind::Preempt { key: key_of(by), victim, reservation, abort: false }
    }

    #[test]
    fn with_abort_the_tasks_of_those_who_go_end_whether_anything_is_reserved_or_not() {
        let kind = ReservationType::WriteExclusive;
        let ends =
            |victim| ChangeKind::Preempt { key: key_of(B), victim, reservation: kind, abort: true };
        for mut it in [registered(&[A, B, C]), reserved(kind)] {
            let told = it.done(B, ends(key_of(A)));
            let expected = [(A, Attention::RegistrationsPreempted), (A, Attention::TasksCleared)];
            assert_eq!(told, expected);
        }
        let told = reserved(ReservationType::WriteExclusiveAllRegistrants).done(B, ends(0));
        let ended = told.iter().filter(|(_, attention)| *attention == Attention::TasksCleared);
        assert_eq!(ended.map(|(nexus, _)| *nexus).collect::<Vec<_>>(), [A, C], "not of who asks");
    }

    #[test]
    fn the_holders_key_takes_its_reservation_and_its_registration() {
        let kind = ReservationType::WriteExclusive;
        let mut it = reserved(kind);
        let told = it.done(B, preempt(B, key_of(A), kind));
        assert_eq!(told, [(A, Attention::RegistrationsPreempted)]);
        let holds: Vec<_> = it.report().registrants.iter().map(|r| (r.nexus, r.holds)).collect();
        assert_eq!(holds, [(B, true), (C, false)]);
        assert!(!it.allows(A, Access::Write) && it.allows(B, Access::Write));
        assert_eq!(it.report().generation, 4);
    }

    #[test]
    fn a_type_that_changes_is_told_to_those_who_stay() {
        let mut it = reserved(ReservationType::WriteExclusive);
        let told = it.done(B, preempt(B, key_of(A), ReservationType::ExclusiveAccess));
        let expected =
            [(A, Attention::RegistrationsPreempted), (C, Attention::ReservationsReleased)];
        assert_eq!(told, expected);
    }

    #[test]
    fn a_holder_that_preempts_itself_changes_the_type_and_stays_registered() {
        let mut it = reserved(ReservationType::WriteExclusive);
        let told = it.done(A, preempt(A, key_of(A), ReservationType::WriteExclusiveAllRegistrants));
        let released = Attention::ReservationsReleased;
        assert_eq!(told, [(B, released), (C, released)]);
        assert!(it.report().registrants.iter().all(|registrant| registrant.holds));
    }

    #[test]
    fn a_key_that_holds_nothing_only_loses_its_registrations() {
        let mut it = reserved(ReservationType::WriteExclusive);
        it.done(C, register(Expected::AnyKey, key_of(B)));
        let told = it.done(A, preempt(A, key_of(B), ReservationType::ExclusiveAccess));
        let preempted = Attention::RegistrationsPreempted;
        assert_eq!(told, [(B, preempted), (C, preempted)]);
        assert_eq!(it.report().reservation, Some(ReservationType::WriteExclusive));
        assert!(it.holds(A));
    }

    #[test]
    fn an_asker_with_the_victims_key_goes_too_and_is_not_told() {
        let mut it = registered(&[A, B]);
        it.done(B, register(Expected::AnyKey, key_of(A)));
        let told = it.done(A, preempt(A, key_of(A), ReservationType::WriteExclusive));
        assert_eq!(told, [(B, Attention::RegistrationsPreempted)]);
        assert!(it.is_empty());
    }

    #[test]
    fn zero_is_all_where_all_registrants_hold_and_nobody_elsewhere() {
        let kind = ReservationType::WriteExclusive;
        let mut it = reserved(ReservationType::WriteExclusiveAllRegistrants);
        let told = it.done(B, preempt(B, 0, kind));
        let preempted = Attention::RegistrationsPreempted;
        assert_eq!(told, [(A, preempted), (C, preempted)]);
        assert_eq!(it.report().reservation, Some(kind));
        let nobody = ChangeResult::Refused(Refusal::InvalidKey);
        it.refuses(B, preempt(B, 0, kind), nobody.clone());
        registered(&[A]).refuses(A, preempt(A, 0, kind), nobody);
    }

    #[test]
    fn part_of_all_registrants_goes_and_the_rest_still_holds() {
        let kind = ReservationType::ExclusiveAccessAllRegistrants;
        let mut it = reserved(kind);
        let told = it.done(B, preempt(B, key_of(A), ReservationType::WriteExclusive));
        assert_eq!(told, [(A, Attention::RegistrationsPreempted)]);
        assert_eq!(it.report().reservation, Some(kind));
        assert!(it.allows(C, Access::Write) && !it.allows(A, Access::Read));
    }

    #[test]
    fn a_key_that_nobody_has_conflicts() {
        for kind in ReservationType::ALL {
            reserved(kind).conflicts(A, preempt(A, 0xDEAD, kind));
        }
    }
}

mod older {
    use super::*;

    #[test]
    fn an_older_reservation_excludes_everybody_else_from_everything() {
        let mut it = Reservations::default();
        it.done(A, ChangeKind::LegacyReserve);
        it.done(A, ChangeKind::LegacyReserve);
        it.conflicts(B, ChangeKind::LegacyReserve);
        it.conflicts(Nexus::NONE, ChangeKind::LegacyReserve);
        assert!(it.allows(A, Access::Write));
        for other in [B, Nexus::NONE] {
            assert!(!it.allows(other, Access::Look));
        }
        assert_eq!(it.done(B, ChangeKind::LegacyRelease), []);
        assert!(!it.allows(B, Access::Look), "another's release does nothing");
        it.done(A, ChangeKind::LegacyRelease);
        assert_eq!(it.restriction(), None);
    }

    #[test]
    fn persistent_reservations_conflict_beside_it_whoever_holds_it() {
        let mut it = Reservations::default();
        it.done(A, ChangeKind::LegacyReserve);
        for nexus in [A, B] {
            it.conflicts(nexus, register(Expected::Anything, 5));
            it.conflicts(nexus, ChangeKind::Clear { key: 5 });
            it.conflicts(nexus, ChangeKind::Report);
        }
        let report = Change { identity: nvme(), ..change(B, ChangeKind::Report) };
        assert!(matches!(it.apply(&report).0, ChangeResult::Report(_)), "NVMe knows of none");
    }

    #[test]
    fn beside_registrations_it_is_let_be_by_those_let_in_and_conflicts_with_others() {
        let commands = [ChangeKind::LegacyReserve, ChangeKind::LegacyRelease];
        for command in commands {
            let mut it = registered(&[A]);
            it.conflicts(A, command);
            it.conflicts(B, command);
            for reservation in ReservationType::ALL {
                let mut it = reserved(reservation);
                let before = it.clone();
                it.done(A, command);
                if reservation.is_holders_alone() {
                    it.conflicts(B, command);
                } else {
                    it.done(B, command);
                }
                it.conflicts(Nexus(0xD), command);
                assert_eq!(it, before, "nothing is reserved by it");
            }
        }
    }

    #[test]
    fn it_ends_with_a_reset_and_with_its_holders_session() {
        let mut it = Reservations::default();
        it.done(A, ChangeKind::LegacyReserve);
        it.done(B, ChangeKind::NexusLost);
        assert_eq!(it.legacy_holder(), Some(A));
        it.done(A, ChangeKind::NexusLost);
        assert_eq!(it.legacy_holder(), None);
        it.done(A, ChangeKind::LegacyReserve);
        let (_, told) = it.ask(B, ChangeKind::Reset(ResetScope::LogicalUnit));
        let reset =
            Raised { volume: Some(VOLUME), to: Addressees::All, attention: Attention::Reset };
        assert_eq!((told, it.restriction()), (vec![reset], None));
    }
}

mod modes {
    use super::*;

    const PROTECTED: Modes = Modes { write_protected: true, descriptor_sense: false };

    #[test]
    fn a_protected_volume_is_written_by_nobody_until_it_is_reset() {
        let mut it = Reservations::default();
        let (result, told) = it.ask(A, ChangeKind::SetModes(PROTECTED));
        assert_eq!(result, ChangeResult::Done);
        let to = Addressees::AllBut(A);
        let expected = Raised { volume: Some(VOLUME), to, attention: Attention::ModeChanged };
        assert_eq!(told, [expected]);
        let refusal = it.restriction().unwrap().refusal(A, Access::Write);
        assert_eq!(refusal, Some(Outcome::WriteProtected));
        assert!(it.allows(B, Access::Read) && it.allows(B, Access::Manage));
        assert_eq!(it.done(A, ChangeKind::SetModes(PROTECTED)), [], "the same is no news");
        it.ask(A, ChangeKind::Reset(ResetScope::Target));
        assert_eq!((it.modes(), it.restriction()), (Modes::default(), None));
    }

    #[test]
    fn modes_are_changed_by_those_alone_who_may_write_and_may_always_be_taken_back() {
        let mut it = reserved(ReservationType::WriteExclusive);
        it.conflicts(B, ChangeKind::SetModes(PROTECTED));
        it.ask(A, ChangeKind::SetModes(PROTECTED));
        let refusal = it.restriction().unwrap().refusal(B, Access::Write);
        assert_eq!(refusal, Some(Outcome::ReservationConflict), "the conflict comes first");
        it.conflicts(B, ChangeKind::SetModes(Modes::default()));
        it.ask(A, ChangeKind::SetModes(Modes::default()));
        assert!(it.allows(A, Access::Write));
    }

    #[test]
    fn reservations_outlast_a_reset() {
        for scope in [ResetScope::LogicalUnit, ResetScope::Target, ResetScope::TargetAndSessions] {
            let mut it = reserved(ReservationType::ExclusiveAccess);
            let before = it.clone();
            it.ask(B, ChangeKind::Reset(scope));
            assert_eq!(it, before);
        }
    }

    #[test]
    fn the_end_of_tasks_and_of_sessions_is_told_to_everybody_else() {
        let ended = ChangeKind::EndTasks(TaskSet::All);
        let anew = ChangeKind::Reset(ResetScope::TargetAndSessions);
        for (kind, attention) in [(ended, Attention::TasksCleared), (anew, Attention::ColdReset)] {
            let mut it = reserved(ReservationType::ExclusiveAccess);
            let before = it.clone();
            let to = Addressees::AllBut(B);
            let told = vec![Raised { volume: Some(VOLUME), to, attention }];
            assert_eq!(it.ask(B, kind), (ChangeResult::Done, told));
            assert_eq!(it, before, "no reservation forbids it, and none is touched");
        }
        let mut it = Reservations::default();
        assert_eq!(it.done(A, ChangeKind::EndTasks(TaskSet::Own)), [], "nobody else has a part");
    }
}

mod persistence {
    use super::*;

    fn persisting() -> Reservations {
        let mut it = reserved(ReservationType::WriteExclusive);
        it.done(B, ChangeKind::SetPersistence(true));
        it
    }

    #[test]
    fn the_last_word_on_persistence_counts() {
        let mut it = registered(&[A]);
        assert_eq!(it.persistent(), None);
        let say = |persist| ChangeKind::Register { expected: Expected::Anything, new: 1, persist };
        for (said, expected) in [(Some(true), true), (None, true), (Some(false), false)] {
            it.done(A, say(said));
            assert_eq!((it.report().persists, it.persistent().is_some()), (expected, expected));
        }
        it.done(B, ChangeKind::SetPersistence(true));
        assert!(it.report().persists);
    }

    #[test]
    fn what_breaks_an_invariant_is_not_restored() {
        let sound = persisting().persistent().unwrap();
        let damaged = |damage: fn(&mut Persistent)| {
            let mut recorded = sound.clone();
            damage(&mut recorded);
            Reservations::restore(recorded).unwrap_err()
        };
        use RestoreReservationsError::{Holder, Registration, TooMany, Twice};
        let holder = |recorded: &mut Persistent, kind, holder| {
            recorded.reservation = Some(Reservation { kind, holder });
        };
        assert_eq!(damaged(|it| it.registrations[1].key = 0), Registration { index: 1 });
        assert_eq!(
            damaged(|it| it.registrations[2].nexus = Nexus::NONE),
            Registration { index: 2 }
        );
        assert_eq!(damaged(|it| it.registrations[2].nexus = A), Twice { index: 2 });
        assert_eq!(damaged(|it| drop(it.registrations.remove(0))), Holder);
        let too_many = damaged(|it| {
            let one = it.registrations[0].clone();
            it.registrations.resize(REGISTRATIONS_MAX + 1, one);
        });
        assert_eq!(too_many, TooMany { count: REGISTRATIONS_MAX + 1 });
        for (kind, who) in [
            (ReservationType::WriteExclusive, None),
            (ReservationType::WriteExclusiveAllRegistrants, Some(A)),
        ] {
            let mut recorded = sound.clone();
            holder(&mut recorded, kind, who);
            assert_eq!(Reservations::restore(recorded), Err(Holder));
        }
    }
}

fn any_type() -> impl Strategy<Value = ReservationType> {
    prop::sample::select(&ReservationType::ALL[..])
}

fn any_key() -> impl Strategy<Value = u64> {
    prop::sample::select(&[0u64, 1, 2, 3][..])
}

fn any_kind() -> impl Strategy<Value = ChangeKind> {
    let expected = prop_oneof![
        Just(Expected::Anything),
        Just(Expected::Nothing),
        Just(Expected::NothingOrSame),
        Just(Expected::AnyKey),
        any_key().prop_map(Expected::Key),
    ];
    prop_oneof![
        6 => (expected, any_key(), any::<Option<bool>>())
            .prop_map(|(expected, new, persist)| ChangeKind::Register { expected, new, persist }),
        4 => (any_key(), any_type())
            .prop_map(|(key, reservation)| ChangeKind::Reserve { key, reservation }),
        2 => (any_key(), any_type())
            .prop_map(|(key, reservation)| ChangeKind::Release { key, reservation }),
        1 => any_key().prop_map(|key| ChangeKind::Clear { key }),
        4 => (any_key(), any_key(), any_type(), any::<bool>()).prop_map(
            |(key, victim, reservation, abort)| {
                ChangeKind::Preempt { key, victim, reservation, abort }
            }
        ),
        1 => Just(ChangeKind::LegacyReserve),
        1 => Just(ChangeKind::LegacyRelease),
        1 => Just(ChangeKind::Report),
        1 => any::<bool>().prop_map(ChangeKind::SetPersistence),
        1 => (any::<bool>(), any::<bool>()).prop_map(|(write_protected, descriptor_sense)| {
            ChangeKind::SetModes(Modes { write_protected, descriptor_sense })
        }),
        1 => Just(ChangeKind::Reset(ResetScope::LogicalUnit)),
        1 => Just(ChangeKind::Reset(ResetScope::TargetAndSessions)),
        1 => Just(ChangeKind::EndTasks(TaskSet::Own)),
        1 => Just(ChangeKind::EndTasks(TaskSet::All)),
        1 => Just(ChangeKind::NexusLost),
    ]
}

/// Four who may register, and one who may not.
fn any_change() -> impl Strategy<Value = (Nexus, ChangeKind)> {
    ((0u128..5).prop_map(Nexus), any_kind())
}

fn keys(report: &Report) -> Vec<(Nexus, u64)> {
    report.registrants.iter().map(|registrant| (registrant.nexus, registrant.key)).collect()
}

fn is_registered(report: &Report, nexus: Nexus) -> bool {
    report.registrants.iter().any(|registrant| registrant.nexus == nexus)
}

/// The invariants of the module, and that the restriction is what the report says.
fn check_state(it: &Reservations) {
    let report = it.report();
    assert!(it.has_its_holder());
    assert!(report.registrants.iter().all(|registrant| registrant.key != 0));
    assert!(!is_registered(&report, Nexus::NONE));
    assert!(it.legacy.is_none() || report.registrants.is_empty());
    let holders = report.registrants.iter().filter(|registrant| registrant.holds).count();
    match report.reservation {
        None => assert_eq!(holders, 0),
        Some(kind) if kind.is_all_registrants() => assert_eq!(holders, report.registrants.len()),
        Some(_) => assert_eq!(holders, 1),
    }
    for nexus in (0..6).map(Nexus) {
        for access in [Access::Look, Access::Read, Access::Manage, Access::Write] {
            assert_eq!(it.allows(nexus, access), is_allowed(it, &report, nexus, access));
        }
    }
}

/// What the standards' tables say.
fn is_allowed(it: &Reservations, report: &Report, nexus: Nexus, access: Access) -> bool {
    if it.legacy.is_some_and(|holder| holder != nexus) {
        return false;
    }
    if it.modes.write_protected && access == Access::Write {
        return false;
    }
    let mine = report.registrants.iter().find(|registrant| registrant.nexus == nexus);
    let (is_in, holds) = (mine.is_some(), mine.is_some_and(|registrant| registrant.holds));
    let (reads, writes) = match report.reservation {
        None => (true, true),
        Some(ReservationType::WriteExclusive) => (true, holds),
        Some(ReservationType::ExclusiveAccess) => (holds, holds),
        Some(ReservationType::WriteExclusiveRegistrantsOnly) => (true, is_in),
        Some(ReservationType::ExclusiveAccessRegistrantsOnly) => (is_in, is_in),
        Some(ReservationType::WriteExclusiveAllRegistrants) => (true, is_in),
        Some(ReservationType::ExclusiveAccessAllRegistrants) => (is_in, is_in),
    };
    match access {
        Access::Look => true,
        Access::Read => reads,
        Access::Manage | Access::Write => writes,
    }
}

/// Who lost something by another's change was told, once, and the asker was told nothing.
fn check_told(before: &Report, after: &Report, asker: Nexus, told: &[Raised]) {
    let told_to = |nexus, attention| {
        let is_it = |raised: &&Raised| {
            raised.to == Addressees::Only(nexus) && raised.attention == attention
        };
        told.iter().filter(is_it).count()
    };
    for registrant in &before.registrants {
        let nexus = registrant.nexus;
        let lost = told_to(nexus, Attention::RegistrationsPreempted)
            + told_to(nexus, Attention::ReservationsPreempted);
        let has_lost = nexus != asker && !is_registered(after, nexus);
        assert_eq!(lost, usize::from(has_lost), "{told:?}");
        let had_part = before.reservation.is_some_and(|kind| !kind.is_holders_alone());
        let is_gone = before.reservation != after.reservation;
        if nexus != asker && is_registered(after, nexus) && had_part && is_gone {
            assert_eq!(told_to(nexus, Attention::ReservationsReleased), 1, "{told:?}");
        }
    }
    assert!(told.iter().all(|raised| raised.to != Addressees::Only(asker)));
}

proptest! {
    /// No sequence of changes breaks an invariant, lets in whom it should not, goes back with the
    /// generation, or leaves somebody untold; what is not done changes nothing; and what is
    /// recorded is found again.
    #[test]
    fn no_sequence_of_changes_breaks_the_rules(
        changes in prop::collection::vec(any_change(), 1..60),
    ) {
        let mut it = Reservations::default();
        for (nexus, kind) in changes {
            let (state, before) = (it.clone(), it.report());
            let (result, told) = it.ask(nexus, kind);
            let after = it.report();
            check_state(&it);
            check_told(&before, &after, nexus, &told);
            let counts = matches!(
                kind,
                ChangeKind::Register { .. } | ChangeKind::Clear { .. } | ChangeKind::Preempt { .. }
            );
            let grown = after.generation - before.generation;
            prop_assert!(grown <= u32::from(counts && result == ChangeResult::Done));
            prop_assert!(grown == 1 || keys(&before) == keys(&after), "uncounted");
            if result != ChangeResult::Done {
                prop_assert_eq!(&it, &state);
                prop_assert_eq!(told, []);
            }
            if let ChangeResult::Report(report) = result {
                prop_assert_eq!(*report, after);
            }
            if let Some(recorded) = it.persistent() {
                let found = Reservations::restore(recorded.clone()).unwrap();
                prop_assert_eq!(found.persistent(), Some(recorded));
                let report = found.report();
                let same = (report.reservation, report.registrants);
                let expected = it.report();
                prop_assert_eq!(same, (expected.reservation, expected.registrants));
            }
        }
    }
}
