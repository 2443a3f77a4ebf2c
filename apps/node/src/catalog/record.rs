//! What the catalog writes of a device and of a volume. Names and meanings of these fields are for
//! ever; what a later version adds has a default.

use nearflash_device::DeviceId;
use nearflash_media::{Device, Kind, KnownDevice};
use nearflash_request::VolumeId;
use nearflash_space::{Epoch, Extent, Name, Provisioning, Reservations, Space, Volume};
use nearflash_units::{BlockSize, Blocks, ByteLen, ByteOffset};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::reservation_record::ReservationsRecord;

/// A device.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DeviceRecord {
    pub(super) uuid: Uuid,
    pub(super) bytes: u64,
    /// Its label says who it is; RAM and the null device have none.
    pub(super) labelled: bool,
}

/// A volume.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct VolumeRecord {
    uuid: Uuid,
    block_size: u32,
    blocks: u64,
    subsystem: String,
    nsid: u32,
    /// The UUID of its device.
    pub(super) device: Uuid,
    epoch: u64,
    /// Start and length in bytes of each extent, in order.
    extents: Vec<(u64, u64)>,
    #[serde(default)]
    provisioning: ProvisioningRecord,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reservations: Option<ReservationsRecord>,
}

/// Earlier volumes are thin.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum ProvisioningRecord {
    #[default]
    Thin,
    Thick,
}

impl DeviceRecord {
    pub(super) fn of(device: &Device) -> Self {
        let labelled = matches!(device.kind(), Kind::Uring(_));
        Self { uuid: device.uuid(), bytes: device.properties().len.0, labelled }
    }

    pub(super) fn known(&self, name: &Name) -> KnownDevice {
        KnownDevice { name: name.clone(), uuid: self.uuid, len: ByteLen(self.bytes) }
    }
}

impl VolumeRecord {
    pub(super) fn of(volume: &Volume, space: &Space) -> Self {
        Self {
            uuid: volume.uuid,
            block_size: volume.block_size.bytes(),
            blocks: volume.blocks.0,
            subsystem: volume.subsystem.to_string(),
            nsid: volume.nsid,
            device: space.device(volume.device).uuid,
            epoch: volume.epoch.0,
            extents: volume.extents.iter().map(|e| (e.start.0, e.len.0)).collect(),
            provisioning: match volume.provisioning {
                Provisioning::Thin => ProvisioningRecord::Thin,
                Provisioning::Thick => ProvisioningRecord::Thick,
            },
            reservations: ReservationsRecord::of(&volume.reservations),
        }
    }

    /// The volume, on that device; `None` when a field is none that was ever written.
    pub(super) fn volume(&self, name: &Name, device: DeviceId) -> Option<Volume> {
        let extent = |(start, len): &(u64, u64)| Extent {
            device,
            start: ByteOffset(*start),
            len: ByteLen(*len),
        };
        Some(Volume {
            id: VolumeId(0),
            uuid: self.uuid,
            name: name.clone(),
            block_size: BlockSize::from_bytes(self.block_size)?,
            blocks: Blocks(self.blocks),
            subsystem: self.subsystem.parse().ok()?,
            nsid: self.nsid,
            device,
            epoch: Epoch(self.epoch),
            extents: self.extents.iter().map(extent).collect(),
            provisioning: match self.provisioning {
                ProvisioningRecord::Thin => Provisioning::Thin,
                ProvisioningRecord::Thick => Provisioning::Thick,
            },
            reservations: match &self.reservations {
                Some(record) => record.reservations()?,
                None => Reservations::default(),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_of_an_older_catalog_is_thin_and_nobody_has_reserved_it() {
        let text = r#"{"uuid":"00000000-0000-0000-0000-000000000015","block_size":4096,
            "blocks":768,"subsystem":"data","nsid":1,
            "device":"00000000-0000-0000-0000-000000000007","epoch":1,"extents":[[0,3145728]]}"#;
        let record: VolumeRecord = serde_json::from_str(text).unwrap();
        let volume = record.volume(&"data".parse().unwrap(), DeviceId(0)).unwrap();
        assert_eq!(volume.provisioning, Provisioning::Thin);
        assert_eq!(volume.reservations, Reservations::default());
    }
}
