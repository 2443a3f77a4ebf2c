//! The two states that a plan compares: the one that a file declares, and the one of a running node.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;

use nearflash_access::GrantRange;
use nearflash_api::client::{ControlError, ask};
use nearflash_api::{
    ChapInfo, ChapList, CredentialList, DeviceInfo, ErrorCode, GrantInfo, GrantList, HostList,
    KeyedHost, KeyedHosts, Status, StatusShow, VolumeCreate, VolumeDetail, VolumeInfo,
    VolumeLayout, VolumeShow, VolumesOfHost,
};
use nearflash_config::{AccessConfig, Config, Protocol};
use nearflash_units::{ByteLen, ByteOffset};

use crate::new_volume::declared_volumes;

/// The state that a file declares.
#[derive(Clone, Debug, Default)]
pub(crate) struct Declared {
    pub(crate) volumes: Vec<VolumeCreate>,
    pub(crate) access: AccessConfig,
    pub(crate) fixed: Vec<Fixed>,
}

/// A part of the configuration that a node takes at its start.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Fixed {
    /// A device, its kind, and its size if the file says it.
    Device { name: String, kind: &'static str, len: Option<ByteLen> },
    /// A volume of another node.
    Remote { name: String },
    /// An address to listen on.
    Address { protocol: Protocol, address: SocketAddr },
}

impl Declared {
    /// The state that a file declares. Keys that are absent declare nothing.
    pub(crate) fn of(config: Config) -> Self {
        let devices = config.devices.iter().map(|spec| Fixed::Device {
            name: spec.name.to_string(),
            kind: spec.kind(),
            len: spec.size(),
        });
        let mut fixed: Vec<Fixed> = devices.collect();
        let remotes = config.remotes.iter().map(|it| Fixed::Remote { name: it.name.to_string() });
        fixed.extend(remotes);
        for door in config.doors.iter().filter(|door| door.is_of_file()) {
            fixed.push(Fixed::Address { protocol: door.protocol, address: door.address });
        }
        Self { volumes: declared_volumes(&config), access: config.access, fixed }
    }
}

/// The state of a running node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Running {
    /// The generation that all of it has, or an older one.
    pub(crate) generation: u64,
    /// The volumes on its own devices, and those of its cluster that the file declares.
    pub(crate) volumes: Vec<Volume>,
    /// The volumes among them that a job makes or changes, with its number.
    pub(crate) jobs: Vec<(String, u64)>,
    /// The names of its other volumes, which are of the cluster or of other nodes.
    pub(crate) foreign: Vec<String>,
    pub(crate) devices: Vec<Device>,
    pub(crate) hosts: Vec<KeyedHost>,
    /// The lists of NVMe hosts. The file cannot declare those of iSCSI initiators.
    pub(crate) lists: Vec<VolumesOfHost>,
    pub(crate) chap: Vec<ChapInfo>,
    pub(crate) credentials: Vec<Credential>,
    pub(crate) grants: Vec<Grant>,
    pub(crate) addresses: Vec<(Protocol, SocketAddr)>,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Volume {
    pub(crate) name: String,
    pub(crate) len: ByteLen,
    pub(crate) device: String,
    pub(crate) block_size: u32,
    pub(crate) subsystem: String,
    pub(crate) provisioning: String,
    /// How it lies in the cluster; `None` for a volume on a device of the node.
    pub(crate) layout: Option<Layout>,
}

/// The layout of a volume of the cluster, as far as a file declares it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Layout {
    pub(crate) replicas: u8,
    pub(crate) stripe_unit: ByteLen,
    pub(crate) width: u32,
    pub(crate) placement: String,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Device {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) len: ByteLen,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Credential {
    pub(crate) id: String,
    pub(crate) expires: bool,
}

/// A grant of a credential.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Grant {
    pub(crate) number: u64,
    pub(crate) terms: Terms,
    pub(crate) expires: bool,
}

/// Who may do what with which part of a volume.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Terms {
    pub(crate) credential: String,
    pub(crate) volume: String,
    /// A range or a path, in the form of the command line.
    pub(crate) place: String,
    pub(crate) rights: String,
}

impl Running {
    /// Reads the state of a node, as far as a file declares these volumes.
    ///
    /// # Errors
    /// When the node does not answer.
    pub(crate) fn read(data_dir: &Path, declared: &[VolumeCreate]) -> Result<Self, ControlError> {
        // Its generation is older than everything that is read later.
        let status = ask(data_dir, StatusShow {})?;
        let of_cluster = match &status.cluster {
            None => Vec::new(),
            Some(_) => volumes_of_cluster(data_dir, &status, declared)?,
        };
        let credentials = ask(data_dir, CredentialList {})?.credentials.into_iter();
        let grants = ask(data_dir, GrantList { credential: None })?.grants.into_iter();
        let credential = |it: nearflash_api::CredentialInfo| Credential {
            expires: it.expires_at.is_some(),
            id: it.id,
        };
        let KeyedHosts { hosts, lists, .. } = ask(data_dir, HostList {})?;
        let own = Self {
            hosts: hosts.into_iter().map(without_previous).collect(),
            lists: lists.into_iter().filter(|list| list.host.starts_with("nqn.")).collect(),
            chap: ask(data_dir, ChapList {})?.accounts,
            credentials: credentials.map(credential).collect(),
            // A seal is a grant of everyone who has it, and has a time of its own.
            grants: grants.filter(|grant| !grant.seal).map(Grant::of).collect(),
            ..Self::default()
        };
        Ok(Self::with_status(own, status, of_cluster))
    }

    fn with_status(self, status: Status, of_cluster: Vec<(VolumeInfo, VolumeLayout)>) -> Self {
        let devices: Vec<Device> = status.devices.iter().map(Device::of).collect();
        let is_of_cluster =
            |volume: &VolumeInfo| of_cluster.iter().any(|(it, _)| it.name == volume.name);
        let rest = status.volumes.into_iter().filter(|volume| !is_of_cluster(volume));
        let (own, foreign): (Vec<_>, Vec<_>) = rest.partition(|it| is_on_own_device(it, &devices));
        let at = |protocol, addresses: Vec<SocketAddr>| {
            addresses.into_iter().map(move |address| (protocol, address))
        };
        let addresses = at(Protocol::NvmeTcp, status.nvme_tcp)
            .chain(at(Protocol::Direct, status.direct))
            .chain(at(Protocol::Iscsi, status.iscsi));
        let known = own.iter().chain(of_cluster.iter().map(|(info, _)| info));
        let jobs = known.filter_map(|info| Some((info.name.clone(), info.job?))).collect();
        let of_cluster =
            of_cluster.into_iter().map(|(info, layout)| Volume::of_cluster(info, layout));
        Self {
            generation: status.generation,
            jobs,
            volumes: own.into_iter().map(Volume::of).chain(of_cluster).collect(),
            foreign: foreign.into_iter().map(|volume| volume.name).collect(),
            addresses: addresses.collect(),
            devices,
            ..self
        }
    }
}

/// The volumes of the cluster that are declared, and those that look like volumes on a device of the node, because they
/// lie on one of its slices alone.
fn volumes_of_cluster(
    data_dir: &Path,
    status: &Status,
    declared: &[VolumeCreate],
) -> Result<Vec<(VolumeInfo, VolumeLayout)>, ControlError> {
    let devices: Vec<Device> = status.devices.iter().map(Device::of).collect();
    let own = status.volumes.iter().filter(|volume| is_on_own_device(volume, &devices));
    let names: BTreeSet<&String> =
        own.map(|volume| &volume.name).chain(declared.iter().map(|volume| &volume.name)).collect();
    let mut found = Vec::new();
    for name in names {
        match ask(data_dir, VolumeShow { name: name.clone() }) {
            Ok(VolumeDetail { volume, layout: Some(layout) }) => found.push((volume, layout)),
            Ok(_) => {}
            Err(ControlError::Refused(error)) if error.code == ErrorCode::VolumeNotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

fn is_on_own_device(volume: &VolumeInfo, devices: &[Device]) -> bool {
    let device = devices.iter().find(|device| device.name == volume.device);
    device.is_some_and(Device::is_own)
}

/// A host without its replaced keys, which are of no file and end by themselves.
fn without_previous(host: KeyedHost) -> KeyedHost {
    KeyedHost { previous_key_until: None, previous_psk_until: None, ..host }
}

impl Volume {
    fn of(info: VolumeInfo) -> Self {
        // The last part of the NQN is the subsystem's name, which has no colon.
        let subsystem = info.nqn.rsplit(':').next().unwrap_or_default().to_owned();
        let VolumeInfo { name, bytes, device, block_size, provisioning, .. } = info;
        let (len, layout) = (ByteLen(bytes), None);
        Self { name, len, device, block_size, subsystem, provisioning, layout }
    }

    fn of_cluster(info: VolumeInfo, layout: VolumeLayout) -> Self {
        let VolumeLayout { replicas, stripe_unit, width, placement, .. } = layout;
        let stripe_unit = ByteLen(stripe_unit);
        let layout = Some(Layout { replicas, stripe_unit, width, placement });
        // Where it lies changes with the cluster, and not with a plan.
        Self { device: String::new(), layout, ..Self::of(info) }
    }
}

impl Device {
    fn of(info: &DeviceInfo) -> Self {
        Self { name: info.name.clone(), kind: info.kind.clone(), len: ByteLen(info.bytes) }
    }

    /// Whether the node has the device itself, and makes volumes on it.
    fn is_own(&self) -> bool {
        !["remote", "mirror"].contains(&self.kind.as_str())
    }
}

impl Grant {
    fn of(info: GrantInfo) -> Self {
        let range = || GrantRange::new(ByteOffset(info.start), info.end.map(ByteOffset));
        let place =
            info.path.unwrap_or_else(|| range().map_or("?".to_owned(), |it| it.to_string()));
        let (credential, volume, rights) = (info.credential, info.volume, info.rights);
        let terms = Terms { credential, volume, place, rights };
        Self { number: info.number, terms, expires: info.expires_at.is_some() }
    }
}
