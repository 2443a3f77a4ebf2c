mod modes;
mod older;
mod persistence;
mod preempting;
mod properties;
mod registering;
mod reserving;

use nearflash_request::{Expected, Outcome};

use super::*;

const VOLUME: VolumeId = VolumeId(3);
const A: Nexus = Nexus(0xA);
const B: Nexus = Nexus(0xB);
const C: Nexus = Nexus(0xC);

/// The keys of A, B and so on are their numbers by default.
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
