//! Third-party copies: what a list of segments has become, and what is remembered of each.
//!
//! Spec: SPC-4, 5.16 (third-party copies) and 6.18 (what RECEIVE COPY RESULTS tells). The records are
//! a session's, as list identifiers are those of an initiator that asks one target.

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
    /// Its blocks' size.
    pub block_size: BlockSize,
    /// The first block.
    pub start: Lba,
}

/// Blocks that are copied from one place to another.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CopySegment {
    /// Where from.
    pub source: CopyEnd,
    /// Where to.
    pub destination: CopyEnd,
    /// How much: whole blocks of both.
    pub len: ByteLen,
}

/// Which copy of a session's: of which unit, and its LIST IDENTIFIER there.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CopyId {
    /// The unit that was asked.
    pub lun: u16,
    /// LIST IDENTIFIER.
    pub list: u8,
}

/// EXTENDED COPY, understood: its segments, which all lie within their volumes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CopyTask {
    /// What the initiator calls it, unless it does not want to ask.
    pub id: Option<CopyId>,
    /// In the order in which they are copied.
    pub segments: Box<[CopySegment]>,
}

/// COPY MANAGER STATUS.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CopyState {
    /// Under way.
    InProgress = 0,
    /// All was copied.
    Done = 1,
    /// Ended before.
    Failed = 2,
}

/// How far a copy has come.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CopyProgress {
    /// Whether it goes on.
    pub state: CopyState,
    /// Segments copied.
    pub segments: u16,
    /// Bytes copied.
    pub copied: ByteLen,
}

/// The copies of a session: those under way, and the latest that ended. All connections of a session
/// live on one core, so that the lock is never waited for.
#[derive(Debug, Default)]
pub struct CopyRecords {
    /// Oldest first, [`COPIES_MAX`] at most.
    records: Mutex<Vec<(CopyId, CopyProgress)>>,
}

impl CopyRecords {
    /// A copy begins.
    ///
    /// # Errors
    /// When one of that name is under way, or too many are.
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

    /// A copy has come so far.
    pub fn note(&self, id: CopyId, progress: CopyProgress) {
        if let Some((_, known)) = self.lock().iter_mut().find(|(other, _)| *other == id) {
            *known = progress;
        }
    }

    /// How far a copy has come; `None` of one that nothing is known of.
    pub fn get(&self, id: CopyId) -> Option<CopyProgress> {
        self.lock().iter().find(|(other, _)| *other == id).map(|&(_, progress)| progress)
    }

    /// A unit was reset: nothing is known of its copies any more.
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
