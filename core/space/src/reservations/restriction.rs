//! The accesses that a volume's reservations and modes refuse, in the form that a core checks for
//! each request.

use nearflash_request::{Access, Nexus, Outcome};

use super::Reservation;

/// The accesses refused to each nexus, immutable. An unrestricted volume has none.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Restriction {
    write_protected: bool,
    /// The holder of the older reservation; every other nexus is refused every access.
    legacy: Option<Nexus>,
    persistent: Option<Barred>,
}

/// The nexuses that a persistent reservation admits, and the lowest access refused to others.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Barred {
    from: Access,
    /// Sorted.
    admitted: Box<[Nexus]>,
}

impl Restriction {
    pub(super) fn new(
        write_protected: bool,
        legacy: Option<Nexus>,
        reservation: Option<Reservation>,
        registrants: impl Iterator<Item = Nexus>,
    ) -> Option<Self> {
        let persistent = reservation.map(|Reservation { kind, holder }| {
            let mut admitted: Vec<Nexus> = match holder.filter(|_| kind.is_holders_alone()) {
                Some(holder) => vec![holder],
                None => registrants.collect(),
            };
            admitted.sort_unstable();
            Barred { from: kind.refuses_from(), admitted: admitted.into() }
        });
        let restricts = write_protected || legacy.is_some() || persistent.is_some();
        restricts.then_some(Self { write_protected, legacy, persistent })
    }

    /// The outcome with which the access is refused to the nexus; `None` when it is allowed.
    pub fn refusal(&self, nexus: Nexus, access: Access) -> Option<Outcome> {
        let legacy = self.legacy.is_some_and(|holder| holder != nexus);
        let barred = self.persistent.as_ref().is_some_and(|barred| {
            access >= barred.from && barred.admitted.binary_search(&nexus).is_err()
        });
        if legacy || barred {
            return Some(Outcome::ReservationConflict);
        }
        (self.write_protected && access == Access::Write).then_some(Outcome::WriteProtected)
    }
}
