//! What hosts are shown of the space.

use std::sync::Arc;

use nearflash_media::Device;
use nearflash_nvme::{NamespaceId, Nqn};
use nearflash_space::{Name, Space, Volume};

use crate::api::VolumeInfo;
use crate::{Namespace, Published};

/// What every subsystem's NQN begins with; its name follows.
pub const NQN_PREFIX: &str = "nqn.2026-11.io.nearflash:";

/// The NQN of the subsystem of that name.
///
/// # Panics
/// Never: a name is short, and has no character that an NQN may not have.
pub fn subsystem_nqn(name: &Name) -> Nqn {
    Nqn::new(&format!("{NQN_PREFIX}{name}")).expect("a prefix and a name are an NQN")
}

/// What is served of a space on these devices.
pub(crate) fn published(space: &Space, devices: &[Arc<Device>]) -> Published {
    let mut volumes: Vec<&Volume> = space.volumes().collect();
    volumes.sort_by_key(|volume| (&volume.subsystem, volume.nsid));
    let namespace = |volume: &Volume| {
        let device = usize::try_from(volume.device.0).ok().and_then(|index| devices.get(index));
        let properties = device.expect("volumes lie on opened devices").properties();
        Namespace {
            subsystem: subsystem_nqn(&volume.subsystem),
            nsid: NamespaceId(volume.nsid),
            uuid: volume.uuid,
            volume: volume.id,
            block_size: volume.block_size,
            blocks: volume.blocks,
            volatile_cache: properties.volatile_cache,
            deallocates: properties.deallocates,
        }
    };
    let namespaces = volumes.into_iter().map(namespace).collect();
    Published { volumes: Arc::new(space.table()), namespaces }
}

/// A volume, as documents show it.
pub(crate) fn volume_info(volume: &Volume, space: &Space) -> VolumeInfo {
    VolumeInfo {
        name: volume.name.to_string(),
        nqn: subsystem_nqn(&volume.subsystem).to_string(),
        nsid: volume.nsid,
        uuid: volume.uuid,
        bytes: volume.len().0,
        block_size: volume.block_size.bytes(),
        device: space.device(volume.device).name.to_string(),
    }
}
