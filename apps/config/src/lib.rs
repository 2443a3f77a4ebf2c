//! Configuration: flags and file, merged into one checked value before anything is opened.
//!
//! Flags take precedence over the file. Devices and volumes come from both, and a flag replaces the
//! file's entry of the same name. Addresses and hosts come from the flags alone if any flag gives
//! one.
//!
//! The file also has resources that only `nearflash apply` makes, see [`AccessConfig`] and [`UnplacedVolume`]. A node
//! that starts checks them, and does not make them: their secrets are in other files, or they are the cluster's.

mod args;
pub mod check;
mod cores;
mod door;
mod error;
mod file;
mod hosts;
mod http;
mod merge;
mod nearest;
mod remote;
mod tables;
mod volume_spec;

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use nearflash_access::Covered;
use nearflash_api::socket::{data_dir_of_environment, default_data_dir};
use nearflash_media::DeviceSpec;
use nearflash_reactor::SPIN_MAX;
use nearflash_request::UnlistedHosts;
use nearflash_session::DoorTls;
use nearflash_space::{Name, VolumeRequest};
use nearflash_units::{ByteLen, Nanos, parse_duration, parse_size};
use tracing::level_filters::LevelFilter;

use file::{File, Value};
use merge::{Merge, Written};
use volume_spec::{VolumeSpec, by_place};

pub use args::ServeArgs;
pub use door::{Admits, Door, Protocol};
pub use error::{ConfigError, Key, Origin, ValueError};
pub use hosts::{HostAccess, InitiatorAccess};
pub use http::{HttpConfig, HttpDoor};
/// The name of an NVMe host.
pub use nearflash_access::Anonymous;
pub use nearflash_nvme::Nqn as HostNqn;
pub use nearflash_nvme::tls::{Demand, Derivation};
pub use remote::RemoteSpec;
pub use tables::{ChapSpec, CredentialSpec, DhchapSpec, GrantSpec, HostSpec, PskSpec};
pub use volume_spec::{UnplacedVolume, parse_block_size, parse_volume};

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
/// In a cluster, three eighths of a pool are for the requests of other nodes.
const POOL_MIN_IN_CLUSTER: ByteLen = ByteLen(8 << 20);

/// A node's configuration, checked.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Config {
    /// The devices, by unique names; at least one.
    pub devices: Vec<DeviceSpec>,
    /// The configured volumes, by unique names, each on one of the devices.
    pub volumes: Vec<VolumeRequest>,
    /// The volumes without a device, which `nearflash apply` creates. A node that starts does not use them.
    pub unplaced: Vec<UnplacedVolume>,
    /// The volumes of other nodes, by unique names.
    pub remotes: Vec<RemoteSpec>,
    /// The volumes whose files this node owns, each once.
    pub files: Vec<Name>,
    /// The access that `nearflash apply` gives. A node that starts does not use it.
    pub access: AccessConfig,
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
    /// The volumes of the hosts and initiators that have no list. By default: all until the first list, and none
    /// from then on.
    pub unlisted_hosts: Option<UnlistedHosts>,
    /// The protocols that stay open when their last key is removed.
    pub anonymous: Anonymous,
    /// Whether the kernel handles the records of TLS, if it can.
    pub ktls: bool,
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

/// The use of a configuration.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Purpose {
    /// A node starts with it: it is whole, and for this machine.
    Serve,
    /// It is a file alone.
    Read,
}

/// The hosts, initiators and direct clients of a file, each once.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct AccessConfig {
    /// The NVMe hosts with keys.
    pub hosts: Vec<HostSpec>,
    /// The CHAP accounts of initiators.
    pub chap: Vec<ChapSpec>,
    /// The credentials of direct clients.
    pub credentials: Vec<CredentialSpec>,
    /// Their grants.
    pub grants: Vec<GrantSpec>,
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
    /// The end of a pulse proves that the process of its node has ended.
    pub pulse_proof: bool,
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
    /// Reads flags, and the file that they name, if any, for a node that starts.
    ///
    /// # Errors
    /// The first error, as one line.
    pub fn resolve(args: ServeArgs) -> Result<Self, ConfigError> {
        let file = args.config.as_deref().map_or_else(|| Ok(Default::default()), File::read);
        let merged = file.and_then(|file| Self::merge_parsed(file, args, Purpose::Serve));
        merged.map_err(first)
    }

    /// Reads a file alone, which may be for another machine, or for a node that has its devices from
    /// flags.
    ///
    /// # Errors
    /// All errors, in the order of their lines.
    pub fn read(path: &Path) -> Result<Self, Vec<ConfigError>> {
        Self::merge_parsed(File::read(path)?, ServeArgs::default(), Purpose::Read)
    }

    /// Whether the node may have volumes that are not its cluster's.
    pub fn has_own_devices(&self) -> bool {
        !self.devices.is_empty() || !self.remotes.is_empty()
    }

    /// [`Self::resolve`] and [`Self::read`] of a file with this text.
    pub(crate) fn of_text(
        path: &Path,
        text: &str,
        purpose: Purpose,
    ) -> Result<Self, Vec<ConfigError>> {
        Self::merge_parsed(File::parse(path, text), ServeArgs::default(), purpose)
    }

    /// Merges a file that may have errors of form. Its wrong values are reported with them. References to
    /// missing resources are not, because the resource may be one that could not be read.
    fn merge_parsed(
        (file, mut errors): (File, Vec<ConfigError>),
        args: ServeArgs,
        purpose: Purpose,
    ) -> Result<Self, Vec<ConfigError>> {
        let merged = Self::merge(&file, args, purpose);
        if errors.is_empty() {
            return merged;
        }
        let is_value = |error: &ConfigError| matches!(error, ConfigError::Value { .. });
        errors.extend(merged.err().into_iter().flatten().filter(is_value));
        errors.sort_by_key(ConfigError::line);
        Err(errors)
    }

    fn merge(file: &File, args: ServeArgs, purpose: Purpose) -> Result<Self, Vec<ConfigError>> {
        let merge = Merge::new(file, purpose);
        let devices = merge.named("device", args.devices, tables::device, |it| &it.name);
        let volumes = merge.named("volume", args.volumes, tables::volume, VolumeSpec::name);
        let remotes = merge.named("remote", args.remotes, tables::remote, |it| &it.name);
        let files = merge.named("files", args.files, parse_name, |name| name);
        let is_clustered = merge.is_on("cluster", args.cluster);
        let own = [args.node_name, args.pulse, args.pulse_proof];
        let cluster = merge_cluster(&merge, is_clustered, args.slices, own, &devices);
        check_volumes(&merge, (&devices, is_clustered), &volumes, &remotes);
        let (volumes, unplaced) = by_place(values(volumes));
        let mut doors = merge.doors(Protocol::NvmeTcp, args.nvme_tcp);
        doors.extend(merge.doors(Protocol::Direct, args.direct));
        doors.extend(merge.doors(Protocol::Iscsi, args.iscsi));
        check_whole(&merge, is_clustered, &doors, devices.len() + remotes.len());
        let named = merge.hosts(args.hosts);
        named.open(&mut doors);
        let http = http::merge_http(&merge, args.http, (args.http_cert, args.http_key));
        let data_dir = merge.path("data-dir", args.data_dir.or_else(data_dir_of_environment));
        let data_dir = match (data_dir, purpose) {
            (Some(data_dir), _) => data_dir,
            // A file alone needs none; an empty path is not one.
            (None, Purpose::Read) => default_data_dir().unwrap_or_default(),
            (None, Purpose::Serve) => {
                let found = default_data_dir().map_err(ConfigError::NoDataDir);
                merge.noted(found).unwrap_or_default()
            }
        };
        let config = Self {
            devices: values(devices),
            volumes,
            unplaced,
            remotes: values(remotes),
            files: values(files),
            access: merge_access(&merge),
            cluster,
            doors,
            direct_local: merge.one("direct-local", args.direct_local, parse_socket),
            advertise: merge.one("advertise", args.advertise, parse_advertise),
            hosts: named.nvme_tcp(),
            initiators: named.initiators(),
            unlisted_hosts: merge.one("unlisted-hosts", args.unlisted_hosts, parse_unlisted),
            anonymous: merge.one("anonymous", args.anonymous, parse_anonymous).unwrap_or_default(),
            ktls: merge.one("ktls", args.ktls, parse_ktls).unwrap_or(true),
            http,
            cores: merge.cores(args.cores),
            data_dir,
            pool_len: merge_pool(&merge, args.pool, is_clustered),
            spin_max: merge.one("spin", args.spin, parse_spin).unwrap_or(SPIN_MAX),
            login_timeout: merge.one("login-timeout", args.login_timeout, parse_login_timeout),
            stall_timeout: merge
                .one("stall-timeout", args.stall_timeout, parse_stall_timeout)
                .unwrap_or(STALL_TIMEOUT_DEFAULT),
            log: merge.one("log", args.log, parse_log).unwrap_or(LevelFilter::INFO),
        };
        let errors = merge.into_errors();
        if errors.is_empty() { Ok(config) } else { Err(errors) }
    }
}

/// The first of several errors.
fn first(errors: Vec<ConfigError>) -> ConfigError {
    errors.into_iter().next().expect("a refusal has an error")
}

fn values<T>(written: Vec<Written<T>>) -> Vec<T> {
    written.into_iter().map(|written| written.value).collect()
}

fn parse_name(value: &Value) -> Result<Name, ValueError> {
    match value {
        Value::Text(text) => Ok(text.parse()?),
        Value::Table(_) => unreachable!("the key takes no tables"),
    }
}

/// The node's part in a cluster, if it has one.
fn merge_cluster(
    merge: &Merge<'_>,
    is_clustered: bool,
    slices: Vec<String>,
    [node, pulse, proof]: [Option<String>; 3],
    devices: &[Written<DeviceSpec>],
) -> Option<ClusterConfig> {
    let slices = merge.named("slice", slices, tables::device, |slice| &slice.name);
    let node = merge.one("node", node, |text| Ok(text.parse()?));
    let pulse =
        merge.one("pulse", pulse, |text| text.parse().map_err(|_| ValueError::Pulse(text.into())));
    let pulse_proof = merge.one("pulse-proof", proof, |text| {
        parse_switch(text).ok_or_else(|| ValueError::PulseProof(text.into()))
    });
    check_slices(merge, &slices, devices, is_clustered);
    let pulse_proof = pulse_proof.unwrap_or(true);
    let node = node.unwrap_or_else(machine_name);
    is_clustered.then(|| ClusterConfig { node, slices: values(slices), pulse, pulse_proof })
}

/// The length of each core's pool.
fn merge_pool(merge: &Merge<'_>, pool: Option<String>, is_clustered: bool) -> ByteLen {
    let pool_len = merge.one("pool", pool, parse_pool).unwrap_or(POOL_DEFAULT);
    let least = POOL_MIN_IN_CLUSTER;
    if is_clustered && pool_len < least {
        merge.refuse(ConfigError::ClusterPool { pool_len, least });
    }
    pool_len
}

/// The hosts, initiators and direct clients that the file names in tables.
fn merge_access(merge: &Merge<'_>) -> AccessConfig {
    let grant = |it: &GrantSpec| {
        let place = match &it.covers {
            Covered::Range(range) => range.to_string(),
            Covered::Files(path) => path.to_string(),
        };
        format!("{} {} {place} {}", it.credential, it.volume, it.rights)
    };
    AccessConfig {
        hosts: values(merge.tables("host", tables::host, |it| it.nqn.clone())),
        chap: values(merge.tables("chap", tables::chap, |it| it.user.clone())),
        credentials: values(merge.tables("credential", tables::credential, |it| it.id.clone())),
        grants: values(merge.tables("grant", tables::grant, grant)),
    }
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

/// Checks that a node alone has something to serve, and that the nodes of a cluster reach each other.
fn check_whole(merge: &Merge<'_>, is_clustered: bool, doors: &[Door], devices: usize) {
    if merge.purpose() == Purpose::Read {
        return;
    }
    if !is_clustered && devices == 0 && !merge.lacks_device() {
        merge.refuse(ConfigError::NoDevice);
    }
    if is_clustered {
        let mut direct = doors.iter().filter(|door| door.protocol == Protocol::Direct).peekable();
        if direct.peek().is_none() {
            merge.refuse(ConfigError::ClusterNeedsDirect);
        } else if direct.all(|door| door.tls == DoorTls::Required) {
            merge.refuse(ConfigError::ClusterNeedsPlainDirect);
        }
    }
}

/// Checks that slices have a cluster, keep data, and have no names of devices.
fn check_slices(
    merge: &Merge<'_>,
    slices: &[Written<DeviceSpec>],
    devices: &[Written<DeviceSpec>],
    is_clustered: bool,
) {
    if let Some(slice) = slices.first().filter(|_| !is_clustered) {
        merge.refuse(ConfigError::SliceWithoutCluster { key: slice.key("slice") });
    }
    for slice in slices.iter().filter(|slice| !slice.value.keeps_data()) {
        let (key, name) = (slice.key("slice"), slice.value.name.clone());
        merge.refuse(ConfigError::SliceKeepsNothing { key, name });
    }
    let is_device =
        |it: &&Written<DeviceSpec>| devices.iter().any(|d| d.value.name == it.value.name);
    for twice in slices.iter().filter(is_device) {
        let (key, name) = (twice.key("slice"), twice.value.name.clone());
        merge.refuse(ConfigError::Twice { key, name });
    }
}

/// Checks that each volume has a device that is configured, or lies in a cluster, and that no device has the name of a volume of
/// another node, which is a device, too.
fn check_volumes(
    merge: &Merge<'_>,
    (devices, is_clustered): (&[Written<DeviceSpec>], bool),
    volumes: &[Written<VolumeSpec>],
    remotes: &[Written<RemoteSpec>],
) {
    let is_device = |name: &Name| devices.iter().any(|device| device.value.name == *name);
    let is_volume = |name: &Name| volumes.iter().any(|volume| volume.value.name() == name);
    for remote in remotes {
        let name = &remote.value.name;
        if is_device(name) || is_volume(name) {
            let (key, name) = (remote.key("remote"), name.clone());
            merge.refuse(ConfigError::Twice { key, name });
        }
    }
    // The flags of a node can have the devices that a file lacks.
    let is_partial = merge.purpose() == Purpose::Read && devices.is_empty();
    if is_partial || merge.lacks_device() {
        return;
    }
    let is_alone = merge.purpose() == Purpose::Serve && !is_clustered;
    for volume in volumes {
        let (key, name) = (volume.key("volume"), volume.value.name().clone());
        match &volume.value {
            VolumeSpec::OnDevice(VolumeRequest { device, .. }) if !is_device(device) => {
                let (volume, device) = (name, device.clone());
                merge.refuse(ConfigError::NoSuchDevice { key, volume, device });
            }
            VolumeSpec::Unplaced(_) if is_alone => {
                merge.refuse(ConfigError::VolumeWithoutDevice { key, volume: name });
            }
            _ => {}
        }
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

fn parse_anonymous(text: &str) -> Result<Anonymous, ValueError> {
    let mut anonymous = Anonymous::default();
    for word in text.split(',') {
        match word {
            "direct" => anonymous.direct = true,
            "iscsi" => anonymous.iscsi = true,
            _ => return Err(ValueError::Anonymous(word.into())),
        }
    }
    Ok(anonymous)
}

fn parse_ktls(text: &str) -> Result<bool, ValueError> {
    parse_switch(text).ok_or_else(|| ValueError::Ktls(text.into()))
}

fn parse_switch(text: &str) -> Option<bool> {
    match text {
        "on" => Some(true),
        "off" => Some(false),
        _ => None,
    }
}

fn parse_socket(text: &str) -> Result<PathBuf, ValueError> {
    let is_named = Path::new(text).extension().is_some_and(|it| it == "sock");
    is_named.then(|| text.into()).ok_or_else(|| ValueError::Socket(text.into()))
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
