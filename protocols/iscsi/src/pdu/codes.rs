//! One-byte codes of PDUs: functions, reasons, results.

use std::fmt;

use nearflash_session::{codes, wire};

wire! {
    /// Function of a task management request. RFC 7143, 11.5.1.
    pub struct TaskFunction(pub u8);
    /// Response of a task management function. RFC 7143, 11.6.1.
    pub struct TaskResult(pub u8);
    /// Why a PDU is rejected. RFC 7143, 11.17.1.
    pub struct RejectReason(pub u8);
    /// The event of an asynchronous message. RFC 7143, 11.9.1.
    pub struct AsyncEvent(pub u8);
    /// Why an initiator logs out. RFC 7143, 11.14.1.
    pub struct LogoutReason(pub u8);
    /// How a logout ended. RFC 7143, 11.15.1.
    pub struct LogoutResult(pub u8);
}

codes! { TaskFunction {
    /// One task.
    ABORT_TASK = 1, "ABORT TASK";
    /// The tasks of this nexus at a logical unit.
    ABORT_TASK_SET = 2, "ABORT TASK SET";
    /// Not needed, as ACA (auto contingent allegiance) is not supported.
    CLEAR_ACA = 3, "CLEAR ACA";
    /// The tasks of all nexuses at a logical unit.
    CLEAR_TASK_SET = 4, "CLEAR TASK SET";
    LOGICAL_UNIT_RESET = 5, "LOGICAL UNIT RESET";
    /// All logical units.
    TARGET_WARM_RESET = 6, "TARGET WARM RESET";
    /// All logical units, and all connections end.
    TARGET_COLD_RESET = 7, "TARGET COLD RESET";
    /// Moves a task to another connection. Not at error recovery level 0.
    TASK_REASSIGN = 8, "TASK REASSIGN";
    /// Whether a task exists.
    QUERY_TASK = 9, "QUERY TASK";
    /// Whether a logical unit has tasks of this nexus.
    QUERY_TASK_SET = 10, "QUERY TASK SET";
    /// All logical units lose this nexus.
    I_T_NEXUS_RESET = 11, "I_T NEXUS RESET";
    /// Whether a unit attention is pending.
    QUERY_ASYNCHRONOUS_EVENT = 12, "QUERY ASYNCHRONOUS EVENT";
} }

codes! { TaskResult {
    COMPLETE = 0, "function complete";
    NO_TASK = 1, "task does not exist";
    NO_LUN = 2, "LUN does not exist";
    /// The task still belongs to another connection.
    STILL_ALLEGIANT = 3, "task still allegiant";
    /// Not at this error recovery level.
    NO_REASSIGNMENT = 4, "task allegiance reassignment not supported";
    NOT_SUPPORTED = 5, "function not supported";
    NOT_AUTHORIZED = 6, "function authorization failed";
    /// The affirmative answer to QUERY TASK and the other queries.
    SUCCEEDED = 7, "function succeeded";
    REJECTED = 255, "function rejected";
} }

codes! { RejectReason {
    DATA_DIGEST = 2, "data digest error";
    /// A retransmission that is not possible.
    SNACK = 3, "SNACK reject";
    PROTOCOL = 4, "protocol error";
    NOT_SUPPORTED = 5, "command not supported";
    TOO_MANY_IMMEDIATE = 6, "immediate command reject: too many immediate commands";
    TASK_IN_PROGRESS = 7, "task in progress";
    INVALID_DATA_ACK = 8, "invalid data acknowledgement";
    INVALID_FIELD = 9, "invalid PDU field";
    OUT_OF_RESOURCES = 10, "long operation reject: out of resources";
    /// Deprecated, but still sent.
    NEGOTIATION_RESET = 11, "negotiation reset";
    WAITING_FOR_LOGOUT = 12, "waiting for logout";
} }

codes! { AsyncEvent {
    /// Sense data follows.
    SCSI = 0, "SCSI asynchronous event";
    LOGOUT = 1, "the target requests a logout";
    CONNECTION_DROP = 2, "the target drops a connection";
    SESSION_DROP = 3, "the target drops all connections of the session";
    NEGOTIATION = 4, "the target requests a negotiation";
    TASKS_ENDED = 5, "all tasks of a logical unit are terminated";
    VENDOR = 255, "vendor-specific event";
} }

codes! { LogoutReason {
    SESSION = 0, "close the session";
    CONNECTION = 1, "close the connection";
    /// The connection's tasks continue. Not at error recovery level 0.
    RECOVERY = 2, "remove the connection for recovery";
} }

codes! { LogoutResult {
    SUCCESS = 0, "closed successfully";
    NO_CONNECTION = 1, "CID not found";
    /// Not at this error recovery level.
    NO_RECOVERY = 2, "connection recovery not supported";
    FAILED = 3, "cleanup failed";
} }

/// Prints a code by its name, or an unknown one as a number.
macro_rules! print_codes {
    ($($code:ident = $unknown:literal,)*) => {
        $(impl fmt::Display for $code {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self.known() {
                    Some((_, words)) => f.write_str(words),
                    None => write!(f, concat!($unknown, " {}"), self.0),
                }
            }
        })*
    };
}
print_codes! {
    TaskFunction = "task management function",
    TaskResult = "task management response",
    RejectReason = "reject reason",
    AsyncEvent = "asynchronous event",
    LogoutReason = "logout reason",
    LogoutResult = "logout response",
}
