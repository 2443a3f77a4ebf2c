//! The errors of a node: it does not start, or cannot carry out a request.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use nearflash_access::{AccountError, GrantError, HostName, HostVolumesError, RestoreGrantsError};
use nearflash_cluster_store::ClusterError;
use nearflash_media::OpenError;
use nearflash_nvme::hosts::HostTableError;
use nearflash_space::{Name, Provisioning, RestoreError, VolumeError};
use nearflash_units::{BlockSize, ByteLen};

use crate::cluster::ChangeError;
use crate::node::Lost;
use crate::{CatalogError, StartError, TokenError};
use nearflash_config::{ConfigError, Key};

/// An error of a node. Every message is one line that names the thing and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The catalog cannot be used.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// A device cannot be opened.
    #[error(transparent)]
    Device(#[from] OpenError),
    /// A change is in force, while requests that began before it are still under way.
    #[error(
        "the change is recorded and applies to all new requests, but earlier requests are still \
         under way: a device or a host does not answer"
    )]
    NotQuiesced,
    /// A core takes no messages, and an earlier change waits for it.
    #[error(
        "nothing was changed: the core on processor {processor} does not answer, and an earlier \
         change waits for it: a device may hang; check the log, and try again later"
    )]
    CoreSilent {
        /// The core's processor.
        processor: usize,
    },
    /// A volume has become shorter, and earlier requests may still write past its new end.
    #[error(
        "volume '{name}': requests that began before its last change are still under way: a device \
         or a host does not answer; try again later"
    )]
    Quiescing {
        /// The volume.
        name: Name,
    },
    /// A volume cannot be created, changed or removed.
    #[error(transparent)]
    Volume(#[from] VolumeError),
    /// The recorded volumes do not fit the devices.
    #[error("the catalog is damaged: {0}: restore it from a backup")]
    Restore(#[from] RestoreError),
    /// The recorded credentials and grants do not fit together.
    #[error("the catalog is damaged: {0}: restore it from a backup")]
    RestoreGrants(#[from] RestoreGrantsError),
    /// A credential or a grant cannot be created or revoked.
    #[error(transparent)]
    Grant(#[from] GrantError),
    /// A CHAP account cannot be added or removed.
    #[error(transparent)]
    Account(#[from] AccountError),
    /// A token of the HTTP interface cannot be created or removed.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The certificate of the HTTP interface cannot be used.
    #[error(transparent)]
    Tls(#[from] nearflash_rest::TlsError),
    /// The state has changed since the caller read it.
    #[error(
        "nothing was changed: the state has generation {found} now, and the request is for \
         {expected}: read the resource again"
    )]
    Overtaken {
        /// The generation of the request.
        expected: u64,
        /// The generation now.
        found: u64,
    },
    /// A condition on the generation of the node, for a change of the cluster.
    #[error(
        "nothing was changed: the cluster's volumes have no generation: send the request without \
         If-Match"
    )]
    NoGeneration,
    /// The keys of a host cannot be added, replaced or removed.
    #[error(transparent)]
    HostTable(#[from] HostTableError),
    /// The list of a host cannot be changed.
    #[error(transparent)]
    HostVolumes(#[from] HostVolumesError),
    /// The host has no list from which a volume can be taken.
    #[error(
        "host '{0}' has no list of volumes, and sees every volume: give it a list first, with \
         'nearflash host allow'"
    )]
    NoList(HostName),
    /// Hosts without a list are connected.
    #[error(
        "this is the first list of volumes, and hosts without one see no volumes from then on: {} would lose theirs \
         while connected: disconnect them first, or start the node with --unlisted-hosts all until each has a list",
        quoted(hosts)
    )]
    FirstList {
        /// The hosts that would lose their volumes.
        hosts: Vec<String>,
    },
    /// The host has neither keys nor a list.
    #[error("no host '{0}' with keys or a list of volumes: 'nearflash host list' lists them")]
    NoHost(HostName),
    /// A volume of another node cannot be opened.
    #[error("--remote {name}: {source}")]
    Remote {
        /// The volume.
        name: Name,
        /// The client's error.
        source: Box<nearflash::direct::Error>,
    },
    /// A volume of another node has the name or the identity of another volume.
    #[error("--remote: {0}: choose another name")]
    RemoteClash(RestoreError),
    /// The files of this machine's part in a cluster cannot be used.
    #[error("--cluster: {0}")]
    Cluster(#[from] ClusterError),
    /// The call needs a cluster.
    #[error(
        "this node serves no cluster: start it with --cluster, after 'nearflash cluster init' or \
         'cluster join'"
    )]
    NoCluster,
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
    /// A change of the cluster was not made.
    #[error(transparent)]
    Change(#[from] ChangeError),
    /// A slice does not fit what the cluster's store says of it.
    #[error("--slice {name}: {reason}")]
    SliceStore {
        /// The slice.
        name: Name,
        /// The fault and the remedy.
        reason: Box<str>,
    },
    /// There is no such node in the cluster.
    #[error("the cluster has no node '{0}': 'nearflash cluster status' lists them")]
    NoNodeNamed(Box<str>),
    /// The size of a volume of the cluster is not whole blocks.
    #[error("volume '{name}': {len} is not a whole number of 4096-byte blocks")]
    ClusterVolumeSize {
        /// The volume.
        name: Name,
        /// The size.
        len: ByteLen,
    },
    /// A volume of the cluster cannot become shorter.
    #[error("volume '{name}' has {from}, and volumes of the cluster cannot shrink")]
    ClusterVolumeShrinks {
        /// The volume.
        name: Name,
        /// Its size.
        from: ByteLen,
    },
    /// A part of a volume of the cluster cannot be zeroed.
    #[error(
        "volume '{volume}' is not complete: node '{node}' does not zero its part: {reason}: repeat \
         the command when the node answers, or remove the volume"
    )]
    ZeroPart {
        /// The volume.
        volume: Name,
        /// The node.
        node: Name,
        /// The client's error.
        reason: Box<str>,
    },
    /// iSCSI does not tell the subsystem of a new volume from another one.
    #[error(
        "volume '{volume}' cannot be created: its iSCSI name is {iqn}, and so is that of subsystem \
         '{other}', because iSCSI does not tell capital from small letters, nor '_' from '-': choose \
         another name, or put it in a subsystem with another name"
    )]
    IscsiNameTaken {
        /// The volume.
        volume: Name,
        /// The subsystem that has the name.
        other: Name,
        /// The iSCSI name.
        iqn: Box<str>,
    },
    /// A volume was created, and this node does not serve it yet.
    #[error(
        "volume '{name}' is complete, but this node does not serve it yet: check the node's log, and \
         'nearflash volume list'"
    )]
    NotServedYet {
        /// The volume.
        name: Name,
    },
    /// The cores cannot be started.
    #[error(transparent)]
    Start(#[from] StartError),
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
    /// A device could not zero blocks, which must happen before a volume can use them.
    #[error("device '{device}': cannot zero a volume's blocks: {source}")]
    Zero {
        /// The device.
        device: Name,
        /// The system's error.
        source: io::Error,
    },
    /// Hosts, initiators or clients use the volume.
    #[error(
        "volume '{name}' is in use by {by}: disconnect these first, or add --force, which destroys \
         {lost} under them"
    )]
    InUse {
        /// The volume.
        name: Name,
        /// Its users.
        by: Box<str>,
        /// The data.
        lost: Lost,
    },
    /// A core that knows users of the volume does not answer.
    #[error(
        "volume '{name}' may be in use: a core that knows its users does not answer: check the log \
         for a device that hangs and try again, or add --force, which destroys {lost}"
    )]
    NobodySaysWho {
        /// The volume.
        name: Name,
        /// The data.
        lost: Lost,
    },
    /// Another node of the cluster runs, and does not say who uses the volume there.
    #[error(
        "volume '{name}' may be in use at node {node}, which runs and does not say by whom: see 'nearflash \
         cluster status' and try again, or add --force, which destroys {lost}"
    )]
    NodeSaysNothing {
        /// The volume.
        name: Name,
        /// The node.
        node: Name,
        /// The data.
        lost: Lost,
    },
    /// A volume that is to shrink holds a file system, or the like.
    #[error(
        "volume '{name}' holds {what}: make that shorter first, and add --force, which destroys \
         {lost}"
    )]
    Holds {
        /// The volume.
        name: Name,
        /// Its contents.
        what: &'static str,
        /// The data.
        lost: Lost,
    },
    /// A volume that is to shrink holds files.
    #[error(
        "volume '{name}' holds files, which need {needed} and would all be lost: copy them to a smaller \
         volume, and remove this one"
    )]
    FilesNeed {
        /// The volume.
        name: Name,
        /// The length that they need.
        needed: ByteLen,
    },
    /// A volume that is to shrink cannot be read, so that nobody knows what it holds.
    #[error(
        "volume '{name}': cannot read what it holds: {source}: check its device, or add --force"
    )]
    Unreadable {
        /// The volume.
        name: Name,
        /// The system's error.
        source: io::Error,
    },
    /// The maximum number of unfinished jobs is reached.
    #[error("64 jobs are unfinished, which is the limit: wait for one, or cancel one")]
    TooManyJobs,
    /// The job has already ended.
    #[error("job {id} has already ended: there is nothing to cancel")]
    JobOver {
        /// Its number.
        id: u64,
    },
    /// No job has this number.
    #[error(
        "job {id} does not exist: 'nearflash job list' lists the running and the recently ended \
         jobs"
    )]
    NoJob {
        /// Its number.
        id: u64,
    },
    /// A value of a request is not valid.
    #[error(transparent)]
    Value(#[from] nearflash_config::ValueError),
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
    /// The volume whose files the node owns is to be removed or cut off.
    #[error(
        "the node serves the files of volume '{name}': restart it without --files {name} first"
    )]
    ServesFiles {
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

impl NodeError {
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

/// Names in quotes, separated by commas.
fn quoted(names: &[String]) -> String {
    names.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ")
}
