//! The records of devices and volumes. Names and meanings of their fields are permanent; a field
//! that a later version adds has a default.

use nearflash_device::DeviceId;
use nearflash_media::{Device, Kind, KnownDevice};
use nearflash_request::VolumeId;
use nearflash_space::{
    Epoch, Extent, Home, Name, Preparation, Provisioning, Reservations, Space, Stripes, Volume,
};
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
    /// Whether a label on the device identifies it; RAM and the null device have none.
    pub(super) labelled: bool,
    /// It failed to make something durable, and nobody has cleared that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) suspect: bool,
}

/// A volume, found by its UUID.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct VolumeRecord {
    pub(super) name: String,
    block_size: u32,
    blocks: u64,
    subsystem: String,
    nsid: u32,
    epoch: u64,
    /// The extents, in order. Consecutive extents on one device share an entry.
    pub(super) extents: Vec<ExtentsRecord>,
    #[serde(default)]
    provisioning: ProvisioningRecord,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    preparing: Option<PreparationRecord>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reservations: Option<ReservationsRecord>,
}

/// Extents of one device.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExtentsRecord {
    /// The UUID of the device.
    pub(super) device: Uuid,
    /// The start and the length of each run, in bytes.
    runs: Vec<(u64, u64)>,
}

/// The blocks of a volume that are not yet visible to hosts.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
struct PreparationRecord {
    /// The volume's number of blocks once they are prepared.
    blocks: u64,
    /// The number of the job that prepares them.
    job: u64,
}

/// A volume's provisioning. Records without this field are of thin volumes.
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
        let (bytes, suspect) = (device.properties().len.0, device.health().is_suspect());
        Self { uuid: device.uuid(), bytes, labelled, suspect }
    }

    pub(super) fn known(&self, name: &Name) -> KnownDevice {
        KnownDevice { name: name.clone(), uuid: self.uuid, len: ByteLen(self.bytes) }
    }
}

impl VolumeRecord {
    pub(super) fn of(volume: &Volume, space: &Space) -> Self {
        let mut extents: Vec<ExtentsRecord> = Vec::new();
        for extent in &volume.extents {
            let device = space.device(extent.device).uuid;
            let run = (extent.start.0, extent.len.0);
            match extents.last_mut().filter(|last| last.device == device) {
                Some(last) => last.runs.push(run),
                None => extents.push(ExtentsRecord { device, runs: vec![run] }),
            }
        }
        Self {
            name: volume.name.to_string(),
            block_size: volume.block_size.bytes(),
            blocks: volume.blocks.0,
            subsystem: volume.subsystem.to_string(),
            nsid: volume.nsid,
            epoch: volume.epoch.0,
            extents,
            provisioning: match volume.provisioning {
                Provisioning::Thin => ProvisioningRecord::Thin,
                Provisioning::Thick => ProvisioningRecord::Thick,
            },
            preparing: volume
                .preparing
                .map(|it| PreparationRecord { blocks: it.blocks.0, job: it.job }),
            reservations: ReservationsRecord::of(&volume.reservations),
        }
    }

    /// The UUIDs of the devices that hold the volume.
    pub(super) fn devices(&self) -> impl Iterator<Item = Uuid> {
        self.extents.iter().map(|extents| extents.device)
    }

    /// The volume; `None` when a field holds a value that no version writes, or `known` does not
    /// know a device.
    pub(super) fn volume(
        &self,
        uuid: Uuid,
        known: impl Fn(Uuid) -> Option<DeviceId>,
    ) -> Option<Volume> {
        let mut extents = Vec::new();
        for ExtentsRecord { device, runs } in &self.extents {
            let device = known(*device)?;
            let extent = |&(start, len): &(u64, u64)| Extent {
                device,
                start: ByteOffset(start),
                len: ByteLen(len),
            };
            extents.extend(runs.iter().map(extent));
        }
        Some(Volume {
            id: VolumeId(0),
            uuid,
            name: self.name.parse().ok()?,
            block_size: BlockSize::from_bytes(self.block_size)?,
            blocks: Blocks(self.blocks),
            preparing: self.preparing.map(|PreparationRecord { blocks, job }| Preparation {
                blocks: Blocks(blocks),
                job,
            }),
            subsystem: self.subsystem.parse().ok()?,
            nsid: self.nsid,
            epoch: Epoch(self.epoch),
            extents,
            provisioning: match self.provisioning {
                ProvisioningRecord::Thin => Provisioning::Thin,
                ProvisioningRecord::Thick => Provisioning::Thick,
            },
            reservations: match &self.reservations {
                Some(record) => record.reservations()?,
                None => Reservations::default(),
            },
            home: Home::Node,
            stripes: Stripes::NONE,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_whose_record_names_neither_is_thin_and_not_reserved() {
        let text = r#"{"name":"data","block_size":4096,"blocks":768,"subsystem":"data","nsid":1,
            "epoch":1,"extents":[{"device":"00000000-0000-0000-0000-000000000007",
            "runs":[[0,3145728]]}]}"#;
        let record: VolumeRecord = serde_json::from_str(text).unwrap();
        let volume = record.volume(Uuid::from_u128(1), |_| Some(DeviceId(0))).unwrap();
        assert_eq!(volume.provisioning, Provisioning::Thin);
        assert_eq!(volume.reservations, Reservations::default());
    }
}
