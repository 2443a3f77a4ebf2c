//! Why a change is refused. Each message names the remedy.

use std::collections::BTreeSet;

use nearflash_access::{AccountError, GrantError, HostName, HostVolumesError, TokenError};
use nearflash_nvme::hosts::HostTableError;
use nearflash_records::key::ORDINAL_MAX;
use nearflash_records::record::{ADDRESSES_MAX, Door, FEATURE_LEVEL, RecordError, WIDTH_MAX};
use nearflash_records::state::Inconsistent;
use nearflash_records::store::RolledBack;
use nearflash_space::{EXTENTS_PER_VOLUME_MAX, Name, RestoreError, VolumeError};
use nearflash_units::ByteLen;
use uuid::Uuid;

use crate::create::Misfit;

/// Error: a change is refused; the state stays as it is.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum Refusal {
    /// A volume cannot be created, changed or removed.
    #[error(transparent)]
    Volume(#[from] VolumeError),
    /// A credential or a grant cannot be created or revoked.
    #[error(transparent)]
    Grant(#[from] GrantError),
    /// A CHAP account cannot be added or removed.
    #[error(transparent)]
    Account(#[from] AccountError),
    /// A token of the HTTP interface cannot be created or removed.
    #[error(transparent)]
    Token(#[from] TokenError),
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
    FirstList { hosts: Vec<String> },
    /// The host has neither keys nor a list.
    #[error("no host '{0}' with keys or a list of volumes: 'nearflash host list' lists them")]
    NoHost(HostName),
    /// A core takes no messages, and an earlier change waits for it.
    #[error(
        "nothing was changed: the core on processor {processor} does not answer, and an earlier \
         change waits for it: a device may hang; check the log, and try again later"
    )]
    CoreSilent { processor: usize },
    /// A volume has become shorter, and earlier requests may still write past its new end.
    #[error(
        "volume '{name}': requests that began before its last change are still under way: a device \
         or a host does not answer; try again later"
    )]
    Quiescing { name: Name },
    /// The state has changed since the caller read it.
    #[error(
        "nothing was changed: the state has generation {found} now, and the request is for \
         {expected}: read the resource again"
    )]
    Overtaken { expected: u64, found: u64 },
    /// A condition on the generation of the node, for a change of the cluster.
    #[error(
        "nothing was changed: the cluster's volumes have no generation: send the request without \
         If-Match"
    )]
    NoGeneration,
    /// The list of access has changed since the caller decided on it.
    #[error(
        "nothing was changed: another change of the cluster's access came first: repeat the call"
    )]
    AccessChanged,
    /// The node goes on by its own access in a cluster that has a list.
    #[error(
        "nothing was changed: this node goes by its own access, which is not in the list of the cluster: its log \
         names the records that differ; see 'nearflash cluster adopt-access'"
    )]
    OwnAccess,
    /// The call needs a cluster.
    #[error(
        "this node serves no cluster: start it with --cluster, after 'nearflash cluster init' or \
         'cluster join'"
    )]
    OutsideCluster,
    /// There is no such node in the cluster.
    #[error("the cluster has no node '{0}': 'nearflash cluster status' lists them")]
    NoNodeNamed(Box<str>),
    /// The parts of a new volume do not go together.
    #[error("volume '{name}': {misfit}")]
    NewVolume { name: Name, misfit: Misfit },
    /// The size of a volume of the cluster is not whole blocks.
    #[error("volume '{name}': {len} is not a whole number of 4096-byte blocks")]
    ClusterVolumeSize { name: Name, len: ByteLen },
    /// A volume of the cluster cannot become shorter.
    #[error("volume '{name}' has {from}, and volumes of the cluster cannot shrink")]
    ClusterVolumeShrinks { name: Name, from: ByteLen },
    /// iSCSI does not tell the subsystem of a new volume from another one.
    #[error(
        "volume '{volume}' cannot be created: its iSCSI name is {iqn}, and so is that of subsystem \
         '{other}', because iSCSI does not tell capital from small letters, nor '_' from '-': choose \
         another name, or put it in a subsystem with another name"
    )]
    IscsiNameTaken { volume: Name, other: Name, iqn: Box<str> },
    /// Hosts, initiators or clients use the volume.
    #[error(
        "volume '{name}' is in use by {by}: disconnect these first, or add --force, which destroys \
         {lost} under them"
    )]
    InUse { name: Name, by: Box<str>, lost: Lost },
    /// A core that knows users of the volume does not answer.
    #[error(
        "volume '{name}' may be in use: a core that knows its users does not answer: check the log \
         for a device that hangs and try again, or add --force, which destroys {lost}"
    )]
    NobodySaysWho { name: Name, lost: Lost },
    /// Another node of the cluster runs, and does not say who uses the volume there.
    #[error(
        "volume '{name}' may be in use at node '{node}', which runs and does not say by whom: see 'nearflash \
         cluster status' and try again, or add --force, which destroys {lost}"
    )]
    NodeSaysNothing { name: Name, node: Name, lost: Lost },
    /// A volume that is to shrink holds a file system, or the like.
    #[error(
        "volume '{name}' holds {what}: make that shorter first, and add --force, which destroys \
         {lost}"
    )]
    Holds { name: Name, what: &'static str, lost: Lost },
    /// A volume that is to shrink holds files.
    #[error(
        "volume '{name}' holds files, which need {needed} and would all be lost: copy them to a smaller \
         volume, and remove this one"
    )]
    FilesNeed { name: Name, needed: ByteLen },
    /// The maximum number of unfinished jobs is reached.
    #[error("64 jobs are unfinished, which is the limit: wait for one, or cancel one")]
    TooManyJobs,
    /// Another job changes the volume.
    #[error(
        "job {id} is changing volume '{name}': wait for it ('nearflash job wait {id}'), or cancel it \
         ('nearflash job cancel {id}')"
    )]
    JobUnderWay { name: Name, id: u64 },
    /// A removal is not undone.
    #[error("job {id} removes volume '{name}', and a removal cannot be undone")]
    RemovalGoesOn { id: u64, name: Name },
    /// The job has already ended.
    #[error("job {id} has already ended: there is nothing to cancel")]
    JobOver { id: u64 },
    /// No job has this number.
    #[error(
        "job {id} does not exist: 'nearflash job list' lists the running and the recently ended \
         jobs"
    )]
    NoJob { id: u64 },
    /// The volume whose files the node owns is to be removed or cut off.
    #[error(
        "the node serves the files of volume '{name}': restart it without --files {name} first"
    )]
    ServesFiles { name: Name },
    /// A volume of another node has the name or the identity of another volume.
    #[error("--remote: {0}: choose another name")]
    RemoteClash(RestoreError),
    /// A record that it depends on is damaged or missing.
    #[error(transparent)]
    Inconsistent(#[from] Inconsistent),
    /// The store shows an earlier state than before.
    #[error(
        "etcd has been restored from an older snapshot, or has lost the cluster: {0}. Volumes are served as \
         before, and nothing is changed: give etcd its newest state back. 'nearflash cluster \
         accept-restored' says what is lost without it"
    )]
    StoreRolledBack(RolledBack),
    /// The cluster does not exist in the store.
    #[error("the store has no cluster {0}: check the token, or create one with `cluster init`")]
    NoCluster(Uuid),
    /// The key holds a cluster already.
    #[error("cluster {0} exists already: join it instead")]
    ClusterExists(Uuid),
    /// Other programs of the cluster use records that this one does not know.
    #[error("the cluster has feature level {0}, this program knows {FEATURE_LEVEL}: upgrade it")]
    FeatureLevel(u32),
    /// Older programs of the cluster do not know the records that the change needs.
    #[error(
        "the cluster has feature level {level}, and this needs level {needed}: install this version on every \
         node, and then run 'nearflash cluster upgrade'"
    )]
    LevelTooLow { level: u32, needed: u32 },
    /// A node has an older program.
    #[error(
        "node '{node}' runs nearflash {version}, which does not know feature level {FEATURE_LEVEL}: install this \
         version there and start the node, or remove the node ('nearflash cluster remove {node}')"
    )]
    OldProgram { node: Name, version: Box<str> },
    /// A name of nodes is in use.
    #[error("another node of the cluster is called '{0}': choose another name with --node")]
    NodeNameTaken(Name),
    /// A node comes back with another name.
    #[error("this node is registered as '{0}': start it with that name")]
    NodeRenamed(Name),
    /// No ordinal is left.
    #[error("the cluster has {ORDINAL_MAX} nodes, the most that are possible")]
    NodesFull,
    /// A node listens at more addresses than its record has room for.
    #[error(
        "the node has {count} addresses for {door}, and a node of a cluster has at most {ADDRESSES_MAX}: name \
         fewer, or all at once as 0.0.0.0 or [::]"
    )]
    Addresses { door: Door, count: usize },
    /// A record exceeds a limit of those that read it.
    #[error("this would write a record that no node can read again: {key} {error}")]
    Unreadable { key: Box<str>, error: RecordError },
    /// A node is not registered.
    #[error("the cluster has no node {0}: `nearflash cluster status` lists them")]
    NoNode(Uuid),
    /// A node comes back that was removed.
    #[error(
        "node '{0}' was removed from this cluster, and its slices are unchanged: to use this machine \
         again, join the cluster with a new --data-dir, and erase the devices with ',wipe'"
    )]
    NodeRemoved(Name),
    /// A node that is to be removed runs.
    #[error(
        "node '{0}' is up, or was up to a few seconds ago: stop it first, and repeat this when 'nearflash cluster \
         status' shows it as down"
    )]
    NodeUp(Name),
    /// The other nodes have not dropped it yet.
    #[error(
        "the other nodes have not dropped node '{node}' from {mirrors} yet: try again in a few seconds"
    )]
    StillInSync { node: Name, mirrors: Affected },
    /// A volume that is not complete has parts on the node.
    #[error(
        "volume '{volume}' is being created or removed, and has parts on node '{node}': remove the volume \
         first"
    )]
    PartOfIncomplete { volume: Name, node: Name },
    /// Data is lost with the node.
    #[error(
        "node '{node}' has the only copy of {mirrors}: start it again, or give this data up with --force"
    )]
    OnlyCopies { node: Name, mirrors: Affected },
    /// The node has older copies than nodes that do not run.
    #[error(
        "the newest copy of {mirrors} is on node '{newest}', which is down, and node '{node}' has an older one: \
         start '{newest}' first, or give the older one up with --force"
    )]
    OlderCopies { node: Name, newest: Name, mirrors: Affected },
    /// A second replica has no place.
    #[error(
        "no other node that is up has room for a second replica of {0}: start a node with --slice, \
         or give one a further slice"
    )]
    NoPlace(Affected),
    /// A replica that is to move has no place.
    #[error(
        "no other node that is up has room for {mirrors} of node '{node}': start a node with --slice, or give one a \
         further slice"
    )]
    NoPlaceToMove { node: Name, mirrors: Affected },
    /// Volumes with one replica cannot move.
    #[error(
        "{} with one replica on node '{node}', and only volumes with two replicas can move: copy the data to a volume \
         with --replicas 2, and remove the other",
        volumes_of(volumes)
    )]
    OneReplica { node: Name, volumes: BTreeSet<Name> },
    /// A node that is drained has nothing of the volume.
    #[error(
        "volume '{volume}' has no replica on node '{node}': 'nearflash volume show {volume}' shows where they are"
    )]
    NoReplicaOn { volume: Name, node: Name },
    /// Only volumes of the cluster move.
    #[error("the cluster has no volume '{0}': 'nearflash volume list' lists the volumes")]
    NoVolumeNamed(Box<str>),
    /// A replica cannot move to the node that it leaves.
    #[error("--to names node '{0}', from which the replicas are to move: name another node")]
    MoveToItself(Name),
    /// Other replicas of the volume move.
    #[error(
        "job {id} drains node '{node}': it goes on, or cancel it first ('nearflash job cancel {id}')"
    )]
    BeingDrained { node: Name, id: u64 },
    /// A slice is registered at another node.
    #[error("slice {slice} belongs to node {node}: a copy must not be used; remove its label")]
    SliceElsewhere { slice: Uuid, node: Uuid },
    /// A slice has an older content than it had.
    #[error(
        "slice {slice} was opened {recorded} times and says {found}: it was rolled back; \
         `nearflash slice reset` empties it"
    )]
    SliceRolledBack { slice: Uuid, recorded: u64, found: u64 },
    /// A slice has become shorter.
    #[error("slice {slice} has {found}, and had {recorded}: restore the device's length")]
    SliceShrunk { slice: Uuid, recorded: ByteLen, found: ByteLen },
    /// A slice has no room for a mirror.
    #[error("slice {0} is too short: it needs at least 33 MiB")]
    SliceTooShort(Uuid),
    /// A name of volumes is in use.
    #[error("another volume is called '{0}': choose another name")]
    VolumeNameTaken(Name),
    /// A namespace id is in use, or all are.
    #[error("subsystem '{subsystem}' has no free namespace id {nsid}: choose another one")]
    NsidTaken { subsystem: Name, nsid: u32 },
    /// More replicas than this version keeps.
    #[error("{0} replicas are not supported yet: use 1 or 2")]
    Replicas(u8),
    /// Several replicas on one node.
    #[error(
        "placement central keeps everything on node '{node}', which cannot have {replicas} replicas: use 1 \
         replica, or placement local:{node}"
    )]
    CentralReplicas { node: Name, replicas: u8 },
    /// Too few nodes for the replicas of a mirror.
    #[error(
        "{replicas} replicas need slices on {replicas} nodes, and only '{node}' has one: start another \
         node with --slice"
    )]
    FewNodes { replicas: u8, node: Name },
    /// The length is zero or beyond the address space.
    #[error("a volume of {0} blocks is not possible: choose at least 1 and less than 2^64 bytes")]
    Length(u64),
    /// The stripe unit is not possible.
    #[error("{0} is not a stripe unit: use a power of two from 4 KiB to 1 MiB")]
    StripeUnit(ByteLen),
    /// The width is not possible.
    #[error("width {wanted} is not possible: use {}", widths(*.slices))]
    Width { wanted: u32, slices: u32 },
    /// There is no place on open slices, and there would be one on all of them.
    #[error("{away}: start what is missing, and repeat this. At present, {without}")]
    Away { away: Away, without: Box<Self> },
    /// The placement has no slice.
    #[error("no slice takes mirrors: start a node with --slice")]
    NoSlices,
    /// The node of the placement has no slice.
    #[error("node '{0}' has no slice that takes mirrors: start it with --slice")]
    NoSliceOn(Name),
    /// Too little space.
    #[error(
        "{wanted} more is needed (replicas: {replicas}), and {held} fits; free per node: {free}: add \
         slices, or ask for less"
    )]
    Full { wanted: ByteLen, held: ByteLen, replicas: u8, free: FreeList },
    /// The volume would have too many mirrors.
    #[error("a volume has at most {max} mirrors: choose a smaller length", max = EXTENTS_PER_VOLUME_MAX)]
    Mirrors,
    /// A volume does not exist.
    #[error("the cluster has no volume {0}: `nearflash volume list` lists them")]
    NoVolume(Uuid),
    /// A volume is being removed, or was.
    #[error("volume {0} was removed meanwhile")]
    Removed(Uuid),
    /// A volume is being created.
    #[error("volume '{0}' is being created: repeat this when it is ready, or remove it")]
    NotReady(Name),
    /// The volume is not there although its creation was sent.
    #[error("the creation of volume '{0}' had no effect, or it was removed since: create it again")]
    Vanished(Name),
}

/// The data that a call destroys, for a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Lost {
    /// Everything.
    All(ByteLen),
    /// The bytes past the new end.
    Past(ByteLen),
}

impl std::fmt::Display for Lost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::All(len) => write!(f, "all of its {len}"),
            Self::Past(end) => write!(f, "its data past {end}"),
        }
    }
}

/// Mirrors of one or several volumes.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Affected {
    /// The number of mirrors.
    pub count: usize,
    /// Their length, each counted once.
    pub len: ByteLen,
    /// The names of their volumes.
    pub volumes: BTreeSet<Name>,
}

/// For example: `12 mirrors of data, logs (96 GiB)`.
impl std::fmt::Display for Affected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const NAMES_MAX: usize = 5;
        let names: Vec<&str> = self.volumes.iter().take(NAMES_MAX).map(Name::as_str).collect();
        let mirrors = if self.count == 1 { "mirror" } else { "mirrors" };
        let more = if self.volumes.len() > NAMES_MAX { ", …" } else { "" };
        write!(f, "{} {mirrors} of {}{more} ({})", self.count, names.join(", "), self.len)
    }
}

/// The slices that are not open.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Away {
    /// The nodes with slices that are down.
    pub down: BTreeSet<Name>,
    /// Slices that their nodes have not opened, with these nodes, which run.
    pub closed: BTreeSet<(Name, Name)>,
}

/// For example: `node 'n2' is down, node 'n3' runs without its slice 'flash'`.
impl std::fmt::Display for Away {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const NAMES_MAX: usize = 5;
        let down = self.down.iter().map(|node| format!("node '{node}' is down"));
        let closed = self.closed.iter();
        let closed =
            closed.map(|(node, slice)| format!("node '{node}' runs without its slice '{slice}'"));
        let all: Vec<String> = down.chain(closed).collect();
        let more = if all.len() > NAMES_MAX { ", …" } else { "" };
        write!(f, "{}{more}", all[..all.len().min(NAMES_MAX)].join(", "))
    }
}

/// The free space of each node.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FreeList(pub Vec<(Name, ByteLen)>);

impl std::fmt::Display for FreeList {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, (name, free)) in self.0.iter().enumerate() {
            write!(f, "{}{name} {free}", if index == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

/// The widths that so many slices allow.
fn widths(slices: u32) -> String {
    match slices.min(WIDTH_MAX) {
        0 | 1 => "1".to_owned(),
        most => format!("1 to {most}"),
    }
}

/// Names in quotes, separated by commas.
/// The volumes, in a sentence that goes on with what they have.
fn volumes_of(volumes: &BTreeSet<Name>) -> String {
    let names: Vec<String> = volumes.iter().map(|name| format!("'{name}'")).collect();
    match &names[..] {
        [name] => format!("volume {name} is one"),
        _ => format!("volumes {} are some", names.join(", ")),
    }
}

fn quoted(names: &[String]) -> String {
    names.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ")
}
