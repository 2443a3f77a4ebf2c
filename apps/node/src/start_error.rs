//! Why a node does not start, or does not end as it should.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use nearflash_access::RestoreGrantsError;
use nearflash_cluster_store::ClusterError;
use nearflash_config::{ConfigError, Key};
use nearflash_media::OpenError;
use nearflash_planner::Refusal;
use nearflash_space::{Name, Provisioning, RestoreError, VolumeError};
use nearflash_units::{BlockSize, ByteLen};

use crate::cluster::ChangeError;
use crate::error::ZeroError;
use crate::{CatalogError, CoresError};

/// A node does not start. Every message is one line that names the thing and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The catalog cannot be used.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// A device cannot be opened.
    #[error(transparent)]
    Device(#[from] OpenError),
    /// A change is refused.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A change of the cluster was not made.
    #[error(transparent)]
    Change(#[from] ChangeError),
    /// The recorded volumes do not fit the devices.
    #[error("the catalog is damaged: {0}: restore it from a backup")]
    Restore(#[from] RestoreError),
    /// The recorded credentials and grants do not fit together.
    #[error("the catalog is damaged: {0}: restore it from a backup")]
    RestoreGrants(#[from] RestoreGrantsError),
    /// The certificate of the HTTP interface cannot be used.
    #[error(transparent)]
    Tls(#[from] nearflash_rest::TlsError),
    /// A volume of another node cannot be opened.
    #[error("--remote {name}: {source}")]
    Remote {
        /// The volume.
        name: Name,
        /// The client's error.
        source: Box<nearflash::direct::Error>,
    },
    /// The files of this machine's part in a cluster cannot be used.
    #[error("--cluster: {0}")]
    Cluster(#[from] ClusterError),
    /// The cluster's store does not answer at the start.
    #[error(
        "--cluster: etcd has not answered for {seconds} s ({endpoints}): start it there, or check the \
         network, and see 'nearflash cluster status'"
    )]
    StoreSilent {
        /// How long it was asked.
        seconds: u64,
        /// The addresses that were asked, separated by commas.
        endpoints: Box<str>,
    },
    /// The cluster's store was restored from an older snapshot.
    #[error(
        "--cluster: etcd has been restored from an older snapshot, or has lost the cluster: {0}: give etcd \
         its newest state back, and start the node again; 'nearflash cluster accept-restored' says what is \
         lost without it"
    )]
    StoreRolledBack(nearflash_records::store::RolledBack),
    /// The socket for the pulses of other nodes cannot be opened.
    #[error("--pulse {address}: {source}: choose another address that the other nodes reach")]
    PulseSocket {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// The node runs elsewhere.
    #[error(
        "another process runs as node '{node}' of the cluster: end it; if this data directory is a copy \
         of that of another machine, remove it and 'nearflash cluster join' anew"
    )]
    Copied {
        /// The node's name.
        node: Name,
    },
    /// The node has another number in the cluster than at its earlier starts.
    #[error(
        "the node's number in the cluster is {found} now, and the numbers of its NVMe controllers follow \
         from {served}: check whether etcd was restored from an older snapshot"
    )]
    NumberChanged {
        /// The number that its controllers follow from.
        served: u16,
        /// The number that the store has.
        found: u16,
    },
    /// The nodes of the cluster share one list of access, and this one has another.
    #[error(
        "--cluster: this node has hosts, credentials, grants, accounts or tokens of its own, and the nodes of its \
         cluster share one list: see which differ with 'nearflash cluster adopt-access --dry-run', add them to the \
         list without '--dry-run', and start the node again"
    )]
    OwnAccess,
    /// A slice does not fit what the cluster's store says of it.
    #[error("--slice {name}: {reason}")]
    SliceStore {
        /// The slice.
        name: Name,
        /// The fault and the remedy.
        reason: Box<str>,
    },
    /// The cores cannot be started.
    #[error(transparent)]
    Cores(#[from] CoresError),
    /// A volume of that name has another size.
    #[error(
        "volume '{name}' is {recorded}, but --volume says {asked}: correct --volume, or start \
         without it and use 'nearflash volume resize {name} {asked}'"
    )]
    VolumeSize {
        /// The volume.
        name: Name,
        /// Its recorded size.
        recorded: ByteLen,
        /// The requested size.
        asked: ByteLen,
    },
    /// A volume of that name has another block size.
    #[error(
        "volume '{name}' has blocks of {recorded} bytes, but --volume says {asked}: correct \
         --volume, or remove the volume first"
    )]
    VolumeBlockSize {
        /// The volume.
        name: Name,
        /// Its recorded block size.
        recorded: BlockSize,
        /// The requested block size.
        asked: BlockSize,
    },
    /// A volume of that name is on another device.
    #[error(
        "volume '{name}' is on device '{recorded}', but --volume says '{asked}': correct --volume, \
         or remove the volume first"
    )]
    VolumeDevice {
        /// The volume.
        name: Name,
        /// The device that holds it.
        recorded: Box<str>,
        /// The requested device.
        asked: Name,
    },
    /// A volume of that name is in another subsystem.
    #[error(
        "volume '{name}' is in subsystem '{recorded}', but --volume says '{asked}': correct \
         --volume, or remove the volume first"
    )]
    VolumeSubsystem {
        /// The volume.
        name: Name,
        /// Its recorded subsystem.
        recorded: Name,
        /// The requested subsystem.
        asked: Name,
    },
    /// A volume of that name has another kind of provisioning.
    #[error(
        "volume '{name}' is {recorded}, but --volume says {asked}: correct --volume, or remove the \
         volume first"
    )]
    VolumeProvisioning {
        /// The volume.
        name: Name,
        /// Its recorded provisioning.
        recorded: Provisioning,
        /// The requested provisioning.
        asked: Provisioning,
    },
    /// A volume of that name was removed, and is not made anew by a start.
    #[error(
        "volume '{name}' was removed, and a start makes no empty one in its place: take --volume \
         {name}=… out of the start line or the configuration file; if you want a new volume of that \
         name, start without it and use 'nearflash volume create'"
    )]
    VolumeRemoved {
        /// The volume.
        name: Name,
    },
    /// A device could not zero blocks, which must happen before a volume can use them.
    #[error(transparent)]
    Zero(#[from] ZeroError),
    /// An address cannot be listened on.
    #[error("--{flag} {address}: {source}: {remedy}")]
    Bind {
        /// The flag.
        flag: &'static str,
        /// The address.
        address: Box<str>,
        /// The system's error.
        source: io::Error,
        /// The remedy.
        remedy: &'static str,
    },
    /// A door for direct clients that other machines can reach, while there is no credential.
    #[error(
        "{key}: {address} can be reached from other machines, and there is no credential: start \
         without this address, create one with 'nearflash credential create ID', and start again; \
         or admit every client with --host any"
    )]
    NoCredential {
        /// The key.
        key: Key,
        /// The address.
        address: SocketAddr,
    },
    /// A door for initiators that other machines can reach, while there is no CHAP account.
    #[error(
        "{key}: {address} can be reached from other machines, and there is no CHAP account: start \
         without this address, add one with 'nearflash chap add USER', and start again; or name \
         the initiators that may connect with --host NAME (repeatable), or use --host any"
    )]
    NoAccount {
        /// The key.
        key: Key,
        /// The address.
        address: SocketAddr,
    },
    /// A door for NVMe/TCP hosts that must authenticate, while no host has keys.
    #[error(
        "{key}: hosts must authenticate at {address}, and no host has keys: start without this address, \
         add keys with 'nearflash host add NQN', and start again; or name the hosts that may connect with \
         --host NQN (repeatable), or use --host any"
    )]
    NoKeyedHost {
        /// The key.
        key: Key,
        /// The address.
        address: SocketAddr,
    },
    /// The control socket cannot be created.
    #[error("control socket {}: {source}: choose another --data-dir", path.display())]
    Control {
        /// Its path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The node ended before every request was finished and flushed.
    #[error(
        "ended before all requests were completed and flushed: writes that were not answered or \
         not flushed may be lost; the log above names the device"
    )]
    NotDrained,
    /// The volume whose files the node is to own does not exist.
    #[error("--files {name}: there is no such volume: create it with --volume {name}=SIZE@DEVICE")]
    FilesUnknown {
        /// Its name.
        name: Name,
    },
    /// The volume whose files the node is to own has blocks on other nodes.
    #[error("--files {name}: it is a volume of a cluster or of another node: use one of this node")]
    FilesNotOfNode {
        /// Its name.
        name: Name,
    },
    /// Signals cannot be received, or the ready line cannot be written.
    #[error("cannot {action}: {source}")]
    System {
        /// The action that failed.
        action: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

impl StartError {
    /// The process's exit code: 2 when the configuration is wrong, 1 otherwise.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Config(_)
            | Self::Tls(_)
            | Self::NoCredential { .. }
            | Self::NoAccount { .. }
            | Self::NoKeyedHost { .. } => 2,
            _ => 1,
        }
    }
}

impl From<VolumeError> for StartError {
    fn from(error: VolumeError) -> Self {
        Refusal::Volume(error).into()
    }
}
