//! The served state, and its way to the cores.

use std::sync::Arc;

use nearflash_access::UnixTime;
use nearflash_device::{DeviceId, DeviceProperties, Health};
use nearflash_direct::serving as direct;
use nearflash_iscsi::serving as iscsi;
use nearflash_mirror::DeviceKind;
use nearflash_nvme::hosts::KeyedHosts;
use nearflash_nvme::serving::{NamespaceConfig, Port};
use nearflash_request::{HostRights, Raised, VolumeId};
use nearflash_space::VolumeTable;
use nearflash_units::index;

use crate::peers::PeerConfig;
use crate::records::Records;
use crate::{hosts, namespaces};

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

impl Devices {
    /// These devices, by number. They are local, unless they are mirrors, or volumes of other nodes.
    pub fn new(
        devices: impl IntoIterator<Item = (DeviceProperties, Arc<Health>)>,
        peers: Vec<PeerConfig>,
        mirrors: &[(DeviceId, DeviceKind)],
    ) -> Self {
        let (properties, health): (Vec<_>, Vec<_>) = devices.into_iter().unzip();
        let mut kinds = vec![DeviceKind::Local; properties.len()];
        for (device, kind) in mirrors {
            kinds[index(device.0)] = *kind;
        }
        for volume in peers.iter().flat_map(|peer| &peer.volumes) {
            kinds[index(volume.device.0)] = DeviceKind::Remote;
        }
        Self { properties: properties.into(), health: health.into(), kinds: kinds.into(), peers }
    }
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

impl Served {
    /// Serves everything that the records say at this time, except the hosts that have keys.
    pub fn follow(&mut self, records: &Records, now: UnixTime) {
        self.volumes = Arc::new(records.space.table());
        self.namespaces = namespaces::namespaces(records, &self.devices.properties);
        self.elsewhere = hosts::ports(&records.elsewhere);
        self.follow_rights(records);
        self.follow_clients(records, now);
    }

    /// Serves direct clients as the records say at this time.
    pub fn follow_clients(&mut self, records: &Records, now: UnixTime) {
        self.direct = Arc::new(crate::direct::exports(records, now));
    }

    /// Serves hosts and initiators by the rights that the records give them.
    pub fn follow_rights(&mut self, records: &Records) {
        self.rights = Arc::new(records.host_rights());
        self.follow_initiators(records);
    }

    /// Serves the units and the accounts of initiators as the records say.
    pub fn follow_initiators(&mut self, records: &Records) {
        let devices = &self.devices.properties;
        let exports = crate::iscsi::exports(records, devices, Arc::clone(&self.rights));
        self.iscsi = Arc::new(exports);
    }
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
