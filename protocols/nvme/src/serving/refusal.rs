//! The refusal of a Connect. NVMe over Fabrics: NVMe Base 2.0, 6.3.

use std::fmt;

use crate::fabrics::{ConnectData, InvalidParameter};
use crate::{CommandId, CompletionEntry, Status};

/// A refused Connect: the completion that is sent before the connection ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Refusal {
    /// The status.
    pub status: Status,
    /// Dword 0: with Connect Invalid Parameters, the location of the parameter.
    pub result: u32,
}

impl Refusal {
    /// The completion of the Connect.
    pub fn completion(&self, cid: CommandId) -> CompletionEntry {
        CompletionEntry::with_result(cid, self.status, self.result)
    }

    /// Whether there is no such subsystem, or none that the host may see.
    pub fn is_of_subsystem(&self) -> bool {
        *self == Self::data(ConnectData::SUBSYSTEM_OFFSET)
    }

    /// A refusal after which a retry would fail too.
    pub(super) fn finally(status: Status) -> Self {
        Self { status: status.dnr(), result: 0 }
    }

    /// A refusal after which a retry may succeed.
    pub(super) fn for_now(status: Status) -> Self {
        Self { status, result: 0 }
    }

    /// The place of the parameter that was refused.
    fn result_place(&self) -> String {
        let part = if self.result >> 16 == 0 { "command" } else { "data" };
        format!("byte {} of the {part}", self.result & 0xFFFF)
    }

    fn parameter(parameter: InvalidParameter) -> Self {
        let status = Status::CONNECT_INVALID_PARAMETERS.dnr();
        Self { status, result: parameter.to_result() }
    }

    pub(super) fn command(offset: u16) -> Self {
        Self::parameter(InvalidParameter::Command(offset))
    }

    /// This host may not connect here.
    pub(super) fn host() -> Self {
        let which = InvalidParameter::Data(ConnectData::HOST_OFFSET);
        let status = Status::CONNECT_INVALID_HOST.dnr();
        Self { status, result: which.to_result() }
    }

    pub(super) fn data(offset: u16) -> Self {
        Self::parameter(InvalidParameter::Data(offset))
    }
}

/// The meaning of the status for a Connect: other commands give the same codes other names.
impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let code = self.status.0;
        match self.status.code() {
            _ if self.is_of_subsystem() => {
                write!(f, "{code:#06x} (no such subsystem, or the host sees none of its volumes)")
            }
            Status::CONNECT_INVALID_PARAMETERS => {
                write!(f, "{code:#06x} (Connect Invalid Parameters, {})", self.result_place())
            }
            Status::CONNECT_CONTROLLER_BUSY => write!(f, "{code:#06x} (Controller Busy)"),
            _ => self.status.fmt(f),
        }
    }
}
