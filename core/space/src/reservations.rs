//! Registrations and the reservation of a volume, and the accesses that they refuse to other
//! nexuses. All protocols share one state, under the rules of both standards, which agree where
//! both apply.
//!
//! Spec: SPC-4, 5.13 (persistent reservations) and NVMe Base 2.0, 8.19; the older RESERVE and
//! RELEASE by SPC-2, 5.5, and SPC-4 on the two together. A caller changes a copy, records it if it
//! persists, and only then publishes it to the cores, as with a change of [`crate::Space`]. The
//! cores check requests against a [`Restriction`] derived from it.
//!
//! Invariants: a single holder is registered; a reservation of all registrants has at least one;
//! no key is zero; nobody is registered while an older reservation is held; the generation grows
//! (modulo 2^32) and never goes back while the node runs.

mod legacy;
mod persistent;
mod restriction;

use nearflash_request::{
    Access, Addressees, Attention, Change, ChangeKind, ChangeResult, Identity, Modes, Nexus,
    Raised, Refusal, Registrant, Report, ReservationType, ResetScope, TaskSet, VolumeId,
};

pub use restriction::Restriction;

/// The largest number of registrations of one volume. A report of all of them fits in a transfer.
pub const REGISTRATIONS_MAX: usize = 1024;

/// A volume's registrations, reservation and modes.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Reservations {
    /// Counts the successful changes of registrations.
    generation: u32,
    /// Whether registrations and the reservation survive a restart of the node.
    persists: bool,
    /// In the order of registration.
    registrations: Vec<Registration>,
    reservation: Option<Reservation>,
    /// The holder of the older, exclusive reservation (SPC-2 RESERVE).
    legacy: Option<Nexus>,
    modes: Modes,
}

/// A registration of one nexus.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Registration {
    /// The registrant.
    pub nexus: Nexus,
    /// The registrant in its protocol's terms.
    pub identity: Identity,
    /// The reservation key; never zero.
    pub key: u64,
}

/// A persistent reservation of the volume.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Reservation {
    /// The reservation's type.
    pub kind: ReservationType,
    /// The holder; `None` when every registrant is a holder.
    pub holder: Option<Nexus>,
}

/// The state that survives a restart of the node and is recorded.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Persistent {
    /// In the order of registration.
    pub registrations: Vec<Registration>,
    /// The reservation, if one is held.
    pub reservation: Option<Reservation>,
}

/// Error: a recorded state breaks an invariant, because the record is damaged.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum RestoreReservationsError {
    /// More than [`REGISTRATIONS_MAX`].
    #[error("{0} registrations, at most {REGISTRATIONS_MAX}")]
    TooMany(usize),
    /// A registration without a nexus, or with a key of zero.
    #[error("registration {0} has no nexus or no key")]
    Registration(usize),
    /// A nexus is registered twice.
    #[error("registration {0} is a duplicate")]
    Twice(usize),
    /// The holder is not registered, or its presence does not fit the reservation's type.
    #[error("the reservation's holder is not registered")]
    Holder,
}

/// The result of a change, and the notices to deliver once every core acts on the change.
pub type Changed = (ChangeResult, Vec<Raised>);

impl Reservations {
    /// Restores a recorded state, with generation 0, as both standards require at power on.
    ///
    /// # Errors
    /// When the record breaks an invariant of this module.
    pub fn restore(recorded: Persistent) -> Result<Self, RestoreReservationsError> {
        let Persistent { registrations, reservation } = recorded;
        let count = registrations.len();
        if count > REGISTRATIONS_MAX {
            return Err(RestoreReservationsError::TooMany(count));
        }
        for (index, registration) in registrations.iter().enumerate() {
            if registration.key == 0 || registration.nexus == Nexus::NONE {
                return Err(RestoreReservationsError::Registration(index));
            }
            if registrations[..index].iter().any(|earlier| earlier.nexus == registration.nexus) {
                return Err(RestoreReservationsError::Twice(index));
            }
        }
        let restored = Self { persists: true, registrations, reservation, ..Self::default() };
        if restored.has_its_holder() { Ok(restored) } else { Err(RestoreReservationsError::Holder) }
    }

    /// The state to record; `None` when none of it survives a restart of the node.
    pub fn persistent(&self) -> Option<Persistent> {
        self.persists.then(|| Persistent {
            registrations: self.registrations.clone(),
            reservation: self.reservation,
        })
    }

    /// The accesses that the cores must refuse; `None`, the common case, when there are none.
    pub fn restriction(&self) -> Option<Restriction> {
        Restriction::new(
            self.modes.write_protected,
            self.legacy,
            self.reservation,
            self.registrations.iter().map(|registration| registration.nexus),
        )
    }

    /// The modes that MODE SELECT can change.
    pub fn modes(&self) -> Modes {
        self.modes
    }

    /// Whether there are neither registrations nor a reservation.
    pub fn is_empty(&self) -> bool {
        self.registrations.is_empty() && self.legacy.is_none()
    }

    /// The holder of the older, exclusive reservation (SPC-2 RESERVE).
    pub fn legacy_holder(&self) -> Option<Nexus> {
        self.legacy
    }

    /// The state as both protocols report it.
    pub fn report(&self) -> Report {
        let registrant = |registration: &Registration| Registrant {
            nexus: registration.nexus,
            identity: registration.identity.clone(),
            key: registration.key,
            holds: self.holds(registration.nexus),
        };
        Report {
            generation: self.generation,
            reservation: self.reservation.map(|reservation| reservation.kind),
            persists: self.persists,
            registrants: self.registrations.iter().map(registrant).collect(),
        }
    }

    /// Makes a change, or returns why it is refused; then nothing has changed.
    pub fn apply(&mut self, change: &Change) -> Changed {
        let (nexus, volume) = (change.nexus, change.volume);
        let asker = Party { nexus, volume };
        match change.kind {
            ChangeKind::Register { expected, new, persist } => {
                self.register(asker, &change.identity, (expected, new), persist)
            }
            ChangeKind::Reserve { key, reservation } => self.reserve(asker, key, reservation),
            ChangeKind::Release { key, reservation } => self.release(asker, key, reservation),
            ChangeKind::Clear { key } => self.clear(asker, key),
            ChangeKind::Preempt { key, victim, reservation, abort } => {
                let (result, told) = self.preempt(asker, key, victim, reservation);
                (result, if abort { ending_tasks(told) } else { told })
            }
            ChangeKind::LegacyReserve => self.legacy_reserve(nexus),
            ChangeKind::LegacyRelease => self.legacy_release(nexus),
            ChangeKind::Report => self.asked_report(&change.identity),
            ChangeKind::SetPersistence(persists) => {
                self.persists = persists;
                DONE
            }
            ChangeKind::SetModes(modes) => self.set_modes(asker, modes),
            ChangeKind::Reset(scope) => self.reset(asker, scope),
            ChangeKind::EndTasks(TaskSet::Own) => DONE,
            ChangeKind::EndTasks(TaskSet::All) => {
                (ChangeResult::Done, vec![asker.raise_to_others(Attention::TasksCleared)])
            }
            ChangeKind::NexusLost => self.nexus_lost(nexus),
        }
    }

    /// Ends all registrations and reservations, at the operator's request.
    pub fn clear_all(&mut self, volume: VolumeId) -> Vec<Raised> {
        let told = self.others(Party { nexus: Nexus::NONE, volume });
        if !told.is_empty() {
            self.count();
        }
        self.registrations.clear();
        (self.reservation, self.legacy) = (None, None);
        told.into_iter().map(|to| to.raise(Attention::ReservationsPreempted)).collect()
    }

    fn asked_report(&self, identity: &Identity) -> Changed {
        // PERSISTENT RESERVE IN conflicts with the older reservation, regardless of its holder.
        // NVMe does not have the older reservation, so its report shows none.
        let is_scsi = matches!(identity, Identity::Iscsi { .. });
        if is_scsi && self.legacy.is_some() {
            return CONFLICT;
        }
        (ChangeResult::Report(Box::new(self.report())), Vec::new())
    }

    fn set_modes(&mut self, asker: Party, modes: Modes) -> Changed {
        // A nexus that could write without write protection may also remove it.
        let reserved = Self { modes: Modes::default(), ..self.clone() }.restriction();
        if reserved.is_some_and(|it| it.refusal(asker.nexus, Access::Write).is_some()) {
            return CONFLICT;
        }
        if self.modes == modes {
            return DONE;
        }
        self.modes = modes;
        (ChangeResult::Done, vec![asker.raise_to_others(Attention::ModeChanged)])
    }

    fn reset(&mut self, asker: Party, scope: ResetScope) -> Changed {
        self.legacy = None;
        self.modes = Modes::default();
        let told = match scope {
            ResetScope::LogicalUnit | ResetScope::Target => {
                let (volume, to) = (Some(asker.volume), Addressees::All);
                Raised { volume, to, attention: Attention::Reset }
            }
            // The requester's own session ends when it has its answer.
            ResetScope::TargetAndSessions => asker.raise_to_others(Attention::ColdReset),
        };
        (ChangeResult::Done, vec![told])
    }

    fn nexus_lost(&mut self, nexus: Nexus) -> Changed {
        self.legacy.take_if(|holder| *holder == nexus);
        DONE
    }

    fn holds(&self, nexus: Nexus) -> bool {
        self.reservation.is_some_and(|reservation| match reservation.holder {
            Some(holder) => holder == nexus,
            None => self.key_of(nexus).is_some(),
        })
    }

    fn key_of(&self, nexus: Nexus) -> Option<u64> {
        self.registrations.iter().find(|r| r.nexus == nexus).map(|r| r.key)
    }

    fn has_its_holder(&self) -> bool {
        let Some(Reservation { kind, holder }) = self.reservation else { return true };
        match holder {
            Some(holder) => !kind.is_all_registrants() && self.key_of(holder).is_some(),
            None => kind.is_all_registrants() && !self.registrations.is_empty(),
        }
    }

    fn count(&mut self) {
        self.generation = self.generation.wrapping_add(1);
    }

    /// Every registrant except the requester, as recipients of a notice.
    fn others(&self, asker: Party) -> Vec<Party> {
        let others = self.registrations.iter().map(|registration| registration.nexus);
        let others = others.filter(|nexus| *nexus != asker.nexus);
        others.map(|nexus| Party { nexus, ..asker }).collect()
    }
}

/// The nexus that requests a change, or receives a notice of it, and the volume.
#[derive(Clone, Copy, Debug)]
struct Party {
    nexus: Nexus,
    volume: VolumeId,
}

impl Party {
    fn raise_to_others(self, attention: Attention) -> Raised {
        Raised { volume: Some(self.volume), to: Addressees::AllBut(self.nexus), attention }
    }

    fn raise(self, attention: Attention) -> Raised {
        Raised { volume: Some(self.volume), to: Addressees::Only(self.nexus), attention }
    }
}

/// The messages of PREEMPT AND ABORT: the tasks of removed registrants are aborted, too.
fn ending_tasks(mut told: Vec<Raised>) -> Vec<Raised> {
    let of_gone = |raised: &&Raised| raised.attention == Attention::RegistrationsPreempted;
    let ended = |raised: &Raised| Raised { attention: Attention::TasksCleared, ..*raised };
    let ended: Vec<Raised> = told.iter().filter(of_gone).map(ended).collect();
    told.extend(ended);
    told
}

const DONE: Changed = (ChangeResult::Done, Vec::new());
const CONFLICT: Changed = (ChangeResult::Conflict, Vec::new());

const fn refused(why: Refusal) -> Changed {
    (ChangeResult::Refused(why), Vec::new())
}

#[cfg(test)]
mod tests;
