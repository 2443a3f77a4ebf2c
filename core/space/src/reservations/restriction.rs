//! What reservations and modes of a volume refuse, in the form that a core looks at for a request.

use nearflash_request::{Access, Nexus, Outcome};

use super::Reservation;

/// What is refused to whom. Immutable, and replaced whole; a volume that nothing restricts has none.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Restriction {
    write_protected: bool,
    /// Everybody else is refused everything.
    legacy: Option<Nexus>,
    persistent: Option<Barred>,
}

/// A persistent reservation: whom it lets in, and from which access on it refuses the others.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Barred {
    from: Access,
    /// In order.
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

    /// Why that access is refused to the nexus; `None` when it is allowed.
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
