//! Derives devices, catalog and volumes from a configuration, consistent with each other. Errors
//! are detected before anything is written wherever possible.

use std::sync::Arc;

use nearflash_catalog::Catalog;
use nearflash_device::DeviceId;
use nearflash_media::{
    Candidate, Claim, Device, DeviceSpec, HeldSlice, Slice, SliceCandidate, Storage,
    check_distinct, open_after, open_slice,
};
use nearflash_mirror::DeviceKind;
use nearflash_planner::Refusal;
use nearflash_publish::{Devices, PeerAccess, PeerConfig, Records, iscsi_names};
use nearflash_space::{Extent, Name, Provisioning, Space, Volume, VolumeRequest, empty_device};
use nearflash_units::ByteLen;
use uuid::Uuid;

use crate::StartError;
use crate::clustered::Enrolled;
use crate::error::ZeroError;
use crate::recorded::{Recorded, Recorder};
use crate::remote::{self, Remote};
use crate::volume_info::device_names;
use nearflash_media::boot;

/// The state that a node serves from.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) catalog: Recorder,
    pub(crate) outfit: Outfit,
    pub(crate) recorded: Records,
    /// The volumes of the configuration.
    pub(crate) configured: Vec<Name>,
    /// The slices of the cluster, which are devices, too.
    pub(crate) slices: Slices,
}

/// The devices and the nodes that the cores know. Both only grow: a device keeps its number.
#[derive(Debug)]
pub(crate) struct Outfit {
    /// A `DeviceId` is an index into this list.
    pub(crate) all: Vec<Arc<Device>>,
    /// Other nodes, whose volumes are some of the devices.
    pub(crate) peers: Vec<PeerConfig>,
    /// Which devices are mirrors, or faces of mirrors.
    pub(crate) mirrors: Vec<(DeviceId, DeviceKind)>,
}

impl Outfit {
    /// The devices, as the cores know them.
    pub(crate) fn devices(&self) -> Devices {
        let all = self.all.iter();
        let all = all.map(|device| (device.properties(), Arc::clone(device.health())));
        Devices::new(all, self.peers.clone(), &self.mirrors)
    }
}

/// The slices of the node.
#[derive(Debug)]
pub(crate) enum Slices {
    /// They were checked against the cluster's store, and their new incarnations have begun.
    Taken(Vec<Slice>),
    /// The store is away. They are locked and unchanged, and their blocks are not used.
    Held(Vec<HeldSlice>),
}

impl Slices {
    fn devices(&self) -> Vec<Arc<Device>> {
        match self {
            Self::Taken(slices) => slices.iter().map(|it| Arc::clone(it.device())).collect(),
            Self::Held(slices) => slices.iter().map(|it| Arc::clone(it.device())).collect(),
        }
    }
}

/// Opens the devices, restores the recorded volumes, creates those that are missing, and adds those of
/// other nodes, which may not be all that are configured.
pub(crate) fn prepare(
    catalog: Catalog,
    (specs, cluster): (&[DeviceSpec], Option<(&Enrolled, &[DeviceSpec])>),
    (volumes, serves_iscsi): (&[VolumeRequest], bool),
    (remotes, are_all): (&[Remote], bool),
) -> Result<Prepared, StartError> {
    let contents = Recorded::read(&catalog)?;
    contents.check_given(specs)?;
    check_distinct(specs.iter().chain(cluster.iter().flat_map(|(_, slices)| *slices)))?;
    let mut devices = open_devices(&catalog, &contents, specs)?;
    let mut found = contents.records(space_of(&devices))?;
    cluster.map_or(Ok(()), |(cluster, _)| cluster.check_access(&found))?;
    let slices = match cluster {
        Some((cluster, specs)) => open_slices(&catalog, &contents, cluster, specs)?,
        None => Slices::Taken(Vec::new()),
    };
    for device in slices.devices() {
        devices.push(device);
        found.space.add_device(remote::place_of(&devices));
    }
    // The parts lie on these devices, and not on other nodes.
    let access = |cluster: &Enrolled| PeerAccess {
        secret: cluster.secret().clone(),
        boot: boot(&devices, false),
    };
    found.peers = cluster.map(|(cluster, _)| access(cluster));
    let mut peers = Vec::new();
    let check_name = |new: (&Name, &Name), space: &Space| match serves_iscsi {
        true => iscsi_names::check_new(new, iscsi_names::subsystems(space)),
        false => Ok(()),
    };
    for remote in remotes {
        let name = &remote.spec().name;
        check_name((name, name), &found.space)?;
        devices.push(Arc::new(remote.device()));
        remote::add_peer(&mut peers, remote, &devices);
        let attached = found.space.attach(remote::place_of(&devices), |id| remote.volume(id));
        attached.map_err(Refusal::RemoteClash)?;
    }
    // The volumes of the cluster are not known yet.
    found.keeps_all_grants = !are_all || cluster.is_some();
    let mut recorded = found.clone();
    // Outside a cluster, the list that the node has a copy of is its own.
    recorded.list = found.list.filter(|_| cluster.is_some());
    for request in volumes {
        match recorded.space.volume(&request.name) {
            Some(volume) => check_same(volume, &recorded.space, request)?,
            None if contents.was_removed(&request.name) => {
                return Err(StartError::VolumeRemoved { name: request.name.clone() });
            }
            None => {
                check_name((&request.name, request.subsystem()), &recorded.space)?;
                let volume = recorded.space.create(request, Uuid::new_v4())?;
                // A device that always reads as zeroes needs no zeroing, which could be slow.
                let is_written =
                    |extent: &&Extent| !device_of(&devices, extent).properties().reads_as_zeroes;
                let extents: Vec<Extent> =
                    volume.extents.iter().filter(is_written).copied().collect();
                zero(&devices, &extents, volume.provisioning, &mut |_| true)?;
            }
        }
    }
    recorded.forget_rights_on_gone_volumes();
    let catalog = Recorder::new(catalog, contents);
    let given = devices.iter().map(Arc::as_ref);
    recorded.generation = catalog.record_given((&found, &recorded), given)?;
    let configured = volumes.iter().map(|request| request.name.clone()).collect();
    let outfit = Outfit { all: devices, peers, mirrors: Vec::new() };
    Ok(Prepared { catalog, outfit, recorded, configured, slices })
}

/// Opens all devices before it writes to any of them.
fn open_devices(
    catalog: &Catalog,
    contents: &Recorded,
    specs: &[DeviceSpec],
) -> Result<Vec<Arc<Device>>, StartError> {
    let known = contents.devices_in_use();
    let claim = Claim { node: catalog.node(), known: &known, cluster: None };
    let open = |spec: &DeviceSpec| open_after(spec, claim, catalog.ended());
    let candidates: Vec<Candidate> = specs.iter().map(open).collect::<Result<_, _>>()?;
    let take = |candidate: Candidate| {
        let uuid = contents.unlabelled_uuid(candidate.name()).unwrap_or_else(Uuid::new_v4);
        let device = candidate.take(uuid)?;
        if contents.is_suspect(device.uuid()) {
            device.health().note_failure();
        }
        Ok(Arc::new(device))
    };
    candidates.into_iter().map(take).collect()
}

/// Opens all slices, and checks them against the cluster's store, before it writes to any of them. If the
/// store is away, it writes to none.
fn open_slices(
    catalog: &Catalog,
    contents: &Recorded,
    cluster: &Enrolled,
    specs: &[DeviceSpec],
) -> Result<Slices, StartError> {
    let known = contents.devices_in_use();
    let claim = Claim { node: catalog.node(), known: &known, cluster: None };
    let open = |spec: &DeviceSpec| open_slice(spec, claim, cluster.cluster(), catalog.ended());
    let candidates: Vec<SliceCandidate> = specs.iter().map(open).collect::<Result<_, _>>()?;
    let slices = if cluster.is_registered() {
        for candidate in &candidates {
            let found = (candidate.superblock(), candidate.notes());
            cluster.check(candidate.name(), candidate.uuid(), found)?;
        }
        let take = |candidate: SliceCandidate| candidate.take(Uuid::new_v4());
        Slices::Taken(candidates.into_iter().map(take).collect::<Result<_, _>>()?)
    } else {
        let hold = |candidate: SliceCandidate| candidate.hold(Uuid::new_v4());
        Slices::Held(candidates.into_iter().map(hold).collect())
    };
    for device in slices.devices() {
        if contents.is_suspect(device.uuid()) {
            device.health().note_failure();
        }
    }
    Ok(slices)
}

fn space_of(devices: &[Arc<Device>]) -> Space {
    let place = |(id, device): (u32, &Arc<Device>)| {
        let (name, uuid) = (device.name().clone(), device.uuid());
        let block_size = device.properties().block_size;
        empty_device(DeviceId(id), name, uuid, block_size, device.data_area())
    };
    Space::new((0u32..).zip(devices).map(place).collect())
}

/// Checks that an existing volume matches the configured one.
fn check_same(volume: &Volume, space: &Space, asked: &VolumeRequest) -> Result<(), StartError> {
    let name = volume.name.clone();
    let recorded = device_names(volume, space);
    if recorded != asked.device.as_str() {
        let (recorded, asked) = (recorded.into(), asked.device.clone());
        return Err(StartError::VolumeDevice { name, recorded, asked });
    }
    if let Some(asked) = asked.block_size
        && asked != volume.block_size
    {
        let recorded = volume.block_size;
        return Err(StartError::VolumeBlockSize { name, recorded, asked });
    }
    if volume.subsystem != *asked.subsystem() {
        let (recorded, asked) = (volume.subsystem.clone(), asked.subsystem().clone());
        return Err(StartError::VolumeSubsystem { name, recorded, asked });
    }
    if volume.provisioning != asked.provisioning {
        let (recorded, asked) = (volume.provisioning, asked.provisioning);
        return Err(StartError::VolumeProvisioning { name, recorded, asked });
    }
    let (recorded, asked) = (volume.planned_len(), asked.len);
    if recorded < asked {
        return Err(StartError::VolumeSize { name, recorded, asked });
    }
    if recorded > asked {
        // The volume has grown since the configuration was written; a restart never shrinks it.
        tracing::warn!(
            "volume '{name}' is {recorded} and keeps this size, but --volume says {asked}: correct \
             --volume"
        );
    }
    Ok(())
}

/// Zeroes extents before hosts see them, so that a volume never exposes earlier data. For a thick
/// volume, this allocates the storage. `goes_on` is called with the progress, and stops the work by
/// returning `false`. Returns whether every extent is zeroed.
pub(crate) fn zero(
    devices: &[Arc<Device>],
    extents: &[Extent],
    provisioning: Provisioning,
    goes_on: &mut dyn FnMut(ByteLen) -> bool,
) -> Result<bool, ZeroError> {
    let storage = match provisioning {
        Provisioning::Thick => Storage::Kept,
        Provisioning::Thin => Storage::Released,
    };
    for extent in extents {
        let device = device_of(devices, extent);
        let zeroed = device.zero(extent.start, extent.len, storage, goes_on);
        let failed = |source| ZeroError { device: device.name().clone(), source };
        if !zeroed.map_err(failed)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn device_of<'devices>(devices: &'devices [Arc<Device>], extent: &Extent) -> &'devices Device {
    &devices[usize::try_from(extent.device.0).expect("usize is at least 32 bits wide")]
}
