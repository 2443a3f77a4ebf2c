//! The status of commands that fail.

use std::fmt;

use nearflash_session::codes;

use crate::Sense;

/// STATUS of a command; unknown values are kept. SAM-5, 5.3.1.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Status(pub u8);

codes! { Status {
    GOOD = 0x00, "GOOD";
    /// The sense data has the reason.
    CHECK_CONDITION = 0x02, "CHECK CONDITION";
    /// Of a prefetch that fits the cache.
    CONDITION_MET = 0x04, "CONDITION MET";
    /// The command was not accepted; a later retry may succeed.
    BUSY = 0x08, "BUSY";
    /// The command conflicts with another initiator's reservation.
    RESERVATION_CONFLICT = 0x18, "RESERVATION CONFLICT";
    TASK_SET_FULL = 0x28, "TASK SET FULL";
    /// Not with an auto contingent allegiance.
    ACA_ACTIVE = 0x30, "ACA ACTIVE";
    /// Aborted by another initiator or a reset.
    TASK_ABORTED = 0x40, "TASK ABORTED";
} }

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.known() {
            Some((_, name)) => f.write_str(name),
            None => write!(f, "SCSI status {:#04x}", self.0),
        }
    }
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
