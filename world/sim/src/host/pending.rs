//! Kinds of a host's commands in flight, and the meaning of their status.

use nearflash_nvme::Status;

use crate::judge::{Answer, Io};

/// A command in flight.
#[derive(Clone, Debug)]
pub(crate) enum Pending {
    /// A command on the admin queue.
    Admin(AdminStep),
    /// A command on an I/O queue.
    Io(Io),
    /// A reservation command; the ledger of reservations checks its result.
    Rivalry,
}

/// The purpose of an admin command.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum AdminStep {
    /// Sets the number of queues.
    Queues,
    /// Enables the controller.
    Enable,
    /// Resets the controller, or disconnects a queue.
    Reset,
    /// Asynchronous Event Request: answered when an event occurs.
    Event,
    /// Reads the log page of the event.
    EventPage,
    KeepAlive,
    /// Aborts a command that may or may not exist.
    Abort,
}

impl Answer {
    /// The answer that corresponds to an NVMe status.
    pub(crate) fn of_nvme(status: Status) -> Self {
        match status.code() {
            _ if status.is_success() => Self::Done,
            Status::COMPARE_FAILURE => Self::Differs,
            Status::ABORTED_FUSED_FAILED => Self::OtherHalfFailed,
            Status::RESERVATION_CONFLICT => Self::Conflict,
            Status::LBA_OUT_OF_RANGE => Self::BehindTheEnd,
            Status::INTERNAL_PATH_ERROR => Self::PathLost,
            code if is_of_disk(code) => Self::DeviceFailed,
            code => Self::Unexpected(u32::from(code.0)),
        }
    }
}

/// The statuses that report device failures.
fn is_of_disk(code: Status) -> bool {
    [
        Status::UNRECOVERED_READ,
        Status::WRITE_FAULT,
        Status::CAPACITY_EXCEEDED,
        Status::NAMESPACE_NOT_READY,
    ]
    .contains(&code)
}
