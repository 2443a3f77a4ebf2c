//! The retries of commands that the target did not execute: the time to send them again, and the
//! number of commands in flight from then on.
//!
//! Spec: SAM-5, 5.3 (BUSY, TASK SET FULL) and 5.14 (unit attentions). This module has no clock,
//! socket or commands; the session keeps the commands, in order, and calls it.
//!
//! A unit attention reports an earlier event, and the command is sent again; but not if the logical
//! unit may be another volume by now, under the same number: then the caller has to check first.
//!
//! A target without room has accepted the commands in flight. The refused command is sent again
//! when one of those has returned, and the number in flight is limited from then on until the
//! target has shown that it accepts more. When no command is in flight, only time can help.

use nearflash_units::Nanos;

use super::status::{NO_ROOM_SPAN_MAX, TaskStatus};
use crate::backoff::Backoff;

/// The maximum number of unit attentions that a command receives before it ends with one.
pub(super) const ATTENTIONS_MAX: u8 = 16;
/// The first and the longest wait when no command is in flight.
const WAIT_FIRST: Nanos = Nanos::from_millis(1);
const WAIT_LONGEST: Nanos = Nanos::from_millis(100);
/// The number of rounds of GOOD answers after which one more command may be in flight.
const ROUNDS_PER_STEP: usize = 8;
/// No limit but the depth.
const UNLIMITED: usize = usize::MAX;

/// The retries of a command so far. Every command has one, so it is small.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trials {
    /// The time at which the target first had no room for the command; [`Nanos::NEVER`] before
    /// that.
    no_room_at: Nanos,
    attentions: u8,
}

/// No retries yet.
impl Default for Trials {
    #[inline]
    fn default() -> Self {
        Self { no_room_at: Nanos::NEVER, attentions: 0 }
    }
}

/// The number of a session's commands in flight, and its limit.
#[derive(Debug)]
pub(super) struct Retries {
    in_flight: usize,
    limit: usize,
    /// The maximum number of commands of the session in flight.
    depth: usize,
    /// The GOOD answers since the last change of the limit.
    answered: usize,
    /// The end of the wait during which the limit is 0.
    opens_at: Option<Nanos>,
    backoff: Backoff,
    again: u64,
    resized: Vec<u16>,
}

impl Retries {
    /// For a session that has at most `depth` commands in flight.
    pub(super) fn new(depth: usize) -> Self {
        Self {
            in_flight: 0,
            limit: UNLIMITED,
            depth,
            answered: 0,
            opens_at: None,
            backoff: waits(),
            again: 0,
            resized: Vec::new(),
        }
    }

    /// Whether a command may be sent.
    #[inline]
    pub(super) fn admits(&self) -> bool {
        self.in_flight < self.limit
    }

    /// Records that a command is sent.
    #[inline]
    pub(super) fn sent(&mut self) {
        self.in_flight += 1;
    }

    /// Records that a command was executed successfully.
    #[inline]
    pub(super) fn done(&mut self) {
        self.in_flight -= 1;
        if self.limit != UNLIMITED {
            self.widen();
        }
    }

    /// Records that a command failed. Returns whether to send it again.
    #[cold]
    pub(super) fn is_again(
        &mut self,
        trials: &mut Trials,
        lun: u16,
        status: TaskStatus,
        now: Nanos,
    ) -> bool {
        self.in_flight -= 1;
        let is_again = if status.is_no_room() {
            self.narrow(trials, now)
        } else if status.is_unit_attention() && !status.may_be_another() {
            self.hear(lun, status);
            trials.attentions += 1;
            trials.attentions <= ATTENTIONS_MAX
        } else {
            false
        };
        self.again += u64::from(is_again);
        is_again
    }

    /// Records a unit attention that matters later: a change of capacity.
    pub(super) fn hear(&mut self, lun: u16, status: TaskStatus) {
        if status.is_capacity_change() && !self.resized.contains(&lun) {
            self.resized.push(lun);
        }
    }

    /// Clears a recorded change of capacity, since the capacity is about to be read.
    pub(super) fn forget_resize(&mut self, lun: u16) {
        self.resized.retain(|resized| *resized != lun);
    }

    /// Takes the LUN of a unit whose capacity has changed.
    pub(super) fn poll_resized(&mut self) -> Option<u16> {
        self.resized.pop()
    }

    /// The number of commands that were sent again.
    pub(super) const fn again(&self) -> u64 {
        self.again
    }

    /// The time at which a command may be sent even if no answer arrives before.
    pub(super) const fn opens_at(&self) -> Option<Nanos> {
        self.opens_at
    }

    /// Ends a wait whose time has come: one command may be tried.
    pub(super) fn handle_timeout(&mut self, now: Nanos) {
        if self.opens_at.take_if(|at| *at <= now).is_some() {
            self.limit = 1;
        }
    }

    /// Limits the commands in flight to their current number, after a refusal for lack of room.
    fn narrow(&mut self, trials: &mut Trials, now: Nanos) -> bool {
        trials.no_room_at = trials.no_room_at.min(now);
        if now.since(trials.no_room_at) >= NO_ROOM_SPAN_MAX {
            return false;
        }
        (self.limit, self.answered) = (self.in_flight, 0);
        if self.in_flight == 0 {
            self.opens_at = Some(now.plus(self.backoff.next_wait()));
        }
        true
    }

    #[cold]
    fn widen(&mut self) {
        self.backoff = waits();
        self.answered += 1;
        if self.answered >= self.limit * ROUNDS_PER_STEP {
            self.answered = 0;
            self.limit += 1;
            if self.limit >= self.depth {
                self.limit = UNLIMITED;
            }
        }
    }
}

/// The waits for a target without room, while no command is in flight whose end could make room.
pub(super) fn waits() -> Backoff {
    Backoff::new(WAIT_FIRST, WAIT_LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearflash_iscsi::initiator::{Ending, Sense, Status};

    const LUN: u16 = 3;

    fn answered(status: Status) -> TaskStatus {
        TaskStatus { ending: Ending::Answered(status), sense: None }
    }

    fn attention(asc: u8, ascq: u8) -> TaskStatus {
        let sense = Some(Sense { key: 0x6, asc, ascq, information: None });
        TaskStatus { ending: Ending::Answered(Status::CHECK_CONDITION), sense }
    }

    fn millis(millis: u64) -> Nanos {
        Nanos::from_millis(millis)
    }

    /// A state with `count` commands in flight, of 32.
    fn busy(count: usize) -> Retries {
        let mut retries = Retries::new(32);
        for _ in 0..count {
            assert!(retries.admits());
            retries.sent();
        }
        retries
    }

    fn refuse(retries: &mut Retries, trials: &mut Trials, now: Nanos) -> bool {
        retries.is_again(trials, LUN, answered(Status::TASK_SET_FULL), now)
    }

    #[test]
    fn what_there_was_no_room_for_is_sent_again_when_another_has_come_back() {
        let mut retries = busy(32);
        for _ in 0..8 {
            assert!(refuse(&mut retries, &mut Trials::default(), millis(0)));
        }
        assert!(!retries.admits(), "24 are in flight, and that is what there is room for");
        assert_eq!(retries.opens_at(), None, "time does not help");
        retries.done();
        assert!(retries.admits());
        retries.sent();
        assert!(!retries.admits());
        assert_eq!(retries.again(), 8);
    }

    #[test]
    fn a_target_that_is_busy_with_others_is_asked_again_later_and_later() {
        let mut retries = busy(1);
        let (mut trials, mut now) = (Trials::default(), millis(10));
        for wait in [1, 2, 4, 8, 16, 32, 64, 100, 100] {
            assert!(retries.is_again(&mut trials, LUN, answered(Status::BUSY), now));
            assert_eq!(retries.opens_at(), Some(now.plus(millis(wait))));
            retries.handle_timeout(now);
            assert!(!retries.admits(), "not before its time");
            now = now.plus(millis(wait));
            retries.handle_timeout(now);
            assert!(retries.admits());
            retries.sent();
            assert!(!retries.admits(), "one is tried");
        }
        // Once a command is done, the next refusal starts with the first wait again.
        retries.done();
        retries.sent();
        assert!(refuse(&mut retries, &mut Trials::default(), now));
        assert_eq!(retries.opens_at(), Some(now.plus(millis(1))));
    }

    #[test]
    fn a_command_without_room_for_too_long_is_over_and_counts_from_its_first_refusal() {
        let mut retries = busy(2);
        let mut trials = Trials::default();
        assert!(refuse(&mut retries, &mut trials, millis(5)));
        retries.sent();
        let end = millis(5).plus(NO_ROOM_SPAN_MAX);
        assert!(refuse(&mut retries, &mut trials, Nanos(end.0 - 1)));
        retries.sent();
        assert!(!refuse(&mut retries, &mut trials, end));
        assert!(refuse(&mut retries, &mut Trials::default(), end), "another one has its own time");
    }

    #[test]
    fn the_limit_grows_slowly_until_there_is_none() {
        let mut retries = busy(2);
        assert!(refuse(&mut retries, &mut Trials::default(), millis(0)));
        let mut good = 0;
        for limit in 1..=31 {
            for _ in 0..limit * ROUNDS_PER_STEP {
                retries.done();
                good += 1;
                retries.sent();
            }
            assert!(retries.admits(), "one more after {good}");
            retries.sent();
            assert!(!retries.admits() || limit == 31, "and no second one");
        }
        assert!((0..100).all(|_| {
            retries.sent();
            retries.admits()
        }));
    }

    #[test]
    fn a_unit_attention_is_heard_the_command_sent_again_and_a_new_capacity_told_once() {
        let mut retries = busy(2);
        let mut trials = Trials::default();
        for told in [attention(0x29, 0x00), attention(0x2A, 0x09), attention(0x2A, 0x09)] {
            assert!(retries.is_again(&mut trials, LUN, told, millis(0)));
            assert!(retries.admits(), "there is room all the same");
            retries.sent();
        }
        assert_eq!((retries.poll_resized(), retries.poll_resized()), (Some(LUN), None));
        retries.hear(LUN, attention(0x2A, 0x09));
        retries.forget_resize(LUN);
        assert_eq!(retries.poll_resized(), None, "it was asked for since");
    }

    #[test]
    fn nothing_is_sent_again_to_a_unit_that_may_be_another_by_now() {
        for (asc, ascq) in [(0x28, 0x00), (0x3F, 0x03), (0x3F, 0x0E)] {
            let mut retries = busy(2);
            let told = attention(asc, ascq);
            assert!(!retries.is_again(&mut Trials::default(), LUN, told, millis(0)));
            assert!(retries.admits() && retries.again() == 0);
        }
    }

    #[test]
    fn a_unit_that_never_ends_to_say_something_is_not_listened_to_for_ever() {
        let mut retries = busy(1);
        let mut trials = Trials::default();
        for _ in 0..ATTENTIONS_MAX {
            assert!(retries.is_again(&mut trials, LUN, attention(0x29, 0x00), millis(0)));
            retries.sent();
        }
        assert!(!retries.is_again(&mut trials, LUN, attention(0x29, 0x00), millis(0)));
    }

    #[test]
    fn what_failed_otherwise_is_over_and_changes_no_limit() {
        let mut retries = busy(3);
        for status in [Status::RESERVATION_CONFLICT, Status::CHECK_CONDITION, Status::TASK_ABORTED]
        {
            let mut trials = Trials::default();
            assert!(!retries.is_again(&mut trials, LUN, answered(status), millis(0)));
        }
        assert!(retries.admits() && retries.again() == 0);
    }
}
