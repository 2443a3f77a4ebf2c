//! What a command of a host is about while it is in flight, and what its status means.

use nearflash_nvme::Status;

use crate::judge::{Answer, Io};

/// A command in flight.
#[derive(Clone, Debug)]
pub(crate) enum Pending {
    /// Of the admin queue.
    Admin(AdminStep),
    /// Of an I/O queue.
    Io(Io),
    /// Of a fight over a volume: what becomes of it is judged where it is decided.
    Rivalry,
}

/// What an admin command is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum AdminStep {
    /// How many queues there may be.
    Queues,
    /// The controller starts to work.
    Enable,
    /// The controller begins anew, or a queue of it ends.
    Reset,
    /// Answered when something happens.
    Event,
    /// The page that tells what.
    EventPage,
    KeepAlive,
    /// Of a command that may or may not be there.
    Abort,
}

impl Answer {
    /// The answer that an NVMe status stands for.
    pub(crate) fn of_nvme(status: Status) -> Self {
        match status.code() {
            _ if status.is_success() => Self::Done,
            Status::COMPARE_FAILURE => Self::Differs,
            Status::ABORTED_FUSED_FAILED => Self::OtherHalfFailed,
            Status::RESERVATION_CONFLICT => Self::Conflict,
            Status::LBA_OUT_OF_RANGE => Self::BehindTheEnd,
            code if is_of_disk(code) => Self::DeviceFailed,
            code => Self::Unexpected(u32::from(code.0)),
        }
    }
}

/// What devices' failures become.
fn is_of_disk(code: Status) -> bool {
    [
        Status::UNRECOVERED_READ,
        Status::WRITE_FAULT,
        Status::CAPACITY_EXCEEDED,
        Status::NAMESPACE_NOT_READY,
    ]
    .contains(&code)
}
