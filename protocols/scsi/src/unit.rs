//! The logical units of a target.

use std::sync::Arc;

use nearflash_request::{HostRight, Support, VolumeId};
use nearflash_units::{BlockSize, Blocks};

/// The effect of unmapping blocks. SBC-4, 4.7.3.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Provisioning {
    /// Unmapping is not supported: every block is mapped (LBPME 0).
    #[default]
    Full,
    /// Unmapped blocks read as zeroes and are anchored: they keep their storage.
    Resource,
    /// Unmapped blocks read as zeroes, and their storage is released.
    Thin,
}

/// One volume as a logical unit.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LogicalUnit {
    /// The logical unit number.
    pub lun: u16,
    /// The volume behind it.
    pub volume: VolumeId,
    /// The volume's identifier, from which the unit's designators are derived.
    pub uuid: [u8; 16],
    /// The volume's name.
    pub name: String,
    /// The logical block size.
    pub block_size: BlockSize,
    /// The number of logical blocks.
    pub blocks: Blocks,
    /// WCE: writes may be lost with the power until they are flushed.
    pub volatile_cache: bool,
    /// The effect of unmapping blocks.
    pub provisioning: Provisioning,
    /// The commands that it has.
    pub support: Support,
    /// Every node of the cluster serves it, each through a port of its own.
    pub on_every_node: bool,
    /// Read only, regardless of the control mode page.
    pub write_protected: bool,
    /// SWP of the control mode page: an initiator made the unit read only.
    pub software_write_protected: bool,
    /// D_SENSE of the control mode page: sense data in descriptor format.
    pub descriptor_sense: bool,
    /// Changes when the unit exports another volume.
    pub epoch: u64,
}

impl LogicalUnit {
    /// Whether unmapping is supported (LBPME).
    pub const fn unmaps(&self) -> bool {
        !matches!(self.provisioning, Provisioning::Full)
    }

    /// LOGICAL BLOCKS PER PHYSICAL BLOCK EXPONENT: initiators should write multiples of 4096 bytes,
    /// the internal write unit of most devices even if their smallest block is shorter.
    pub const fn blocks_per_physical_shift(&self) -> u8 {
        BlockSize::B4096.shift().saturating_sub(self.block_size.shift())
    }

    /// Whether writes are refused.
    pub const fn is_read_only(&self) -> bool {
        self.write_protected || self.software_write_protected
    }
}

/// The units of a target by number. A set is immutable and is replaced as a whole.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct LogicalUnits {
    target: Arc<str>,
    portal_group: u16,
    /// Those of other nodes.
    other_groups: Arc<[u16]>,
    /// Sorted by number.
    units: Box<[LogicalUnit]>,
}

impl LogicalUnits {
    /// The units of a target. Units above [`crate::limits::LUN_MAX`] are omitted.
    pub fn new(
        target: &str,
        portal_group: u16,
        units: impl IntoIterator<Item = LogicalUnit>,
    ) -> Self {
        let reachable = |unit: &LogicalUnit| unit.lun <= crate::limits::LUN_MAX;
        let mut units: Vec<_> = units.into_iter().filter(reachable).collect();
        units.sort_by_key(|unit| unit.lun);
        units.dedup_by_key(|unit| unit.lun);
        let other_groups = Arc::default();
        Self { target: target.into(), portal_group, other_groups, units: units.into() }
    }

    /// The same units, with the portal groups of other nodes. They lead to the units that every node serves.
    #[must_use]
    pub fn with_other_groups(self, other_groups: Arc<[u16]>) -> Self {
        Self { other_groups, ..self }
    }

    /// The units of these that a host sees, with its right on each volume. It may only read some of them.
    #[must_use]
    pub fn seen_with(&self, right_on: impl Fn(VolumeId) -> Option<HostRight>) -> Self {
        let seen = self.units.iter().filter_map(|unit| {
            let right = right_on(unit.volume)?;
            let write_protected = unit.write_protected || right == HostRight::Read;
            Some(LogicalUnit { write_protected, ..unit.clone() })
        });
        Self {
            target: Arc::clone(&self.target),
            portal_group: self.portal_group,
            other_groups: Arc::clone(&self.other_groups),
            units: seen.collect(),
        }
    }

    /// The unit with this number.
    pub fn get(&self, lun: u16) -> Option<&LogicalUnit> {
        // Numbers are usually dense, so the unit is usually at the index of its number.
        if let Some(unit) = self.units.get(usize::from(lun))
            && unit.lun == lun
        {
            return Some(unit);
        }
        let index = self.units.binary_search_by_key(&lun, |unit| unit.lun).ok()?;
        self.units.get(index)
    }

    /// All units, sorted by number.
    pub fn iter(&self) -> impl Iterator<Item = &LogicalUnit> {
        self.units.iter()
    }

    /// The number of units.
    pub fn len(&self) -> usize {
        self.units.len()
    }

    /// The target's iSCSI name.
    pub fn target(&self) -> &str {
        &self.target
    }

    /// The portal group tag, which is also the relative target port identifier of this node's only port, and
    /// the number of its target port group.
    pub const fn portal_group(&self) -> u16 {
        self.portal_group
    }

    /// The portal groups of all nodes that serve a unit, in order.
    pub fn portal_groups_of(&self, unit: &LogicalUnit) -> Vec<u16> {
        let others = self.other_groups.iter().filter(|_| unit.on_every_node);
        let mut groups: Vec<u16> = others.copied().chain([self.portal_group]).collect();
        groups.sort_unstable();
        groups.dedup();
        groups
    }

    /// Whether the portal groups of other nodes lead to a unit.
    pub fn is_on_every_node(&self) -> bool {
        self.units.iter().any(|unit| unit.on_every_node)
    }
}
