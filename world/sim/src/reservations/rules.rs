//! A plain second implementation of the standards' rules for registrations and reservations. The
//! node's behaviour is checked against it.
//!
//! Spec: SPC-4, 5.13; NVMe Base 2.0, 8.19. Persistent reservations only: the simulated initiators
//! use neither RESERVE(6) nor mode changes. This module knows nothing about the node's
//! implementation.

use std::collections::BTreeMap;

use nearflash_request::{
    Access, Change, ChangeKind, ChangeResult, Expected, Nexus, Report, ReservationType as Type,
};

/// The result of a change.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Ends {
    Done,
    Conflict,
    Refused,
}

impl Ends {
    /// The node's result as one of these.
    pub(crate) fn of(result: &ChangeResult) -> Self {
        match result {
            ChangeResult::Done | ChangeResult::Report(_) => Self::Done,
            ChangeResult::Conflict => Self::Conflict,
            ChangeResult::Refused(_) => Self::Refused,
        }
    }
}

/// The registrations and the reservation of a volume.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Rules {
    keys: BTreeMap<Nexus, u64>,
    /// The kind and the holder; the holder has no meaning if all registrants hold it.
    held: Option<(Type, Nexus)>,
    persists: bool,
}

impl Rules {
    /// Whether a nexus may read, or write.
    pub(crate) fn allow(&self, nexus: Nexus, access: Access) -> bool {
        let Some((kind, holder)) = self.held else { return true };
        let is_registered = self.keys.contains_key(&nexus);
        match (kind, access) {
            (Type::WriteExclusive, Access::Read)
            | (Type::WriteExclusiveRegistrantsOnly, Access::Read)
            | (Type::WriteExclusiveAllRegistrants, Access::Read) => true,
            (Type::WriteExclusive | Type::ExclusiveAccess, _) => nexus == holder,
            _ => is_registered,
        }
    }

    /// Whether any access is restricted.
    pub(crate) fn restrict(&self) -> bool {
        self.held.is_some()
    }

    fn holds(&self, nexus: Nexus) -> bool {
        match self.held {
            None => false,
            Some((kind, _)) if kind.is_all_registrants() => self.keys.contains_key(&nexus),
            Some((_, holder)) => holder == nexus,
        }
    }

    /// Whether a report lists exactly these registrants and holders.
    pub(crate) fn agree_with(&self, report: &Report) -> bool {
        let is_known =
            |nexus, key, holds| self.keys.get(&nexus) == Some(&key) && self.holds(nexus) == holds;
        report.registrants.len() == self.keys.len()
            && report.registrants.iter().all(|it| is_known(it.nexus, it.key, it.holds))
            && report.reservation == self.held.map(|(kind, _)| kind)
            && report.persists == self.persists
    }

    /// The power was lost.
    pub(crate) fn lose_power(&mut self) {
        if !self.persists {
            *self = Self::default();
        }
    }

    /// Makes a change, and returns its result.
    pub(crate) fn change(&mut self, change: &Change) -> Ends {
        let nexus = change.nexus;
        let own = self.keys.get(&nexus).copied();
        match change.kind {
            ChangeKind::Register { expected, new, persist } => {
                let fits = match expected {
                    Expected::Anything => true,
                    Expected::Nothing => own.is_none(),
                    Expected::NothingOrSame => own.is_none() || own == Some(new),
                    Expected::AnyKey => own.is_some(),
                    Expected::Key(key) => own == Some(key),
                };
                if !fits {
                    return Ends::Conflict;
                }
                if own.is_some() || new != 0 {
                    self.register(nexus, new);
                    self.persists = persist.unwrap_or(self.persists);
                }
                Ends::Done
            }
            ChangeKind::Reserve { key, .. }
            | ChangeKind::Release { key, .. }
            | ChangeKind::Clear { key }
            | ChangeKind::Preempt { key, .. }
                if own != Some(key) =>
            {
                Ends::Conflict
            }
            ChangeKind::Reserve { reservation, .. } => match self.held {
                None => {
                    self.held = Some((reservation, nexus));
                    Ends::Done
                }
                Some((kind, _)) if kind == reservation && self.holds(nexus) => Ends::Done,
                Some(_) => Ends::Conflict,
            },
            ChangeKind::Release { reservation, .. } => match self.held {
                Some((kind, _)) if self.holds(nexus) && kind != reservation => Ends::Refused,
                Some(_) if self.holds(nexus) => {
                    self.held = None;
                    Ends::Done
                }
                _ => Ends::Done,
            },
            ChangeKind::Clear { .. } => {
                self.keys.clear();
                self.held = None;
                Ends::Done
            }
            ChangeKind::Preempt { victim, reservation, .. } => {
                self.preempt(nexus, victim, reservation)
            }
            ChangeKind::Reset(_)
            | ChangeKind::EndTasks(_)
            | ChangeKind::NexusLost
            | ChangeKind::Report => Ends::Done,
            _ => unreachable!("nobody here asks for {:?}", change.kind),
        }
    }

    fn register(&mut self, nexus: Nexus, key: u64) {
        if key != 0 {
            self.keys.insert(nexus, key);
            return;
        }
        let held = self.holds(nexus);
        self.keys.remove(&nexus);
        let is_shared = self.held.is_some_and(|(kind, _)| kind.is_all_registrants());
        if held && (!is_shared || self.keys.is_empty()) {
            self.held = None;
        }
    }

    fn preempt(&mut self, nexus: Nexus, victim: u64, reservation: Type) -> Ends {
        let takes_over = self.held.is_some_and(|(kind, holder)| {
            if kind.is_all_registrants() {
                victim == 0
            } else {
                self.keys.get(&holder) == Some(&victim)
            }
        });
        if takes_over {
            self.keys.retain(|other, key| *other == nexus || (victim != 0 && *key != victim));
            self.held = Some((reservation, nexus));
            return Ends::Done;
        }
        if victim == 0 {
            return Ends::Refused;
        }
        let before = self.keys.len();
        self.keys.retain(|_, key| *key != victim);
        if self.keys.is_empty() {
            self.held = None;
        }
        if self.keys.len() < before { Ends::Done } else { Ends::Conflict }
    }
}
