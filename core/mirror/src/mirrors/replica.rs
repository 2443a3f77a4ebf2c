//! The replica's side: it applies what the primary sends.
//!
//! Rule: the replica accepts only requests of the term and the session that this core knows. It applies
//! every request that it has accepted, so the primary may be told RECEIVED at once.
//!
//! A write that fails at the device after it was accepted may have been read at the primary meanwhile. So
//! its payload is kept and it is tried again, and the replica is not drained, until it has succeeded or
//! the replica is out of sync.

use nearflash_device::{DeviceOperation, DeviceRequest, DeviceResult, OperationId};
use nearflash_request::SentIn;
use nearflash_units::ByteOffset;

use super::{APPLY, Mirrors, Submission};
use crate::job::{Job, told};
use crate::mutant::Mutant;
use crate::table::{MirrorEntry, MirrorId, Role, Term};

/// The reason for which a replica does not accept an operation. It has not taken effect.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// The mirror has no replica here.
    #[error("no replica of the mirror is here")]
    NoReplica,
    /// It was sent in another term.
    #[error("the mirror is in term {}", .0.0)]
    StaleTerm(Term),
    /// It was sent in this term, in which this replica takes nothing from others.
    #[error("the replica is not a secondary in this term")]
    NotSecondary,
    /// It was sent before the replica joined last, or after that by one who does not know.
    #[error("the replica is in session {0}")]
    StaleSession(u32),
    /// The range ends after the mirror.
    #[error("the mirror ends before the range does")]
    OutOfRange,
    /// Replicas do not do such operations.
    #[error("a replica only reads, writes and flushes")]
    Operation,
}

/// An operation that was accepted and is under way at the device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Accepted {
    /// The caller's number for it.
    id: OperationId,
    mirror: MirrorId,
    /// At the device.
    request: DeviceRequest,
    /// How its last attempt failed; `None` while it is under way.
    failed: Option<DeviceResult>,
}

#[cfg(test)]
impl Accepted {
    pub(crate) fn mirror(&self) -> MirrorId {
        self.mirror
    }
}

impl Mirrors {
    /// Accepts an operation of the primary, whose payload is whole: a write, a write of zeroes or a flush; or a
    /// read, by which the primary compares, or repairs its own replica. The caller says RECEIVED at once, and
    /// DONE when [`Self::poll_ended`] gives the result.
    ///
    /// # Errors
    /// When it is not accepted. Nothing was done.
    pub fn accept(
        &mut self,
        mirror: MirrorId,
        request: DeviceRequest,
        sent: SentIn,
    ) -> Result<(), Refusal> {
        let entry = self.entry(mirror).copied();
        let (entry, local) = entry.and_then(|e| Some((e, e.local?))).ok_or(Refusal::NoReplica)?;
        self.check(&request, sent, &entry)?;
        let DeviceRequest { operation, offset, len, .. } = request;
        let is_noted = match operation {
            // The primary writes these bytes to its own replica, which may lose its power meanwhile.
            DeviceOperation::Read { .. } => !sent.is_digest && !self.is(Mutant::RepairUnnoted),
            _ => operation.changes_data() && !self.is(Mutant::AcceptedUnnoted),
        };
        if is_noted {
            self.note_written(mirror, offset, len);
        }
        let slot = self.accepted.vacant_key();
        let id = self.applying.id(slot, APPLY);
        let offset = ByteOffset(local.start.0 + offset.0);
        let at_device = DeviceRequest { id, device: local.device, offset, ..request };
        let (id, request) = (request.id, at_device);
        self.accepted.insert(Accepted { id, mirror, request, failed: None });
        self.submissions.push_back(Submission::new(request, mirror, None));
        Ok(())
    }

    fn check(
        &self,
        request: &DeviceRequest,
        sent: SentIn,
        entry: &MirrorEntry,
    ) -> Result<(), Refusal> {
        use DeviceOperation as Op;
        let DeviceRequest { operation, offset, len, .. } = *request;
        if Term(sent.term) != entry.term && !self.is(Mutant::TermIgnored) {
            return Err(Refusal::StaleTerm(entry.term));
        }
        if entry.role != Role::Secondary && !self.is(Mutant::TermIgnored) {
            return Err(Refusal::NotSecondary);
        }
        if sent.session != entry.session && !self.is(Mutant::NoSession) {
            return Err(Refusal::StaleSession(entry.session));
        }
        match operation {
            Op::Flush => Ok(()),
            Op::Deallocate | Op::Allocation => Err(Refusal::Operation),
            _ if entry.holds(offset, len) => Ok(()),
            _ => Err(Refusal::OutOfRange),
        }
    }

    /// Whether everything that this core accepted for the mirror has reached its device, and no write of
    /// its own is under way there. A replica that takes over waits for this on every core, before it
    /// proposes itself, and one that returns before it asks to join. A primary that has stopped for a
    /// handover also completes its writes at the other replica.
    pub fn is_drained(&self, mirror: MirrorId) -> bool {
        if self.is(Mutant::Undrained) {
            return true;
        }
        self.accepted.iter().all(|(_, accepted)| accepted.mirror != mirror)
            && self.jobs.iter().all(|(_, job)| job.mirror != mirror || !self.is_awaited(job))
    }

    fn is_awaited(&self, job: &Job) -> bool {
        let delays_handover = self.entry(job.mirror).is_some_and(|it| job.delays_handover(it));
        job.is_changing_device() || delays_handover
    }

    /// An accepted operation has ended at the device.
    pub(crate) fn end_accepted(&mut self, id: OperationId, result: DeviceResult) {
        let Some(slot) = self.applying.slot_of(id).filter(|slot| self.accepted.contains(*slot))
        else {
            return;
        };
        let accepted = &mut self.accepted[slot];
        let (mirror, operation) = (accepted.mirror, accepted.request.operation);
        // The primary sees by itself that a read has failed, and what that means.
        let is_read = matches!(operation, DeviceOperation::Read { .. });
        if !result.is_done() && !is_read && !self.is(Mutant::FailureTold) {
            self.note_failure(mirror, result, None);
            let is_write = matches!(
                operation,
                DeviceOperation::Write { .. } | DeviceOperation::WriteZeroes { .. }
            );
            if is_write {
                self.accepted[slot].failed = Some(result);
                return self.look_at_accepted(slot);
            }
        }
        self.give_result(slot, result);
    }

    /// Looks at an accepted write that may have failed, after a while or because the table is new.
    pub(crate) fn look_at_accepted(&mut self, slot: usize) {
        let Accepted { mirror, failed, .. } = self.accepted[slot];
        let Some(result) = failed else { return };
        match self.entry(mirror).map(|entry| entry.role) {
            // It is out of sync: nobody depends on these bytes.
            None | Some(Role::Elsewhere) => self.give_result(slot, result),
            Some(_) => self.wait(),
        }
    }

    /// Tries an accepted write again if it has failed.
    pub(crate) fn apply_again(&mut self, slot: usize) {
        let accepted = &mut self.accepted[slot];
        if accepted.failed.take().is_some() {
            let Accepted { mirror, request, .. } = *accepted;
            self.submissions.push_back(Submission::new(request, mirror, None));
        }
    }

    fn give_result(&mut self, slot: usize, result: DeviceResult) {
        self.applying.end(slot);
        let Accepted { id, request, .. } = self.accepted.remove(slot);
        self.ended.push_back((id, told(request.operation, result)));
    }
}
