//! Closed files of several runs, which move to one when a gap holds them.
//!
//! Nobody waits for such a move: it is given up when somebody opens the file. It is made as that of a file that
//! grows: its seals are void before its blocks are copied, the inode names the new place
//! after that, and the former place is free once a commit of this is durable. A program that has the file open
//! may extend it, so it moves when the last one has closed it.
//!
//! A program that appends a little to a long file again and again must not cause a copy of the file each time. So
//! a file may be copied as far as it has grown since it was opened.

use std::collections::BTreeMap;

use nearflash_files::{Inode, InodeNumber, blocks_for, joined_max};
use nearflash_units::ByteLen;

use super::FileSystem;
use crate::{BLOCK, FilesError};

/// The number of files that wait for a gap. Further ones keep their runs.
const SPLIT_MAX: usize = 4096;

/// The closed files of several runs, each with the number of bytes that may be copied for it.
pub(super) type Split = BTreeMap<InodeNumber, ByteLen>;

/// The last user of a file closes it, which has gained these bytes since it was opened.
pub(super) fn note_split(split: &mut Split, number: InodeNumber, inode: &Inode, gained: ByteLen) {
    let gained = BLOCK.len(blocks_for(gained)).unwrap_or_default();
    if inode.runs.len() < 2 {
        split.remove(&number);
    } else if gained != ByteLen(0) && split.len() < SPLIT_MAX {
        let known = split.entry(number).or_default();
        *known = gained.max(*known);
    }
}

impl FileSystem {
    /// The most bytes that are copied at a time.
    pub(super) fn joined_max(&self) -> ByteLen {
        joined_max(self.disk().properties().len)
    }

    /// Moves files that were closed with several runs to one, as far as gaps hold them. A caller does this from
    /// time to time. After a failure, files are where they were; the next sync reports it.
    pub fn tidy(&self) {
        let Ok(split) = self.state().map(|state| state.split.clone()) else { return };
        let (mut left, mut has_moved) = (self.joined_max(), false);
        for (number, gained) in split {
            if self.is_open(number) {
                continue;
            }
            match self.join_closed(number, gained.min(left)) {
                Ok(None) => {}
                Ok(Some(copied)) => {
                    left = ByteLen(left.0.saturating_sub(copied.0));
                    has_moved = true;
                }
                // It was removed, was opened meanwhile, or the node cannot be reached. A copy in vain is not made
                // again.
                Err(error) => {
                    self.forget_split(number);
                    if !matches!(error, FilesError::Refused(_)) {
                        break;
                    }
                }
            }
        }
        if has_moved {
            // The former places are free afterwards, and no loss of a connection undoes the moves.
            let _ = self.gather().and_then(|group| self.sync_group(group));
        }
    }

    fn join_closed(
        &self,
        number: InodeNumber,
        copied_max: ByteLen,
    ) -> Result<Option<ByteLen>, FilesError> {
        let file = self.retained(number)?;
        let is_whole = self.state().is_ok_and(|state| self.is_whole(&state));
        let joined = if is_whole { self.join(&file, copied_max) } else { Ok(None) };
        // With one run, it is no longer among the split ones.
        self.release(number);
        joined
    }

    fn forget_split(&self, number: InodeNumber) {
        if let Ok(mut state) = self.state() {
            state.split.remove(&number);
        }
    }
}
