//! The counters of all cores for each host on each volume, the totals of removed volumes, and the
//! traffic of earlier runs.
//!
//! A core announces each meter that it opens, and counts in it. The control side reads the meters
//! at any time, without asking a core. Invariant: the lock is held only to read or change the list,
//! because a core that opens a meter waits for it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nearflash_engine::{Asking, CoreId, Figures, Meter, Opened};
use nearflash_request::{Traffic, Usage, VolumeId};
use nearflash_space::VolumeTable;

/// The figures of a volume, over all cores.
#[derive(Debug, Default)]
pub struct VolumeFigures {
    /// The sum over all hosts.
    pub all: Figures,
    /// Of each host.
    pub hosts: BTreeMap<Asking, Figures>,
}

/// The figures of existing volumes, over all cores: summed up in three ways.
#[derive(Debug, Default)]
pub struct Totals {
    /// The sum over all volumes.
    pub all: Figures,
    /// Of each volume.
    pub volumes: BTreeMap<VolumeId, Figures>,
    /// Of each host.
    pub hosts: BTreeMap<Asking, Figures>,
}

/// The counters of all cores.
#[derive(Debug, Default)]
pub struct Ledger {
    /// The traffic of the runs before this one.
    earlier: BTreeMap<VolumeId, Traffic>,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    entries: Vec<Metered>,
    /// Each core's figures of the volumes that were removed.
    gone: BTreeMap<CoreId, Figures>,
}

/// A meter, and the core, volume and host that it counts for.
#[derive(Clone, Debug)]
pub struct Metered {
    core: CoreId,
    volume: Option<VolumeId>,
    /// The host.
    pub host: Asking,
    /// The meter.
    pub meter: Arc<Meter>,
}

impl Ledger {
    /// A ledger that adds the traffic of earlier runs.
    pub fn new(earlier: BTreeMap<VolumeId, Traffic>) -> Self {
        Self { earlier, kept: Mutex::default() }
    }

    /// Adds a meter that a core has opened.
    pub fn open(&self, core: CoreId, opened: Opened) {
        let Opened { volume, host, meter } = opened;
        self.lock().entries.push(Metered { core, volume, host, meter });
    }

    /// Drops the meters of volumes that no longer exist. Their figures stay in the totals of the
    /// cores.
    pub fn keep(&self, volumes: &VolumeTable) {
        let mut kept = self.lock();
        let is_gone =
            |entry: &mut Metered| entry.volume.is_some_and(|id| volumes.get(id).is_none());
        let gone: Vec<Metered> = kept.entries.extract_if(.., is_gone).collect();
        for entry in gone {
            kept.gone.entry(entry.core).or_default().read(&entry.meter);
        }
    }

    /// The figures of a core since the start.
    pub fn of_core(&self, core: CoreId) -> Figures {
        let mut figures = self.lock().gone.get(&core).cloned().unwrap_or_default();
        for entry in self.entries().iter().filter(|entry| entry.core == core) {
            figures.read(&entry.meter);
        }
        figures
    }

    /// The figures of each core since the start.
    pub fn of_cores(&self) -> BTreeMap<CoreId, Figures> {
        let (mut figures, entries) = {
            let kept = self.lock();
            (kept.gone.clone(), kept.entries.clone())
        };
        for Metered { core, meter, .. } in &entries {
            figures.entry(*core).or_default().read(meter);
        }
        figures
    }

    /// The meters of each volume, in the order of the hosts.
    pub fn meters_of_volumes(&self) -> BTreeMap<VolumeId, Vec<Metered>> {
        let mut meters = BTreeMap::<VolumeId, Vec<Metered>>::new();
        for entry in self.entries() {
            let Some(volume) = entry.volume else { continue };
            meters.entry(volume).or_default().push(entry);
        }
        meters.values_mut().for_each(|of| of.sort_by(|one, other| one.host.cmp(&other.host)));
        meters
    }

    /// The figures of each volume since the start.
    pub fn of_volumes(&self) -> BTreeMap<VolumeId, VolumeFigures> {
        let mut figures = BTreeMap::<VolumeId, VolumeFigures>::new();
        for Metered { volume, host, meter, .. } in self.entries() {
            let Some(volume) = volume else { continue };
            let of = figures.entry(volume).or_default();
            of.all.read(&meter);
            of.hosts.entry(host).or_default().read(&meter);
        }
        figures
    }

    /// The figures of each volume and of each host, since the start.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for Metered { volume, host, meter, .. } in self.entries() {
            let Some(volume) = volume else { continue };
            totals.all.read(&meter);
            totals.volumes.entry(volume).or_default().read(&meter);
            totals.hosts.entry(host).or_default().read(&meter);
        }
        totals
    }

    fn entries(&self) -> Vec<Metered> {
        self.lock().entries.clone()
    }

    /// No code panics while the lock is held.
    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Usage for Ledger {
    fn of(&self, volume: VolumeId) -> Traffic {
        let earlier = self.earlier.get(&volume).copied().unwrap_or_default();
        let kept = self.lock();
        let meant = kept.entries.iter().filter(|entry| entry.volume == Some(volume));
        meant.map(|entry| entry.meter.traffic()).fold(earlier, Traffic::plus)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(volume: u32, host: &str) -> Opened {
        let host = Asking::Host(host.into());
        Opened { volume: Some(VolumeId(volume)), host, meter: Arc::default() }
    }

    #[test]
    fn each_host_of_a_volume_is_listed_once_and_a_removed_volume_is_not() {
        let ledger = Ledger::default();
        for (core, volume, host) in [(0, 1, "a"), (1, 1, "a"), (1, 1, "b"), (0, 2, "a")] {
            ledger.open(CoreId(core), opened(volume, host));
        }
        let listed = ledger.of_volumes();
        let hosts = |volume| listed[&VolumeId(volume)].hosts.len();
        assert_eq!((listed.len(), hosts(1), hosts(2)), (2, 2, 1));
        ledger.keep(&VolumeTable::default());
        assert!(ledger.of_volumes().is_empty());
        assert_eq!(ledger.of_core(CoreId(0)), Figures::default());
    }

    #[test]
    fn the_traffic_of_earlier_runs_counts() {
        let traffic = Traffic { reads: 7, ..Traffic::default() };
        let ledger = Ledger::new([(VolumeId(3), traffic)].into());
        ledger.open(CoreId(0), opened(3, "a"));
        assert_eq!((ledger.of(VolumeId(3)), ledger.of(VolumeId(4))), (traffic, Traffic::default()));
    }
}
