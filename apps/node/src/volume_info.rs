//! Volumes in answers.

use nearflash_api::VolumeInfo;
use nearflash_publish::subsystem_nqn;
use nearflash_space::{Space, Volume};

/// The names of the devices that hold a volume, separated by commas.
pub(crate) fn device_names(volume: &Volume, space: &Space) -> String {
    let names = volume.devices().into_iter().map(|id| space.device(id).name.as_str());
    names.collect::<Vec<_>>().join(",")
}

/// A volume in the form of a document.
pub(crate) fn volume_info(volume: &Volume, space: &Space) -> VolumeInfo {
    VolumeInfo {
        name: volume.name.to_string(),
        nqn: subsystem_nqn(&volume.subsystem).to_string(),
        nsid: volume.nsid,
        uuid: volume.uuid,
        bytes: if volume.is_empty() { volume.planned_len() } else { volume.len() }.0,
        block_size: volume.block_size.bytes(),
        device: device_names(volume, space),
        provisioning: volume.provisioning.to_string(),
        job: volume.preparing.map(|preparing| preparing.job),
        state: None,
        files: None,
    }
}
