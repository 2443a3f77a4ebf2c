//! The checks of all answers of a run, and the number of answers of each kind.

use std::fmt::Debug;

use nearflash_request::Nexus;

use crate::failures::{About, Failures};
use crate::history::History;
use crate::increments::Increments;
use crate::judge::Answer;
use crate::judge::endings::Endings;
use crate::outside::Outside;
use crate::reservations::{Asked, Ledger};
use crate::stamp::{Value, Writer};
use crate::witness::{Door, Tick};

/// What a command may have failed of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cause<'a> {
    pub(super) nexus: Nexus,
    pub(super) sent: Tick,
    /// What it is about.
    pub(super) about: &'a [About],
    /// Of devices.
    pub(super) failures: &'a Failures,
}

/// What is judged, over all hosts.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    /// Of each block.
    pub history: History,
    /// Of counters.
    pub increments: Increments,
    /// Of reservations.
    pub reservations: Ledger,
    /// Functions that end commands.
    pub(crate) endings: Endings,
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
    /// Comparisons that did not hold, and were judged.
    pub(crate) differed: u64,
    /// Blocks that were read and written back as they were.
    pub(crate) touched: u64,
    /// By door: writes that were acknowledged.
    pub(crate) acknowledged: [u64; 3],
    /// By door: blocks read that were written by each door.
    pub(crate) across: [[u64; 3]; 3],
}

impl Checks {
    /// A command was answered so. `own` are the answers that it can have and others cannot.
    ///
    /// # Panics
    /// When nothing that happened so far is a reason for that.
    pub(super) fn count(
        &mut self,
        answer: Answer,
        own: &[Answer],
        cause: Cause<'_>,
        what: &impl Debug,
    ) {
        match answer {
            Answer::Done => self.succeeded += 1,
            _ => self.failed += 1,
        }
        self.aborted += u64::from(answer == Answer::Aborted);
        self.turned_away += u64::from(answer == Answer::Full);
        self.differed += u64::from(answer == Answer::Differs);
        let is_due = match answer {
            Answer::Done | Answer::Attention | Answer::Full => true,
            Answer::Conflict => self.reservations.is_used(),
            Answer::DeviceFailed => cause.about.iter().any(|it| cause.failures.explain(it)),
            Answer::Aborted => self.endings.explain(cause.nexus, cause.sent),
            // The client has judged that.
            Answer::NotLetIn | Answer::Stale => true,
            Answer::Differs
            | Answer::OtherHalfFailed
            | Answer::BehindTheEnd
            | Answer::Unexpected(_) => own.contains(&answer),
        };
        assert!(is_due, "{what:?} was answered {answer:?}");
    }

    /// A write was acknowledged.
    pub(super) fn note_write(&mut self, writer: Writer, outside: &Outside) {
        if let Some(door) = outside.witness.door_of(writer) {
            self.acknowledged[door.index()] += 1;
        }
    }

    /// Something was read that came in by a door, this one or another.
    pub(super) fn note_doors(&mut self, reader: Writer, value: Value, outside: &Outside) {
        let Value::Written(stamp) = value else { return };
        let door = |writer| outside.witness.door_of(writer).map(Door::index);
        if let (Some(reader), Some(writer)) = (door(reader), door(stamp.writer)) {
            self.across[reader][writer] += 1;
        }
    }

    /// Whether somebody was let in, or shut out, as reservations were: of all of these volumes, or of
    /// one of them, nobody says of which.
    pub(super) fn judge_right(&mut self, asked: &[Asked], answer: Answer, now: Tick) {
        match answer {
            Answer::Done | Answer::Differs => {
                asked.iter().for_each(|asked| self.reservations.judge_done(*asked, now));
            }
            Answer::Conflict => self.reservations.judge_refusal(asked, now),
            _ => {}
        }
    }
}
