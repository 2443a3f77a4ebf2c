//! Events that a session reports to its initiator: changes of units, resets, new exports.
//!
//! Spec: SAM-5, 5.14; RFC 7143, 11.9.1 (asynchronous events).
//!
//! A session whose target is gone is asked to log out, and its connections are dropped if it does
//! not. It never has units again: a target created later under the same name is a different target,
//! and must not receive the pending writes of an initiator.

use std::sync::Arc;

use nearflash_request::{Attention, Raised};
use nearflash_scsi::sense_of_attention;
use nearflash_units::Nanos;

use super::answers::Answer;
use super::exports::Exports;
use super::{State, TargetSession};
use crate::pdu::{AsyncEvent, LunField, NO_TAG, Opcode};

/// The time that an initiator has to log out when it is asked to, in seconds.
const LOGOUT_SECONDS: u16 = 10;

/// Whether the session's target is still there.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Presence {
    /// It is.
    Present,
    /// It is not, and the initiator was asked to log out.
    Gone,
    /// The target is gone, and the connection is dropped at this time.
    GoneUntil(Nanos),
}

impl TargetSession {
    /// Targets, units or accounts have changed. Commands that come later see the new exports.
    pub fn set_exports(&mut self, exports: Arc<Exports>) {
        self.exports = exports;
        if self.state == State::FullFeature && !self.names.is_discovery {
            self.look_at_target();
        }
    }

    /// Takes over the target's units. A LUN of another volume reports a unit attention first.
    pub(super) fn look_at_target(&mut self) {
        if self.presence != Presence::Present {
            return;
        }
        let Some(units) = self.exports.target(&self.names.target) else {
            self.units = Arc::default();
            self.presence = Presence::Gone;
            return self.push_message(AsyncEvent::LOGOUT, [0, 0, LOGOUT_SECONDS]);
        };
        let before = std::mem::replace(&mut self.units, Arc::clone(units));
        for unit in self.units.iter() {
            if before.get(unit.lun).is_none_or(|old| old.volume != unit.volume) {
                self.shared.attentions.raise(unit.lun, Attention::UnitsChanged);
            }
        }
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
