//! The record of a volume whose pieces are runs of blocks of this node's devices.
//!
//! This is the form that the volumes of both stores share from schema 2 on: a later version adds other layouts
//! to [`Layout`], and no field of this one changes.

use nearflash_device::DeviceId;
use nearflash_request::VolumeId;
use nearflash_space::{
    Epoch, Extent, Home, Name, Preparation, Provisioning, Reservations, Space, Stripes, Volume,
};
use nearflash_units::{BlockSize, Blocks, ByteLen, ByteOffset};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::record::{Record, VolumeState, as_text};

/// The schema of these records, which is always 2.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct VolumeSchema;

const SCHEMA: u32 = 2;

impl TryFrom<u32> for VolumeSchema {
    type Error = &'static str;

    fn try_from(schema: u32) -> Result<Self, &'static str> {
        (schema == SCHEMA).then_some(Self).ok_or("unknown schema")
    }
}

impl From<VolumeSchema> for u32 {
    fn from(_: VolumeSchema) -> Self {
        SCHEMA
    }
}

/// A volume, found by its UUID.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct VolumeRecord {
    /// The schema.
    pub schema: VolumeSchema,
    /// Its name, unique at the node.
    #[serde(with = "as_text")]
    pub name: Name,
    /// The subsystem that has its namespace.
    #[serde(with = "as_text")]
    pub subsystem: Name,
    /// The namespace id.
    pub nsid: u32,
    /// Its block size, in bytes.
    pub block_size: u32,
    /// Its length in blocks, as hosts see it.
    pub blocks: u64,
    /// The number of its layout.
    pub epoch: u64,
    /// Thin or thick.
    #[serde(with = "as_text")]
    pub provisioning: Provisioning,
    /// Whether hosts see it.
    pub state: VolumeState,
    /// Its length in blocks once its job has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planned: Option<u64>,
    /// The one job that changes its layout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<u64>,
    /// Its place.
    pub layout: Layout,
}

/// The place of a volume.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layout {
    /// Runs of bytes, in order. Consecutive runs on one device share an entry, since a volume may have 4,096.
    Runs(Vec<Runs>),
}

/// Runs of bytes of one device.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Runs {
    /// The UUID of the device.
    pub device: Uuid,
    /// The start and the length of each run, in bytes.
    pub runs: Vec<(u64, u64)>,
}

impl Record for VolumeRecord {
    const SCHEMA: u32 = SCHEMA;
    /// 4,096 runs on as many devices.
    const LEN_MAX: usize = 1024 * 1024;

    fn check(&self) -> Result<(), &'static str> {
        match self {
            _ if BlockSize::from_bytes(self.block_size).is_none() => Err("block_size is unknown"),
            _ if self.planned.is_some() != self.job.is_some() => Err("planned needs a job"),
            _ if (self.blocks == 0) != (self.state == VolumeState::Making) => {
                Err("state is not that of its blocks")
            }
            _ => Ok(()),
        }
    }
}

impl VolumeRecord {
    /// The record of a volume of this node.
    pub fn of(volume: &Volume, space: &Space) -> Self {
        let mut layout: Vec<Runs> = Vec::new();
        for extent in &volume.extents {
            let device = space.device(extent.device).uuid;
            let run = (extent.start.0, extent.len.0);
            match layout.last_mut().filter(|last| last.device == device) {
                Some(last) => last.runs.push(run),
                None => layout.push(Runs { device, runs: vec![run] }),
            }
        }
        let state = if volume.is_empty() { VolumeState::Making } else { VolumeState::Ready };
        Self {
            schema: VolumeSchema,
            name: volume.name.clone(),
            subsystem: volume.subsystem.clone(),
            nsid: volume.nsid,
            block_size: volume.block_size.bytes(),
            blocks: volume.blocks.0,
            epoch: volume.epoch.0,
            provisioning: volume.provisioning,
            state,
            planned: volume.preparing.map(|it| it.blocks.0),
            job: volume.preparing.map(|it| it.job),
            layout: Layout::Runs(layout),
        }
    }

    /// The UUIDs of the devices that hold the volume.
    pub fn devices(&self) -> impl Iterator<Item = Uuid> {
        let Layout::Runs(layout) = &self.layout;
        layout.iter().map(|runs| runs.device)
    }

    /// The volume; `None` when a field holds a value that no version writes, or `known` does not know a device.
    pub fn volume(
        &self,
        uuid: Uuid,
        reservations: Reservations,
        known: impl Fn(Uuid) -> Option<DeviceId>,
    ) -> Option<Volume> {
        let Layout::Runs(layout) = &self.layout;
        let mut extents = Vec::new();
        for Runs { device, runs } in layout {
            let device = known(*device)?;
            let extent = |&(start, len): &(u64, u64)| Extent {
                device,
                start: ByteOffset(start),
                len: ByteLen(len),
            };
            extents.extend(runs.iter().map(extent));
        }
        let preparing = self.planned.zip(self.job);
        Some(Volume {
            id: VolumeId(0),
            uuid,
            name: self.name.clone(),
            block_size: BlockSize::from_bytes(self.block_size)?,
            blocks: Blocks(self.blocks),
            preparing: preparing.map(|(blocks, job)| Preparation { blocks: Blocks(blocks), job }),
            subsystem: self.subsystem.clone(),
            nsid: self.nsid,
            epoch: Epoch(self.epoch),
            extents,
            provisioning: self.provisioning,
            reservations,
            home: Home::Node,
            stripes: Stripes::NONE,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every later version reads records of this schema.
    #[test]
    fn the_text_of_a_volume_is_permanent() {
        let text = r#"{"schema":2,"name":"data","subsystem":"data","nsid":1,"block_size":4096,"blocks":768,"epoch":1,"provisioning":"thin","state":"ready","planned":1280,"job":1,"layout":{"runs":[{"device":"00000000-0000-0000-0000-000000000007","runs":[[0,3145728],[8388608,4096]]}]}}"#;
        let record = VolumeRecord::decode(text.as_bytes()).unwrap();
        assert_eq!(String::from_utf8(record.encode()).unwrap(), text);
        let reservations = Reservations::default();
        let volume = record.volume(Uuid::from_u128(1), reservations, |_| Some(DeviceId(0)));
        assert_eq!(volume.unwrap().extents.len(), 2);
        for damaged in [
            text.replace("\"job\":1,", ""),
            text.replace("ready", "making"),
            text.replace("4096,\"blocks", "3,\"blocks"),
            text.replacen('{', r#"{"encryption":"xts","#, 1),
        ] {
            assert!(VolumeRecord::decode(damaged.as_bytes()).is_err(), "{damaged}");
        }
        let later = VolumeRecord::decode(br#"{"schema":3}"#).unwrap_err();
        assert_eq!(later, crate::RecordError::TooNew(3));
    }
}
