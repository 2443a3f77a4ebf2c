//! The space of one node: its devices' data areas and the volumes laid out over them, and the
//! rules for changing either.
//!
//! A change is made on a copy, recorded durably, and only then published to the cores. This module
//! uses neither a clock nor random numbers: callers supply identities.
//!
//! Invariants: names, ids and (subsystem, nsid) are each unique; every extent of a volume is taken
//! from its device's free space; a volume that no job prepares has at least one block.

mod error;

use std::collections::BTreeMap;
use std::sync::Arc;

use nearflash_request::{Change, ChangeResult, Raised, Refusal, VolumeId};
use nearflash_units::{BlockSize, Blocks, ByteLen, ByteOffset, index};
use uuid::Uuid;

pub use error::{NameList, RestoreError, VolumeError};

use crate::{
    Changed, EXTENTS_PER_VOLUME_MAX, Epoch, Extent, FreeSpace, GRANULE, Home, Map, Name,
    Preparation, Provisioning, Reservations, SpaceError, Stripes, VOLUME_IDS_MAX, Volume,
    VolumeEntry, VolumeTable,
};
use nearflash_device::DeviceId;

/// The largest number of volumes of a node.
pub const VOLUMES_MAX: usize = 4096;

/// The maximum number of namespaces of one subsystem: the length of one active namespace list.
pub const NAMESPACES_PER_SUBSYSTEM_MAX: u32 = 1024;

/// A device, as far as volumes on it are concerned.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SpaceDevice {
    /// The device's name.
    pub name: Name,
    /// The UUID in its label.
    pub uuid: Uuid,
    /// The smallest unit that it writes atomically. Volumes on it have a multiple of it as size.
    pub block_size: BlockSize,
    /// The free runs of its data area.
    pub free: FreeSpace,
}

/// The parameters of a new volume.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct VolumeRequest {
    /// The volume's name.
    pub name: Name,
    /// The volume's size.
    pub len: ByteLen,
    /// The device's name.
    pub device: Name,
    /// The block size; 512 bytes by default.
    pub block_size: Option<BlockSize>,
    /// The subsystem; by default one with the volume's name.
    pub subsystem: Option<Name>,
    /// Whether it releases the storage of blocks that hosts deallocate.
    pub provisioning: Provisioning,
}

impl VolumeRequest {
    /// The subsystem that it is exported in.
    pub fn subsystem(&self) -> &Name {
        self.subsystem.as_ref().unwrap_or(&self.name)
    }
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
    /// A space of these devices, without volumes. A device's id is its index.
    pub fn new(devices: Vec<SpaceDevice>) -> Self {
        Self { devices, volumes: BTreeMap::new(), next_id: 0 }
    }

    /// Restores a recorded volume at its place, with a new id.
    ///
    /// # Errors
    /// When it does not fit. Then the rest of the record must not be trusted either.
    pub fn restore(&mut self, volume: Volume) -> Result<(), RestoreError> {
        let name = volume.name.clone();
        let refused = |field| RestoreError::Field { volume: name.clone(), field };
        if !(1..=NAMESPACES_PER_SUBSYSTEM_MAX).contains(&volume.nsid) {
            return Err(refused("the namespace's number"));
        }
        let planned = volume.preparing.map_or(volume.blocks, |preparing| preparing.blocks);
        if planned.0 == 0 || volume.preparing.is_some_and(|it| it.blocks <= volume.blocks) {
            return Err(refused("the number of blocks"));
        }
        let nsid_taken = self.volumes.values().any(|v| {
            v.uuid == volume.uuid || (&v.subsystem, v.nsid) == (&volume.subsystem, volume.nsid)
        });
        if nsid_taken || self.volumes.contains_key(&name) {
            return Err(RestoreError::Twice(name));
        }
        let size = (volume.block_size, planned);
        let map = Map::striped(volume.epoch, size, volume.stripes, &volume.extents);
        map.map_err(|source| RestoreError::Map { volume: name.clone(), source })?;
        // The space of other volumes is another node's, or the cluster's.
        for extent in volume.extents.iter().filter(|_| volume.home == Home::Node) {
            let device = self.devices.get_mut(index(extent.device.0));
            let device = device.ok_or_else(|| refused("a device"))?;
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

    /// Adds a volume of another node, and the device that it is on this one.
    ///
    /// # Errors
    /// When it does not fit, for example because another volume has its name. Then nothing has
    /// changed.
    pub fn attach(
        &mut self,
        device: SpaceDevice,
        volume: impl FnOnce(DeviceId) -> Volume,
    ) -> Result<&Volume, RestoreError> {
        let id = DeviceId(u32::try_from(self.devices.len()).expect("devices are few"));
        let volume = volume(id);
        let name = volume.name.clone();
        let mut attached = self.clone();
        attached.devices.push(device);
        attached.restore(volume)?;
        *self = attached;
        Ok(&self.volumes[&name])
    }

    /// The volume of another node on this device has `len` bytes now. Its extents never become shorter:
    /// the space is the other node's.
    ///
    /// # Errors
    /// When there is no such volume.
    pub fn follow(&mut self, device: DeviceId, len: ByteLen) -> Result<&Volume, VolumeError> {
        let is_meant =
            |volume: &&mut Volume| volume.home == Home::OtherNode && volume.devices() == [device];
        let unknown = || VolumeError::NotFound(self.devices[index(device.0)].name.clone());
        let volume = self.volumes.values_mut().find(is_meant).ok_or_else(unknown)?;
        let mut followed = volume.clone();
        followed.blocks = volume.block_size.blocks_in(len);
        followed.epoch.0 += 1;
        let whole = ByteLen(len.0.checked_next_multiple_of(GRANULE.0).unwrap_or(u64::MAX));
        for extent in &mut followed.extents {
            extent.len = extent.len.max(whole);
        }
        let bound = "its node says that it has no blocks, or more than the address space";
        if followed.blocks.0 == 0 || followed.map().is_err() {
            return Err(too_many(&volume.name, bound));
        }
        *volume = followed;
        Ok(volume)
    }

    /// Adds a device of which no space is free for volumes of this node.
    ///
    /// # Panics
    /// When its id is not the next one.
    pub fn add_device(&mut self, device: SpaceDevice) {
        self.devices.push(device);
    }

    /// Replaces the volumes of the cluster and the parts by these ones. A volume keeps its number as
    /// long as it exists. Returns the volumes that are left out because they do not fit, for example
    /// because a volume of this node has the name.
    pub fn set_shared(&mut self, shared: Vec<Volume>) -> Vec<RestoreError> {
        let is_shared = |volume: &Volume| volume.home.is_of_cluster();
        let old: BTreeMap<Uuid, VolumeId> =
            self.volumes.values().filter(|it| is_shared(it)).map(|it| (it.uuid, it.id)).collect();
        self.volumes.retain(|_, volume| !is_shared(volume));
        let mut left_out = Vec::new();
        for volume in shared {
            let (name, uuid) = (volume.name.clone(), volume.uuid);
            let next_id = self.next_id;
            let is_full = self.volumes.len() >= VOLUMES_MAX || next_id >= VOLUME_IDS_MAX;
            let restored = match is_full {
                true => Err(RestoreError::TooMany(name.clone())),
                false => self.restore(volume),
            };
            match (restored, old.get(&uuid)) {
                (Err(error), _) => left_out.push(error),
                (Ok(()), None) => {}
                (Ok(()), Some(id)) => {
                    let volume = self.volumes.get_mut(&name).expect("it was just restored");
                    volume.id = *id;
                    self.next_id = next_id;
                }
            }
        }
        left_out
    }

    /// Every device; ids are places.
    pub fn devices(&self) -> &[SpaceDevice] {
        &self.devices
    }

    /// The device with this id.
    ///
    /// # Panics
    /// When no device has this id. Ids come from this space.
    pub fn device(&self, id: DeviceId) -> &SpaceDevice {
        &self.devices[index(id.0)]
    }

    /// Every volume, by name.
    pub fn volumes(&self) -> impl ExactSizeIterator<Item = &Volume> {
        self.volumes.values()
    }

    /// Those that hosts see, by name.
    pub fn served(&self) -> impl Iterator<Item = &Volume> {
        self.volumes.values().filter(|volume| !volume.is_empty())
    }

    /// The volume of that name.
    pub fn volume(&self, name: &Name) -> Option<&Volume> {
        self.volumes.get(name)
    }

    /// Creates a volume.
    ///
    /// # Errors
    /// When one of the conditions of [`VolumeError`] holds. Then nothing has changed.
    pub fn create(&mut self, asked: &VolumeRequest, uuid: Uuid) -> Result<&Volume, VolumeError> {
        let name = &asked.name;
        if self.volumes.contains_key(name) {
            return Err(VolumeError::Exists(name.clone()));
        }
        let device = self.device_named(asked)?;
        let place = self.device(device);
        let block_size = asked.block_size.unwrap_or(BlockSize::B512);
        let unit = block_size.max(place.block_size);
        let blocks = whole_blocks(name, asked.len, (block_size, unit))?;
        let nsid = self.next_nsid(name, asked.subsystem())?;
        if self.volumes.len() >= VOLUMES_MAX {
            return Err(too_many(name, "the node has 4096 volumes, the maximum: remove one first"));
        }
        if self.next_id >= VOLUME_IDS_MAX {
            return Err(too_many(name, "65536 volumes were created in one run: restart the node"));
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
            block_size,
            blocks,
            preparing: None,
            subsystem: asked.subsystem().clone(),
            nsid,
            epoch: Epoch(1),
            extents,
            provisioning: asked.provisioning,
            reservations: Reservations::default(),
            home: Home::Node,
            stripes: Stripes::NONE,
        };
        Ok(self.volumes.entry(name.clone()).or_insert(volume))
    }

    /// Reserves the space of a volume, which hosts see when it is finished.
    ///
    /// # Errors
    /// When one of the conditions of [`VolumeError`] holds. Then nothing has changed.
    pub fn reserve(
        &mut self,
        asked: &VolumeRequest,
        uuid: Uuid,
        job: u64,
    ) -> Result<&Volume, VolumeError> {
        self.create(asked, uuid)?;
        let volume = self.volumes.get_mut(&asked.name).expect("it was just made");
        volume.preparing = Some(Preparation { blocks: volume.blocks, job });
        volume.blocks = Blocks(0);
        Ok(volume)
    }

    /// Reserves the space that a volume grows by, on the device of its last block.
    ///
    /// # Errors
    /// When one of the conditions of [`VolumeError`] holds. Then nothing has changed.
    pub fn reserve_growth(
        &mut self,
        name: &Name,
        len: ByteLen,
        job: u64,
    ) -> Result<&Volume, VolumeError> {
        let volume = changeable(&mut self.volumes, name)?;
        let unit = unit_of(&self.devices, volume);
        let blocks = whole_blocks(name, len, (volume.block_size, unit))?;
        if blocks <= volume.blocks {
            let (from, to) = (volume.len(), len);
            return Err(VolumeError::WouldShrink { name: name.clone(), from, to });
        }
        take(&mut self.devices, volume, len)?;
        volume.preparing = Some(Preparation { blocks, job });
        Ok(volume)
    }

    /// Finishes a job: hosts see its blocks from now on. `None` if there is no such job.
    pub fn finish(&mut self, job: u64) -> Option<&Volume> {
        let volume = self.prepared_by(job)?;
        let Preparation { blocks, .. } = volume.preparing.take()?;
        // A new volume begins with its first epoch.
        volume.epoch.0 += u64::from(!volume.is_empty());
        volume.blocks = blocks;
        Some(volume)
    }

    /// Cancels a job: the space of its blocks is free again. Returns the volume as it was before
    /// the job; a new volume is removed. `None` if there is no such job.
    pub fn cancel(&mut self, job: u64) -> Option<Volume> {
        let volume = self.prepared_by(job)?;
        volume.preparing = None;
        let len = volume.len();
        let cut = volume.cut(len);
        let volume = volume.clone();
        release(&mut self.devices, &cut);
        if volume.is_empty() {
            self.volumes.remove(&volume.name);
        }
        Some(volume)
    }

    fn prepared_by(&mut self, job: u64) -> Option<&mut Volume> {
        self.volumes.values_mut().find(|it| it.preparing.is_some_and(|it| it.job == job))
    }

    /// Makes a volume longer, or shorter when `shrink` allows it.
    ///
    /// # Errors
    /// When one of the conditions of [`VolumeError`] holds. Then nothing has changed.
    pub fn resize(
        &mut self,
        name: &Name,
        len: ByteLen,
        shrink: bool,
    ) -> Result<&Volume, VolumeError> {
        let volume = changeable(&mut self.volumes, name)?;
        let unit = unit_of(&self.devices, volume);
        let blocks = whole_blocks(name, len, (volume.block_size, unit))?;
        if blocks < volume.blocks && !shrink {
            return Err(VolumeError::WouldShrink {
                name: name.clone(),
                from: volume.len(),
                to: len,
            });
        }
        if blocks == volume.blocks {
            return Ok(volume);
        }
        take(&mut self.devices, volume, len)?;
        release(&mut self.devices, &volume.cut(len));
        volume.blocks = blocks;
        volume.epoch.0 += 1;
        Ok(volume)
    }

    /// Removes a volume and releases its space.
    ///
    /// # Errors
    /// When no volume has this name, or a job is preparing it.
    pub fn remove(&mut self, name: &Name) -> Result<Volume, VolumeError> {
        let volume = changeable(&mut self.volumes, name)?.clone();
        self.volumes.remove(name);
        release(&mut self.devices, &volume.extents);
        Ok(volume)
    }

    /// Withholds extents of no volume, because older requests may still write to them.
    ///
    /// # Panics
    /// When they are not free.
    pub fn withhold(&mut self, extents: &[Extent]) {
        for extent in extents {
            let free = &mut self.device_mut(extent.device).free;
            free.reserve(*extent).expect("a volume gave it back just now");
        }
    }

    /// Releases withheld extents.
    pub fn give_back(&mut self, extents: &[Extent]) {
        for extent in extents {
            self.device_mut(extent.device).free.release(*extent);
        }
    }

    /// The volume table for the cores.
    ///
    /// # Panics
    /// Never: volumes are checked when they are added.
    pub fn table(&self) -> VolumeTable {
        let entry = |volume: &Volume| VolumeEntry {
            provisioning: volume.provisioning,
            restriction: volume.reservations.restriction().map(Arc::new),
            sharing: volume.home.sharing(),
            ..volume.map().expect("extents of the space hold their volume").into()
        };
        VolumeTable::new(self.served().map(|volume| (volume.id, entry(volume))))
    }

    /// Changes the state that all sessions of a volume share. The caller records the change if
    /// [`Reservations::persistent`] differs, and publishes it to the cores if
    /// [`Reservations::restriction`] differs, or if earlier requests have to end before the answer.
    pub fn apply(&mut self, change: &Change) -> Changed {
        match self.volumes.values_mut().find(|volume| volume.id == change.volume) {
            Some(volume) if !volume.home.support().has_change(&change.kind) => {
                (ChangeResult::Refused(Refusal::Unsupported), Vec::new())
            }
            Some(volume) => volume.reservations.apply(change),
            None => (ChangeResult::Refused(Refusal::VolumeGone), Vec::new()),
        }
    }

    /// Ends every registration and reservation of a volume, at the operator's request.
    ///
    /// # Errors
    /// When no volume has this name.
    pub fn clear_reservations(&mut self, name: &Name) -> Result<Vec<Raised>, VolumeError> {
        let not_found = || VolumeError::NotFound(name.clone());
        let volume = self.volumes.get_mut(name).ok_or_else(not_found)?;
        check_home(volume)?;
        Ok(volume.reservations.clear_all(volume.id))
    }

    /// The devices on which this node makes volumes. A volume of another node has no space for others, and that of a
    /// slice is the cluster's.
    pub fn own_devices(&self) -> impl Iterator<Item = (DeviceId, &SpaceDevice)> {
        let devices = (0u32..).map(DeviceId).zip(&self.devices);
        devices.filter(|(_, device)| device.free.len().0 > 0)
    }

    fn device_named(&self, asked: &VolumeRequest) -> Result<DeviceId, VolumeError> {
        let place = self.own_devices().find(|(_, device)| device.name == asked.device);
        place.map(|(id, _)| id).ok_or_else(|| VolumeError::NoDevice {
            volume: asked.name.clone(),
            device: asked.device.clone(),
            known: NameList(self.own_devices().map(|(_, it)| it.name.clone()).collect()),
        })
    }

    fn device_mut(&mut self, id: DeviceId) -> &mut SpaceDevice {
        &mut self.devices[index(id.0)]
    }

    /// The number after the highest in use, so that a host does not find another volume under a
    /// number that it still remembers; the lowest free number when that is past the limit.
    fn next_nsid(&self, name: &Name, subsystem: &Name) -> Result<u32, VolumeError> {
        let volumes = self.volumes.values().filter(|volume| volume.subsystem == *subsystem);
        let taken: std::collections::BTreeSet<u32> = volumes.map(|volume| volume.nsid).collect();
        let behind = taken.last().map_or(1, |last| last.saturating_add(1));
        (behind..=NAMESPACES_PER_SUBSYSTEM_MAX)
            .chain(1..=NAMESPACES_PER_SUBSYSTEM_MAX)
            .find(|nsid| !taken.contains(nsid))
            .ok_or_else(|| {
                too_many(name, "the subsystem has 1024 volumes, the maximum: use another")
            })
    }

    fn take_id(&mut self) -> VolumeId {
        self.next_id += 1;
        VolumeId(self.next_id - 1)
    }
}

/// A device with an entirely free data area, for [`Space::new`].
pub fn empty_device(
    id: DeviceId,
    name: Name,
    uuid: Uuid,
    block_size: BlockSize,
    data_area: (ByteOffset, ByteLen),
) -> SpaceDevice {
    SpaceDevice { name, uuid, block_size, free: FreeSpace::new(id, data_area.0, data_area.1) }
}

/// The volume, if no job prepares it.
fn changeable<'a>(
    volumes: &'a mut BTreeMap<Name, Volume>,
    name: &Name,
) -> Result<&'a mut Volume, VolumeError> {
    let not_found = || VolumeError::NotFound(name.clone());
    let volume = volumes.get_mut(name).ok_or_else(not_found)?;
    check_home(volume)?;
    match volume.preparing {
        Some(Preparation { job, .. }) => Err(VolumeError::Preparing { name: name.clone(), job }),
        None => Ok(volume),
    }
}

/// Checks that this node has the volume's record.
fn check_home(volume: &Volume) -> Result<(), VolumeError> {
    match volume.home {
        Home::Node => Ok(()),
        Home::OtherNode => Err(VolumeError::Remote(volume.name.clone())),
        _ => Err(VolumeError::OfCluster(volume.name.clone())),
    }
}

/// Allocates the missing extents of the volume on the device of its last block.
fn take(devices: &mut [SpaceDevice], volume: &mut Volume, len: ByteLen) -> Result<(), VolumeError> {
    let last = volume.extents.last().expect("a volume has at least one block");
    let device = &mut devices[index(last.device.0)];
    let taken = volume.take(len, &mut device.free);
    taken.map_err(|source| no_space(&volume.name, &device.name, source))
}

fn release(devices: &mut [SpaceDevice], extents: &[Extent]) {
    extents.iter().for_each(|extent| devices[index(extent.device.0)].free.release(*extent));
}

/// The largest of a volume's blocks and those of its devices.
fn unit_of(devices: &[SpaceDevice], volume: &Volume) -> BlockSize {
    let under = volume.extents.iter().map(|extent| devices[index(extent.device.0)].block_size);
    under.fold(volume.block_size, BlockSize::max)
}

/// The number of blocks of `len` bytes. A volume ends at the end of a block of its device, so `len`
/// must be a multiple of `unit`, the larger of both block sizes.
fn whole_blocks(
    name: &Name,
    len: ByteLen,
    (block_size, unit): (BlockSize, BlockSize),
) -> Result<Blocks, VolumeError> {
    if len.0 == 0 || !unit.divides(len) {
        return Err(VolumeError::Size { name: name.clone(), len, block_size: unit });
    }
    Ok(block_size.blocks_in(len))
}

fn no_space(name: &Name, device: &Name, source: SpaceError) -> VolumeError {
    VolumeError::NoSpace { name: name.clone(), device: device.clone(), source }
}

fn too_many(name: &Name, bound: &'static str) -> VolumeError {
    VolumeError::TooMany { name: name.clone(), bound }
}

#[cfg(test)]
mod tests;
