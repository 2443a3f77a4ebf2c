//! The volumes as NVMe namespaces.

use std::sync::Arc;

use nearflash_device::DeviceProperties;
use nearflash_nvme::serving::{Deallocation, NamespaceConfig};
use nearflash_nvme::{NamespaceId, Nqn};
use nearflash_space::{Home, Name, Provisioning, Volume};
use nearflash_units::{BlockSize, index};

use crate::records::Records;

/// The prefix of every subsystem's NQN; the subsystem's name follows.
pub const NQN_PREFIX: &str = "nqn.2026-11.io.nearflash:";

/// The NQN of the subsystem with this name.
///
/// # Panics
/// Never: a name is short and has only characters that are valid in an NQN.
pub fn subsystem_nqn(name: &Name) -> Nqn {
    Nqn::new(&format!("{NQN_PREFIX}{name}")).expect("a prefix and a name are an NQN")
}

/// The namespaces that hosts see, ordered by subsystem and namespace.
pub(crate) fn namespaces(
    records: &Records,
    devices: &[DeviceProperties],
) -> Arc<[NamespaceConfig]> {
    let mut volumes: Vec<&Volume> = records.for_hosts().collect();
    volumes.sort_by_key(|volume| (&volume.subsystem, volume.nsid));
    volumes.into_iter().map(|volume| namespace(volume, devices)).collect()
}

fn namespace(volume: &Volume, devices: &[DeviceProperties]) -> NamespaceConfig {
    let medium = Medium::of(volume, devices);
    NamespaceConfig {
        subsystem: subsystem_nqn(&volume.subsystem),
        namespace: NamespaceId(volume.nsid),
        volume: volume.id,
        uuid: volume.uuid,
        block_size: volume.block_size,
        blocks: volume.blocks,
        device_block_size: medium.block_size,
        volatile_cache: medium.volatile_cache,
        deallocation: match medium.deallocates {
            true => Deallocation::ReadsZeroes,
            false => Deallocation::None,
        },
        support: volume.home.support(),
        on_every_node: volume.home == Home::Cluster,
        write_protected: false,
    }
}

/// The properties of a volume that its devices determine.
pub(crate) struct Medium {
    /// The smallest block size of the devices, which every one of them writes atomically.
    pub(crate) block_size: BlockSize,
    /// Completed writes may be lost on a power cut until a flush.
    pub(crate) volatile_cache: bool,
    /// Deallocated blocks release storage.
    pub(crate) deallocates: bool,
}

impl Medium {
    pub(crate) fn of(volume: &Volume, devices: &[DeviceProperties]) -> Self {
        let under = volume.devices().into_iter().map(|id| devices[index(id.0)]);
        let under: Vec<DeviceProperties> = under.collect();
        let smallest = under.iter().map(|device| device.block_size).min();
        Self {
            block_size: smallest.unwrap_or(BlockSize::B512),
            volatile_cache: under.iter().any(|device| device.volatile_cache),
            deallocates: volume.provisioning == Provisioning::Thin
                && under.iter().all(|device| device.deallocates),
        }
    }
}
