//! The older reservation: RESERVE and RELEASE of SPC-2, exclusive to one nexus, and their behavior
//! while persistent reservations exist (SPC-4, 5.13.3: exceptions to SPC-2 behavior, CRH).

use nearflash_request::Nexus;

use super::{CONFLICT, Changed, DONE, Reservations};

impl Reservations {
    pub(super) fn legacy_reserve(&mut self, nexus: Nexus) -> Changed {
        match self.beside_registrations(nexus) {
            Some(answer) => answer,
            None if nexus == Nexus::NONE => CONFLICT,
            None if self.legacy.is_some_and(|holder| holder != nexus) => CONFLICT,
            None => {
                self.legacy = Some(nexus);
                DONE
            }
        }
    }

    pub(super) fn legacy_release(&mut self, nexus: Nexus) -> Changed {
        self.beside_registrations(nexus).unwrap_or_else(|| {
            // Another nexus' reservation stays, and the command succeeds.
            self.legacy.take_if(|holder| *holder == nexus);
            DONE
        })
    }

    /// With registrations, both commands conflict, but have no effect for an admitted nexus.
    fn beside_registrations(&self, nexus: Nexus) -> Option<Changed> {
        if self.registrations.is_empty() {
            return None;
        }
        let is_let_in = self.reservation.is_some_and(|reservation| {
            let registered = self.key_of(nexus).is_some();
            self.holds(nexus) || (registered && !reservation.kind.is_holders_alone())
        });
        Some(if is_let_in { DONE } else { CONFLICT })
    }
}
