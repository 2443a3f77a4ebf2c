//! RESERVE and RELEASE.

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
    let reset = Raised { volume: Some(VOLUME), to: Addressees::All, attention: Attention::Reset };
    assert_eq!((told, it.restriction()), (vec![reset], None));
}
