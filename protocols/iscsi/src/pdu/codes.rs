//! One-byte codes of PDUs: functions, reasons, results. Open: an unknown value decodes, and is refused
//! in one place.

use std::fmt;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Prints a code by its name, or as a number when it has none.
fn print(
    f: &mut fmt::Formatter<'_>,
    names: &[(u8, &'static str)],
    unknown: &'static str,
    code: u8,
) -> fmt::Result {
    match names.iter().find(|(named, _)| *named == code) {
        Some((_, name)) => f.write_str(name),
        None => write!(f, "{unknown} {code}"),
    }
}

/// Function of a task management request. RFC 7143, 11.5.1.
#[derive(
    Clone, Copy, Debug, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq, Unaligned,
)]
#[repr(transparent)]
pub struct TaskFunction(pub u8);

impl TaskFunction {
    /// One task.
    pub const ABORT_TASK: Self = Self(1);
    /// This nexus's tasks of a logical unit.
    pub const ABORT_TASK_SET: Self = Self(2);
    /// Not needed: no auto contingent allegiance.
    pub const CLEAR_ACA: Self = Self(3);
    /// Everybody's tasks of a logical unit.
    pub const CLEAR_TASK_SET: Self = Self(4);
    /// One logical unit.
    pub const LOGICAL_UNIT_RESET: Self = Self(5);
    /// All logical units.
    pub const TARGET_WARM_RESET: Self = Self(6);
    /// All logical units, and all connections end.
    pub const TARGET_COLD_RESET: Self = Self(7);
    /// A task goes on, on another connection. Not at error recovery level 0.
    pub const TASK_REASSIGN: Self = Self(8);
    /// Whether a task exists.
    pub const QUERY_TASK: Self = Self(9);
    /// Whether a logical unit has tasks of this nexus.
    pub const QUERY_TASK_SET: Self = Self(10);
    /// All logical units lose this nexus.
    pub const I_T_NEXUS_RESET: Self = Self(11);
    /// Whether an attention waits.
    pub const QUERY_ASYNCHRONOUS_EVENT: Self = Self(12);

    const NAMES: &[(u8, &'static str)] = &[
        (Self::ABORT_TASK.0, "ABORT TASK"),
        (Self::ABORT_TASK_SET.0, "ABORT TASK SET"),
        (Self::CLEAR_ACA.0, "CLEAR ACA"),
        (Self::CLEAR_TASK_SET.0, "CLEAR TASK SET"),
        (Self::LOGICAL_UNIT_RESET.0, "LOGICAL UNIT RESET"),
        (Self::TARGET_WARM_RESET.0, "TARGET WARM RESET"),
        (Self::TARGET_COLD_RESET.0, "TARGET COLD RESET"),
        (Self::TASK_REASSIGN.0, "TASK REASSIGN"),
        (Self::QUERY_TASK.0, "QUERY TASK"),
        (Self::QUERY_TASK_SET.0, "QUERY TASK SET"),
        (Self::I_T_NEXUS_RESET.0, "I_T NEXUS RESET"),
        (Self::QUERY_ASYNCHRONOUS_EVENT.0, "QUERY ASYNCHRONOUS EVENT"),
    ];
}

impl fmt::Display for TaskFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print(f, Self::NAMES, "task management function", self.0)
    }
}

/// Response of a task management function. RFC 7143, 11.6.1.
#[derive(
    Clone, Copy, Debug, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq, Unaligned,
)]
#[repr(transparent)]
pub struct TaskResult(pub u8);

impl TaskResult {
    /// Done.
    pub const COMPLETE: Self = Self(0);
    /// No such task.
    pub const NO_TASK: Self = Self(1);
    /// No such logical unit.
    pub const NO_LUN: Self = Self(2);
    /// The task still belongs to another connection.
    pub const STILL_ALLEGIANT: Self = Self(3);
    /// Not at this error recovery level.
    pub const NO_REASSIGNMENT: Self = Self(4);
    /// This target does not have the function.
    pub const NOT_SUPPORTED: Self = Self(5);
    /// The initiator may not.
    pub const NOT_AUTHORIZED: Self = Self(6);
    /// Of QUERY TASK and its like: yes.
    pub const SUCCEEDED: Self = Self(7);
    /// Anything else.
    pub const REJECTED: Self = Self(255);

    const NAMES: &[(u8, &'static str)] = &[
        (Self::COMPLETE.0, "function complete"),
        (Self::NO_TASK.0, "task does not exist"),
        (Self::NO_LUN.0, "LUN does not exist"),
        (Self::STILL_ALLEGIANT.0, "task still allegiant"),
        (Self::NO_REASSIGNMENT.0, "task allegiance reassignment not supported"),
        (Self::NOT_SUPPORTED.0, "function not supported"),
        (Self::NOT_AUTHORIZED.0, "function authorization failed"),
        (Self::SUCCEEDED.0, "function succeeded"),
        (Self::REJECTED.0, "function rejected"),
    ];
}

impl fmt::Display for TaskResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print(f, Self::NAMES, "task management response", self.0)
    }
}

/// Why a PDU is rejected. RFC 7143, 11.17.1.
#[derive(
    Clone, Copy, Debug, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq, Unaligned,
)]
#[repr(transparent)]
pub struct RejectReason(pub u8);

impl RejectReason {
    /// The data was damaged.
    pub const DATA_DIGEST: Self = Self(2);
    /// What was lost cannot be sent again.
    pub const SNACK: Self = Self(3);
    /// Not how the protocol goes.
    pub const PROTOCOL: Self = Self(4);
    /// No such thing here.
    pub const NOT_SUPPORTED: Self = Self(5);
    /// More immediate commands than are taken.
    pub const TOO_MANY_IMMEDIATE: Self = Self(6);
    /// The task goes on already.
    pub const TASK_IN_PROGRESS: Self = Self(7);
    /// A data acknowledgement for nothing.
    pub const INVALID_DATA_ACK: Self = Self(8);
    /// A field cannot be what it is.
    pub const INVALID_FIELD: Self = Self(9);
    /// No room for more.
    pub const OUT_OF_RESOURCES: Self = Self(10);
    /// Deprecated, but still sent.
    pub const NEGOTIATION_RESET: Self = Self(11);
    /// The initiator should log out.
    pub const WAITING_FOR_LOGOUT: Self = Self(12);

    const NAMES: &[(u8, &'static str)] = &[
        (Self::DATA_DIGEST.0, "data digest error"),
        (Self::SNACK.0, "SNACK reject"),
        (Self::PROTOCOL.0, "protocol error"),
        (Self::NOT_SUPPORTED.0, "command not supported"),
        (Self::TOO_MANY_IMMEDIATE.0, "immediate command reject: too many immediate commands"),
        (Self::TASK_IN_PROGRESS.0, "task in progress"),
        (Self::INVALID_DATA_ACK.0, "invalid data acknowledgement"),
        (Self::INVALID_FIELD.0, "invalid PDU field"),
        (Self::OUT_OF_RESOURCES.0, "long operation reject: out of resources"),
        (Self::NEGOTIATION_RESET.0, "negotiation reset"),
        (Self::WAITING_FOR_LOGOUT.0, "waiting for logout"),
    ];
}

impl fmt::Display for RejectReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print(f, Self::NAMES, "reject reason", self.0)
    }
}

/// Why a target says something unasked. RFC 7143, 11.9.1.
#[derive(
    Clone, Copy, Debug, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq, Unaligned,
)]
#[repr(transparent)]
pub struct AsyncEvent(pub u8);

impl AsyncEvent {
    /// Sense data follows.
    pub const SCSI: Self = Self(0);
    /// The initiator is to log out of this connection.
    pub const LOGOUT: Self = Self(1);
    /// One connection ends.
    pub const CONNECTION_DROP: Self = Self(2);
    /// All connections end.
    pub const SESSION_DROP: Self = Self(3);
    /// Parameters are to be negotiated again.
    pub const NEGOTIATION: Self = Self(4);
    /// All tasks of a logical unit are over.
    pub const TASKS_ENDED: Self = Self(5);
    /// Vendor's own.
    pub const VENDOR: Self = Self(255);

    const NAMES: &[(u8, &'static str)] = &[
        (Self::SCSI.0, "SCSI asynchronous event"),
        (Self::LOGOUT.0, "the target requests a logout"),
        (Self::CONNECTION_DROP.0, "the target drops a connection"),
        (Self::SESSION_DROP.0, "the target drops all connections of the session"),
        (Self::NEGOTIATION.0, "the target requests a negotiation"),
        (Self::TASKS_ENDED.0, "all tasks of a logical unit are terminated"),
        (Self::VENDOR.0, "vendor-specific event"),
    ];
}

impl fmt::Display for AsyncEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print(f, Self::NAMES, "asynchronous event", self.0)
    }
}

/// Why an initiator logs out. RFC 7143, 11.14.1.
#[derive(
    Clone, Copy, Debug, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq, Unaligned,
)]
#[repr(transparent)]
pub struct LogoutReason(pub u8);

impl LogoutReason {
    /// All connections.
    pub const SESSION: Self = Self(0);
    /// One connection.
    pub const CONNECTION: Self = Self(1);
    /// One connection, whose tasks go on. Not at error recovery level 0.
    pub const RECOVERY: Self = Self(2);

    const NAMES: &[(u8, &'static str)] = &[
        (Self::SESSION.0, "close the session"),
        (Self::CONNECTION.0, "close the connection"),
        (Self::RECOVERY.0, "remove the connection for recovery"),
    ];
}

impl fmt::Display for LogoutReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print(f, Self::NAMES, "logout reason", self.0)
    }
}

/// How a logout ended. RFC 7143, 11.15.1.
#[derive(
    Clone, Copy, Debug, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq, Unaligned,
)]
#[repr(transparent)]
pub struct LogoutResult(pub u8);

impl LogoutResult {
    /// Closed.
    pub const SUCCESS: Self = Self(0);
    /// No such connection.
    pub const NO_CONNECTION: Self = Self(1);
    /// Not at this error recovery level.
    pub const NO_RECOVERY: Self = Self(2);
    /// It did not work.
    pub const FAILED: Self = Self(3);

    const NAMES: &[(u8, &'static str)] = &[
        (Self::SUCCESS.0, "closed successfully"),
        (Self::NO_CONNECTION.0, "CID not found"),
        (Self::NO_RECOVERY.0, "connection recovery not supported"),
        (Self::FAILED.0, "cleanup failed"),
    ];
}

impl fmt::Display for LogoutResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print(f, Self::NAMES, "logout response", self.0)
    }
}
