//! Command status, in the specification's codes.
//!
//! Spec: NVMe Base 2.0, 3.3.3.2.1. A [`Status`] is the status field without the phase bit, so that
//! the numbers here are those that the specification, Linux and SPDK print.

use std::fmt;

use nearflash_request::Outcome;
use nearflash_session::codes;

/// Status field: code in bits 7:0, type in bits 10:8, retry delay in bits 12:11, More in bit 13,
/// Do Not Retry in bit 14.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Status(pub u16);

codes! { Status {
    // Status code type 0h, generic.
    SUCCESS = 0x000, "Success";
    INVALID_OPCODE = 0x001, "Invalid Opcode";
    /// A field has a reserved value or requests an unsupported feature.
    INVALID_FIELD = 0x002, "Invalid Field";
    COMMAND_ID_CONFLICT = 0x003, "Command ID Conflict";
    /// The data did not arrive completely.
    DATA_TRANSFER_ERROR = 0x004, "Data Transfer Error";
    INTERNAL_ERROR = 0x006, "Internal Error";
    /// An Abort command aborted the command.
    ABORT_REQUESTED = 0x007, "Abort Requested";
    /// Aborted because its submission queue was deleted.
    ABORTED_SQ_DELETION = 0x008, "Aborted, SQ Deletion";
    ABORTED_FUSED_FAILED = 0x009, "Aborted, Failed Fused Command";
    ABORTED_FUSED_MISSING = 0x00A, "Aborted, Missing Fused Command";
    /// The namespace does not exist or is not attached to this controller.
    INVALID_NAMESPACE = 0x00B, "Invalid Namespace or Format";
    /// The command is not allowed at this point of the sequence.
    COMMAND_SEQUENCE_ERROR = 0x00C, "Command Sequence Error";
    INVALID_SGL_COUNT = 0x00E, "Invalid Number of SGL Descriptors";
    /// The SGL's length differs from the length of the data.
    SGL_LENGTH_INVALID = 0x00F, "Data SGL Length Invalid";
    /// The descriptor type is not supported for this command.
    SGL_TYPE_INVALID = 0x011, "SGL Descriptor Type Invalid";
    /// The offset is outside the capsule.
    SGL_OFFSET_INVALID = 0x016, "SGL Offset Invalid";
    /// The host identifiers of a host's queues differ.
    HOST_IDENTIFIER_INCONSISTENT = 0x018, "Host Identifier Inconsistent Format";
    /// The host sent nothing for longer than the keep-alive timeout.
    KEEP_ALIVE_EXPIRED = 0x019, "Keep Alive Timer Expired";
    KEEP_ALIVE_INVALID = 0x01A, "Keep Alive Timeout Invalid";
    NAMESPACE_WRITE_PROTECTED = 0x020, "Namespace is Write Protected";
    /// A temporary shortage; a retry may succeed.
    TRANSIENT_TRANSPORT_ERROR = 0x022, "Transient Transport Error";
    COMMAND_SET_NOT_SUPPORTED = 0x02C, "I/O Command Set Not Supported";
    // Status code type 0h, NVM command set. NVM Command Set 1.0, 3.1.
    LBA_OUT_OF_RANGE = 0x080, "LBA Out of Range";
    /// The write would exceed the capacity of the namespace's storage.
    CAPACITY_EXCEEDED = 0x081, "Capacity Exceeded";
    /// The namespace cannot be accessed; a retry may succeed.
    NAMESPACE_NOT_READY = 0x082, "Namespace Not Ready";
    /// The command conflicts with a reservation.
    RESERVATION_CONFLICT = 0x083, "Reservation Conflict";
    // Status code type 1h, command specific.
    /// The queue does not exist or its identifier is not valid.
    INVALID_QUEUE_ID = 0x101, "Invalid Queue Identifier";
    ABORT_LIMIT_EXCEEDED = 0x103, "Abort Command Limit Exceeded";
    ASYNC_EVENT_LIMIT_EXCEEDED = 0x105, "Asynchronous Event Request Limit Exceeded";
    INVALID_LOG_PAGE = 0x109, "Invalid Log Page";
    /// Set Features: the value cannot be saved.
    FEATURE_NOT_SAVEABLE = 0x10D, "Feature Identifier Not Saveable";
    FEATURE_NOT_CHANGEABLE = 0x10E, "Feature Not Changeable";
    FEATURE_NOT_NAMESPACE_SPECIFIC = 0x10F, "Feature Not Namespace Specific";
    COMMAND_SET_COMBINATION_REJECTED = 0x12B, "I/O Command Set Combination Rejected";
    INVALID_COMMAND_SET = 0x12C, "Invalid I/O Command Set";
    // 180h to 182h have one meaning for Connect and another for I/O.
    /// Connect, Disconnect: unknown record format. NVMe Base 2.0, 6.
    CONNECT_INCOMPATIBLE_FORMAT = 0x180, "Incompatible Format or Conflicting Attributes";
    /// Connect: no controller or queue is free, or the queue is still in use.
    CONNECT_CONTROLLER_BUSY = 0x181, "Controller Busy or Invalid Protection Information";
    /// Connect: a parameter is invalid; dword 0 locates it.
    CONNECT_INVALID_PARAMETERS = 0x182, "Connect Invalid Parameters or Write to Read Only";
    /// Connect: the discovery log may have changed; the host restarts discovery.
    CONNECT_RESTART_DISCOVERY = 0x183, "Connect Restart Discovery";
    /// Connect: the host is not allowed to connect.
    CONNECT_INVALID_HOST = 0x184, "Connect Invalid Host";
    /// Disconnect: the command is not allowed on this queue.
    DISCONNECT_INVALID_QUEUE_TYPE = 0x185, "Invalid Queue Type";
    /// Get Log Page: the discovery log changed while it was read.
    DISCOVER_RESTART = 0x190, "Discover Restart";
    AUTHENTICATION_REQUIRED = 0x191, "Authentication Required";
    // Status code type 2h, media.
    WRITE_FAULT = 0x280, "Write Fault";
    UNRECOVERED_READ = 0x281, "Unrecovered Read Error";
    COMPARE_FAILURE = 0x285, "Compare Failure";
    // Status code type 3h, path related.
    INTERNAL_PATH_ERROR = 0x300, "Internal Path Error";
} }

impl Status {
    /// Do Not Retry: the same command would fail again.
    pub const DNR: u16 = 1 << 14;
    /// More: the error log page has more information.
    pub const MORE: u16 = 1 << 13;

    /// The same status with Do Not Retry.
    #[must_use]
    pub const fn dnr(self) -> Self {
        Self(self.0 | Self::DNR)
    }

    /// The code and type alone, for comparison with the constants of this type.
    #[must_use]
    pub const fn code(self) -> Self {
        Self(self.0 & 0x7FF)
    }

    /// Whether the command succeeded.
    pub const fn is_success(self) -> bool {
        self.code().0 == 0
    }

    /// Whether sending the same command again would fail again.
    pub const fn is_dnr(self) -> bool {
        self.0 & Self::DNR != 0
    }
}

impl From<Outcome> for Status {
    /// Sets Do Not Retry for outcomes that a retry cannot change.
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Success => Self::SUCCESS,
            Outcome::OutOfRange => Self::LBA_OUT_OF_RANGE.dnr(),
            Outcome::VolumeGone => Self::INVALID_NAMESPACE.dnr(),
            Outcome::CapacityExceeded => Self::CAPACITY_EXCEEDED.dnr(),
            Outcome::Miscompare => Self::COMPARE_FAILURE.dnr(),
            Outcome::UnrecoveredRead => Self::UNRECOVERED_READ,
            Outcome::WriteFault => Self::WRITE_FAULT,
            Outcome::DeviceUnavailable => Self::NAMESPACE_NOT_READY,
            Outcome::PathLost => Self::INTERNAL_PATH_ERROR,
            Outcome::Unsupported => Self::INVALID_OPCODE.dnr(),
            Outcome::Aborted => Self::ABORT_REQUESTED,
            Outcome::ReservationConflict => Self::RESERVATION_CONFLICT.dnr(),
            Outcome::WriteProtected => Self::NAMESPACE_WRITE_PROTECTED.dnr(),
        }
    }
}

/// For example `0x4002 (Invalid Field, do not retry)`.
impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.code().known().map_or("unnamed status", |(_, name)| name);
        let retry = if self.is_dnr() { ", do not retry" } else { "" };
        write!(f, "{:#06x} ({name}{retry})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_outcome_has_its_exact_status() {
        let dnr = 0x4000;
        let expected = [
            (Outcome::Success, 0x000),
            (Outcome::OutOfRange, dnr | 0x080),
            (Outcome::VolumeGone, dnr | 0x00B),
            (Outcome::CapacityExceeded, dnr | 0x081),
            (Outcome::Miscompare, dnr | 0x285),
            (Outcome::UnrecoveredRead, 0x281),
            (Outcome::WriteFault, 0x280),
            (Outcome::DeviceUnavailable, 0x082),
            (Outcome::PathLost, 0x300),
            (Outcome::Unsupported, dnr | 0x001),
            (Outcome::Aborted, 0x007),
            (Outcome::ReservationConflict, dnr | 0x083),
            (Outcome::WriteProtected, dnr | 0x020),
        ];
        for (outcome, status) in expected {
            assert_eq!(Status::from(outcome), Status(status), "{outcome:?}");
            assert_eq!(Status(status).is_success(), outcome == Outcome::Success);
        }
    }

    #[test]
    fn a_status_is_printed_with_its_name() {
        let refused = Status::INVALID_FIELD.dnr();
        assert_eq!(refused.to_string(), "0x4002 (Invalid Field, do not retry)");
        assert_eq!(Status(0x7FF).to_string(), "0x07ff (unnamed status)");
    }
}
