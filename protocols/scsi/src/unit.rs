//! The logical units of a target, as its initiators see them.

use std::sync::Arc;

use nearflash_request::VolumeId;
use nearflash_units::{BlockSize, Blocks};

/// What becomes of blocks that an initiator unmaps. SBC-4, 4.7.3.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Provisioning {
    /// None can be: every block is mapped (LBPME 0).
    #[default]
    Full,
    /// They read as zeroes, and keep their storage: they are anchored.
    Resource,
    /// They read as zeroes, and their storage is released.
    Thin,
}

/// One volume as a logical unit.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LogicalUnit {
    /// Its number.
    pub lun: u16,
    /// The volume behind it.
    pub volume: VolumeId,
    /// The volume's identifier, which the unit's names are made of.
    pub uuid: [u8; 16],
    /// The volume's name.
    pub name: String,
    /// Size of a logical block.
    pub block_size: BlockSize,
    /// How many logical blocks.
    pub blocks: Blocks,
    /// What was written may be lost with the power until it is flushed (WCE).
    pub volatile_cache: bool,
    /// What becomes of blocks that are unmapped.
    pub provisioning: Provisioning,
    /// Read only, whatever the control mode page says.
    pub write_protected: bool,
    /// SWP of the control mode page: read only because an initiator said so.
    pub software_write_protected: bool,
    /// D_SENSE of the control mode page: sense data in descriptor format.
    pub descriptor_sense: bool,
    /// Changes whenever the volume is another one than before.
    pub epoch: u64,
}

impl LogicalUnit {
    /// Whether blocks can be unmapped (LBPME).
    pub const fn unmaps(&self) -> bool {
        !matches!(self.provisioning, Provisioning::Full)
    }

    /// LOGICAL BLOCKS PER PHYSICAL BLOCK EXPONENT: initiators best write multiples of 4096 bytes, which is
    /// what most devices write at once whatever the smallest block is that they take.
    pub const fn blocks_per_physical_shift(&self) -> u8 {
        BlockSize::B4096.shift().saturating_sub(self.block_size.shift())
    }

    /// Whether nothing may be written.
    pub const fn is_read_only(&self) -> bool {
        self.write_protected || self.software_write_protected
    }
}

/// What a target's initiators reach, by number. Never changed, only replaced whole.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct LogicalUnits {
    target: Arc<str>,
    portal_group: u16,
    /// In the order of their numbers.
    units: Box<[LogicalUnit]>,
}

impl LogicalUnits {
    /// The units of the target of that iSCSI name, reached through that portal group. Units past
    /// [`crate::limits::LUN_MAX`] are left out.
    pub fn new(
        target: &str,
        portal_group: u16,
        units: impl IntoIterator<Item = LogicalUnit>,
    ) -> Self {
        let reachable = |unit: &LogicalUnit| unit.lun <= crate::limits::LUN_MAX;
        let mut units: Vec<_> = units.into_iter().filter(reachable).collect();
        units.sort_by_key(|unit| unit.lun);
        units.dedup_by_key(|unit| unit.lun);
        Self { target: target.into(), portal_group, units: units.into() }
    }

    /// The unit of that number.
    pub fn get(&self, lun: u16) -> Option<&LogicalUnit> {
        // Numbers are dense as a rule: the unit is mostly where its number says.
        if let Some(unit) = self.units.get(usize::from(lun))
            && unit.lun == lun
        {
            return Some(unit);
        }
        let index = self.units.binary_search_by_key(&lun, |unit| unit.lun).ok()?;
        self.units.get(index)
    }

    /// All of them, in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = &LogicalUnit> {
        self.units.iter()
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.units.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.units.is_empty()
    }

    /// The target's iSCSI name.
    pub fn target(&self) -> &str {
        &self.target
    }

    /// The tag of the portal group: also the relative identifier of the target's one port.
    pub const fn portal_group(&self) -> u16 {
        self.portal_group
    }
}
