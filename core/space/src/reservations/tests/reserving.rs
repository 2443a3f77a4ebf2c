//! Reservations, their release and their end.

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
