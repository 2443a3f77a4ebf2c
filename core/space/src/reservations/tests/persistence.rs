//! Recording and restoring.

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
    assert_eq!(damaged(|it| it.registrations[1].key = 0), Registration(1));
    assert_eq!(damaged(|it| it.registrations[2].nexus = Nexus::NONE), Registration(2));
    assert_eq!(damaged(|it| it.registrations[2].nexus = A), Twice(2));
    assert_eq!(damaged(|it| drop(it.registrations.remove(0))), Holder);
    let too_many = damaged(|it| {
        let one = it.registrations[0].clone();
        it.registrations.resize(REGISTRATIONS_MAX + 1, one);
    });
    assert_eq!(too_many, TooMany(REGISTRATIONS_MAX + 1));
    for (kind, who) in [
        (ReservationType::WriteExclusive, None),
        (ReservationType::WriteExclusiveAllRegistrants, Some(A)),
    ] {
        let mut recorded = sound.clone();
        holder(&mut recorded, kind, who);
        assert_eq!(Reservations::restore(recorded), Err(Holder));
    }
}
