//! Configuration: flags and file, read into one checked value before anything is opened.
//!
//! Flags win over the file. Of devices and volumes both are taken, a flag in the place of the
//! file's entry of the same name; of addresses and hosts, those of the flags alone when any is
//! given.

mod args;
mod cores;
mod error;
mod volume_spec;

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use nearflash_media::DeviceSpec;
use nearflash_nvme::Nqn;
use nearflash_space::{Name, VolumeRequest};
use nearflash_units::{ByteLen, parse_size};
use tracing::level_filters::LevelFilter;

use crate::HostAccess;
use args::{CoreList, FileArgs};
use cores::{allowed_cores, display_cores, parse_cores};

pub use args::ServeArgs;
pub use error::{ConfigError, Key, Origin, ValueError};
pub use volume_spec::{parse_block_size, parse_volume};

/// Where NVMe/TCP hosts are awaited unless told otherwise: only on this machine.
const NVME_TCP_DEFAULT: &str = "127.0.0.1:4420";

/// The port that NVMe/TCP has for I/O.
const NVME_TCP_PORT: u16 = 4420;

/// A core's pool unless told otherwise: 256 transfers of 128 KiB.
const POOL_DEFAULT: ByteLen = ByteLen(32 << 20);

const POOL_MIN: ByteLen = ByteLen(4 << 20);
const POOL_MAX: ByteLen = ByteLen(64 << 30);

/// A node's configuration, checked.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Config {
    /// The devices, by unique names; at least one.
    pub devices: Vec<DeviceSpec>,
    /// The volumes that there are to be, by unique names, each on one of the devices.
    pub volumes: Vec<VolumeRequest>,
    /// Where NVMe/TCP hosts are awaited; at least one.
    pub nvme_tcp: Vec<SocketAddr>,
    /// What hosts are told instead.
    pub advertise: Option<Advertise>,
    /// Who may connect.
    pub hosts: HostAccess,
    /// The processors to serve on; at least one, each once, all allowed.
    pub cores: Vec<usize>,
    /// Where catalog and control socket are.
    pub data_dir: PathBuf,
    /// Each core's pool.
    pub pool_len: ByteLen,
    /// What is logged.
    pub log: LevelFilter,
}

/// An address to tell hosts; without a port, each door's own.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Advertise {
    /// The address.
    pub ip: IpAddr,
    /// The port.
    pub port: Option<u16>,
}

/// A value and where it was written.
type Written = (Origin, String);

impl Config {
    /// From flags, and the file that they name, if any.
    ///
    /// # Errors
    /// The first thing that is wrong, in one line.
    pub fn resolve(args: ServeArgs) -> Result<Self, ConfigError> {
        let (path, file) = match &args.config {
            Some(path) => (path.clone(), FileArgs::read(path)?),
            None => (PathBuf::new(), FileArgs::default()),
        };
        let merged = Merged { file: &path };
        let config = Self {
            devices: merged.named(
                "device",
                (file.device.into_vec(), args.devices),
                |text| Ok(text.parse::<DeviceSpec>()?),
                |device| &device.name,
            )?,
            volumes: merged.named(
                "volume",
                (file.volume.into_vec(), args.volumes),
                parse_volume,
                |volume| &volume.name,
            )?,
            nvme_tcp: merged.addresses(file.nvme_tcp.into_vec(), args.nvme_tcp)?,
            advertise: merged.one(
                "advertise",
                (file.advertise, args.advertise),
                parse_advertise,
            )?,
            hosts: HostAccess::Any,
            cores: merged.cores(file.cores, args.cores)?,
            data_dir: args.data_dir.or(file.data_dir).map_or_else(default_data_dir, Ok)?,
            pool_len: merged
                .one("pool", (file.pool, args.pool), parse_pool)?
                .unwrap_or(POOL_DEFAULT),
            log: merged.one("log", (file.log, args.log), parse_log)?.unwrap_or(LevelFilter::INFO),
        };
        let hosts = merged.hosts(file.host.into_vec(), args.hosts, &config.nvme_tcp)?;
        merged.check_devices(&config)?;
        Ok(Self { hosts, ..config })
    }
}

/// Merges the file's values with the flags'.
struct Merged<'a> {
    file: &'a Path,
}

impl Merged<'_> {
    fn key(&self, origin: &Origin, name: &'static str) -> Key {
        Key { origin: origin.clone(), name }
    }

    fn value(&self, origin: &Origin, name: &'static str, source: ValueError) -> ConfigError {
        ConfigError::Value { key: self.key(origin, name), source }
    }

    /// One value: the flag's, or else the file's.
    fn one<T>(
        &self,
        name: &'static str,
        (file, flag): (Option<String>, Option<String>),
        parse: impl Fn(&str) -> Result<T, ValueError>,
    ) -> Result<Option<T>, ConfigError> {
        let written = match (flag, file) {
            (Some(text), _) => (Origin::Flag, text),
            (None, Some(text)) => (Origin::File(self.file.to_owned()), text),
            (None, None) => return Ok(None),
        };
        parse(&written.1).map(Some).map_err(|source| self.value(&written.0, name, source))
    }

    /// The flags' values when there are any, or else the file's.
    fn either(&self, file: Vec<String>, flags: Vec<String>) -> Vec<Written> {
        let origin =
            if flags.is_empty() { Origin::File(self.file.to_owned()) } else { Origin::Flag };
        let texts = if flags.is_empty() { file } else { flags };
        texts.into_iter().map(|text| (origin.clone(), text)).collect()
    }

    /// The file's and the flags' values, the flag's where both name the same thing.
    fn named<T>(
        &self,
        key: &'static str,
        (file, flags): (Vec<String>, Vec<String>),
        parse: impl Fn(&str) -> Result<T, ValueError>,
        name_of: impl Fn(&T) -> &Name,
    ) -> Result<Vec<T>, ConfigError> {
        let read = |origin: &Origin, texts: Vec<String>| {
            let mut read: Vec<T> = Vec::new();
            for text in texts {
                let fresh = parse(&text).map_err(|source| self.value(origin, key, source))?;
                if read.iter().any(|other| name_of(other) == name_of(&fresh)) {
                    let name = name_of(&fresh).clone();
                    return Err(ConfigError::Twice { key: self.key(origin, key), name });
                }
                read.push(fresh);
            }
            Ok(read)
        };
        let flags = read(&Origin::Flag, flags)?;
        let mut all = read(&Origin::File(self.file.to_owned()), file)?;
        all.retain(|old| flags.iter().all(|new| name_of(new) != name_of(old)));
        all.extend(flags);
        Ok(all)
    }

    fn addresses(
        &self,
        file: Vec<String>,
        flags: Vec<String>,
    ) -> Result<Vec<SocketAddr>, ConfigError> {
        let mut written = self.either(file, flags);
        if written.is_empty() {
            written.push((Origin::Flag, NVME_TCP_DEFAULT.to_owned()));
        }
        let parse = |(origin, text): &Written| {
            parse_address(text).map_err(|source| self.value(origin, "nvme-tcp", source))
        };
        written.iter().map(parse).collect()
    }

    fn hosts(
        &self,
        file: Vec<String>,
        flags: Vec<String>,
        doors: &[SocketAddr],
    ) -> Result<HostAccess, ConfigError> {
        let origin =
            if flags.is_empty() { Origin::File(self.file.to_owned()) } else { Origin::Flag };
        let written = self.either(file, flags);
        let any = written.iter().any(|(_, text)| text == "any");
        if written.is_empty() {
            let open = doors.iter().find(|door| !door.ip().to_canonical().is_loopback());
            return open.map_or(Ok(HostAccess::Any), |address| {
                let key = Key { origin: Origin::Flag, name: "nvme-tcp" };
                Err(ConfigError::OpenDoor { key, address: *address })
            });
        }
        if any && written.len() > 1 {
            return Err(self.value(&origin, "host", ValueError::AnyAndOthers));
        }
        if any {
            return Ok(HostAccess::Any);
        }
        let parse = |(origin, text): &Written| {
            let refused = |source| ValueError::Host { text: text.as_str().into(), source };
            Nqn::new(text).map_err(|source| self.value(origin, "host", refused(source)))
        };
        written.iter().map(parse).collect::<Result<_, _>>().map(HostAccess::Only)
    }

    fn cores(
        &self,
        file: Option<CoreList>,
        flag: Option<String>,
    ) -> Result<Vec<usize>, ConfigError> {
        let origin = match flag {
            Some(_) => Origin::Flag,
            None => Origin::File(self.file.to_owned()),
        };
        let cores = self.one("cores", (file.map(CoreList::into_text), flag), parse_cores)?;
        let allowed = allowed_cores();
        // The first one: a node takes no more of a machine than it is given.
        let cores = cores.unwrap_or_else(|| allowed[..1].to_vec());
        match cores.iter().find(|core| !allowed.contains(core)) {
            None => Ok(cores),
            Some(core) => Err(ConfigError::NoSuchCore {
                key: self.key(&origin, "cores"),
                core: *core,
                allowed: display_cores(&allowed),
            }),
        }
    }

    fn check_devices(&self, config: &Config) -> Result<(), ConfigError> {
        if config.devices.is_empty() {
            return Err(ConfigError::NoDevice);
        }
        let exists = |name: &Name| config.devices.iter().any(|device| device.name == *name);
        match config.volumes.iter().find(|volume| !exists(&volume.device)) {
            None => Ok(()),
            Some(volume) => Err(ConfigError::NoSuchDevice {
                key: self.key(&Origin::Flag, "volume"),
                volume: volume.name.clone(),
                device: volume.device.clone(),
            }),
        }
    }
}

fn parse_address(text: &str) -> Result<SocketAddr, ValueError> {
    let ip = || text.parse().map(|ip: IpAddr| SocketAddr::new(ip, NVME_TCP_PORT));
    text.parse().or_else(|_| ip()).map_err(|_| ValueError::Address(text.into()))
}

fn parse_advertise(text: &str) -> Result<Advertise, ValueError> {
    let whole = text.parse().map(|a: SocketAddr| Advertise { ip: a.ip(), port: Some(a.port()) });
    let ip = || text.parse().map(|ip| Advertise { ip, port: None });
    whole.or_else(|_| ip()).map_err(|_| ValueError::Address(text.into()))
}

fn parse_pool(text: &str) -> Result<ByteLen, ValueError> {
    let len = parse_size(text)?;
    let fits = (POOL_MIN..=POOL_MAX).contains(&len);
    fits.then_some(len).ok_or_else(|| ValueError::Pool(text.into()))
}

fn parse_log(text: &str) -> Result<LevelFilter, ValueError> {
    text.parse().map_err(|_| ValueError::Log(text.into()))
}

/// Where catalog and control socket are unless told otherwise.
///
/// # Errors
/// When the environment does not say.
pub fn default_data_dir() -> Result<PathBuf, ConfigError> {
    if rustix::process::geteuid().is_root() {
        return Ok("/var/lib/nearflash".into());
    }
    let folder = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let state = folder("XDG_STATE_HOME").filter(|path| path.is_absolute());
    let state = state.or_else(|| folder("HOME").map(|home| home.join(".local/state")));
    state.map(|state| state.join("nearflash")).ok_or(ConfigError::NoDataDir)
}

#[cfg(test)]
mod tests;
