//! Commands of the common forms, for properties, tests and benchmarks.

use nearflash_request::BufferId;

use crate::initiator::{CommandData, InitiatorSession, SubmitError, TaskId, cdb};

impl InitiatorSession {
    /// Reads `len` bytes, which are `blocks`, into a buffer.
    ///
    /// # Errors
    /// As [`Self::submit`].
    #[inline]
    pub fn read(
        &mut self,
        lun: u16,
        (lba, blocks): (u64, u32),
        buffer: BufferId,
        len: u32,
    ) -> Result<TaskId, SubmitError> {
        let cdb = cdb::read(lba, blocks);
        self.submit(lun, &cdb, CommandData::Incoming { buffer, len }, &[])
    }

    /// Writes `len` bytes, which are `blocks`, from a buffer. `payload` as in [`Self::submit`].
    ///
    /// # Errors
    /// As [`Self::submit`].
    #[inline]
    pub fn write(
        &mut self,
        lun: u16,
        (lba, blocks): (u64, u32),
        (buffer, len): (BufferId, u32),
        payload: &[u8],
    ) -> Result<TaskId, SubmitError> {
        let cdb = cdb::write(0, lba, blocks);
        self.submit(lun, &cdb, CommandData::Outgoing { buffer, len }, payload)
    }

    /// Everything written before is on stable media afterwards.
    ///
    /// # Errors
    /// As [`Self::submit`].
    pub fn flush(&mut self, lun: u16) -> Result<TaskId, SubmitError> {
        self.submit(lun, &cdb::synchronize_cache(), CommandData::None, &[])
    }

    /// Unmaps blocks, as ranges of LBA and number of blocks.
    ///
    /// # Errors
    /// As [`Self::submit`].
    ///
    /// # Panics
    /// With more than [`cdb::UNMAP_RANGES_MAX`] ranges.
    pub fn unmap(&mut self, lun: u16, ranges: &[(u64, u32)]) -> Result<TaskId, SubmitError> {
        let (cdb, parameters) = cdb::unmap(ranges);
        self.submit(lun, &cdb, CommandData::SmallOutgoing(parameters), &[])
    }

    /// Replaces `blocks` with the second half of the buffer if they are equal to its first half.
    ///
    /// # Errors
    /// As [`Self::submit`].
    pub fn compare_and_write(
        &mut self,
        lun: u16,
        (lba, blocks): (u64, u8),
        (buffer, len): (BufferId, u32),
        payload: &[u8],
    ) -> Result<TaskId, SubmitError> {
        let cdb = cdb::compare_and_write(0, lba, blocks);
        self.submit(lun, &cdb, CommandData::Outgoing { buffer, len }, payload)
    }
}
