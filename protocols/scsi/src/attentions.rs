//! The pending unit attention conditions of a session, for each of its logical units.
//!
//! Spec: SAM-5, 5.14. Each unit has one atomic word, because all connections of a session share the
//! conditions and may run on another core than the one that establishes a condition.

use std::sync::atomic::{AtomicU32, Ordering};

use nearflash_request::Attention;

use crate::limits::LUN_MAX;
use crate::{Sense, SenseKey};

/// The conditions that can be pending, in reporting order, with their additional sense codes.
/// Attentions that end a session are not listed, nor is COMMANDS CLEARED BY ANOTHER INITIATOR: with
/// TAS set in the control mode page, such commands end with TASK ABORTED instead (SAM-5, 5.6).
const BY_PRIORITY: [(Attention, u16); 9] = [
    (Attention::PowerOn, 0x2900),
    (Attention::Reset, 0x2903),
    (Attention::NexusLoss, 0x2907),
    (Attention::UnitsChanged, 0x3F0E),
    (Attention::CapacityChanged, 0x2A09),
    (Attention::ModeChanged, 0x2A01),
    (Attention::ReservationsPreempted, 0x2A03),
    (Attention::ReservationsReleased, 0x2A04),
    (Attention::RegistrationsPreempted, 0x2A05),
];

/// The pending unit attention conditions of one session.
#[derive(Debug)]
pub struct Attentions {
    by_lun: Box<[AtomicU32]>,
}

impl Default for Attentions {
    /// No condition is pending.
    fn default() -> Self {
        Self { by_lun: (0..=LUN_MAX).map(|_| AtomicU32::new(0)).collect() }
    }
}

impl Attentions {
    /// Establishes a condition for a unit.
    pub fn raise(&self, lun: u16, attention: Attention) {
        if let Some(pending) = self.by_lun.get(usize::from(lun)) {
            pending.fetch_or(bit(attention), Ordering::Relaxed);
        }
    }

    /// Establishes a condition for every unit, including units that are added later.
    pub fn raise_all(&self, attention: Attention) {
        for pending in &self.by_lun {
            pending.fetch_or(bit(attention), Ordering::Relaxed);
        }
    }

    /// Clears a condition for every unit, because the initiator knows of it.
    pub fn withdraw_all(&self, attention: Attention) {
        for pending in &self.by_lun {
            pending.fetch_and(!bit(attention), Ordering::Relaxed);
        }
    }

    /// Whether a condition is pending for this unit.
    #[inline]
    pub fn is_any_pending(&self, lun: u16) -> bool {
        let pending = self.by_lun.get(usize::from(lun));
        pending.is_some_and(|pending| pending.load(Ordering::Relaxed) != 0)
    }

    /// Takes the next condition to report for this unit. It is no longer pending.
    pub fn take(&self, lun: u16) -> Option<Attention> {
        let pending = self.by_lun.get(usize::from(lun))?;
        loop {
            let now = pending.load(Ordering::Relaxed);
            if now == 0 {
                return None; // the common case: one load
            }
            let first = now & now.wrapping_neg();
            if pending.fetch_and(!first, Ordering::Relaxed) & first != 0 {
                let mut listed = BY_PRIORITY.iter().map(|&(attention, _)| attention);
                return listed.find(|&attention| bit(attention) == first);
            }
        }
    }
}

/// The bit of an attention: lower bits are reported first. Zero if it is never pending.
fn bit(attention: Attention) -> u32 {
    let place = BY_PRIORITY.iter().position(|&(listed, _)| listed == attention);
    place.map_or(0, |place| 1 << place)
}

/// The sense data that reports the attention.
pub fn sense_of_attention(attention: Attention) -> Sense {
    let code = BY_PRIORITY.iter().find(|&&(listed, _)| listed == attention);
    Sense::new(SenseKey::UNIT_ATTENTION, code.map_or(0x2900, |&(_, code)| code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attentions_are_told_once_and_in_order_of_priority() {
        let attentions = Attentions::default();
        attentions.raise(3, Attention::RegistrationsPreempted);
        attentions.raise(3, Attention::CapacityChanged);
        attentions.raise(3, Attention::PowerOn);
        attentions.raise(3, Attention::PowerOn);
        assert_eq!(attentions.take(2), None);
        assert!(attentions.is_any_pending(3) && !attentions.is_any_pending(2));
        assert_eq!(attentions.take(3), Some(Attention::PowerOn));
        assert_eq!(attentions.take(3), Some(Attention::CapacityChanged));
        assert_eq!(attentions.take(3), Some(Attention::RegistrationsPreempted));
        assert_eq!(attentions.take(3), None);
        assert!(!attentions.is_any_pending(3));
    }

    #[test]
    fn what_is_every_units_can_be_withdrawn_from_every_unit() {
        let attentions = Attentions::default();
        attentions.raise_all(Attention::UnitsChanged);
        attentions.raise(LUN_MAX, Attention::Reset);
        attentions.withdraw_all(Attention::UnitsChanged);
        assert_eq!(attentions.take(0), None);
        assert_eq!(attentions.take(LUN_MAX), Some(Attention::Reset));
        attentions.raise(u16::MAX, Attention::Reset);
        assert_eq!(attentions.take(u16::MAX), None);
    }

    #[test]
    fn every_attention_has_a_place_and_a_code_of_its_own() {
        for (attention, code) in BY_PRIORITY {
            assert_ne!(bit(attention), 0);
            assert_eq!(sense_of_attention(attention).code.0, code);
            let same = BY_PRIORITY.iter().filter(|(_, other)| *other == code);
            assert_eq!(same.count(), 1);
        }
    }
}
