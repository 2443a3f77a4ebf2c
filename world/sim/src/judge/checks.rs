//! What all answers of a run are held against, and how many of each kind there were.

use crate::history::History;
use crate::increments::Increments;
use crate::judge::{Answer, What};
use crate::outside::Outside;
use crate::reservations::{Asked, Ledger};
use crate::stamp::{Value, Writer};
use crate::witness::{Door, Tick};

/// What is judged, over all hosts.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    /// Of each block.
    pub history: History,
    /// Of counters.
    pub increments: Increments,
    /// Of reservations.
    pub reservations: Ledger,
    /// Devices of this run fail now and then.
    pub(crate) disks_fail: bool,
    /// Commands answered with success.
    pub succeeded: u64,
    /// Commands answered with an error.
    pub failed: u64,
    /// Of those, commands that were aborted before they began.
    pub(crate) aborted: u64,
    /// And those that there was no room for.
    pub(crate) turned_away: u64,
    /// Commands whose connection was lost.
    pub lost: u64,
    /// By door: blocks read that were written by each door.
    pub(crate) across: [[u64; 3]; 3],
}

impl Checks {
    fn note_end(&mut self, answer: Answer) {
        self.aborted += u64::from(answer == Answer::Aborted);
        self.turned_away += u64::from(answer == Answer::Full);
    }

    pub(super) fn count(&mut self, answer: Answer, in_tail: bool, what: &What) {
        self.note_end(answer);
        if answer.is_success() {
            self.succeeded += 1;
            return;
        }
        self.failed += 1;
        let is_expected = match answer {
            Answer::Differs => matches!(what, What::Compare(_)),
            Answer::BehindTheEnd => in_tail,
            Answer::Conflict => self.reservations.is_used(),
            Answer::DeviceFailed => self.disks_fail,
            Answer::Attention | Answer::Aborted | Answer::Full => true,
            // The client has judged that.
            Answer::NotLetIn | Answer::Stale => true,
            Answer::Done | Answer::OtherHalfFailed | Answer::Unexpected(_) => false,
        };
        assert!(is_expected, "{what:?} was answered {answer:?}");
    }

    pub(super) fn count_step(&mut self, answer: Answer) {
        self.note_end(answer);
        if answer.is_success() {
            self.succeeded += 1;
            return;
        }
        self.failed += 1;
        let is_expected = match answer {
            Answer::DeviceFailed => self.disks_fail,
            Answer::Conflict => self.reservations.is_used(),
            Answer::BehindTheEnd | Answer::Unexpected(_) => false,
            _ => true,
        };
        assert!(is_expected, "a compare-and-write was answered {answer:?}");
    }

    /// Something was read that came in by a door, this one or another.
    pub(super) fn note_doors(&mut self, reader: Writer, value: Value, outside: &Outside) {
        let Value::Written(stamp) = value else { return };
        let door = |writer| outside.witness.door_of(writer).map(Door::index);
        if let (Some(reader), Some(writer)) = (door(reader), door(stamp.writer)) {
            self.across[reader][writer] += 1;
        }
    }

    pub(super) fn judge_right(&mut self, asked: Asked, answer: Answer, now: Tick) {
        match answer {
            Answer::Done | Answer::Differs => self.reservations.judge(asked, false, now),
            Answer::Conflict => self.reservations.judge(asked, true, now),
            _ => {}
        }
    }
}
