//! The result of an operation, and its text form.

use std::fmt;

use nearflash_iscsi::initiator::{Ending, Sense, Status, TaskCompletion};
use nearflash_units::Nanos;

/// The time for which a command is retried while the target has no room; after it, the command ends
/// with the target's status.
pub(super) const NO_ROOM_SPAN_MAX: Nanos = Nanos::from_secs(30);

/// The result of an operation.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TaskStatus {
    /// The ending of the task.
    pub ending: Ending,
    /// The sense data of CHECK CONDITION.
    pub sense: Option<Sense>,
}

/// The sense keys. SPC-4, 4.5.6.
const KEYS: &[(u8, &str)] = &[
    (0x0, "no sense"),
    (0x2, "not ready"),
    (0x3, "medium error"),
    (0x4, "hardware error"),
    (0x5, "illegal request"),
    (0x6, "unit attention"),
    (0x7, "data protect"),
    (0xB, "aborted command"),
    (0xE, "miscompare"),
];

/// Additional sense code and qualifier. SPC-4, annex D.
const CODES: &[((u8, u8), &str)] = &[
    ((0x0C, 0x00), "write error"),
    ((0x11, 0x00), "unrecovered read error"),
    ((0x1D, 0x00), "the data differs"),
    ((0x20, 0x00), "no such command"),
    ((0x21, 0x00), "logical block address out of range"),
    ((0x24, 0x00), "invalid field in the command"),
    ((0x25, 0x00), "no such logical unit"),
    ((0x27, 0x00), "write protected"),
    ((0x27, 0x02), "write protected by software"),
    ((0x27, 0x07), "no space is left"),
    ((0x28, 0x00), "its medium may have changed"),
    ((0x29, 0x00), "it was reset or powered on"),
    ((0x2A, 0x09), "its capacity has changed"),
    ((0x3F, 0x03), "its inquiry data has changed: it may be another unit"),
    ((0x3F, 0x0E), "the target's units have changed: list them again"),
    ((0x47, 0x05), "data arrived damaged"),
];
/// The sense key UNIT ATTENTION.
const UNIT_ATTENTION: u8 = 0x6;
/// Code and qualifier of CAPACITY DATA HAS CHANGED.
const CAPACITY_CHANGED: (u8, u8) = (0x2A, 0x09);
/// Codes and qualifiers of NOT READY TO READY CHANGE, INQUIRY DATA HAS CHANGED, and REPORTED LUNS
/// DATA HAS CHANGED.
const MAY_BE_ANOTHER: [(u8, u8); 3] = [(0x28, 0x00), (0x3F, 0x03), (0x3F, 0x0E)];
/// The code of LOGICAL UNIT NOT SUPPORTED.
const NO_SUCH_UNIT: u8 = 0x25;

impl TaskStatus {
    /// The result of a completed task.
    #[inline]
    pub(super) fn of(done: &TaskCompletion) -> Self {
        Self { ending: done.ending, sense: done.sense }
    }

    /// Whether the status is GOOD.
    #[inline]
    pub fn is_good(self) -> bool {
        self.ending == Ending::Answered(Status::GOOD)
    }

    /// Whether the sense key is UNIT ATTENTION: the command was not executed, and another attempt
    /// may help.
    pub fn is_unit_attention(self) -> bool {
        self.sense.is_some_and(|sense| sense.key == UNIT_ATTENTION)
    }

    /// Whether a unit attention reports a change of capacity.
    pub fn is_capacity_change(self) -> bool {
        let code = self.sense.map(|sense| (sense.asc, sense.ascq));
        self.is_unit_attention() && code == Some(CAPACITY_CHANGED)
    }

    /// Whether a unit attention reports that the unit may be another one by now, or have another
    /// medium, so that the command may not be meant for it.
    pub fn may_be_another(self) -> bool {
        let is_of_it = |sense: Sense| MAY_BE_ANOTHER.contains(&(sense.asc, sense.ascq));
        self.is_unit_attention() && self.sense.is_some_and(is_of_it)
    }

    /// Whether the target had no room for the command: another attempt may help.
    pub fn is_no_room(self) -> bool {
        matches!(self.ending, Ending::Answered(Status::TASK_SET_FULL | Status::BUSY))
    }

    /// Whether the logical unit does not exist.
    pub fn is_no_unit(self) -> bool {
        self.sense.is_some_and(|sense| sense.asc == NO_SUCH_UNIT)
    }
}

impl fmt::Display for TaskStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ending {
            Ending::Answered(Status::RESERVATION_CONFLICT) => {
                f.write_str("RESERVATION CONFLICT: another initiator's reservation forbids it")?;
            }
            Ending::Answered(status) if self.is_no_room() => write!(
                f,
                "{status}, for {} s now: give it more memory (for a nearflash node, a larger \
                 --pool), or keep fewer operations in flight",
                NO_ROOM_SPAN_MAX.0 / 1_000_000_000
            )?,
            Ending::Answered(status) => write!(f, "{status}")?,
            Ending::TargetFailed(code) => write!(f, "a target failure (response {code:02x}h)")?,
            Ending::Rejected(reason) => write!(f, "a Reject: {reason}")?,
            Ending::Aborted => f.write_str("an abort")?,
            Ending::Damaged => f.write_str("damaged data")?,
        }
        let Some(Sense { key, asc, ascq, .. }) = self.sense else { return Ok(()) };
        match KEYS.iter().find(|(known, _)| *known == key) {
            Some((_, name)) => write!(f, ": {name}")?,
            None => write!(f, ": sense key {key:x}h")?,
        }
        match CODES.iter().find(|(known, _)| *known == (asc, ascq)) {
            Some((_, name)) => write!(f, ", {name}"),
            None => write!(f, ", code {asc:02x}{ascq:02x}h"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(key: u8, asc: u8, ascq: u8) -> TaskStatus {
        let sense = Some(Sense { key, asc, ascq, information: None });
        TaskStatus { ending: Ending::Answered(Status::CHECK_CONDITION), sense }
    }

    #[test]
    fn a_check_condition_says_why() {
        assert_eq!(
            check(0x5, 0x21, 0).to_string(),
            "CHECK CONDITION: illegal request, logical block address out of range"
        );
        assert_eq!(check(0x9, 0x12, 0x34).to_string(), "CHECK CONDITION: sense key 9h, code 1234h");
        assert!(check(0x6, 0x29, 0).is_unit_attention() && check(0x5, 0x25, 0).is_no_unit());
        assert!(
            check(0x6, 0x2A, 9).is_capacity_change() && !check(0x6, 0x2A, 1).is_capacity_change()
        );
    }

    #[test]
    fn a_unit_that_may_be_another_is_told_apart() {
        let changed = check(0x6, 0x3F, 0x0E);
        assert!(changed.is_unit_attention() && changed.may_be_another());
        assert!(changed.to_string().ends_with("units have changed: list them again"));
        assert!(!check(0x6, 0x29, 0).may_be_another() && !check(0x5, 0x3F, 0x0E).may_be_another());
    }

    #[test]
    fn a_target_without_room_is_told_apart_and_the_remedy_named() {
        for status in [Status::BUSY, Status::TASK_SET_FULL] {
            let status = TaskStatus { ending: Ending::Answered(status), sense: None };
            assert!(status.is_no_room());
            let said = status.to_string();
            assert!(said.contains("for 30 s now") && said.contains("a larger --pool"), "{said}");
        }
        let conflict = Ending::Answered(Status::RESERVATION_CONFLICT);
        assert!(!TaskStatus { ending: conflict, sense: None }.is_no_room());
    }

    #[test]
    fn what_is_no_answer_of_the_unit_is_said_too() {
        let status = |ending| TaskStatus { ending, sense: None };
        assert!(status(Ending::Answered(Status::GOOD)).is_good());
        assert_eq!(status(Ending::Damaged).to_string(), "damaged data");
        let conflict = status(Ending::Answered(Status::RESERVATION_CONFLICT)).to_string();
        assert!(conflict.contains("another initiator's reservation"), "{conflict}");
    }
}
