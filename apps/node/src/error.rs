//! Why a node does not start, or does not do what it is told.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use nearflash_access::{AccountError, GrantError, RestoreGrantsError};
use nearflash_media::OpenError;
use nearflash_space::{Name, Provisioning, RestoreError, VolumeError};
use nearflash_units::{BlockSize, ByteLen};

use crate::config::{ConfigError, Key};
use crate::{CatalogError, StartError};

/// Why a node does not start, or does not do what it is told. Every message is one line that names
/// the thing and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The catalog cannot be used.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// A device cannot be taken.
    #[error(transparent)]
    Device(#[from] OpenError),
    /// A change is in force, and older requests go on.
    #[error(
        "the change is recorded and holds for every new request, but requests from before it are \
         still under way: a device or a host does not answer"
    )]
    NotQuiesced,
    /// A volume has just become shorter, and older requests may still write behind its new end.
    #[error(
        "volume '{name}': requests from before its last change are still under way: \
         a device or a host does not answer; try again when it does"
    )]
    Quiescing {
        /// Which.
        name: Name,
    },
    /// A volume cannot be made, changed or removed.
    #[error(transparent)]
    Volume(#[from] VolumeError),
    /// The catalog's volumes do not fit their devices.
    #[error("the catalog is damaged: {0}: restore it from a backup")]
    Restore(#[from] RestoreError),
    /// The catalog's credentials and grants do not fit together.
    #[error("the catalog is damaged: {0}: restore it from a backup")]
    RestoreGrants(#[from] RestoreGrantsError),
    /// A credential or a grant cannot be made or taken away.
    #[error(transparent)]
    Grant(#[from] GrantError),
    /// A CHAP user cannot be made or taken away.
    #[error(transparent)]
    Account(#[from] AccountError),
    /// The cores cannot be started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// A volume of that name has another size.
    #[error(
        "volume '{name}' is {recorded}, --volume says {asked}: correct that, \
         or start without it and use 'nearflash volume resize {name} {asked}'"
    )]
    VolumeSize {
        /// Which.
        name: Name,
        /// Its size.
        recorded: ByteLen,
        /// The size asked for.
        asked: ByteLen,
    },
    /// A volume of that name has blocks of another size.
    #[error(
        "volume '{name}' has blocks of {recorded} bytes, --volume says {asked}: correct that, \
         or remove the volume first"
    )]
    VolumeBlockSize {
        /// Which.
        name: Name,
        /// Its own.
        recorded: BlockSize,
        /// What was asked for.
        asked: BlockSize,
    },
    /// A volume of that name lies elsewhere.
    #[error(
        "volume '{name}' lies on device '{recorded}', --volume says '{asked}': correct that, \
         or remove the volume first"
    )]
    VolumeDevice {
        /// Which.
        name: Name,
        /// Its own.
        recorded: Box<str>,
        /// What was asked for.
        asked: Name,
    },
    /// A volume of that name is exported elsewhere.
    #[error(
        "volume '{name}' is in subsystem '{recorded}', --volume says '{asked}': correct that, \
         or remove the volume first"
    )]
    VolumeSubsystem {
        /// Which.
        name: Name,
        /// Its own.
        recorded: Name,
        /// What was asked for.
        asked: Name,
    },
    /// A volume of that name is provisioned otherwise.
    #[error(
        "volume '{name}' is {recorded}, --volume says {asked}: correct that, \
         or remove the volume first"
    )]
    VolumeProvisioning {
        /// Which.
        name: Name,
        /// Its own.
        recorded: Provisioning,
        /// What was asked for.
        asked: Provisioning,
    },
    /// An address cannot be listened on.
    #[error("--{flag} {address}: {source}: {remedy}")]
    Bind {
        /// Of which flag.
        flag: &'static str,
        /// Which.
        address: Box<str>,
        /// What the system said.
        source: io::Error,
        /// What to do about it.
        remedy: &'static str,
    },
    /// A door for direct clients would let nobody in, or everybody.
    #[error(
        "{key}: {address} can be reached from other machines, and there is no credential: start \
         without it, make one with 'nearflash credential create ID', and start again; or let in \
         everyone with --host any"
    )]
    NoCredential {
        /// Of which key.
        key: Key,
        /// Which address.
        address: SocketAddr,
    },
    /// A door for initiators would let nobody in, or everybody.
    #[error(
        "{key}: {address} can be reached from other machines, and there is no CHAP user: start \
         without it, make one with 'nearflash chap add USER', and start again; or say which \
         initiators may connect with --host NAME (repeatable), or --host any"
    )]
    NoAccount {
        /// Of which key.
        key: Key,
        /// Which address.
        address: SocketAddr,
    },
    /// The control socket cannot be made.
    #[error("control socket {}: {source}: choose another --data-dir", path.display())]
    Control {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A device did not take what had to be written before a volume may have its blocks.
    #[error("device '{device}': cannot zero a volume's blocks: {source}")]
    Zero {
        /// Which.
        device: Name,
        /// What the system said.
        source: io::Error,
    },
    /// Hosts use the volume's subsystem.
    #[error(
        "volume '{name}' is in use: {hosts} connected to its subsystem, \
         disconnect there first or add --force"
    )]
    HostsConnected {
        /// Which.
        name: Name,
        /// Who.
        hosts: HostCount,
    },
    /// The core that knows whether hosts use the volume's subsystem does not say.
    #[error(
        "volume '{name}' may be in use: the core that knows who is connected does not answer, the \
         log may name a device that hangs; ask again, or add --force"
    )]
    NobodySaysWho {
        /// Which.
        name: Name,
    },
    /// A bound is reached.
    #[error("64 jobs are not over, which are the most: wait for one, or cancel it")]
    TooManyJobs,
    /// The job needs no end any more.
    #[error("job {id} is over: there is nothing left to cancel")]
    JobOver {
        /// Its number.
        id: u64,
    },
    /// There is no such job.
    #[error("no job {id}: 'nearflash job list' lists those that run, and the last that ended")]
    NoJob {
        /// Its number.
        id: u64,
    },
    /// What a request says is no value of its kind.
    #[error(transparent)]
    Value(#[from] crate::config::ValueError),
    /// It ended with something left to do.
    #[error(
        "ended before all was finished and flushed: what was not answered or not flushed may be \
         lost; the log above names the device"
    )]
    NotDrained,
    /// Signals cannot be received, or the ready line not be written.
    #[error("cannot {action}: {source}")]
    System {
        /// What.
        action: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

/// How many hosts, in words.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct HostCount(pub usize);

impl std::fmt::Display for HostCount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            1 => f.write_str("1 host is"),
            count => write!(f, "{count} hosts are"),
        }
    }
}

impl NodeError {
    /// What the process ends with: 2 when the configuration is wrong, 1 otherwise.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Config(_) | Self::NoCredential { .. } | Self::NoAccount { .. } => 2,
            _ => 1,
        }
    }
}
