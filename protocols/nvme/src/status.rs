//! How a command ended, in the specification's codes.
//!
//! Spec: NVMe Base 2.0, 3.3.3.2.1. A [`Status`] is the status field without the phase bit, so that
//! the numbers here are those that the specification, Linux and SPDK print.

use std::fmt;

use nearflash_request::Outcome;

/// Status field: code in bits 7:0, type in bits 10:8, retry delay in bits 12:11, More in bit 13,
/// Do Not Retry in bit 14.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Status(pub u16);

impl Status {
    /// Do Not Retry: the same command would fail again.
    pub const DNR: u16 = 1 << 14;
    /// More: the error log has more about it.
    pub const MORE: u16 = 1 << 13;

    /// Status code type 0h, generic.
    pub const SUCCESS: Self = Self(0x000);
    /// The opcode is not one that this controller knows.
    pub const INVALID_OPCODE: Self = Self(0x001);
    /// A field holds what it must not hold, or asks for what is not supported.
    pub const INVALID_FIELD: Self = Self(0x002);
    /// The CID is in use.
    pub const COMMAND_ID_CONFLICT: Self = Self(0x003);
    /// The data did not arrive whole.
    pub const DATA_TRANSFER_ERROR: Self = Self(0x004);
    /// Something within the controller failed.
    pub const INTERNAL_ERROR: Self = Self(0x006);
    /// Stopped by an Abort command.
    pub const ABORT_REQUESTED: Self = Self(0x007);
    /// Stopped because its submission queue went away.
    pub const ABORTED_SQ_DELETION: Self = Self(0x008);
    /// The other half of the fused operation failed.
    pub const ABORTED_FUSED_FAILED: Self = Self(0x009);
    /// The other half of the fused operation is missing.
    pub const ABORTED_FUSED_MISSING: Self = Self(0x00A);
    /// No such namespace, or none that is attached here.
    pub const INVALID_NAMESPACE: Self = Self(0x00B);
    /// In this order, the command makes no sense.
    pub const COMMAND_SEQUENCE_ERROR: Self = Self(0x00C);
    /// More SGL descriptors than allowed.
    pub const INVALID_SGL_COUNT: Self = Self(0x00E);
    /// The SGL's length is not that of the data.
    pub const SGL_LENGTH_INVALID: Self = Self(0x00F);
    /// A descriptor of a kind that cannot stand here.
    pub const SGL_TYPE_INVALID: Self = Self(0x011);
    /// The offset points outside the capsule.
    pub const SGL_OFFSET_INVALID: Self = Self(0x016);
    /// The host identifiers of a host's queues differ.
    pub const HOST_IDENTIFIER_INCONSISTENT: Self = Self(0x018);
    /// The host was not heard of for longer than agreed.
    pub const KEEP_ALIVE_EXPIRED: Self = Self(0x019);
    /// The keep-alive time asked for cannot be kept.
    pub const KEEP_ALIVE_INVALID: Self = Self(0x01A);
    /// The namespace may not be written.
    pub const NAMESPACE_WRITE_PROTECTED: Self = Self(0x020);
    /// Something was short for a moment; again may help.
    pub const TRANSIENT_TRANSPORT_ERROR: Self = Self(0x022);
    /// The I/O command set is not enabled.
    pub const COMMAND_SET_NOT_SUPPORTED: Self = Self(0x02C);

    /// Past the end of the namespace. NVM Command Set 1.0, 3.1.
    pub const LBA_OUT_OF_RANGE: Self = Self(0x080);
    /// The namespace would grow past what its storage can hold.
    pub const CAPACITY_EXCEEDED: Self = Self(0x081);
    /// The namespace cannot be reached; again may help.
    pub const NAMESPACE_NOT_READY: Self = Self(0x082);
    /// Another host's reservation forbids it.
    pub const RESERVATION_CONFLICT: Self = Self(0x083);

    /// Status code type 1h, command specific. The queue does not exist or cannot.
    pub const INVALID_QUEUE_ID: Self = Self(0x101);
    /// Abort: more at once than allowed.
    pub const ABORT_LIMIT_EXCEEDED: Self = Self(0x103);
    /// Asynchronous Event Request: more at once than allowed.
    pub const ASYNC_EVENT_LIMIT_EXCEEDED: Self = Self(0x105);
    /// Get Log Page: no such page.
    pub const INVALID_LOG_PAGE: Self = Self(0x109);
    /// Set Features: the value cannot be kept.
    pub const FEATURE_NOT_SAVEABLE: Self = Self(0x10D);
    /// Set Features: the value cannot change.
    pub const FEATURE_NOT_CHANGEABLE: Self = Self(0x10E);
    /// Set Features: the feature is not one of a namespace.
    pub const FEATURE_NOT_NAMESPACE_SPECIFIC: Self = Self(0x10F);
    /// Set Features: no such combination of I/O command sets.
    pub const COMMAND_SET_COMBINATION_REJECTED: Self = Self(0x12B);
    /// Identify: no such I/O command set here.
    pub const INVALID_COMMAND_SET: Self = Self(0x12C);
    /// Connect, Disconnect: unknown record format. NVMe Base 2.0, 6.
    pub const CONNECT_INCOMPATIBLE_FORMAT: Self = Self(0x180);
    /// Connect: no controller or queue is free, or still in use.
    pub const CONNECT_CONTROLLER_BUSY: Self = Self(0x181);
    /// Connect: a parameter is invalid; the result tells which.
    pub const CONNECT_INVALID_PARAMETERS: Self = Self(0x182);
    /// Connect: the discovery log may have changed, start over from it.
    pub const CONNECT_RESTART_DISCOVERY: Self = Self(0x183);
    /// Connect: this host may not.
    pub const CONNECT_INVALID_HOST: Self = Self(0x184);
    /// Disconnect: this is not a queue that it may take down.
    pub const DISCONNECT_INVALID_QUEUE_TYPE: Self = Self(0x185);
    /// Get Log Page: the discovery log changed while it was read.
    pub const DISCOVER_RESTART: Self = Self(0x190);
    /// The queue was not authenticated.
    pub const AUTHENTICATION_REQUIRED: Self = Self(0x191);
    /// The request's ranges are too many or too large.
    pub const CONFLICTING_ATTRIBUTES: Self = Self(0x180);
    /// Protection information that this namespace cannot check. NVM Command Set 1.0, 3.1.
    pub const INVALID_PROTECTION_INFORMATION: Self = Self(0x181);
    /// The namespace is read only. NVM Command Set 1.0, 3.1.
    pub const WRITE_TO_READ_ONLY: Self = Self(0x182);

    /// Status code type 2h, media. The medium could not be written.
    pub const WRITE_FAULT: Self = Self(0x280);
    /// The medium could not be read.
    pub const UNRECOVERED_READ: Self = Self(0x281);
    /// Compare found a difference.
    pub const COMPARE_FAILURE: Self = Self(0x285);
    /// The host may not.
    pub const ACCESS_DENIED: Self = Self(0x286);

    /// The same status with Do Not Retry.
    #[must_use]
    pub const fn dnr(self) -> Self {
        Self(self.0 | Self::DNR)
    }

    /// Code and type alone, to compare with the constants here.
    #[must_use]
    pub const fn code(self) -> Self {
        Self(self.0 & 0x7FF)
    }

    /// Whether the command did what it asked.
    pub const fn is_success(self) -> bool {
        self.code().0 == 0
    }

    /// Whether sending the same command again would fail again.
    pub const fn is_dnr(self) -> bool {
        self.0 & Self::DNR != 0
    }
}

impl From<Outcome> for Status {
    /// Where trying again cannot help, the status says so; after a medium's error or an
    /// unreachable device it may.
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
            Outcome::Unsupported => Self::INVALID_OPCODE.dnr(),
            Outcome::Aborted => Self::ABORT_REQUESTED,
            Outcome::ReservationConflict => Self::RESERVATION_CONFLICT.dnr(),
            Outcome::WriteProtected => Self::NAMESPACE_WRITE_PROTECTED.dnr(),
        }
    }
}

/// As `0x4002 (Invalid Field, do not retry)`.
impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMES.iter().find(|(status, _)| *status == self.code());
        let name = name.map_or("unnamed status", |(_, name)| name);
        let retry = if self.is_dnr() { ", do not retry" } else { "" };
        write!(f, "{:#06x} ({name}{retry})", self.0)
    }
}

const NAMES: [(Status, &str); 46] = [
    (Status::SUCCESS, "Success"),
    (Status::INVALID_OPCODE, "Invalid Opcode"),
    (Status::INVALID_FIELD, "Invalid Field"),
    (Status::COMMAND_ID_CONFLICT, "Command ID Conflict"),
    (Status::DATA_TRANSFER_ERROR, "Data Transfer Error"),
    (Status::INTERNAL_ERROR, "Internal Error"),
    (Status::ABORT_REQUESTED, "Abort Requested"),
    (Status::ABORTED_SQ_DELETION, "Aborted, SQ Deletion"),
    (Status::ABORTED_FUSED_FAILED, "Aborted, Failed Fused Command"),
    (Status::ABORTED_FUSED_MISSING, "Aborted, Missing Fused Command"),
    (Status::INVALID_NAMESPACE, "Invalid Namespace or Format"),
    (Status::COMMAND_SEQUENCE_ERROR, "Command Sequence Error"),
    (Status::INVALID_SGL_COUNT, "Invalid Number of SGL Descriptors"),
    (Status::SGL_LENGTH_INVALID, "Data SGL Length Invalid"),
    (Status::SGL_TYPE_INVALID, "SGL Descriptor Type Invalid"),
    (Status::SGL_OFFSET_INVALID, "SGL Offset Invalid"),
    (Status::HOST_IDENTIFIER_INCONSISTENT, "Host Identifier Inconsistent Format"),
    (Status::KEEP_ALIVE_EXPIRED, "Keep Alive Timer Expired"),
    (Status::KEEP_ALIVE_INVALID, "Keep Alive Timeout Invalid"),
    (Status::NAMESPACE_WRITE_PROTECTED, "Namespace is Write Protected"),
    (Status::TRANSIENT_TRANSPORT_ERROR, "Transient Transport Error"),
    (Status::COMMAND_SET_NOT_SUPPORTED, "I/O Command Set Not Supported"),
    (Status::LBA_OUT_OF_RANGE, "LBA Out of Range"),
    (Status::CAPACITY_EXCEEDED, "Capacity Exceeded"),
    (Status::NAMESPACE_NOT_READY, "Namespace Not Ready"),
    (Status::RESERVATION_CONFLICT, "Reservation Conflict"),
    (Status::INVALID_QUEUE_ID, "Invalid Queue Identifier"),
    (Status::ABORT_LIMIT_EXCEEDED, "Abort Command Limit Exceeded"),
    (Status::ASYNC_EVENT_LIMIT_EXCEEDED, "Asynchronous Event Request Limit Exceeded"),
    (Status::INVALID_LOG_PAGE, "Invalid Log Page"),
    (Status::FEATURE_NOT_SAVEABLE, "Feature Identifier Not Saveable"),
    (Status::FEATURE_NOT_CHANGEABLE, "Feature Not Changeable"),
    (Status::FEATURE_NOT_NAMESPACE_SPECIFIC, "Feature Not Namespace Specific"),
    (Status::COMMAND_SET_COMBINATION_REJECTED, "I/O Command Set Combination Rejected"),
    (Status::INVALID_COMMAND_SET, "Invalid I/O Command Set"),
    // 180h to 182h mean one thing after Connect and another after I/O.
    (Status::CONNECT_INCOMPATIBLE_FORMAT, "Incompatible Format or Conflicting Attributes"),
    (Status::CONNECT_CONTROLLER_BUSY, "Controller Busy or Invalid Protection Information"),
    (Status::CONNECT_INVALID_PARAMETERS, "Connect Invalid Parameters or Write to Read Only"),
    (Status::CONNECT_RESTART_DISCOVERY, "Connect Restart Discovery"),
    (Status::CONNECT_INVALID_HOST, "Connect Invalid Host"),
    (Status::DISCONNECT_INVALID_QUEUE_TYPE, "Invalid Queue Type"),
    (Status::DISCOVER_RESTART, "Discover Restart"),
    (Status::AUTHENTICATION_REQUIRED, "Authentication Required"),
    (Status::WRITE_FAULT, "Write Fault"),
    (Status::UNRECOVERED_READ, "Unrecovered Read Error"),
    (Status::COMPARE_FAILURE, "Compare Failure"),
];

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
