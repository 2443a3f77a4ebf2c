//! The status of commands that fail.

use crate::Sense;

/// STATUS of a command. SAM-5, 5.3.1.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Status(pub u8);

impl Status {
    /// The command succeeded.
    pub const GOOD: Self = Self(0x00);
    /// The command failed; the sense data has the reason.
    pub const CHECK_CONDITION: Self = Self(0x02);
    /// The command was not accepted; a later retry may succeed.
    pub const BUSY: Self = Self(0x08);
    /// The command conflicts with another initiator's reservation.
    pub const RESERVATION_CONFLICT: Self = Self(0x18);
    /// The task set is full.
    pub const TASK_SET_FULL: Self = Self(0x28);
    /// Aborted by another initiator or a reset.
    pub const TASK_ABORTED: Self = Self(0x40);
}

/// Why a command failed: its status, with sense data for CHECK CONDITION.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Failure {
    /// CHECK CONDITION.
    Check(Sense),
    /// RESERVATION CONFLICT.
    Conflict,
    /// TASK ABORTED.
    Aborted,
    /// BUSY.
    Busy,
    /// TASK SET FULL.
    Full,
}

impl Failure {
    /// The status byte.
    pub const fn status(self) -> Status {
        match self {
            Self::Check(_) => Status::CHECK_CONDITION,
            Self::Conflict => Status::RESERVATION_CONFLICT,
            Self::Aborted => Status::TASK_ABORTED,
            Self::Busy => Status::BUSY,
            Self::Full => Status::TASK_SET_FULL,
        }
    }

    /// The sense data of a CHECK CONDITION.
    pub const fn sense(self) -> Option<Sense> {
        match self {
            Self::Check(sense) => Some(sense),
            Self::Conflict | Self::Aborted | Self::Busy | Self::Full => None,
        }
    }
}

impl From<Sense> for Failure {
    fn from(sense: Sense) -> Self {
        Self::Check(sense)
    }
}
