//! Changes of the cluster's state, each computed from a [`ClusterState`] as one transaction or
//! several in a row.
//!
//! A change names a goal, such as a volume of some length. [`Change::plan`] computes the next
//! transaction towards it, so planning again after a lost compare, an interruption or an unknown
//! outcome continues where the store stands. Rules of every transaction:
//!
//! - It compares the revision of every key that it was decided on, the cluster's key included.
//! - It takes effect at most once, however late a copy of it arrives: it changes a key that it
//!   compares and that is never deleted (a room, or a key that only it creates), or that is
//!   deleted only together with what the transaction is about.
//! - It writes nothing if a key that it depends on is damaged.

mod accept;
mod access;
mod job;
mod level;
mod moves;
mod node;
mod place;
mod replace;
mod steps;
mod users;
mod volume;
mod waiting;

pub use accept::accept_restored;
pub use access::{AccessChange, adopted};
pub use job::{CLUSTER_JOBS_MAX, ENDED_CLUSTER_JOBS_MAX};
pub use moves::{AskedMove, MOVES_MAX, job_of_move};
pub use replace::lost_by_removal;
pub use waiting::{Awaited, waits_for};

use std::collections::BTreeMap;
use std::net::SocketAddr;

use nearflash_records::key::Key;
use nearflash_records::record::{
    AddressTls, ClusterRecord, Door, FEATURE_LEVEL, JOBS_LEVEL, MovesRecord, OwnerRecord,
    Placement, Record, Schema, Worker,
};
use nearflash_records::state::{ClusterState, NewPlace};
use nearflash_records::store::{Compare, Put, Txn};
use nearflash_space::Name;
use nearflash_units::{BlockSize, Blocks, ByteLen};
use uuid::Uuid;

use crate::refusal::Refusal;

/// The stripe unit by default.
pub const STRIPE_UNIT: ByteLen = ByteLen(64 * nearflash_units::KIB);

/// A change of the cluster's state.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Change {
    /// Creates the cluster.
    CreateCluster(ClusterRecord),
    /// Registers a node that starts, and updates its addresses and version.
    RegisterNode(NodeSpec),
    /// Adds a slice, or notes that it was opened once more.
    OpenSlice(SliceSpec),
    /// Creates a volume, and the job that completes it.
    CreateVolume(VolumeSpec),
    /// Makes the job that gives a volume this length.
    GrowVolume {
        /// The volume.
        volume: Uuid,
        /// Its new length.
        blocks: Blocks,
        /// The process that begins the job.
        begin: Begin,
    },
    /// Makes the job that removes a volume. Its other jobs are given up.
    RemoveVolume {
        /// The volume.
        volume: Uuid,
        /// The process that begins the job.
        begin: Begin,
    },
    /// Makes the job that moves the replicas of a volume from a node.
    MoveVolume {
        /// The volume.
        volume: Uuid,
        /// The node that they leave, and the one that gets them.
        moves: MovesRecord,
        /// The process that begins the job.
        begin: Begin,
    },
    /// Takes a node out of placement, and makes the job that moves all replicas from it.
    DrainNode {
        /// The node.
        node: Uuid,
        /// The process that begins the job.
        begin: Begin,
    },
    /// Places replicas on a node again that was drained.
    UndrainNode {
        /// The node.
        node: Uuid,
    },
    /// Carries a job on, as far as it goes at present.
    CarryOn {
        /// The job.
        job: u64,
        /// The process that carries it on. Nothing happens if the job has another one.
        by: Begin,
    },
    /// Gives a job to another process.
    TakeJob {
        /// The job.
        job: u64,
        /// The process that it has.
        from: Worker,
        /// The process that carries it on.
        to: Worker,
    },
    /// Has a job undone.
    CancelJob {
        /// The job.
        job: u64,
    },
    /// Has a job undone, because a step of it has failed.
    FailJob {
        /// The job.
        job: u64,
        /// The reason.
        error: String,
    },
    /// Notes that places have been zeroed, durably. Those for which no job waits any more are left out.
    NoteZeroed {
        /// The places.
        places: Vec<NewPlace>,
    },
    /// Changes the list of access that the nodes share.
    Access(AccessChange),
    /// Raises the feature level to that of this program, if every node has such a program.
    RaiseLevel,
    /// Tells the other nodes who uses a volume at a node. An answer with a higher number than all others is
    /// the question to the other nodes.
    TellUsers {
        /// The volume.
        volume: Uuid,
        /// The node.
        node: Uuid,
        /// The number of the question.
        number: u64,
        /// The users in a few words; empty if there are none.
        users: String,
    },
    /// Removes a node that does not run. Its replicas are replaced by new ones on other nodes, as far as
    /// there is room.
    RemoveNode {
        /// The node.
        node: Uuid,
        /// Also if it has the only copy of data, which is lost then. The volumes of that data stay, so that
        /// someone learns of it.
        gives_up: bool,
    },
    /// Gives mirrors with one replica a second one.
    Repair,
}

/// A node that registers.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NodeSpec {
    /// Its UUID.
    pub uuid: Uuid,
    /// Its name.
    pub name: Name,
    /// The addresses of each door.
    pub addresses: BTreeMap<Door, Vec<SocketAddr>>,
    /// The addresses of NVMe/TCP whose connections use TLS.
    pub tls: BTreeMap<SocketAddr, AddressTls>,
    /// The version of its program.
    pub version: String,
    /// The name that its machine has as a member of etcd; empty for a machine that is not a member.
    pub machine: String,
}

/// A slice that its node has opened.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SliceSpec {
    /// Its UUID, from the label.
    pub uuid: Uuid,
    /// The node that has opened it.
    pub node: Uuid,
    /// Its name at the node.
    pub name: Name,
    /// Its length, label and metadata included.
    pub len: ByteLen,
    /// The incarnation that is durable on it.
    pub incarnation: u64,
}

/// The process that begins a job or carries it on, and the time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Begin {
    /// The process.
    pub worker: Worker,
    /// The time in seconds since 1970.
    pub now: u64,
}

/// A volume that is asked for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct VolumeSpec {
    /// Its UUID, which has never been used before.
    pub uuid: Uuid,
    /// Its name.
    pub name: Name,
    /// Its block size.
    pub block_size: BlockSize,
    /// Its length.
    pub blocks: Blocks,
    /// The length of a stripe's piece on one mirror.
    pub stripe_unit: ByteLen,
    /// The mirrors of a row; `None` for as many as suit its length.
    pub width: Option<u32>,
    /// The replicas of each mirror.
    pub replicas: u8,
    /// Where its mirrors are placed.
    pub placement: Placement,
    /// The subsystem of its namespace.
    pub subsystem: Name,
    /// The namespace id; `None` for the lowest free one.
    pub nsid: Option<u32>,
    /// Thin or thick.
    pub provisioning: nearflash_space::Provisioning,
    /// The process that begins the job.
    pub begin: Begin,
}

/// The next step of a change.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Step {
    /// The store is as the change wants it.
    Done,
    /// This transaction comes next.
    Submit(Txn),
}

impl Change {
    /// The next step towards the goal. `begun`: an earlier transaction of this change may have
    /// taken effect.
    ///
    /// # Errors
    /// When the goal cannot be reached.
    pub fn plan(&self, state: &ClusterState, begun: bool) -> Result<Step, Refusal> {
        match self {
            Self::CreateCluster(record) => node::create_cluster(state, record),
            Self::RegisterNode(spec) => node::register(state, spec, begun),
            Self::OpenSlice(spec) => node::open_slice(state, spec),
            Self::CreateVolume(spec) => volume::create(state, spec, begun),
            Self::GrowVolume { volume, blocks, begin } => {
                volume::grow(state, *volume, *blocks, *begin)
            }
            Self::RemoveVolume { volume, begin } => volume::remove(state, *volume, *begin),
            Self::MoveVolume { volume, moves, begin } => {
                moves::move_volume(state, *volume, *moves, *begin)
            }
            Self::DrainNode { node, begin } => moves::drain(state, *node, *begin),
            Self::UndrainNode { node } => moves::undrain(state, *node),
            Self::CarryOn { job, by } => steps::carry_on(state, *job, *by),
            Self::TakeJob { job, from, to } => job::take(state, *job, (*from, *to)),
            Self::CancelJob { job } => job::cancel(state, *job),
            Self::FailJob { job, error } => job::fail(state, *job, error),
            Self::NoteZeroed { places } => steps::note_zeroed(state, places),
            Self::Access(it) => access::change(state, it),
            Self::RaiseLevel => level::raise(state),
            Self::TellUsers { volume, node, number, users } => {
                users::tell(state, (*volume, *node), *number, users)
            }
            Self::RemoveNode { node, gives_up } => replace::remove_node(state, *node, *gives_up),
            Self::Repair => replace::repair(state),
        }
    }
}

/// A transaction in the making.
struct Draft<'a> {
    state: &'a ClusterState,
    txn: Txn,
}

impl<'a> Draft<'a> {
    /// A transaction on a cluster of a known feature level.
    fn new(state: &'a ClusterState) -> Result<Self, Refusal> {
        let mut draft = Self { state, txn: Txn::default() };
        draft.decided_on(Key::Cluster)?;
        // Nothing that was decided in one history of the store takes effect in another one.
        draft.decided_on(Key::History)?;
        let cluster = state.cluster().ok_or(Refusal::NoCluster(state.uuid()))?;
        if cluster.feature_level > FEATURE_LEVEL {
            return Err(Refusal::FeatureLevel(cluster.feature_level));
        }
        Ok(draft)
    }

    /// A transaction that writes records of jobs.
    fn with_jobs(state: &'a ClusterState) -> Result<Self, Refusal> {
        Self::of_level(state, JOBS_LEVEL)
    }

    /// A transaction that writes records which clusters below this level do not have.
    fn of_level(state: &'a ClusterState, needed: u32) -> Result<Self, Refusal> {
        let draft = Self::new(state)?;
        match state.cluster().map(|cluster| cluster.feature_level) {
            Some(level) if level < needed => Err(Refusal::LevelTooLow { level, needed }),
            _ => Ok(draft),
        }
    }

    /// Whether the cluster has jobs.
    fn has_jobs(&self) -> bool {
        self.state.cluster().is_some_and(|it| it.feature_level >= JOBS_LEVEL)
    }

    /// Notes that the transaction depends on the key.
    fn decided_on(&mut self, key: Key) -> Result<(), Refusal> {
        self.state.check(&key)?;
        self.compare(key);
        Ok(())
    }

    /// Compares the key, also that of a damaged record, which the transaction replaces or deletes.
    fn compare(&mut self, key: Key) {
        if !self.txn.compares.iter().any(|it| it.key == key) {
            let mod_revision = self.state.revision(&key);
            self.txn.compares.push(Compare { key, mod_revision });
        }
    }

    /// Writes a record. One that no node could read again is refused.
    fn put(&mut self, key: Key, record: &impl Record) -> Result<(), Refusal> {
        self.decided_on(key.clone())?;
        let unreadable =
            |error| Refusal::Unreadable { key: key.path(self.state.uuid()).into(), error };
        let value = record.encode_readable().map_err(unreadable)?;
        self.txn.puts.push(Put { key, value: value.into(), lease: None });
        Ok(())
    }

    /// Makes the key the owner's, who has checked that it is free.
    fn own(&mut self, key: Key, owner: Uuid) -> Result<(), Refusal> {
        self.put(key, &OwnerRecord { schema: Schema, owner })
    }

    /// Deletes a record.
    fn delete(&mut self, key: Key) -> Result<(), Refusal> {
        self.decided_on(key.clone())?;
        self.txn.deletes.push(key);
        Ok(())
    }

    /// Whether the key exists, which the transaction then depends on.
    fn exists(&mut self, key: Key) -> Result<bool, Refusal> {
        let exists = self.state.revision(&key).0 != 0;
        self.decided_on(key)?;
        Ok(exists)
    }

    fn submit(self) -> Result<Step, Refusal> {
        Ok(Step::Submit(self.txn))
    }
}
