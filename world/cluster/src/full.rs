//! A managed etcd whose database is full: it raises the alarm NOSPACE and refuses every change until the
//! alarm is disarmed.
//!
//! The supervisor compacts the history, which nothing of nearflash needs, defragments its own member, so
//! that the file becomes shorter, and disarms the alarm of that member. If the newest values alone fill
//! the database, they are not nearflash's, and only the operator can delete them. etcd stands still
//! while it defragments; nothing can be changed then in any case, and requests of hosts do not wait for
//! etcd.

use std::time::{Duration, Instant};

use nearflash_units::ByteLen;

use super::client::{Reported, Store};
use super::error::ClusterError;
use super::etcd::quota;
use super::member::{Folder, Member};

/// The time for a compaction or a defragmentation.
const PATIENCE: Duration = Duration::from_secs(120);

/// The time between two lines of the log about a database that stays full.
const LOG_PERIOD: Duration = Duration::from_secs(60);

/// The alarm, as etcd names it in a member's errors.
const NOSPACE: &str = "NOSPACE";

/// Repairs this machine's etcd when it is full.
#[derive(Default)]
pub(super) struct Repair {
    /// The revision at which compaction was not enough.
    tried: Option<i64>,
    logged: Option<Instant>,
}

impl Repair {
    /// Looks at this machine's etcd, and repairs it.
    pub(super) fn look(&mut self, folder: &Folder, member: &Member) -> Result<(), ClusterError> {
        let store = Store::own(folder, member)?;
        // An etcd that does not answer is reported elsewhere.
        let Ok(before) = store.report() else { return Ok(()) };
        if !is_full(&before.errors) {
            *self = Self::default();
            return Ok(());
        }
        // Until a key changes, another attempt would find the same.
        if self.tried == Some(before.revision) {
            self.report_full(&before);
            return Ok(());
        }
        let store = store.patient(PATIENCE);
        store.compact(before.revision)?;
        store.defragment()?;
        let after = store.report()?;
        if after.db_bytes > quota() / 10 * 9 {
            self.tried = Some(before.revision);
            self.report_full(&after);
            return Ok(());
        }
        store.disarm_no_space(after.member)?;
        tracing::warn!(
            "etcd's database was full: it has been compacted from {} to {}, and changes of the cluster \
             are possible again",
            ByteLen(before.db_bytes),
            ByteLen(after.db_bytes)
        );
        Ok(())
    }

    fn report_full(&mut self, reported: &Reported) {
        if self.logged.is_none_or(|at| at.elapsed() >= LOG_PERIOD) {
            self.logged = Some(Instant::now());
            tracing::error!(
                "etcd's database is full, and no changes of the cluster are possible: its keys take {} of \
                 {}: {}",
                ByteLen(reported.db_bytes),
                ByteLen(quota()),
                REMEDY
            );
        }
    }
}

/// The remedy when compaction is not enough.
pub(super) const REMEDY: &str = "delete keys that are not nearflash's with etcdctl";

/// Whether the errors of a member contain the alarm.
pub(super) fn is_full(errors: &[String]) -> bool {
    errors.iter().any(|error| error.contains(NOSPACE))
}
