//! How a command ends other than well.

use crate::Sense;

/// STATUS of a command. SAM-5, 5.3.1.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Status(pub u8);

impl Status {
    /// Done.
    pub const GOOD: Self = Self(0x00);
    /// Not done; the sense data says why.
    pub const CHECK_CONDITION: Self = Self(0x02);
    /// Not taken now; to be sent again later.
    pub const BUSY: Self = Self(0x08);
    /// A reservation of somebody else's bars the sender.
    pub const RESERVATION_CONFLICT: Self = Self(0x18);
    /// The task set holds no more.
    pub const TASK_SET_FULL: Self = Self(0x28);
    /// Ended by another initiator's doing, or by a reset.
    pub const TASK_ABORTED: Self = Self(0x40);
}

/// Why a command is not done: its status, with sense data where there is some.
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

    /// The sense data that goes with a CHECK CONDITION.
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
