//! The space of one node: its devices' data areas and the volumes laid out over them, and the
//! rules for changing either.
//!
//! A change is made on a copy, recorded durably, and only then shown to the cores. Nothing here
//! reads a clock or draws a number: identities come from outside.
//!
//! Invariants: names, ids and (subsystem, nsid) are each unique; every extent of a volume is taken
//! from its device's free space; a volume has at least one block.

use std::collections::BTreeMap;
use std::sync::Arc;

use nearflash_request::{Change, ChangeResult, Raised, Refusal, VolumeId};
use nearflash_units::{BlockSize, Blocks, ByteLen, ByteOffset};
use uuid::Uuid;

use crate::{
    Changed, EXTENTS_PER_VOLUME_MAX, Epoch, FreeSpace, MapError, Name, Provisioning, Reservations,
    SpaceError, VOLUME_IDS_MAX, Volume, VolumeEntry, VolumeTable,
};
use nearflash_device::DeviceId;

/// Most volumes that a node has at a time.
pub const VOLUMES_MAX: usize = 4096;

/// Most namespaces of one subsystem: as many as one active namespace list names.
pub const NAMESPACES_PER_SUBSYSTEM_MAX: u32 = 1024;

/// A device, as far as volumes on it are concerned.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SpaceDevice {
    /// What users call it.
    pub name: Name,
    /// What its label calls it.
    pub uuid: Uuid,
    /// The smallest unit that it writes whole: no volume on it has smaller blocks.
    pub block_size: BlockSize,
    /// What is free of its data area.
    pub free: FreeSpace,
}

/// A volume that is asked for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct VolumeRequest {
    /// What it is to be called.
    pub name: Name,
    /// How large.
    pub len: ByteLen,
    /// On which device.
    pub device: Name,
    /// In blocks of this size.
    pub block_size: BlockSize,
    /// In which subsystem; without, in one of its own name.
    pub subsystem: Option<Name>,
    /// Whether it gives back what hosts no longer need.
    pub provisioning: Provisioning,
}

impl VolumeRequest {
    /// The subsystem that it is exported in.
    pub fn subsystem(&self) -> &Name {
        self.subsystem.as_ref().unwrap_or(&self.name)
    }
}

/// Why a volume cannot be made, changed or removed: the configuration's fault.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum VolumeError {
    /// The name is taken.
    #[error("volume '{name}' exists already: choose another name, or resize or remove it")]
    Exists {
        /// Which.
        name: Name,
    },
    /// There is no such volume.
    #[error("no volume '{name}': 'nearflash volume list' names all")]
    NotFound {
        /// Which.
        name: Name,
    },
    /// There is no such device.
    #[error("volume '{volume}': no device '{device}', known are {known}")]
    NoDevice {
        /// The volume asked for.
        volume: Name,
        /// The device asked for.
        device: Name,
        /// All there are.
        known: NameList,
    },
    /// The size is no number of blocks.
    #[error("volume '{name}': {len} is not a whole number of {block_size}-byte blocks")]
    Size {
        /// Which.
        name: Name,
        /// What was asked for.
        len: ByteLen,
        /// The size of its blocks.
        block_size: BlockSize,
    },
    /// The device cannot write blocks so small.
    #[error(
        "volume '{name}': device '{device}' writes {device_block_size} bytes at once, \
         blocks of {block_size} are too small: use block-size={device_block_size}"
    )]
    BlockSize {
        /// Which.
        name: Name,
        /// The size asked for.
        block_size: BlockSize,
        /// On which device.
        device: Name,
        /// What it writes whole.
        device_block_size: BlockSize,
    },
    /// The device has not enough left.
    #[error("volume '{name}': device '{device}' is full: {source}")]
    NoSpace {
        /// Which.
        name: Name,
        /// On which device.
        device: Name,
        /// How full.
        source: SpaceError,
    },
    /// The new size is smaller and nobody said that the rest may go.
    #[error(
        "volume '{name}' is {from} and would lose what lies behind {to}: \
         add --shrink if that is meant"
    )]
    WouldShrink {
        /// Which.
        name: Name,
        /// Its size.
        from: ByteLen,
        /// The size asked for.
        to: ByteLen,
    },
    /// A bound is reached.
    #[error("volume '{name}': {bound}")]
    TooMany {
        /// Which.
        name: Name,
        /// Which bound, and what to do.
        bound: &'static str,
    },
}

/// Names, with commas between.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NameList(pub Vec<Name>);

impl std::fmt::Display for NameList {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.is_empty() {
            return f.write_str("none");
        }
        for (index, name) in self.0.iter().enumerate() {
            write!(f, "{}{name}", if index == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

/// Why recorded volumes do not fit the devices: the record is damaged or another's.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum RestoreError {
    /// An extent is taken twice or outside the device.
    #[error("volume '{volume}' on device '{device}': {source}")]
    Extent {
        /// Whose.
        volume: Name,
        /// Where.
        device: Name,
        /// What is wrong with it.
        source: SpaceError,
    },
    /// The extents make no map.
    #[error("volume '{volume}': {source}")]
    Map {
        /// Whose.
        volume: Name,
        /// What is wrong with them.
        source: MapError,
    },
    /// Two volumes have one name, id or namespace.
    #[error("volume '{volume}' is recorded twice, by name or by namespace")]
    Twice {
        /// Which.
        volume: Name,
    },
    /// A field that no version of ours writes.
    #[error("volume '{volume}': {field} is invalid")]
    Field {
        /// Whose.
        volume: Name,
        /// Which.
        field: &'static str,
    },
}

/// All devices and volumes of a node.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Space {
    /// Their ids are their places.
    devices: Vec<SpaceDevice>,
    volumes: BTreeMap<Name, Volume>,
    next_id: u32,
}

impl Space {
    /// A space of these devices, whose ids are their places, and no volumes.
    pub fn new(devices: Vec<SpaceDevice>) -> Self {
        Self { devices, volumes: BTreeMap::new(), next_id: 0 }
    }

    /// Puts a recorded volume back where it lies. Its id is given anew.
    ///
    /// # Errors
    /// When it does not fit: nothing else of the record is to be trusted either.
    pub fn restore(&mut self, volume: Volume) -> Result<(), RestoreError> {
        let name = volume.name.clone();
        let refused = |field| RestoreError::Field { volume: name.clone(), field };
        if !(1..=NAMESPACES_PER_SUBSYSTEM_MAX).contains(&volume.nsid) {
            return Err(refused("the namespace's number"));
        }
        if volume.is_empty() {
            return Err(refused("the number of blocks"));
        }
        let nsid_taken = self.volumes.values().any(|v| {
            v.uuid == volume.uuid || (&v.subsystem, v.nsid) == (&volume.subsystem, volume.nsid)
        });
        if nsid_taken || self.volumes.contains_key(&name) {
            return Err(RestoreError::Twice { volume: name });
        }
        volume.map().map_err(|source| RestoreError::Map { volume: name.clone(), source })?;
        for extent in &volume.extents {
            let device = self.device_mut(volume.device);
            device.free.reserve(*extent).map_err(|source| RestoreError::Extent {
                volume: name.clone(),
                device: device.name.clone(),
                source,
            })?;
        }
        let id = self.take_id();
        self.volumes.insert(name, Volume { id, ..volume });
        Ok(())
    }

    /// Every device; ids are places.
    pub fn devices(&self) -> &[SpaceDevice] {
        &self.devices
    }

    /// The device of that id.
    ///
    /// # Panics
    /// When there is none: ids come from here.
    pub fn device(&self, id: DeviceId) -> &SpaceDevice {
        &self.devices[index(id)]
    }

    /// Every volume, by name.
    pub fn volumes(&self) -> impl ExactSizeIterator<Item = &Volume> {
        self.volumes.values()
    }

    /// The volume of that name.
    pub fn volume(&self, name: &Name) -> Option<&Volume> {
        self.volumes.get(name)
    }

    /// Makes a volume.
    ///
    /// # Errors
    /// When it cannot be. Nothing has changed then.
    pub fn create(&mut self, asked: &VolumeRequest, uuid: Uuid) -> Result<&Volume, VolumeError> {
        let name = &asked.name;
        if self.volumes.contains_key(name) {
            return Err(VolumeError::Exists { name: name.clone() });
        }
        let device = self.device_named(asked)?;
        let blocks = whole_blocks(name, asked.len, asked.block_size)?;
        let place = self.device(device);
        if asked.block_size.bytes() < place.block_size.bytes() {
            return Err(VolumeError::BlockSize {
                name: name.clone(),
                block_size: asked.block_size,
                device: place.name.clone(),
                device_block_size: place.block_size,
            });
        }
        let nsid = self.next_nsid(name, asked.subsystem())?;
        if self.volumes.len() >= VOLUMES_MAX {
            return Err(too_many(name, "4096 volumes are the most: remove one first"));
        }
        if self.next_id >= VOLUME_IDS_MAX {
            return Err(too_many(name, "65536 volumes were made in one run: restart the node"));
        }
        let place = self.device_mut(device);
        let extents = place
            .free
            .allocate(asked.len, None, EXTENTS_PER_VOLUME_MAX)
            .map_err(|source| no_space(name, &place.name, source))?;
        let volume = Volume {
            id: self.take_id(),
            uuid,
            name: name.clone(),
            block_size: asked.block_size,
            blocks,
            subsystem: asked.subsystem().clone(),
            nsid,
            device,
            epoch: Epoch(1),
            extents,
            provisioning: asked.provisioning,
            reservations: Reservations::default(),
        };
        Ok(self.volumes.entry(name.clone()).or_insert(volume))
    }

    /// Makes a volume longer, or shorter when `shrink` allows it.
    ///
    /// # Errors
    /// When it cannot be. Nothing has changed then.
    pub fn resize(
        &mut self,
        name: &Name,
        len: ByteLen,
        shrink: bool,
    ) -> Result<&Volume, VolumeError> {
        let not_found = || VolumeError::NotFound { name: name.clone() };
        let volume = self.volumes.get_mut(name).ok_or_else(not_found)?;
        let blocks = whole_blocks(name, len, volume.block_size)?;
        if blocks < volume.blocks && !shrink {
            return Err(VolumeError::WouldShrink {
                name: name.clone(),
                from: volume.len(),
                to: len,
            });
        }
        if blocks != volume.blocks {
            let device = &mut self.devices[index(volume.device)];
            volume
                .resize(blocks, &mut device.free)
                .map_err(|source| no_space(name, &device.name, source))?;
        }
        Ok(volume)
    }

    /// Removes a volume and gives its space back.
    ///
    /// # Errors
    /// When there is none of that name.
    pub fn remove(&mut self, name: &Name) -> Result<Volume, VolumeError> {
        let not_found = || VolumeError::NotFound { name: name.clone() };
        let volume = self.volumes.remove(name).ok_or_else(not_found)?;
        let free = &mut self.device_mut(volume.device).free;
        volume.extents.iter().for_each(|extent| free.release(*extent));
        Ok(volume)
    }

    /// What every core needs of the volumes.
    ///
    /// # Panics
    /// Never: volumes here are checked when they come in.
    pub fn table(&self) -> VolumeTable {
        let entry = |volume: &Volume| VolumeEntry {
            provisioning: volume.provisioning,
            restriction: volume.reservations.restriction().map(Arc::new),
            ..volume.map().expect("extents of the space hold their volume").into()
        };
        VolumeTable::new(self.volumes.values().map(|volume| (volume.id, entry(volume))))
    }

    /// Makes a change of what all sessions of a volume share. It is to be recorded if what the
    /// volume's [`Reservations::persistent`] says differs, and shown to the cores if its
    /// [`Reservations::restriction`] does, or if what was asked before has to be over.
    pub fn apply(&mut self, change: &Change) -> Changed {
        match self.volumes.values_mut().find(|volume| volume.id == change.volume) {
            Some(volume) => volume.reservations.apply(change),
            None => (ChangeResult::Refused(Refusal::VolumeGone), Vec::new()),
        }
    }

    /// Ends every registration and reservation of a volume, by the operator's word.
    ///
    /// # Errors
    /// When there is none of that name.
    pub fn clear_reservations(&mut self, name: &Name) -> Result<Vec<Raised>, VolumeError> {
        let not_found = || VolumeError::NotFound { name: name.clone() };
        let volume = self.volumes.get_mut(name).ok_or_else(not_found)?;
        Ok(volume.reservations.clear_all(volume.id))
    }

    fn device_named(&self, asked: &VolumeRequest) -> Result<DeviceId, VolumeError> {
        let place = (0u32..).zip(&self.devices).find(|(_, device)| device.name == asked.device);
        place.map(|(id, _)| DeviceId(id)).ok_or_else(|| VolumeError::NoDevice {
            volume: asked.name.clone(),
            device: asked.device.clone(),
            known: NameList(self.devices.iter().map(|device| device.name.clone()).collect()),
        })
    }

    fn device_mut(&mut self, id: DeviceId) -> &mut SpaceDevice {
        &mut self.devices[index(id)]
    }

    /// The number behind the highest in use, so that a host does not find another volume under a
    /// number that it still remembers; the lowest free one when that is past the bound.
    fn next_nsid(&self, name: &Name, subsystem: &Name) -> Result<u32, VolumeError> {
        let volumes = self.volumes.values().filter(|volume| volume.subsystem == *subsystem);
        let taken: std::collections::BTreeSet<u32> = volumes.map(|volume| volume.nsid).collect();
        let behind = taken.last().map_or(1, |last| last.saturating_add(1));
        (behind..=NAMESPACES_PER_SUBSYSTEM_MAX)
            .chain(1..=NAMESPACES_PER_SUBSYSTEM_MAX)
            .find(|nsid| !taken.contains(nsid))
            .ok_or_else(|| {
                too_many(name, "1024 volumes are the most in one subsystem: use another")
            })
    }

    fn take_id(&mut self) -> VolumeId {
        self.next_id += 1;
        VolumeId(self.next_id - 1)
    }
}

/// A device's data area with nothing taken, as [`Space::new`] wants it.
pub fn empty_device(
    id: DeviceId,
    name: Name,
    uuid: Uuid,
    block_size: BlockSize,
    data_area: (ByteOffset, ByteLen),
) -> SpaceDevice {
    SpaceDevice { name, uuid, block_size, free: FreeSpace::new(id, data_area.0, data_area.1) }
}

fn whole_blocks(name: &Name, len: ByteLen, block_size: BlockSize) -> Result<Blocks, VolumeError> {
    if len.0 == 0 || !block_size.divides(len) {
        return Err(VolumeError::Size { name: name.clone(), len, block_size });
    }
    Ok(block_size.blocks_in(len))
}

fn no_space(name: &Name, device: &Name, source: SpaceError) -> VolumeError {
    VolumeError::NoSpace { name: name.clone(), device: device.clone(), source }
}

fn too_many(name: &Name, bound: &'static str) -> VolumeError {
    VolumeError::TooMany { name: name.clone(), bound }
}

fn index(id: DeviceId) -> usize {
    usize::try_from(id.0).expect("usize is at least 32 bits wide")
}

#[cfg(test)]
mod tests;
