//! A volume: what it is called, how large it is, where it is exported, and where it lies.

use nearflash_request::VolumeId;
use nearflash_units::{BlockSize, Blocks, ByteLen};
use uuid::Uuid;

use crate::{
    EXTENTS_PER_VOLUME_MAX, Epoch, Extent, FreeSpace, Map, Name, Reservations, SpaceError,
    append_extents, truncate_extents,
};
use nearflash_device::DeviceId;

/// Whether a volume gives back what hosts no longer need.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Provisioning {
    /// Deallocated blocks are released where the device can do that.
    #[default]
    Thin,
    /// Every block keeps its storage: nothing is ever deallocated.
    Thick,
}

impl Provisioning {
    /// As people write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Thin => "thin",
            Self::Thick => "thick",
        }
    }
}

impl std::fmt::Display for Provisioning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a text is no provisioning.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("'{text}' is not a provisioning: write thin or thick")]
pub struct ParseProvisioningError {
    /// The text.
    pub text: String,
}

impl std::str::FromStr for Provisioning {
    type Err = ParseProvisioningError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = [Self::Thin, Self::Thick].into_iter().find(|it| it.name() == text);
        found.ok_or_else(|| ParseProvisioningError { text: text.to_owned() })
    }
}

/// A named range of blocks that applications see.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Volume {
    /// Its number for as long as the node runs.
    pub id: VolumeId,
    /// Its identity for ever; hosts see it as the namespace's UUID.
    pub uuid: Uuid,
    /// What users call it.
    pub name: Name,
    /// The size of its blocks.
    pub block_size: BlockSize,
    /// How many it has.
    pub blocks: Blocks,
    /// The subsystem that it is exported in.
    pub subsystem: Name,
    /// Its namespace's number there, from 1.
    pub nsid: u32,
    /// The device that it lies on, all of it.
    pub device: DeviceId,
    /// Grows with each change of its layout.
    pub epoch: Epoch,
    /// Where it lies, in order.
    pub extents: Vec<Extent>,
    /// Whether it gives back what hosts no longer need.
    pub provisioning: Provisioning,
    /// Who has registered and reserved, and modes.
    pub reservations: Reservations,
}

impl Volume {
    /// Its size.
    ///
    /// # Panics
    /// When no `u64` holds it, which no volume on a device is.
    pub fn len(&self) -> ByteLen {
        self.block_size.len(self.blocks).expect("a volume is no longer than its device")
    }

    /// Whether it has no blocks: never, by the rules of [`crate::Space`].
    pub fn is_empty(&self) -> bool {
        self.blocks.0 == 0
    }

    /// The map of its layout.
    ///
    /// # Errors
    /// When its extents cannot hold it: it came from a damaged catalog.
    pub fn map(&self) -> Result<Map, crate::MapError> {
        Map::new(self.epoch, self.block_size, self.blocks, &self.extents)
    }

    /// Makes it `blocks` long: takes from `free` what is missing, in place where that is free, or
    /// gives back what is too much.
    pub(crate) fn resize(
        &mut self,
        blocks: Blocks,
        free: &mut FreeSpace,
    ) -> Result<(), SpaceError> {
        let wanted = self.block_size.len(blocks).unwrap_or(ByteLen(u64::MAX));
        let held: u64 = self.extents.iter().map(|extent| extent.len.0).sum();
        if let Some(missing) = wanted.0.checked_sub(held).filter(|missing| *missing != 0) {
            let extents_max = EXTENTS_PER_VOLUME_MAX.saturating_sub(self.extents.len());
            let last = self.extents.last().copied();
            let fresh = free.allocate(ByteLen(missing), last, extents_max)?;
            append_extents(&mut self.extents, &fresh);
        } else {
            let cut = truncate_extents(&mut self.extents, wanted);
            cut.into_iter().for_each(|extent| free.release(extent));
        }
        self.blocks = blocks;
        self.epoch.0 += 1;
        Ok(())
    }
}
