//! One operation on a mirror, from its submission to its end.
//!
//! Invariants: an operation ends when nothing of it is under way any more, since its buffer is in use
//! until then. The local write begins only when the other replica has accepted the bytes, so a read at
//! the primary never returns bytes that a takeover loses.

use nearflash_device::{DeviceId, DeviceOperation, DeviceRequest, DeviceResult};
use nearflash_request::Outcome;
use nearflash_units::Nanos;

use crate::locks::Ticket;
use crate::table::{Core, MirrorEntry, MirrorId, Role};

/// How far an operation is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Stage {
    /// Waits for a primary. Nothing was sent.
    Held,
    /// Waits for its range. Nothing was sent.
    Locking,
    /// It has ended for the one who asked, and waits only to give its lock back.
    GivenUp,
    /// Under way at both replicas: a write, which holds its range.
    Writing,
    /// Under way at both replicas.
    Flushing,
    /// One operation elsewhere, whose result is the result.
    Passing(DeviceId),
    /// A read of the replica of this node.
    Reading,
    /// The bytes are here, and are not answered before it is known that they are not stale.
    Judging(DeviceResult),
}

/// The progress of one replica.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Part {
    /// There is nothing to do at this replica.
    Unneeded,
    /// To be submitted.
    Due,
    UnderWay,
    /// Under way, and accepted: it will be applied.
    Received,
    Done,
    Failed(DeviceResult),
}

impl Part {
    pub(crate) fn of(result: DeviceResult) -> Self {
        if result.is_done() { Self::Done } else { Self::Failed(result) }
    }

    /// Whether it failed, and the success of a further attempt would mean as much. A
    /// flush that a device failed may have lost bytes, and the next flush does not tell.
    pub(crate) fn is_repeatable(self, stage: Stage) -> bool {
        let Self::Failed(result) = self else { return false };
        stage == Stage::Writing || is_unreached(result)
    }

    pub(crate) fn is_under_way(self) -> bool {
        matches!(self, Self::UnderWay | Self::Received)
    }
}

/// Whether a node could not be reached, or refused: that is not a failure of its device.
pub(crate) fn is_unreached(result: DeviceResult) -> bool {
    use Outcome as O;
    matches!(result, DeviceResult::Remote(O::DeviceUnavailable | O::PathLost | O::Aborted))
}

/// An operation that has not ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    pub(crate) request: DeviceRequest,
    pub(crate) mirror: MirrorId,
    /// When it came. Its payload was whole then.
    pub(crate) since: Nanos,
    pub(crate) stage: Stage,
    /// Another node has forwarded it: it is not forwarded on.
    pub(crate) is_forwarded: bool,
    /// The stay in sync in which its read began.
    pub(crate) stay: u32,
    /// The core that has the locks, and the lock, once that core has told it.
    pub(crate) owner: Core,
    pub(crate) ticket: Option<Ticket>,
    pub(crate) local: Part,
    pub(crate) remote: Part,
}

/// The next need of an operation that is under way at both replicas.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Next {
    /// An answer, or a change of the table.
    Wait,
    /// Another attempt of the part that failed, after a while.
    Retry,
    /// The local part.
    Local,
    /// This is the result.
    End(DeviceResult),
    /// It may have taken effect, and this node is not the primary any more.
    Lost,
    /// It must be begun anew.
    Anew,
}

/// Whether an operation changes data.
pub(crate) fn changes_data(operation: DeviceOperation) -> bool {
    use DeviceOperation as Op;
    matches!(operation, Op::Write { .. } | Op::WriteZeroes { .. } | Op::Deallocate)
}

impl Job {
    pub(crate) fn changes_data(&self) -> bool {
        changes_data(self.request.operation)
    }

    /// Whether the replica of this node may still change.
    pub(crate) fn is_changing_device(&self) -> bool {
        self.stage == Stage::Writing && self.local.is_under_way()
    }

    pub(crate) fn is_under_way(&self) -> bool {
        self.local.is_under_way() || self.remote.is_under_way()
    }

    /// Decides what comes next in the stages [`Stage::Writing`] and [`Stage::Flushing`].
    pub(crate) fn next(&self, entry: Option<&MirrorEntry>) -> Next {
        let is_under_way = self.is_under_way();
        let is_open = entry.is_some_and(|entry| entry.role == Role::Nobody);
        let Some(entry) = entry.filter(|entry| entry.role == Role::Primary) else {
            let is_done = (self.local, self.remote) == (Part::Done, Part::Done);
            return match (is_under_way, self.stage) {
                (true, _) => Next::Wait,
                // Both replicas have it, so every later primary has it.
                (false, Stage::Writing) if is_done => Next::End(DeviceResult::Done),
                (false, Stage::Flushing) => Next::Anew,
                // This node may be primary again, with the same replicas. If it gave up a write that one
                // of them has, they would differ.
                (false, _) if is_open => Next::Wait,
                (false, _) => Next::Lost,
            };
        };
        // A replica that was dropped is not waited for, except that it uses the buffer.
        let has_remote = entry.remote.is_some();
        let is_accepted =
            !has_remote || matches!(self.remote, Part::Unneeded | Part::Received | Part::Done);
        if self.local == Part::Due && is_accepted {
            return Next::Local;
        }
        if is_under_way {
            return Next::Wait;
        }
        match (self.local, self.remote) {
            // The last replica's errors go to the host. While there is another one, this one has to be
            // dropped before the operation is answered.
            (Part::Failed(result), _) if !has_remote => Next::End(result),
            (Part::Failed(_), _) => Next::Retry,
            (_, Part::Failed(_)) if has_remote => Next::Retry,
            _ => Next::End(DeviceResult::Done),
        }
    }
}
