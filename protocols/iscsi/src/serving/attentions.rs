//! Events that a session reports to its initiator: changes of units, resets, new exports.
//!
//! Spec: SAM-5, 5.14; RFC 7143, 11.9.1 (asynchronous events).
//!
//! A session whose target is gone is asked to log out, and its connections are dropped if it does
//! not. It never has units again: a target created later under the same name is a different target,
//! and must not receive the pending writes of an initiator.

use std::sync::Arc;

use nearflash_request::{Attention, Raised};
use nearflash_scsi::{Failure, LogicalUnits, Sense, sense_of_attention};
use nearflash_units::Nanos;

use super::answers::Answer;
use super::exports::Exports;
use super::slots::Kind;
use super::{State, TargetSession};
use crate::pdu::{AsyncEvent, LunField, NO_TAG, Opcode};

/// The time that an initiator has to log out when it is asked to, in seconds.
const LOGOUT_SECONDS: u16 = 10;

/// Whether the session's target is still there.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Presence {
    Present,
    /// It is not, and the initiator was asked to log out.
    Gone,
    /// The target is gone, and the connection is dropped at this time.
    GoneUntil(Nanos),
}

impl TargetSession {
    /// Targets, units, accounts or rights have changed. Commands that come later see the new exports.
    pub fn set_exports(&mut self, exports: Arc<Exports>) {
        let before = std::mem::replace(&mut self.exports, exports);
        if self.state != State::FullFeature || self.names.is_discovery {
            return;
        }
        let seen = Arc::clone(&self.units);
        self.look_at_target();
        if self.exports.rights() != before.rights() {
            self.tell_rights(&seen);
        }
    }

    /// Reports that the initiator sees other units than before because its rights have changed: its
    /// inventory of units is not the target's any more. The control side reports other changes.
    fn tell_rights(&mut self, seen: &LogicalUnits) {
        let volumes = |units: &LogicalUnits| -> Vec<_> {
            units.iter().map(|unit| (unit.lun, unit.volume)).collect()
        };
        if self.presence != Presence::Present || volumes(seen) == volumes(&self.units) {
            return;
        }
        for unit in Arc::clone(&self.units).iter() {
            self.shared.attentions.raise(unit.lun, Attention::UnitsChanged);
        }
        self.tell_at_once(0, Attention::UnitsChanged);
    }

    /// Takes over the target's units. A LUN of another volume, or with another write protection, reports a
    /// unit attention first. A command whose data is still on the way is not executed if it is not allowed
    /// any more: an initiator must not keep a right by holding data back.
    pub(super) fn look_at_target(&mut self) {
        if self.presence != Presence::Present {
            return;
        }
        let Some(units) = self.exports.units(&self.names.target, &self.names.initiator) else {
            self.units = Arc::default();
            self.presence = Presence::Gone;
            return self.push_message(AsyncEvent::LOGOUT, [0, 0, LOGOUT_SECONDS]);
        };
        let before = std::mem::replace(&mut self.units, units);
        for unit in self.units.iter() {
            match before.get(unit.lun).filter(|old| old.volume == unit.volume) {
                None => self.shared.attentions.raise(unit.lun, Attention::UnitsChanged),
                Some(old) if old.write_protected != unit.write_protected => {
                    self.shared.attentions.raise(unit.lun, Attention::ModeChanged);
                }
                Some(_) => {}
            }
        }
        for unit in before.iter() {
            match self.units.get(unit.lun) {
                None => self.refuse_collecting(unit.lun, Sense::NO_SUCH_UNIT, |_| true),
                Some(now) if now.write_protected && !unit.write_protected => {
                    self.refuse_collecting(unit.lun, Sense::WRITE_PROTECTED, Kind::changes_blocks);
                }
                Some(_) => {}
            }
        }
    }

    /// Fails the commands of a unit that still collect data, if they are meant.
    fn refuse_collecting(&mut self, lun: u16, sense: Sense, is_meant: impl Fn(&Kind) -> bool) {
        let meant = self.tasks.slots.collecting();
        let meant = meant.filter(|(_, slot)| slot.lun == Some(lun) && is_meant(&slot.kind));
        let meant: Vec<(u16, bool)> = meant.map(|(index, slot)| (index, slot.is_due)).collect();
        for (index, is_due) in meant {
            match is_due {
                true => self.refuse_data(index, sense),
                // It fails when it is its turn.
                false => {
                    let slot = &mut self.tasks.slots[index];
                    slot.failed.get_or_insert(Failure::Check(sense));
                }
            }
        }
        self.settle_functions();
    }

    /// Drops an initiator that did not log out in time after it was asked to.
    pub(super) fn drop_if_overdue(&mut self, now: Nanos) {
        match self.presence {
            Presence::Gone => {
                let span = Nanos::from_secs(u64::from(LOGOUT_SECONDS));
                self.presence = Presence::GoneUntil(now.plus(span));
            }
            Presence::GoneUntil(until) if now >= until && self.state == State::FullFeature => {
                self.end_session();
            }
            Presence::Present | Presence::GoneUntil(_) => {}
        }
    }

    /// Reports an event to the initiator: as a unit attention for the next command and, for a
    /// change of size or of units, also at once as an asynchronous message. A reset, and the end of
    /// a task set, abort commands that the session has not begun. A cold reset of the target ends
    /// the session.
    pub fn raise(&mut self, raised: &Raised) {
        if self.state != State::FullFeature
            || self.names.is_discovery
            || !raised.to.include(self.shared.nexus)
        {
            return;
        }
        let Some(volume) = raised.volume else {
            self.shared.attentions.raise_all(raised.attention);
            return self.tell_at_once(0, raised.attention);
        };
        let units = Arc::clone(&self.units);
        for unit in units.iter().filter(|unit| unit.volume == volume) {
            self.shared.attentions.raise(unit.lun, raised.attention);
            match raised.attention {
                Attention::Reset => {
                    self.abort_unit(unit.lun);
                    self.shared.copies.forget(unit.lun);
                }
                Attention::TasksCleared => self.abort_unit(unit.lun),
                Attention::ColdReset => return self.begin_anew(),
                other => self.tell_at_once(unit.lun, other),
            }
        }
    }

    /// Initiators rescan units when they receive this message, and would not do so themselves.
    fn tell_at_once(&mut self, lun: u16, attention: Attention) {
        if !matches!(attention, Attention::CapacityChanged | Attention::UnitsChanged) {
            return;
        }
        let data = self.sense_segment(Some(lun), sense_of_attention(attention));
        let event = u32::from_be_bytes([AsyncEvent::SCSI.0, 0, 0, 0]);
        let answer = Answer {
            lun: LunField::new(lun).0,
            rest: [event, 0, 0],
            ..Answer::new(Opcode::ASYNC, NO_TAG)
        };
        self.push_answer(&answer, &data);
    }
}
