//! Third-party copies: their decoded segments, and the records of their progress.
//!
//! Spec: SPC-4, 5.16 (third-party copies) and 6.18 (RECEIVE COPY RESULTS). Records belong to a
//! session, since a list identifier is specific to an initiator and a target.

#![allow(
    clippy::disallowed_types,
    reason = "a session's connections share its records; all of them are on one core, so that none waits"
)]

use std::sync::{Mutex, MutexGuard, PoisonError};

use nearflash_request::VolumeId;
use nearflash_units::{BlockSize, ByteLen, Lba};

use crate::Sense;
use crate::limits::COPIES_MAX;

/// One end of a segment.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CopyEnd {
    /// The volume.
    pub volume: VolumeId,
    /// Its block size.
    pub block_size: BlockSize,
    /// The first block.
    pub start: Lba,
}

/// A run of bytes to copy from one place to another.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CopySegment {
    /// The start of the source.
    pub source: CopyEnd,
    /// The start of the destination.
    pub destination: CopyEnd,
    /// The length, a whole number of blocks of both ends.
    pub len: ByteLen,
}

/// Identifies a copy of a session: the unit and its LIST IDENTIFIER.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CopyId {
    /// The unit that received the command.
    pub lun: u16,
    /// LIST IDENTIFIER.
    pub list: u8,
}

/// A decoded EXTENDED COPY. All segments lie within their volumes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CopyTask {
    /// The identifier for RECEIVE COPY RESULTS, unless the initiator wants none.
    pub id: Option<CopyId>,
    /// In the order in which they are copied.
    pub segments: Box<[CopySegment]>,
}

/// COPY MANAGER STATUS.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CopyState {
    /// In progress.
    InProgress = 0,
    /// Completed without errors.
    Done = 1,
    /// Ended with an error.
    Failed = 2,
}

/// The progress of a copy.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CopyProgress {
    /// The copy's state.
    pub state: CopyState,
    /// The number of segments copied.
    pub segments: u16,
    /// The number of bytes copied.
    pub copied: ByteLen,
}

/// The running and last ended copies of a session, on one core: the lock is never contended.
#[derive(Debug, Default)]
pub struct CopyRecords {
    /// Oldest first, at most [`COPIES_MAX`].
    records: Mutex<Vec<(CopyId, CopyProgress)>>,
}

impl CopyRecords {
    /// Adds a record for a copy that begins.
    ///
    /// # Errors
    /// If a copy with this identifier is in progress, or too many copies are.
    pub fn begin(&self, id: CopyId) -> Result<(), Sense> {
        let mut records = self.lock();
        let is_over = |state| state != CopyState::InProgress;
        if records.iter().any(|(other, it)| *other == id && !is_over(it.state)) {
            return Err(Sense::OPERATION_IN_PROGRESS);
        }
        records.retain(|(other, _)| *other != id);
        if records.len() >= COPIES_MAX {
            let oldest = records.iter().position(|(_, it)| is_over(it.state));
            records.remove(oldest.ok_or(Sense::INSUFFICIENT_RESOURCES)?);
        }
        let (segments, copied) = (0, ByteLen(0));
        records.push((id, CopyProgress { state: CopyState::InProgress, segments, copied }));
        Ok(())
    }

    /// Records the progress of a copy.
    pub fn note(&self, id: CopyId, progress: CopyProgress) {
        if let Some((_, known)) = self.lock().iter_mut().find(|(other, _)| *other == id) {
            *known = progress;
        }
    }

    /// The progress of a copy; `None` if it has no record.
    pub fn get(&self, id: CopyId) -> Option<CopyProgress> {
        self.lock().iter().find(|(other, _)| *other == id).map(|&(_, progress)| progress)
    }

    /// Removes the records of a unit that was reset.
    pub fn forget(&self, lun: u16) {
        self.lock().retain(|(id, _)| id.lun != lun);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(CopyId, CopyProgress)>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn id(list: u8) -> CopyId {
        CopyId { lun: 0, list }
    }

    const DONE: CopyProgress =
        CopyProgress { state: CopyState::Done, segments: 1, copied: ByteLen(512) };

    #[test]
    fn a_name_is_free_again_when_its_copy_has_ended() {
        let records = CopyRecords::default();
        assert_eq!(records.get(id(1)), None);
        records.begin(id(1)).unwrap();
        assert_eq!(records.begin(id(1)), Err(Sense::OPERATION_IN_PROGRESS));
        records.note(id(1), DONE);
        assert_eq!(records.get(id(1)), Some(DONE));
        records.begin(id(1)).unwrap();
        assert_eq!(records.get(id(1)).unwrap().state, CopyState::InProgress);
        records.forget(1);
        assert!(records.get(id(1)).is_some());
        records.forget(0);
        assert_eq!(records.get(id(1)), None);
    }

    #[test]
    fn the_oldest_that_has_ended_makes_room_and_no_other_does() {
        let records = CopyRecords::default();
        let all = || (0..).map(id).take(COPIES_MAX);
        all().for_each(|id| records.begin(id).unwrap());
        assert_eq!(records.begin(id(200)), Err(Sense::INSUFFICIENT_RESOURCES));
        records.note(id(2), DONE);
        records.note(id(1), DONE);
        records.begin(id(200)).unwrap();
        assert_eq!(records.get(id(1)), None);
        assert_eq!(records.get(id(2)), Some(DONE));
    }
}
