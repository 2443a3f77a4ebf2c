//! One operation on a mirror, from its submission to its end.
//!
//! Invariants: an operation ends when nothing of it is under way any more, since its buffer is in use
//! until then. The local write begins only when the other replicas have accepted the bytes, so a read at
//! the primary never returns bytes that a takeover loses.

use nearflash_device::{Cause, DeviceId, DeviceOperation, DeviceRequest, DeviceResult};
use nearflash_request::Outcome;
use nearflash_units::Nanos;

use crate::locks::Ticket;
use crate::table::{Core, MirrorEntry, MirrorId, REMOTES_MAX, Role, Term};

/// How far an operation is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Stage {
    /// Waits for a primary. Nothing was sent.
    Held,
    /// Waits for its range. Nothing was sent.
    Locking,
    /// It has ended for the one who asked, and waits only to give its lock back.
    GivenUp,
    /// Under way at all replicas: a write, which holds its range.
    Writing,
    /// Under way at all replicas.
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
    /// By the places of the other replicas in the table.
    pub(crate) remotes: [Part; REMOTES_MAX],
}

/// The next need of an operation that is under way at all replicas.
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
        self.local.is_under_way() || self.remotes.iter().any(|part| part.is_under_way())
    }

    /// One replica's part has ended: that of another one with this place, or the local one.
    pub(crate) fn end_part(&mut self, place: Option<usize>, result: DeviceResult) {
        let is_untouched = result == DeviceResult::Remote(Outcome::DeviceUnavailable);
        self.has_effect |= place.is_none() || !is_untouched;
        let part = match place {
            None => &mut self.local,
            Some(place) => &mut self.remotes[place],
        };
        *part = Part::of(result);
    }

    /// Nothing depends any more on a part that has failed at a replica that was dropped or given up.
    pub(crate) fn forget_dropped(&mut self, entry: &MirrorEntry) {
        for (part, remote) in self.remotes.iter_mut().zip(&entry.remotes) {
            if entry.role == Role::Primary && remote.is_none() && matches!(part, Part::Failed(_)) {
                *part = Part::Unneeded;
            }
        }
    }

    /// Whether all other replicas to which it was sent have it. One of them may be the next primary.
    fn is_elsewhere(&self) -> bool {
        let mut needed = self.remotes.iter().filter(|part| **part != Part::Unneeded).peekable();
        needed.peek().is_some() && needed.all(|part| *part == Part::Done)
    }

    /// Whether this node completes it: as the primary, or in the same term as a primary that has stopped
    /// for a handover. The other replica applies all that it accepts in this term before it opens the next
    /// one, and this one is compared before it returns. If the replica here was replaced meanwhile, the record of
    /// the next term is on its way.
    fn is_completed_here(&self, entry: &MirrorEntry) -> bool {
        match entry.role {
            Role::Primary => true,
            Role::Nobody => {
                let has_both = entry.local.is_some() && entry.has_remotes();
                self.stage == Stage::Writing && entry.term == self.term && has_both
            }
            Role::Secondary | Role::Elsewhere => false,
        }
    }

    /// Whether a handover has to wait for it, so that it is answered. A write that only the device of this
    /// node has failed is answered afterwards.
    pub(crate) fn delays_handover(&self, entry: &MirrorEntry) -> bool {
        let waits_for_change = matches!(self.local, Part::Failed(_)) && self.is_elsewhere();
        entry.role == Role::Nobody && self.is_completed_here(entry) && !waits_for_change
    }

    /// Decides what comes next in the stages [`Stage::Writing`] and [`Stage::Flushing`].
    pub(crate) fn next(&self, entry: Option<&MirrorEntry>) -> Next {
        let Some(entry) = entry.filter(|entry| self.is_completed_here(entry)) else {
            return self.next_without_primary(entry.map(|entry| entry.role));
        };
        // A replica that was dropped is not waited for, except that it uses the buffer.
        let mut remotes = self.remotes.iter().zip(&entry.remotes).filter(|(_, it)| it.is_some());
        let has_it = |part: Part| matches!(part, Part::Unneeded | Part::Received | Part::Done);
        let is_accepted = remotes.clone().all(|(part, _)| has_it(*part));
        if self.local == Part::Due && is_accepted {
            return Next::Local;
        }
        if self.is_under_way() {
            return Next::Wait;
        }
        match self.local {
            // The last replica's errors go to the host. While there is another one, this one has to be
            // dropped before the operation is answered.
            Part::Failed(result) if !entry.has_remotes() => Next::End(result),
            Part::Failed(_) => Next::Retry,
            _ if remotes.any(|(part, _)| matches!(part, Part::Failed(_))) => Next::Retry,
            _ => Next::End(DeviceResult::Done),
        }
    }

    /// The next step at a node that is not the primary any more.
    fn next_without_primary(&self, role: Option<Role>) -> Next {
        let is_there = self.is_elsewhere();
        match (self.stage, role) {
            _ if self.is_under_way() => Next::Wait,
            (Stage::Flushing, _) => Next::Anew,
            // All replicas have it, so every later primary has it.
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
