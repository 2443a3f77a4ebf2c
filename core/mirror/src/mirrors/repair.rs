//! A read that the device of the primary fails, and that the other replica in sync has.
//!
//! The range is locked as a write locks it, so both replicas hold the same bytes and keep them. They are
//! read from the other replica into the buffer of the read, and written back here, because many devices
//! replace a sector that cannot be read when it is written. Then the read is judged as any other. If the
//! bytes cannot be written back, the part of this replica has failed, and the other one becomes primary.
//!
//! A loss of power may tear what is written back, so it is durable before the read is answered, and both nodes
//! note the range as written: a replica that reads for a repair does so when it accepts the read.
//!
//! A core may not know yet that the other replica was dropped. So a lock tells in which term the mirror was
//! written before, and a repair waits for a table that is not older.
//!
//! The last replica's errors go to the host, and so does the error of a range that neither replica can
//! read.

use nearflash_device::{DeviceOperation, DeviceRequest, DeviceResult};
use nearflash_units::ByteOffset;

use super::{LOCAL, Mirrors, REMOTES, REPLICA_TIMEOUT, Submission};
use crate::job::{Job, Part, Stage, is_unreached};
use crate::mutant::Mutant;
use crate::table::{MirrorEntry, MirrorId, REMOTES_MAX, Remote, Role};

/// The interface to the caller.
impl Mirrors {
    /// The next mirror of which a read was repaired: a range that the device here could not read is
    /// written again.
    pub fn poll_repaired(&mut self) -> Option<MirrorId> {
        self.repaired.pop_front()
    }
}

impl Mirrors {
    /// The entry of a mirror whose other replica has the same bytes.
    fn repair_entry(&self, mirror: MirrorId) -> Option<(MirrorEntry, usize, Remote)> {
        let entry = self.entry(mirror).filter(|entry| entry.role == Role::Primary)?;
        let is_equal = |it: &Remote| it.has_all || self.is(Mutant::RepairFromCopy);
        let mut remotes = entry.remotes.iter().enumerate();
        remotes.find_map(|(place, it)| Some((*entry, place, it.filter(is_equal)?)))
    }

    /// The device of this node has failed a read.
    pub(super) fn read_failed(&mut self, slot: usize, result: DeviceResult) {
        let Job { mirror, request, .. } = self.jobs[slot];
        if self.entry(mirror).is_some_and(|entry| entry.role != Role::Primary) {
            return self.begin(slot);
        }
        let has_buffer = matches!(request.operation, DeviceOperation::Read { buffer: Some(_), .. });
        match self.repair_entry(mirror) {
            Some((entry, ..)) if has_buffer && result == DeviceResult::MediumError => {
                self.lock(slot, entry.owner);
            }
            _ => self.end(slot, result),
        }
    }

    /// Reads the range of a read, which is locked, from the other replica.
    pub(super) fn fetch(&mut self, slot: usize) {
        let Job { mirror, request, .. } = self.jobs[slot];
        let Some((entry, place, remote)) = self.repair_entry(mirror) else {
            return self.read_anew(slot);
        };
        let job = &mut self.jobs[slot];
        (job.stage, job.stay) = (Stage::Repairing, entry.stay);
        (job.local, job.remotes) = (Part::Due, [Part::Unneeded; REMOTES_MAX]);
        if entry.term < job.term {
            // Another core knows a later table, and may have written without the other replica.
            return self.wait();
        }
        self.jobs[slot].remotes[place] = Part::UnderWay;
        self.slow_at.get_or_insert(self.now.plus(REPLICA_TIMEOUT));
        let id = self.slots.id(slot, REMOTES[place]);
        let request = DeviceRequest { id, device: remote.device, ..request };
        let sent = entry.sent_in(remote.session);
        self.submissions.push_back(Submission::new(request, mirror, Some(sent)));
    }

    /// Writes the bytes of the other replica back.
    fn restore(&mut self, slot: usize) {
        let Job { mirror, request, .. } = self.jobs[slot];
        let entry = self.entry(mirror).filter(|entry| entry.role == Role::Primary).copied();
        let local = entry.and_then(|entry| entry.local);
        let DeviceOperation::Read { buffer: Some(buffer), buffer_offset } = request.operation
        else {
            unreachable!("only reads with a buffer are repaired")
        };
        let Some(local) = local else { return self.read_anew(slot) };
        self.note_written(mirror, request.offset, request.len);
        self.jobs[slot].local = Part::UnderWay;
        let id = self.slots.id(slot, LOCAL);
        let offset = ByteOffset(local.start.0 + request.offset.0);
        let operation = DeviceOperation::Write { buffer, buffer_offset, durable: true };
        let request = DeviceRequest { id, device: local.device, operation, offset, ..request };
        self.submissions.push_back(Submission::new(request, mirror, None));
    }

    /// A step of a repair has ended.
    pub(super) fn repair_ended(&mut self, slot: usize, place: Option<usize>, result: DeviceResult) {
        let job = &mut self.jobs[slot];
        let mirror = job.mirror;
        job.end_part(place, result);
        if place.is_none() {
            match result {
                DeviceResult::Done => self.repaired.push_back(mirror),
                // The caller does not write what a client can change meanwhile.
                DeviceResult::Unsupported => {}
                _ => self.note_failure(mirror, result, None),
            }
            self.unlock(slot);
            self.jobs[slot].stage = Stage::Judging(DeviceResult::Done);
            return self.judge(slot, DeviceResult::Done);
        }
        match result {
            DeviceResult::Done => self.restore(slot),
            // It is asked again until it answers, or is not in sync any more.
            _ if is_unreached(result) => self.wait(),
            _ => self.end(slot, DeviceResult::MediumError),
        }
    }

    /// Looks at a repair that may wait for the other replica.
    pub(super) fn look_at_repair(&mut self, slot: usize) {
        let job = &self.jobs[slot];
        if job.is_under_way() {
            return;
        }
        if self.is_too_old(job) {
            return self.end(slot, DeviceResult::MediumError);
        }
        self.fetch(slot);
    }

    /// The other replica is not needed, or not usable, any more.
    fn read_anew(&mut self, slot: usize) {
        self.unlock(slot);
        self.begin(slot);
    }
}
