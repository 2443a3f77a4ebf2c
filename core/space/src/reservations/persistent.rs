//! Persistent reservations: PERSISTENT RESERVE OUT, and NVMe's Register, Acquire and Release.
//!
//! All of them conflict while any nexus holds the older reservation (SPC-2, 5.5.1).

use nearflash_request::{
    Attention, ChangeResult, Expected, Identity, Nexus, Raised, Refusal, ReservationType,
};

use super::{
    CONFLICT, Changed, DONE, Party, REGISTRATIONS_MAX, Registration, Reservation, Reservations,
    refused,
};

impl Reservations {
    pub(super) fn register(
        &mut self,
        asker: Party,
        identity: &Identity,
        (expected, new): (Expected, u64),
        persist: Option<bool>,
    ) -> Changed {
        let current = self.key_of(asker.nexus);
        if self.legacy.is_some() || asker.nexus == Nexus::NONE || !is_met(expected, current, new) {
            return CONFLICT;
        }
        let told = match (current, new) {
            (None, 0) => return DONE,
            (None, _) if self.registrations.len() >= REGISTRATIONS_MAX => {
                return refused(Refusal::TooManyRegistrations);
            }
            (None, key) => {
                let (nexus, identity) = (asker.nexus, identity.clone());
                self.registrations.push(Registration { nexus, identity, key });
                Vec::new()
            }
            (Some(_), 0) => self.unregister(asker),
            (Some(_), key) => {
                let mine = self.registrations.iter_mut().find(|r| r.nexus == asker.nexus);
                let mine = mine.expect("its key was found");
                mine.key = key;
                mine.identity = identity.clone();
                Vec::new()
            }
        };
        self.persists = persist.unwrap_or(self.persists);
        self.count();
        (ChangeResult::Done, told)
    }

    /// A reservation ends with its holder's registration; one of all registrants ends with the last
    /// registration.
    fn unregister(&mut self, asker: Party) -> Vec<Raised> {
        self.registrations.retain(|registration| registration.nexus != asker.nexus);
        let Some(reservation) = self.reservation else { return Vec::new() };
        let ends = match reservation.holder {
            Some(holder) => holder == asker.nexus,
            None => self.registrations.is_empty(),
        };
        if ends { self.end_reservation(asker, reservation.kind) } else { Vec::new() }
    }

    pub(super) fn reserve(&mut self, asker: Party, key: u64, kind: ReservationType) -> Changed {
        if !self.is_registered(asker, key) {
            return CONFLICT;
        }
        match self.reservation {
            None => {
                self.reservation = Some(reservation_by(asker.nexus, kind));
                DONE
            }
            Some(held) if held.kind == kind && self.holds(asker.nexus) => DONE,
            Some(_) => CONFLICT,
        }
    }

    pub(super) fn release(&mut self, asker: Party, key: u64, kind: ReservationType) -> Changed {
        if !self.is_registered(asker, key) {
            return CONFLICT;
        }
        match self.reservation {
            Some(held) if self.holds(asker.nexus) && held.kind != kind => {
                refused(Refusal::WrongType)
            }
            Some(held) if self.holds(asker.nexus) => {
                (ChangeResult::Done, self.end_reservation(asker, held.kind))
            }
            // There is no reservation, or another nexus holds it. It is unchanged, and the command
            // succeeds.
            _ => DONE,
        }
    }

    pub(super) fn clear(&mut self, asker: Party, key: u64) -> Changed {
        if !self.is_registered(asker, key) {
            return CONFLICT;
        }
        let told = self.others(asker);
        self.registrations.clear();
        self.reservation = None;
        self.count();
        let told = told.into_iter().map(|to| to.raise(Attention::ReservationsPreempted));
        (ChangeResult::Done, told.collect())
    }

    pub(super) fn preempt(
        &mut self,
        asker: Party,
        key: u64,
        victim: u64,
        kind: ReservationType,
    ) -> Changed {
        if !self.is_registered(asker, key) {
            return CONFLICT;
        }
        let held = self.reservation.filter(|held| match held.holder {
            Some(holder) => self.key_of(holder) == Some(victim),
            None => victim == 0,
        });
        let told = match held {
            Some(held) => self.take_over(asker, victim, held, kind),
            None if victim == 0 => return refused(Refusal::InvalidKey),
            None if self.registrations.iter().all(|r| r.key != victim) => return CONFLICT,
            None => self.remove_registrations(asker, victim),
        };
        self.count();
        (ChangeResult::Done, told)
    }

    /// The victim holds the reservation. From now on the requester holds it, and stays registered.
    fn take_over(
        &mut self,
        asker: Party,
        victim: u64,
        held: Reservation,
        kind: ReservationType,
    ) -> Vec<Raised> {
        let goes = |registration: &Registration| {
            registration.nexus != asker.nexus && (victim == 0 || registration.key == victim)
        };
        let mut told = self.remove(asker, goes);
        self.reservation = Some(reservation_by(asker.nexus, kind));
        if held.kind != kind {
            let released = |to: Party| to.raise(Attention::ReservationsReleased);
            told.extend(self.others(asker).into_iter().map(released));
        }
        told
    }

    /// The victim is not the sole holder. Its registrations end, including the requester's if it
    /// has that key.
    fn remove_registrations(&mut self, asker: Party, victim: u64) -> Vec<Raised> {
        let told = self.remove(asker, |registration| registration.key == victim);
        if self.registrations.is_empty() {
            self.reservation = None;
        }
        told
    }

    fn remove(&mut self, asker: Party, goes: impl Fn(&Registration) -> bool) -> Vec<Raised> {
        let gone: Vec<Nexus> =
            self.registrations.iter().filter(|r| goes(r)).map(|r| r.nexus).collect();
        let told = self.others(asker).into_iter().filter(|to| gone.contains(&to.nexus));
        let told = told.map(|to| to.raise(Attention::RegistrationsPreempted)).collect();
        self.registrations.retain(|registration| !goes(registration));
        told
    }

    /// Ends the reservation, and notifies the registrants that shared in it.
    fn end_reservation(&mut self, asker: Party, kind: ReservationType) -> Vec<Raised> {
        self.reservation = None;
        if kind.is_holders_alone() {
            return Vec::new();
        }
        let released = |to: Party| to.raise(Attention::ReservationsReleased);
        self.others(asker).into_iter().map(released).collect()
    }

    fn is_registered(&self, asker: Party, key: u64) -> bool {
        self.legacy.is_none() && self.key_of(asker.nexus) == Some(key)
    }
}

fn reservation_by(nexus: Nexus, kind: ReservationType) -> Reservation {
    Reservation { kind, holder: (!kind.is_all_registrants()).then_some(nexus) }
}

fn is_met(expected: Expected, current: Option<u64>, new: u64) -> bool {
    match expected {
        Expected::Anything => true,
        Expected::Nothing => current.is_none(),
        Expected::NothingOrSame => current.is_none_or(|key| key == new),
        Expected::AnyKey => current.is_some(),
        Expected::Key(key) => current == Some(key),
    }
}
