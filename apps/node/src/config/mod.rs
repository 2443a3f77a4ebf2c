//! Configuration: flags and file, merged into one checked value before anything is opened.
//!
//! Flags take precedence over the file. Devices and volumes come from both, and a flag replaces the
//! file's entry of the same name. Addresses and hosts come from the flags alone if any flag gives
//! one.

mod args;
mod cores;
mod door;
mod error;
mod hosts;
mod http;
mod merge;
mod volume_spec;

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use nearflash_api::socket::default_data_dir;
use nearflash_media::DeviceSpec;
use nearflash_reactor::SPIN_MAX;
use nearflash_request::UnlistedHosts;
use nearflash_space::{Name, VolumeRequest};
use nearflash_units::{ByteLen, Nanos, parse_duration, parse_size};
use tracing::level_filters::LevelFilter;

use crate::remote::RemoteSpec;
use crate::{HostAccess, InitiatorAccess};
use args::{FileArgs, OneOrMore};
use merge::{Merge, Written};

pub use args::ServeArgs;
pub use door::{Admits, Door, Protocol};
pub use error::{ConfigError, Key, Origin, ValueError};
pub use http::{HttpConfig, HttpDoor};
pub use volume_spec::{parse_block_size, parse_volume};

/// A core's pool by default: 256 transfers of 128 KiB.
const POOL_DEFAULT: ByteLen = ByteLen(32 << 20);

const LOGIN_TIMEOUT_MIN: Nanos = Nanos::from_secs(1);
const LOGIN_TIMEOUT_MAX: Nanos = Nanos::from_secs(300);

const STALL_TIMEOUT_DEFAULT: Nanos = Nanos::from_secs(30);
/// A core looks for stalled peers once a second.
const STALL_TIMEOUT_MIN: Nanos = Nanos::from_secs(1);
const STALL_TIMEOUT_MAX: Nanos = Nanos::from_secs(300);

const POOL_MIN: ByteLen = ByteLen(4 << 20);
const POOL_MAX: ByteLen = ByteLen(64 << 30);

/// A node's configuration, checked.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Config {
    /// The devices, by unique names; at least one.
    pub devices: Vec<DeviceSpec>,
    /// The configured volumes, by unique names, each on one of the devices.
    pub volumes: Vec<VolumeRequest>,
    /// The volumes of other nodes, by unique names.
    pub remotes: Vec<RemoteSpec>,
    /// The volumes whose files this node owns, each once.
    pub files: Vec<Name>,
    /// This node's part in the cluster; `None` for a node that serves alone.
    pub cluster: Option<ClusterConfig>,
    /// The doors; at least one is for NVMe/TCP.
    pub doors: Vec<Door>,
    /// The socket for direct clients on this machine.
    pub direct_local: Option<PathBuf>,
    /// The address that discovery reports instead of a door's own.
    pub advertise: Option<Advertise>,
    /// The NVMe/TCP hosts that may connect.
    pub hosts: HostAccess,
    /// The iSCSI initiators that may connect.
    pub initiators: InitiatorAccess,
    /// The volumes of the hosts and initiators that have no list.
    pub unlisted_hosts: UnlistedHosts,
    /// The HTTP interface.
    pub http: HttpConfig,
    /// The processors to serve on; at least one, each once, all allowed.
    pub cores: Vec<usize>,
    /// The directory of the catalog and the control socket.
    pub data_dir: PathBuf,
    /// The size of each core's pool.
    pub pool_len: ByteLen,
    /// The longest time for which a core spins before it sleeps.
    pub spin_max: Nanos,
    /// The time that a connection may take to log in at any door; `None` for each door's default.
    pub login_timeout: Option<Nanos>,
    /// The longest time for which a peer may accept no answers or send none of the data it owes.
    pub stall_timeout: Nanos,
    /// The level of the log.
    pub log: LevelFilter,
}

/// A node's part in a cluster.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ClusterConfig {
    /// The node's name in it.
    pub node: Name,
    /// The devices that are slices of its space, by unique names.
    pub slices: Vec<DeviceSpec>,
    /// The address for the pulses of other nodes; `None` for the machine's address in the cluster, and
    /// [`PULSE_PORT`].
    pub pulse: Option<SocketAddr>,
}

/// The port for the pulses of other nodes.
pub const PULSE_PORT: u16 = 4422;

/// An address to report to hosts; without a port, each door reports its own.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Advertise {
    /// The address.
    pub ip: IpAddr,
    /// The port.
    pub port: Option<u16>,
}

impl Config {
    /// Reads flags, and the file that they name, if any.
    ///
    /// # Errors
    /// The first error, as one line.
    pub fn resolve(args: ServeArgs) -> Result<Self, ConfigError> {
        let (path, file) = match &args.config {
            Some(path) => (path.clone(), FileArgs::read(path)?),
            None => (PathBuf::new(), FileArgs::default()),
        };
        Self::merge(&path, file, args)
    }

    /// Whether the node may have volumes that are not its cluster's.
    pub(crate) fn has_own_devices(&self) -> bool {
        !self.devices.is_empty() || !self.remotes.is_empty()
    }

    /// [`Self::resolve`], with the file's text given.
    pub(crate) fn from_text(path: &Path, text: &str, args: ServeArgs) -> Result<Self, ConfigError> {
        Self::merge(path, FileArgs::parse(path, text)?, args)
    }

    fn merge(path: &Path, file: FileArgs, args: ServeArgs) -> Result<Self, ConfigError> {
        let merge = Merge { file: path };
        let devices = merge.named(
            "device",
            (file.device.into_vec(), args.devices),
            |text| Ok(text.parse::<DeviceSpec>()?),
            |device| &device.name,
        )?;
        let volumes = merge.named(
            "volume",
            (file.volume.into_vec(), args.volumes),
            parse_volume,
            |volume| &volume.name,
        )?;
        let remotes = merge.named(
            "remote",
            (file.remote.into_vec(), args.remotes),
            str::parse::<RemoteSpec>,
            |remote| &remote.name,
        )?;
        let files = merge_files(&merge, (file.files.into_vec(), args.files))?;
        let slices = (file.slice.into_vec(), args.slices);
        let own = [(file.node, args.node_name), (file.pulse, args.pulse)];
        let is_clustered = file.cluster || args.cluster;
        let cluster = merge_cluster(&merge, is_clustered, slices, own, &devices)?;
        if !is_clustered {
            check_devices(&devices, &remotes)?;
        }
        check_volumes(&devices, &volumes, &remotes)?;
        let written = [
            (Protocol::NvmeTcp, file.nvme_tcp, args.nvme_tcp),
            (Protocol::Direct, file.direct, args.direct),
            (Protocol::Iscsi, file.iscsi, args.iscsi),
        ];
        let mut doors = merge_doors(&merge, written)?;
        if is_clustered && !doors.iter().any(|door| door.protocol == Protocol::Direct) {
            return Err(ConfigError::ClusterNeedsDirect);
        }
        let named = merge.hosts(file.host.into_vec(), args.hosts)?;
        named.open(&mut doors);
        let tls = ((file.http_cert, args.http_cert), (file.http_key, args.http_key));
        let http = http::merge_http(&merge, (file.http, args.http), tls.0, tls.1)?;
        let advertise = (file.advertise, args.advertise);
        let data_dir = args.data_dir.or(file.data_dir);
        let pool_len = merge.one("pool", (file.pool, args.pool), parse_pool)?;
        let spin_max = merge.one("spin", (file.spin, args.spin), parse_spin)?;
        let login_timeout = (file.login_timeout, args.login_timeout);
        let login_timeout = merge.one("login-timeout", login_timeout, parse_login_timeout)?;
        let stall_timeout = (file.stall_timeout, args.stall_timeout);
        let stall_timeout = merge.one("stall-timeout", stall_timeout, parse_stall_timeout)?;
        Ok(Self {
            devices: values(devices),
            volumes: values(volumes),
            remotes: values(remotes),
            files: values(files),
            cluster,
            doors,
            direct_local: args.direct_local.or(file.direct_local),
            advertise: merge.one("advertise", advertise, parse_advertise)?,
            hosts: named.nvme_tcp(),
            initiators: named.initiators(),
            unlisted_hosts: merge_unlisted(&merge, (file.unlisted_hosts, args.unlisted_hosts))?,
            http,
            cores: merge.cores(file.cores, args.cores)?,
            data_dir: data_dir.map_or_else(default_data_dir, Ok).map_err(ConfigError::NoDataDir)?,
            pool_len: pool_len.unwrap_or(POOL_DEFAULT),
            spin_max: spin_max.unwrap_or(SPIN_MAX),
            login_timeout,
            stall_timeout: stall_timeout.unwrap_or(STALL_TIMEOUT_DEFAULT),
            log: merge.one("log", (file.log, args.log), parse_log)?.unwrap_or(LevelFilter::INFO),
        })
    }
}

fn values<T>(written: Vec<Written<T>>) -> Vec<T> {
    written.into_iter().map(|written| written.value).collect()
}

/// The volumes whose files the node owns.
fn merge_files(
    merge: &Merge<'_>,
    names: (Vec<String>, Vec<String>),
) -> Result<Vec<Written<Name>>, ConfigError> {
    merge.named("files", names, |text| Ok(text.parse::<Name>()?), |name| name)
}

/// The volumes of hosts that have no list.
fn merge_unlisted(
    merge: &Merge<'_>,
    written: (Option<String>, Option<String>),
) -> Result<UnlistedHosts, ConfigError> {
    Ok(merge.one("unlisted-hosts", written, parse_unlisted)?.unwrap_or_default())
}

/// The doors of all protocols, from the file and the flags.
fn merge_doors(
    merge: &Merge<'_>,
    written: [(Protocol, OneOrMore, Vec<String>); 3],
) -> Result<Vec<Door>, ConfigError> {
    let mut doors = Vec::new();
    for (protocol, file, flags) in written {
        doors.extend(merge.doors(protocol, file.into_vec(), flags)?);
    }
    Ok(doors)
}

/// The node's part in a cluster, if it has one.
fn merge_cluster(
    merge: &Merge<'_>,
    is_clustered: bool,
    slices: (Vec<String>, Vec<String>),
    [node, pulse]: [(Option<String>, Option<String>); 2],
    devices: &[Written<DeviceSpec>],
) -> Result<Option<ClusterConfig>, ConfigError> {
    let parse = |text: &str| Ok(text.parse::<DeviceSpec>()?);
    let slices = merge.named("slice", slices, parse, |slice| &slice.name)?;
    let node = merge.one("node", node, |text| Ok(text.parse()?))?;
    let pulse = merge
        .one("pulse", pulse, |text| text.parse().map_err(|_| ValueError::Pulse(text.into())))?;
    check_slices(&slices, devices, is_clustered)?;
    let node = node.unwrap_or_else(machine_name);
    Ok(is_clustered.then(|| ClusterConfig { node, slices: values(slices), pulse }))
}

/// The name of the machine, without the characters that a name does not have.
fn machine_name() -> Name {
    let system = rustix::system::uname();
    let host = system.nodename().to_string_lossy();
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let name: String = host.chars().map(plain).take(nearflash_space::NAME_LEN_MAX).collect();
    let node = || "node".parse().expect("a word is a name");
    name.trim_start_matches('-').parse().unwrap_or_else(|_| node())
}

/// Checks that a node alone has something to serve.
fn check_devices(
    devices: &[Written<DeviceSpec>],
    remotes: &[Written<RemoteSpec>],
) -> Result<(), ConfigError> {
    if devices.is_empty() && remotes.is_empty() {
        return Err(ConfigError::NoDevice);
    }
    Ok(())
}

/// Checks that slices have a cluster, and no names of devices.
fn check_slices(
    slices: &[Written<DeviceSpec>],
    devices: &[Written<DeviceSpec>],
    is_clustered: bool,
) -> Result<(), ConfigError> {
    let key = |it: &Written<DeviceSpec>| Key { origin: it.origin.clone(), name: "slice" };
    if let Some(slice) = slices.first().filter(|_| !is_clustered) {
        return Err(ConfigError::SliceWithoutCluster { key: key(slice) });
    }
    let is_device =
        |it: &&Written<DeviceSpec>| devices.iter().any(|d| d.value.name == it.value.name);
    match slices.iter().find(is_device) {
        Some(twice) => Err(ConfigError::Twice { key: key(twice), name: twice.value.name.clone() }),
        None => Ok(()),
    }
}

/// Checks that each volume's device is configured, and that no device has the name of a volume of
/// another node, which is a device, too.
fn check_volumes(
    devices: &[Written<DeviceSpec>],
    volumes: &[Written<VolumeRequest>],
    remotes: &[Written<RemoteSpec>],
) -> Result<(), ConfigError> {
    let is_device = |name: &Name| devices.iter().any(|device| device.value.name == *name);
    let is_volume = |name: &Name| volumes.iter().any(|volume| volume.value.name == *name);
    let clashes = |name: &Name| is_device(name) || is_volume(name);
    if let Some(Written { origin, value }) = remotes.iter().find(|it| clashes(&it.value.name)) {
        let key = Key { origin: origin.clone(), name: "remote" };
        return Err(ConfigError::Twice { key, name: value.name.clone() });
    }
    let exists = |name: &Name| devices.iter().any(|device| device.value.name == *name);
    match volumes.iter().find(|volume| !exists(&volume.value.device)) {
        None => Ok(()),
        Some(Written { origin, value }) => Err(ConfigError::NoSuchDevice {
            key: Key { origin: origin.clone(), name: "volume" },
            volume: value.name.clone(),
            device: value.device.clone(),
        }),
    }
}

fn parse_advertise(text: &str) -> Result<Advertise, ValueError> {
    let whole = text.parse().map(|a: SocketAddr| Advertise { ip: a.ip(), port: Some(a.port()) });
    let ip = || text.parse().map(|ip| Advertise { ip, port: None });
    let refused = |_| ValueError::Address { text: text.into(), port: Protocol::NvmeTcp.port() };
    whole.or_else(|_| ip()).map_err(refused)
}

fn parse_unlisted(text: &str) -> Result<UnlistedHosts, ValueError> {
    match text {
        "all" => Ok(UnlistedHosts::All),
        "none" => Ok(UnlistedHosts::None),
        _ => Err(ValueError::UnlistedHosts(text.into())),
    }
}

fn parse_pool(text: &str) -> Result<ByteLen, ValueError> {
    let len = parse_size(text)?;
    let fits = (POOL_MIN..=POOL_MAX).contains(&len);
    fits.then_some(len).ok_or_else(|| ValueError::Pool(text.into()))
}

fn parse_spin(text: &str) -> Result<Nanos, ValueError> {
    let time = parse_duration(text)?;
    (time <= SPIN_MAX).then_some(time).ok_or_else(|| ValueError::Spin(text.into()))
}

fn parse_login_timeout(text: &str) -> Result<Nanos, ValueError> {
    let timeout = parse_duration(text)?;
    let fits = (LOGIN_TIMEOUT_MIN..=LOGIN_TIMEOUT_MAX).contains(&timeout);
    fits.then_some(timeout).ok_or_else(|| ValueError::LoginTimeout(text.into()))
}

fn parse_stall_timeout(text: &str) -> Result<Nanos, ValueError> {
    let timeout = parse_duration(text)?;
    let fits = (STALL_TIMEOUT_MIN..=STALL_TIMEOUT_MAX).contains(&timeout);
    fits.then_some(timeout).ok_or_else(|| ValueError::StallTimeout(text.into()))
}

fn parse_log(text: &str) -> Result<LevelFilter, ValueError> {
    text.parse().map_err(|_| ValueError::Log(text.into()))
}

#[cfg(test)]
mod tests;
