//! The view of the space that hosts, initiators and direct clients get.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use nearflash_access::{Covered, Credential, Holder, UnixTime, is_expired};
use nearflash_api::VolumeInfo;
use nearflash_device::DeviceProperties;
use nearflash_media::Device;
use nearflash_nvme::{NamespaceId, Nqn};
use nearflash_request::{HostRights, VolumeId};
use nearflash_space::{Home, Name, Provisioning, Space, Volume};
use nearflash_units::{BlockSize, ByteOffset};
use uuid::Uuid;

use crate::iscsi_names::{TargetNames, target_iqn};
use crate::records::Records;
use crate::{
    DirectAccess, DirectCredential, DirectFilesGrant, DirectGrant, DirectSeal, DirectVolume,
    IscsiAccess, IscsiTarget, IscsiUnit, Namespace, Published,
};

/// The prefix of every subsystem's NQN; the subsystem's name follows.
pub const NQN_PREFIX: &str = "nqn.2026-11.io.nearflash:";

/// The NQN of the subsystem with this name.
///
/// # Panics
/// Never: a name is short and has only characters that are valid in an NQN.
pub fn subsystem_nqn(name: &Name) -> Nqn {
    Nqn::new(&format!("{NQN_PREFIX}{name}")).expect("a prefix and a name are an NQN")
}

/// The view of the recorded space on these devices.
pub(crate) fn published(
    recorded: &Records,
    devices: &[Arc<Device>],
    direct: Arc<DirectAccess>,
) -> Published {
    let space = &recorded.space;
    let mut volumes: Vec<&Volume> = for_hosts(recorded).collect();
    volumes.sort_by_key(|volume| (&volume.subsystem, volume.nsid));
    let namespace = |volume: &Volume| {
        let expected = expected(volume, devices);
        Namespace {
            subsystem: subsystem_nqn(&volume.subsystem),
            nsid: NamespaceId(volume.nsid),
            uuid: volume.uuid,
            volume: volume.id,
            block_size: volume.block_size,
            blocks: volume.blocks,
            device_block_size: expected.device_block_size,
            volatile_cache: expected.volatile_cache,
            deallocates: expected.deallocates,
            support: volume.home.support(),
            on_every_node: volume.home == Home::Cluster,
        }
    };
    let namespaces = volumes.into_iter().map(namespace).collect();
    let iscsi = iscsi_access(recorded, devices);
    let (volumes, hosts) = (Arc::new(space.table()), Arc::clone(&iscsi.rights));
    let elsewhere = Arc::clone(&recorded.elsewhere);
    Published { volumes, namespaces, hosts, elsewhere, direct, iscsi: Arc::new(iscsi) }
}

/// The rights of hosts and initiators.
pub(crate) fn host_rights(recorded: &Records) -> HostRights {
    let numbers: HashMap<Uuid, VolumeId> =
        recorded.space.served().map(|volume| (volume.uuid, volume.id)).collect();
    let number = |uuid: Uuid| numbers.get(&uuid).copied();
    recorded.host_volumes.rights(recorded.unlisted(), number)
}

/// The volumes that hosts and initiators see. The files of the others are this node's, and nobody else
/// writes their blocks.
fn for_hosts(recorded: &Records) -> impl Iterator<Item = &Volume> {
    let is_files = |volume: &Volume| {
        recorded.files.as_ref().is_some_and(|files| files.volumes.contains(&volume.name))
    };
    recorded.space.served().filter(move |it| it.home.is_public() && !is_files(it))
}

/// The iSCSI names of the subsystems that initiators see.
pub(crate) fn target_names(recorded: &Records) -> TargetNames {
    TargetNames::of(for_hosts(recorded))
}

/// The access of direct clients at the time `now`.
pub(crate) fn direct_access(recorded: &Records, now: UnixTime) -> DirectAccess {
    let Records { space, grants, .. } = recorded;
    let volumes: HashMap<Uuid, &Volume> = space.served().map(|v| (v.uuid, v)).collect();
    let mut given: HashMap<&Name, Vec<DirectGrant>> = HashMap::new();
    let mut files: HashMap<&Name, Vec<DirectFilesGrant>> = HashMap::new();
    let mut seals = Vec::new();
    for grant in grants.grants().filter(|grant| !is_expired(grant.expires, now)) {
        let Some(volume) = volumes.get(&grant.volume) else { continue };
        let rights = grant.rights;
        let range = match &grant.covers {
            Covered::Range(range) => range,
            Covered::Files(path) => {
                if let Holder::Credential(id) = &grant.holder {
                    let (volume, path) = (volume.id, path.clone());
                    files.entry(id).or_default().push(DirectFilesGrant { volume, path, rights });
                }
                continue;
            }
        };
        let allowed = DirectGrant {
            volume: volume.id,
            start: range.start(),
            end: range.end().unwrap_or(ByteOffset(volume.len().0)),
            rights,
        };
        match &grant.holder {
            Holder::Credential(id) => given.entry(id).or_default().push(allowed),
            Holder::Seal(secret) => {
                let (number, secret) = (grant.number, secret.clone());
                seals.push(DirectSeal { number, secret, grant: allowed });
            }
        }
    }
    let credential = |credential: &Credential| DirectCredential {
        id: credential.id.clone(),
        secret: credential.secret.clone(),
        is_expired: is_expired(credential.expires, now),
        grants: given.remove(&credential.id).unwrap_or_default(),
        files: files.remove(&credential.id).unwrap_or_default(),
    };
    DirectAccess {
        volumes: space.served().map(direct_volume).collect(),
        credentials: grants.credentials().map(credential).collect(),
        is_closed: recorded.closes_direct(),
        seals,
        peers: recorded.peers.clone(),
        files: recorded.files.clone(),
    }
}

fn direct_volume(volume: &Volume) -> DirectVolume {
    DirectVolume {
        name: volume.name.clone(),
        volume: volume.id,
        uuid: volume.uuid,
        len: volume.len(),
        block_size: volume.block_size,
        epoch: volume.epoch,
        home: volume.home,
    }
}

/// The access of iSCSI initiators.
pub(crate) fn iscsi_access(recorded: &Records, devices: &[Arc<Device>]) -> IscsiAccess {
    let mut targets: BTreeMap<&Name, Vec<IscsiUnit>> = BTreeMap::new();
    let names = target_names(recorded);
    for volume in for_hosts(recorded).filter(|volume| names.is_named(&volume.subsystem)) {
        // Logical unit numbers begin at 0, namespace identifiers at 1.
        let Ok(lun) = u16::try_from(volume.nsid.saturating_sub(1)) else { continue };
        let expected = expected(volume, devices);
        targets.entry(&volume.subsystem).or_default().push(IscsiUnit {
            lun,
            volume: volume.id,
            name: volume.name.clone(),
            uuid: volume.uuid,
            block_size: volume.block_size,
            blocks: volume.blocks,
            volatile_cache: expected.volatile_cache,
            deallocates: expected.deallocates,
            support: volume.home.support(),
            on_every_node: volume.home == Home::Cluster,
            is_thick: volume.provisioning == Provisioning::Thick,
            modes: volume.reservations.modes(),
            epoch: volume.epoch,
        });
    }
    let target = |(name, mut units): (&Name, Vec<IscsiUnit>)| {
        units.sort_by_key(|unit| unit.lun);
        IscsiTarget { name: target_iqn(name), units }
    };
    IscsiAccess {
        targets: targets.into_iter().map(target).collect(),
        accounts: recorded.accounts.iter().cloned().collect(),
        is_closed: recorded.closes_iscsi(),
        rights: Arc::new(host_rights(recorded)),
        elsewhere: Arc::clone(&recorded.elsewhere),
    }
}

/// The properties of a volume that its devices determine.
struct Expected {
    /// The smallest block size of the devices, which every one of them writes atomically.
    device_block_size: BlockSize,
    volatile_cache: bool,
    deallocates: bool,
}

fn expected(volume: &Volume, devices: &[Arc<Device>]) -> Expected {
    let under: Vec<DeviceProperties> = volume
        .devices()
        .into_iter()
        .map(|id| {
            devices[usize::try_from(id.0).expect("usize is at least 32 bits wide")].properties()
        })
        .collect();
    let smallest = under.iter().map(|device| device.block_size).min();
    Expected {
        device_block_size: smallest.unwrap_or(BlockSize::B512),
        volatile_cache: under.iter().any(|device| device.volatile_cache),
        deallocates: volume.provisioning == Provisioning::Thin
            && under.iter().all(|device| device.deallocates),
    }
}

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
        files: None,
    }
}
