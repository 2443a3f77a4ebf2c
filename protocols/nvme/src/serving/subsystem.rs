//! A subsystem: a name, a serial number, and a set of namespaces that can change. A host sees those of them
//! that its rights allow: its [`View`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nearflash_request::{HostRight, HostRights};
use nearflash_units::ByteLen;

use super::config::{NamespaceConfig, PublishError};
use crate::{Ascii, HostName, NAMESPACE_ID_MAX, NamespaceId, NamespaceTable, Nqn};

pub(super) type Namespaces = BTreeMap<NamespaceId, NamespaceConfig>;

/// The namespaces that a host sees. Write protection for the host is a property of a namespace here.
#[derive(Debug)]
pub(super) struct View {
    pub(super) namespaces: Namespaces,
    /// The same namespaces for I/O.
    pub(super) table: Arc<NamespaceTable>,
}

impl View {
    fn new(namespaces: Namespaces, transfer_len_max: ByteLen) -> Self {
        let entries = namespaces.iter().map(|(nsid, config)| (*nsid, config.entry()));
        let table = Arc::new(NamespaceTable::new(entries, transfer_len_max));
        Self { namespaces, table }
    }

    /// No namespaces.
    pub(super) fn empty() -> Arc<Self> {
        Arc::new(Self::new(Namespaces::new(), ByteLen(0)))
    }

    /// The numbers of the namespaces that differ between this view and another one, in order.
    pub(super) fn differences(&self, other: &Self) -> Vec<NamespaceId> {
        let (before, after) = (&self.namespaces, &other.namespaces);
        let mut numbers: Vec<_> = before.keys().chain(after.keys()).copied().collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers.retain(|nsid| before.get(nsid) != after.get(nsid));
        numbers
    }
}

/// A subsystem to which hosts connect.
#[derive(Debug)]
pub(super) struct Subsystem {
    pub(super) serial: Ascii<20>,
    /// All of its namespaces.
    pub(super) all: Arc<View>,
    /// Incremented when the set of namespaces changes, or the part that a host sees: the ANA change count.
    pub(super) generation: u64,
}

impl Subsystem {
    /// A subsystem without namespaces.
    pub(super) fn new(nqn: &Nqn, serial_seed: u64) -> Self {
        Self { serial: serial_number(serial_seed, nqn), all: View::empty(), generation: 0 }
    }

    pub(super) fn replace(&mut self, namespaces: Namespaces, transfer_len_max: ByteLen) {
        if self.all.namespaces != namespaces {
            self.all = Arc::new(View::new(namespaces, transfer_len_max));
            self.generation += 1;
        }
    }

    /// The namespaces that a host sees.
    pub(super) fn view(&self, host: &HostName, rights: &HostRights) -> Arc<View> {
        let host = name_of(host);
        if rights.is_unlimited(host) {
            return Arc::clone(&self.all);
        }
        let seen = self.all.namespaces.iter().filter_map(|(nsid, config)| {
            let right = rights.on(host, config.volume)?;
            let write_protected = config.write_protected || right == HostRight::Read;
            Some((*nsid, NamespaceConfig { write_protected, ..config.clone() }))
        });
        Arc::new(View::new(seen.collect(), self.all.table.transfer_len_max()))
    }

    /// Whether other nodes of the cluster serve a namespace of the subsystem, too.
    pub(super) fn is_on_every_node(&self) -> bool {
        self.all.namespaces.values().any(|config| config.on_every_node)
    }

    /// Whether a host sees any namespace of the subsystem.
    pub(super) fn is_seen_by(&self, host: &HostName, rights: &HostRights) -> bool {
        let mut all = self.all.namespaces.values();
        all.any(|config| rights.on(name_of(host), config.volume).is_some())
    }
}

/// The name by which the rule knows a host.
fn name_of(host: &HostName) -> Option<&str> {
    match host {
        HostName::Named(host) => Some(host.as_str()),
        HostName::Unnamed => None,
    }
}

/// The subsystems with namespaces in which two lists differ. The lists have the same order, so what they begin
/// and end with in common is found in one pass.
pub(super) fn subsystems_that_differ(
    old: &[NamespaceConfig],
    new: &[NamespaceConfig],
) -> BTreeSet<Nqn> {
    let same = old.iter().zip(new).take_while(|(old, new)| old == new).count();
    let (old, new) = (&old[same..], &new[same..]);
    let same = old.iter().rev().zip(new.iter().rev()).take_while(|(old, new)| old == new).count();
    let (old, new) = (&old[..old.len() - same], &new[..new.len() - same]);
    old.iter().chain(new).map(|config| config.subsystem.clone()).collect()
}

/// Groups namespaces by subsystem.
pub(super) fn by_subsystem<'namespaces>(
    namespaces: impl Iterator<Item = &'namespaces NamespaceConfig>,
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
        if namespaces.insert(namespace, config.clone()).is_some() {
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
