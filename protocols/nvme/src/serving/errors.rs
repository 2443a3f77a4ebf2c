//! The error log of a controller: its last failed admin commands. NVMe Base 2.0, 5.16.1.2.

use std::collections::VecDeque;

use zerocopy::{FromZeros, IntoBytes};

use crate::log::{ErrorEntry, TransportType};
use crate::{Command, QueueId, Status};

/// The number of entries in the log.
pub(super) const ERROR_LOG_MAX: u8 = 16;

/// The last failed commands, newest first.
#[derive(Debug, Default)]
pub(super) struct ErrorLog {
    entries: VecDeque<ErrorEntry>,
    count: u64,
}

impl ErrorLog {
    /// Records a failed command of the admin queue.
    pub(super) fn record(&mut self, command: &Command, status: Status) {
        self.count += 1;
        self.entries.truncate(usize::from(ERROR_LOG_MAX) - 1);
        self.entries.push_front(ErrorEntry {
            count: self.count.into(),
            queue_id: QueueId::ADMIN.0.into(),
            command_id: command.cid,
            status: (status.0 << 1).into(),
            parameter_location: 0xFFFF.into(),
            nsid: command.nsid,
            transport: TransportType::TCP.0,
            ..ErrorEntry::new_zeroed()
        });
    }

    /// The number of failed commands since the controller was created.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn page(&self) -> Vec<u8> {
        let mut page = Vec::new();
        for entry in &self.entries {
            page.extend_from_slice(entry.as_bytes());
        }
        page.resize(usize::from(ERROR_LOG_MAX) * size_of::<ErrorEntry>(), 0);
        page
    }
}
