//! Health data that outlives a run: starts, hours, and the traffic of each volume. It is kept in a
//! small file of the data directory.
//!
//! Nothing depends on this file, so it is not a part of the catalog; a missing or damaged file
//! starts from zero. Invariant: the file has `running` set from the start to the end of the drain.
//! A start that finds it set counts an unsafe end; the traffic since the last write of the file is
//! then lost.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nearflash_nvme::serving::Life;
use nearflash_request::{Traffic, Usage};
use nearflash_space::Space;
use nearflash_units::Nanos;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use nearflash_reactor::Ledger;

/// The period between two writes of the file while the node runs.
const SAVE_PERIOD: Duration = Duration::from_secs(600);

const FILE: &str = "health.json";

/// The contents of the file.
#[derive(Debug, Default, Deserialize, Serialize)]
struct Record {
    schema: u32,
    running: bool,
    starts: u64,
    unsafe_ends: u64,
    ran_secs: u64,
    /// The number of [`nearflash_media::boot`]; 0 in files of earlier versions.
    #[serde(default)]
    boot: u64,
    volumes: BTreeMap<Uuid, VolumeRecord>,
}

#[derive(Debug, Deserialize, Serialize)]
struct VolumeRecord {
    reads: u64,
    writes: u64,
    read_bytes: u64,
    written_bytes: u64,
    media_errors: u64,
}

/// The health of a node: the sum of earlier runs and this one.
#[derive(Debug)]
pub(crate) struct Health {
    path: PathBuf,
    life: Life,
    ledger: Arc<Ledger>,
    started: Instant,
    saved: Mutex<Instant>,
    boot: u64,
}

impl Health {
    /// Reads the file for a node that starts. It writes nothing yet, since the start may still fail. `boot` is
    /// another one than at the last start if writes that no flush followed may have been lost.
    pub(crate) fn open(data_dir: &Path, space: &Space, boot: u64) -> Self {
        let path = data_dir.join(FILE);
        let record = read(&path).unwrap_or_else(|error| {
            let path = path.display();
            tracing::warn!("{path}: {error}: the volumes' health logs start from zero");
            Record::default()
        });
        if record.has_lost(boot) {
            tracing::warn!(
                "the last run has not ended in order, and the machine has started anew: writes that were \
                 answered, and that no flush followed, may be lost. Hosts that kept running do not notice, \
                 and their next flush succeeds: check what they hold"
            );
        }
        let earlier = |volume: &nearflash_space::Volume| {
            Some((volume.id, record.volumes.get(&volume.uuid)?.traffic()))
        };
        let ledger = Arc::new(Ledger::new(space.volumes().filter_map(earlier).collect()));
        let usage: Arc<dyn Usage> = Arc::<Ledger>::clone(&ledger);
        let life = Life {
            starts: record.starts.saturating_add(1),
            unsafe_ends: record.unsafe_ends.saturating_add(u64::from(record.running)),
            ran: Nanos::from_secs(record.ran_secs),
            usage: Some(usage),
        };
        let started = Instant::now();
        Self { path, life, ledger, started, saved: Mutex::new(started), boot }
    }

    pub(crate) fn life(&self) -> Life {
        self.life.clone()
    }

    /// The counters of this run, and of earlier ones.
    pub(crate) fn ledger(&self) -> &Arc<Ledger> {
        &self.ledger
    }

    /// Whether [`SAVE_PERIOD`] has passed since the last write.
    pub(crate) fn is_due(&self) -> bool {
        self.saved.lock().unwrap_or_else(PoisonError::into_inner).elapsed() >= SAVE_PERIOD
    }

    /// Writes the file: `running` is false once the node has drained.
    pub(crate) fn save(&self, space: &Space, running: bool) {
        let record = |volume: &nearflash_space::Volume| {
            (volume.uuid, VolumeRecord::of(self.ledger.of(volume.id)))
        };
        let ran = Duration::from_nanos(self.life.ran.0) + self.started.elapsed();
        let record = Record {
            schema: 1,
            running,
            starts: self.life.starts,
            unsafe_ends: self.life.unsafe_ends,
            ran_secs: ran.as_secs(),
            boot: self.boot,
            volumes: space.volumes().filter(|volume| volume.home.is_public()).map(record).collect(),
        };
        if let Err(error) = write(&self.path, &record) {
            let path = self.path.display();
            tracing::warn!("{path}: {error}: the volumes' health logs may lose their counts");
        }
        *self.saved.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }
}

impl Record {
    /// Whether writes that were answered may be lost since the last run.
    fn has_lost(&self, boot: u64) -> bool {
        self.running && self.boot != 0 && self.boot != boot
    }
}

impl VolumeRecord {
    fn of(done: Traffic) -> Self {
        let Traffic { reads, writes, read_bytes, written_bytes, media_errors } = done;
        Self { reads, writes, read_bytes, written_bytes, media_errors }
    }

    fn traffic(&self) -> Traffic {
        let Self { reads, writes, read_bytes, written_bytes, media_errors } = *self;
        Traffic { reads, writes, read_bytes, written_bytes, media_errors }
    }
}

fn read(path: &Path) -> io::Result<Record> {
    let bytes = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Record::default()),
        bytes => bytes?,
    };
    let record: Record = serde_json::from_slice(&bytes)?;
    let is_known = record.schema == 1;
    is_known.then_some(record).ok_or_else(|| io::Error::other("a later version wrote it"))
}

/// Replaces the file atomically: a new file is written, synced and renamed.
fn write(path: &Path, record: &Record) -> io::Result<()> {
    let fresh = path.with_extension("json.new");
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
    file.write_all(&serde_json::to_vec(record)?)?;
    file.sync_all()?;
    fs::rename(fresh, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_run_that_did_not_end_before_its_machine_has_lost_writes() {
        let record = |running, boot| Record { running, boot, ..Record::default() };
        assert!(record(true, 7).has_lost(8));
        for kept in [record(false, 7), record(true, 8), record(true, 0)] {
            assert!(!kept.has_lost(8), "{kept:?}");
        }
    }

    #[test]
    fn a_file_that_is_damaged_or_later_is_refused_and_a_missing_one_is_empty() {
        let dir = std::env::temp_dir().join(format!("nearflash-health-{}", Uuid::new_v4()));
        fs::create_dir(&dir).unwrap();
        let path = dir.join(FILE);
        assert_eq!(read(&path).unwrap().starts, 0);
        let record = Record { schema: 1, starts: 5, ..Record::default() };
        write(&path, &record).unwrap();
        assert_eq!(read(&path).unwrap().starts, 5);
        write(&path, &Record { schema: 2, ..record }).unwrap();
        assert!(read(&path).is_err());
        fs::write(&path, "{").unwrap();
        assert!(read(&path).is_err());
        fs::remove_dir_all(dir).unwrap();
    }
}
