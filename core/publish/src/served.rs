//! The served state, and its way to the cores.

use std::sync::Arc;

use nearflash_device::{DeviceProperties, Health};
use nearflash_direct::serving as direct;
use nearflash_iscsi::serving as iscsi;
use nearflash_mirror::DeviceKind;
use nearflash_nvme::hosts::KeyedHosts;
use nearflash_nvme::serving::{NamespaceConfig, Port};
use nearflash_request::{HostRights, Raised, VolumeId};
use nearflash_space::VolumeTable;

use crate::peers::PeerConfig;

/// The devices of a node.
#[derive(Debug, Default)]
pub struct Devices {
    /// Their properties, by number.
    pub properties: Arc<[DeviceProperties]>,
    /// Their health, by the same number.
    pub health: Arc<[Arc<Health>]>,
    /// Their kinds, by the same number. The local ones come first.
    pub kinds: Arc<[DeviceKind]>,
    /// Other nodes. Each remote device is a volume of one of them.
    pub peers: Vec<PeerConfig>,
}

/// Everything that a node serves. A part that a change leaves alone is the same `Arc` as before, so
/// a core compares pointers first.
#[derive(Clone, Debug, Default)]
pub struct Served {
    /// The devices. Later values have further ones, which are not local.
    pub devices: Arc<Devices>,
    /// The volumes.
    pub volumes: Arc<VolumeTable>,
    /// The namespaces for NVMe hosts.
    pub namespaces: Arc<[NamespaceConfig]>,
    /// The rights of hosts on them.
    pub rights: Arc<HostRights>,
    /// The ports of other nodes, which have the namespaces of the cluster, too.
    pub elsewhere: Arc<[Port]>,
    /// The NVMe hosts that have keys.
    pub keyed: Arc<KeyedHosts>,
    /// The volumes and rights of direct clients.
    pub direct: Arc<direct::Exports>,
    /// The targets, accounts and rights of iSCSI initiators.
    pub iscsi: Arc<iscsi::Exports>,
}

/// One new state for a core.
#[derive(Clone, Debug)]
pub struct Publication {
    /// Its number. The answers of the core have it.
    pub number: u64,
    /// The state from now on.
    pub served: Arc<Served>,
    /// Events for sessions, in their order.
    pub raised: Arc<[Raised]>,
    /// The core waits for every request on these volumes that came before the publication.
    pub quiesce: Arc<[VolumeId]>,
}

impl Publication {
    /// One publication in place of two of which the core has got neither.
    pub(crate) fn merged(&self, later: &Self) -> Self {
        let mut quiesce = [&*self.quiesce, &*later.quiesce].concat();
        quiesce.sort_unstable();
        quiesce.dedup();
        Self {
            number: later.number,
            served: Arc::clone(&later.served),
            raised: [&*self.raised, &*later.raised].concat().into(),
            quiesce: quiesce.into(),
        }
    }
}
