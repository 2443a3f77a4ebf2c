//! The energy that the processors use, where the machine counts it: RAPL, through Linux's powercap
//! interface.
//!
//! Only package zones are read, since their counters include cores and memory controllers. Reading
//! requires root on most systems; counters that cannot be read are ignored.

use std::fs;
use std::path::{Path, PathBuf};

/// The powercap folder in sysfs.
const ROOT: &str = "/sys/class/powercap";
/// Package zones are `intel-rapl:0`, `intel-rapl:1`…, also on AMD; subzones have a second colon.
const ZONE_PREFIX: &str = "intel-rapl:";
/// Prefix of a package zone's `name`. Another top-level zone, `psys`, covers the whole platform.
const PACKAGE_NAME_PREFIX: &str = "package-";

/// The counters of all packages.
#[derive(Debug)]
pub struct EnergyCounter {
    packages: Vec<Package>,
}

#[derive(Debug)]
struct Package {
    dir: PathBuf,
    /// `max_energy_range_uj`: the counter wraps to zero past this, in microjoules.
    range: u64,
}

/// The values of all counters at one time, in microjoules.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Reading(Vec<u64>);

impl EnergyCounter {
    /// Opens this machine's counters; `None` if there are none that can be read.
    pub fn open() -> Option<Self> {
        Self::open_in(Path::new(ROOT))
    }

    /// Opens the counters below `root`.
    fn open_in(root: &Path) -> Option<Self> {
        let entries = fs::read_dir(root).ok()?;
        let mut packages: Vec<_> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|dir| is_package(dir))
            .filter_map(|dir| Some(Package { range: number(&dir, "max_energy_range_uj")?, dir }))
            .collect();
        packages.sort_by(|a, b| a.dir.cmp(&b.dir));
        let counter = Self { packages };
        (!counter.packages.is_empty() && counter.read().is_some()).then_some(counter)
    }

    /// Reads the counters.
    pub fn read(&self) -> Option<Reading> {
        self.packages
            .iter()
            .map(|package| number(&package.dir, "energy_uj"))
            .collect::<Option<_>>()
            .map(Reading)
    }

    /// Joules between two readings. Each counter may wrap once.
    #[expect(clippy::cast_precision_loss, reason = "counters end far below 2^53 microjoules")]
    pub fn joules(&self, before: &Reading, after: &Reading) -> f64 {
        let of = |((package, before), after): ((&Package, &u64), &u64)| {
            if after >= before {
                after - before
            } else {
                after.saturating_add(package.range.saturating_sub(*before))
            }
        };
        let micros: u64 = self.packages.iter().zip(&before.0).zip(&after.0).map(of).sum();
        micros as f64 / 1e6
    }
}

fn is_package(dir: &Path) -> bool {
    let name = dir.file_name().and_then(|name| name.to_str());
    let number = name.and_then(|name| name.strip_prefix(ZONE_PREFIX));
    let says = fs::read_to_string(dir.join("name")).unwrap_or_default();
    number.is_some_and(|number| number.parse::<u16>().is_ok())
        && says.starts_with(PACKAGE_NAME_PREFIX)
}

fn number(dir: &Path, file: &str) -> Option<u64> {
    fs::read_to_string(dir.join(file)).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The zones of a machine with two packages, with their `name` files.
    const ZONES: [(&str, &str); 4] = [
        ("intel-rapl:0", "package-0"),
        ("intel-rapl:1", "package-1"),
        ("intel-rapl:0:0", "core"),
        ("intel-rapl:2", "psys"),
    ];

    fn write(dir: &Path, zone: (&str, &str), energy: u64) {
        let dir = dir.join(zone.0);
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("name"), format!("{}\n", zone.1)).unwrap();
        fs::write(dir.join("energy_uj"), format!("{energy}\n")).unwrap();
        fs::write(dir.join("max_energy_range_uj"), "10000000\n").unwrap();
    }

    #[test]
    fn packages_are_summed_and_neither_their_parts_nor_the_whole_machine() {
        let root = tempfile::tempdir().unwrap();
        for zone in ZONES {
            write(root.path(), zone, 1_000_000);
        }
        let counter = EnergyCounter::open_in(root.path()).unwrap();
        let before = counter.read().unwrap();
        for zone in ZONES {
            write(root.path(), zone, 1_500_000);
        }
        let after = counter.read().unwrap();
        assert!((counter.joules(&before, &after) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_counter_that_began_again_counts_on() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), ZONES[0], 9_000_000);
        let counter = EnergyCounter::open_in(root.path()).unwrap();
        let before = counter.read().unwrap();
        write(root.path(), ZONES[0], 500_000);
        let after = counter.read().unwrap();
        assert!((counter.joules(&before, &after) - 1.5).abs() < 1e-9);
    }

    #[test]
    fn a_machine_without_counters_has_none() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("intel-rapl:0")).unwrap();
        assert!(EnergyCounter::open_in(root.path()).is_none());
        assert!(EnergyCounter::open_in(&root.path().join("missing")).is_none());
    }
}
