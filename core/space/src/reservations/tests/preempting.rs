//! Preemption, with abort and without.

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
    let expected = [(A, Attention::RegistrationsPreempted), (C, Attention::ReservationsReleased)];
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
