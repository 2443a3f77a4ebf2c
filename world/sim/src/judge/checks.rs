//! The checks of all answers of a run, and the number of answers of each kind.

use std::fmt::Debug;

use nearflash_request::Nexus;

use crate::failures::{About, Failures};
use crate::history::History;
use crate::increments::Increments;
use crate::judge::Answer;
use crate::judge::endings::Endings;
use crate::machine::NodeId;
use crate::outside::Outside;
use crate::reservations::{Asked, Ledger};
use crate::stamp::{Value, Writer};
use crate::witness::{Door, Tick};

/// Possible causes of a command's failure.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cause<'a> {
    pub(super) node: NodeId,
    pub(super) nexus: Nexus,
    pub(super) sent: Tick,
    /// The parts of volumes that the command is about.
    pub(super) about: &'a [About],
    /// Failures of the devices.
    pub(super) failures: &'a Failures,
    /// The command depends on another node.
    pub(super) depends: bool,
}

/// All checks, over all hosts.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    /// Contents of each block.
    pub history: History,
    /// Steps of counters.
    pub increments: Increments,
    /// Access under reservations.
    pub reservations: Ledger,
    /// Functions that abort commands.
    pub(crate) endings: Endings,
    /// Commands answered with success.
    pub succeeded: u64,
    /// Commands answered with an error.
    pub failed: u64,
    /// Failed commands that were aborted before they began.
    pub(crate) aborted: u64,
    /// Failed commands for which there was no room.
    pub(crate) turned_away: u64,
    /// Commands whose connection was lost.
    pub lost: u64,
    /// Comparisons that failed and were checked.
    pub(crate) differed: u64,
    /// Blocks rewritten with their own content.
    pub(crate) touched: u64,
    /// Acknowledged writes, by protocol.
    pub(crate) acknowledged: [u64; 3],
    /// Blocks read, by the reader's protocol and the writer's.
    pub(crate) across: [[u64; 3]; 3],
}

impl Checks {
    /// Checks a command's answer. `own` are the answers that are possible for this command and not
    /// for others.
    ///
    /// # Panics
    /// When no earlier event explains the answer.
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
            Answer::DeviceFailed | Answer::PathLost if cause.depends => true,
            Answer::PathLost => false,
            Answer::DeviceFailed => cause.about.iter().any(|it| cause.failures.explain(it)),
            Answer::Aborted => self.endings.explain((cause.node, cause.nexus), cause.sent),
            // The client has checked that.
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

    /// Checks read data that was written over any protocol.
    pub(super) fn note_doors(&mut self, reader: Writer, value: Value, outside: &Outside) {
        let Value::Written(stamp) = value else { return };
        let door = |writer| outside.witness.door_of(writer).map(Door::index);
        if let (Some(reader), Some(writer)) = (door(reader), door(stamp.writer)) {
            self.across[reader][writer] += 1;
        }
    }

    /// Checks that reservations of these volumes explain why a command was admitted or refused.
    /// Admission needs all volumes to allow it; for a refusal one volume is enough, and the answer
    /// does not say which.
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
