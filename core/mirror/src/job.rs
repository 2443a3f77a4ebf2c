//! One operation on a mirror, from its submission to its end.
//!
//! Invariants: an operation ends when nothing of it is under way any more, since its buffer is in use
//! until then. The local write begins only when the other replica has accepted the bytes, so a read at
//! the primary never returns bytes that a takeover loses.

use nearflash_device::{Cause, DeviceId, DeviceOperation, DeviceRequest, DeviceResult};
use nearflash_request::Outcome;
use nearflash_units::Nanos;

use crate::locks::Ticket;
use crate::table::{Core, MirrorEntry, MirrorId, Role, Term};

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
    /// A read that the device of this node failed, which holds its range.
    Repairing,
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

/// The result as the caller is told it. A write that a device has lost is known to the health of the
/// replica's device; that of the mirror knows of lost power alone.
pub(crate) fn told(operation: DeviceOperation, result: DeviceResult) -> DeviceResult {
    match result {
        _ if !operation.loses(result) => result,
        DeviceResult::NoSpace => DeviceResult::Remote(Outcome::CapacityExceeded),
        _ => DeviceResult::Remote(Outcome::WriteFault),
    }
}

/// An operation that has not ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    pub(crate) request: DeviceRequest,
    pub(crate) mirror: MirrorId,
    /// When it came. Its payload was whole then.
    pub(crate) since: Nanos,
    pub(crate) stage: Stage,
    /// Of a write: the last term in which this node was its primary. Of a read that is repaired: the last
    /// term in which its mirror was written before.
    pub(crate) term: Term,
    /// A replica may have it, or a part of it.
    pub(crate) has_effect: bool,
    /// The request that it is for.
    pub(crate) cause: Cause,
    /// The stay in sync in which its read began.
    pub(crate) stay: u32,
    /// Of a write: the term since which no answered write was lost, when it was sent.
    pub(crate) kept_since: Term,
    /// Of a flush: the answered writes before it.
    pub(crate) covered: u64,
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

impl Job {
    pub(crate) fn changes_data(&self) -> bool {
        self.request.operation.changes_data()
    }

    /// Whether another node has forwarded it. It is not forwarded on.
    pub(crate) fn is_forwarded(&self) -> bool {
        self.cause.sent_in.is_some()
    }

    /// Whether the replica of this node may still change.
    pub(crate) fn is_changing_device(&self) -> bool {
        matches!(self.stage, Stage::Writing | Stage::Repairing) && self.local.is_under_way()
    }

    pub(crate) fn is_under_way(&self) -> bool {
        self.local.is_under_way() || self.remote.is_under_way()
    }

    /// One replica's part has ended.
    pub(crate) fn end_part(&mut self, is_local: bool, result: DeviceResult) {
        let is_untouched = result == DeviceResult::Remote(Outcome::DeviceUnavailable);
        self.has_effect |= is_local || !is_untouched;
        *if is_local { &mut self.local } else { &mut self.remote } = Part::of(result);
    }

    /// Whether this node completes it: as the primary, or in the same term as a primary that has stopped
    /// for a handover. The other replica applies all that it accepts in this term before it opens the next
    /// one, and this one is compared before it returns. If the replica here was replaced meanwhile, the record of
    /// the next term is on its way.
    fn is_completed_here(&self, entry: &MirrorEntry) -> bool {
        match entry.role {
            Role::Primary => true,
            Role::Nobody => {
                let has_both = entry.local.is_some() && entry.remote.is_some();
                self.stage == Stage::Writing && entry.term == self.term && has_both
            }
            Role::Secondary | Role::Elsewhere => false,
        }
    }

    /// Whether a handover has to wait for it, so that it is answered. A write that only the device of this
    /// node has failed is answered afterwards.
    pub(crate) fn delays_handover(&self, entry: &MirrorEntry) -> bool {
        let waits_for_change = matches!((self.local, self.remote), (Part::Failed(_), Part::Done));
        entry.role == Role::Nobody && self.is_completed_here(entry) && !waits_for_change
    }

    /// Decides what comes next in the stages [`Stage::Writing`] and [`Stage::Flushing`].
    pub(crate) fn next(&self, entry: Option<&MirrorEntry>) -> Next {
        let Some(entry) = entry.filter(|entry| self.is_completed_here(entry)) else {
            return self.next_without_primary(entry.map(|entry| entry.role));
        };
        // A replica that was dropped is not waited for, except that it uses the buffer.
        let has_remote = entry.remote.is_some();
        let is_accepted =
            !has_remote || matches!(self.remote, Part::Unneeded | Part::Received | Part::Done);
        if self.local == Part::Due && is_accepted {
            return Next::Local;
        }
        if self.is_under_way() {
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

    /// The next step at a node that is not the primary any more.
    fn next_without_primary(&self, role: Option<Role>) -> Next {
        let is_there = self.remote == Part::Done;
        match (self.stage, role) {
            _ if self.is_under_way() => Next::Wait,
            (Stage::Flushing, _) => Next::Anew,
            // Both replicas have it, so every later primary has it.
            _ if is_there && self.local == Part::Done => Next::End(DeviceResult::Done),
            // This node may be primary again, with the same replicas. If it gave up a write that one of
            // them has, they would differ.
            (_, Some(Role::Nobody)) => Next::Wait,
            // The other replica has gone on without this one, and has it. This one does not return while
            // its part is under way, so that nothing has changed since.
            (_, Some(_)) if is_there => Next::End(DeviceResult::Done),
            (_, Some(_)) if !self.has_effect => Next::Anew,
            _ => Next::Lost,
        }
    }
}
