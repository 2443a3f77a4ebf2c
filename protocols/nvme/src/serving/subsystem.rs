//! A subsystem: a name, a serial number, and a set of namespaces that can change.

use std::collections::BTreeMap;
use std::sync::Arc;

use nearflash_units::ByteLen;

use super::config::{NamespaceConfig, PublishError};
use crate::{Ascii, NAMESPACE_ID_MAX, NamespaceId, NamespaceTable, Nqn};

pub(super) type Namespaces = BTreeMap<NamespaceId, NamespaceConfig>;

/// A subsystem to which hosts connect.
#[derive(Debug)]
pub(super) struct Subsystem {
    pub(super) nqn: Nqn,
    pub(super) serial: Ascii<20>,
    pub(super) namespaces: Namespaces,
    /// The same namespaces for I/O.
    pub(super) table: Arc<NamespaceTable>,
    /// Incremented when the set of namespaces changes: the ANA change count.
    pub(super) generation: u64,
}

impl Subsystem {
    /// A subsystem without namespaces.
    pub(super) fn new(nqn: Nqn, serial_seed: u64) -> Self {
        Self {
            serial: serial_number(serial_seed, &nqn),
            nqn,
            namespaces: Namespaces::new(),
            table: Arc::new(NamespaceTable::new([], ByteLen(0))),
            generation: 0,
        }
    }

    /// Replaces the namespaces and returns the numbers of those that differ from before.
    pub(super) fn replace(
        &mut self,
        namespaces: Namespaces,
        transfer_len_max: ByteLen,
    ) -> Vec<NamespaceId> {
        let before = std::mem::replace(&mut self.namespaces, namespaces);
        let mut numbers: Vec<_> = before.keys().chain(self.namespaces.keys()).copied().collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers.retain(|nsid| before.get(nsid) != self.namespaces.get(nsid));
        if !numbers.is_empty() {
            let entries = self.namespaces.iter().map(|(nsid, config)| (*nsid, config.entry()));
            self.table = Arc::new(NamespaceTable::new(entries, transfer_len_max));
            self.generation += 1;
        }
        numbers
    }
}

/// Groups namespaces by subsystem.
pub(super) fn by_subsystem(
    namespaces: Vec<NamespaceConfig>,
) -> Result<BTreeMap<Nqn, Namespaces>, PublishError> {
    let mut subsystems: BTreeMap<Nqn, Namespaces> = BTreeMap::new();
    for config in namespaces {
        let (subsystem, namespace) = (config.subsystem.clone(), config.namespace);
        if subsystem.is_discovery() {
            return Err(PublishError::DiscoveryName);
        }
        if !(1..=NAMESPACE_ID_MAX).contains(&namespace.0) {
            return Err(PublishError::NamespaceNumber { subsystem, namespace });
        }
        let namespaces = subsystems.entry(subsystem.clone()).or_default();
        if namespaces.insert(namespace, config).is_some() {
            return Err(PublishError::Duplicate { subsystem, namespace });
        }
    }
    Ok(subsystems)
}

/// FNV-1a over the seed and the name, in hexadecimal: stable, and need not resist attacks.
fn serial_number(seed: u64, nqn: &Nqn) -> Ascii<20> {
    let start: u64 = 0xCBF2_9CE4_8422_2325;
    let bytes = seed.to_le_bytes().into_iter().chain(nqn.as_str().bytes());
    let hash = bytes
        .fold(start, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3));
    Ascii::new(&format!("{hash:016X}"))
}
