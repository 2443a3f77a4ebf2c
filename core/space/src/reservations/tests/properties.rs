//! Properties that hold after any sequence of changes.

use proptest::prelude::*;

use super::*;

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

/// The standards' tables of allowed and conflicting commands.
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
