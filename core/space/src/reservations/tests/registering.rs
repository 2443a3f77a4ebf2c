//! Registrations.

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
            ReservationType::WriteExclusive | ReservationType::ExclusiveAccess => (None, vec![]),
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
