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

mod node;
mod place;
mod replace;
mod users;
mod volume;

pub use replace::lost_by_removal;

use std::collections::BTreeMap;
use std::net::SocketAddr;

use nearflash_records::key::Key;
use nearflash_records::record::{
    AddressTls, ClusterRecord, Door, FEATURE_LEVEL, OwnerRecord, Placement, Record, Schema,
};
use nearflash_records::state::ClusterState;
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
    /// Registers a node, or updates its addresses and version.
    RegisterNode(NodeSpec),
    /// Adds a slice, or notes that it was opened once more.
    OpenSlice(SliceSpec),
    /// Creates a volume with the rows that it needs. It can be used after [`Self::ShowBlocks`].
    CreateVolume(VolumeSpec),
    /// Gives a volume the rows that a length needs.
    GrowVolume {
        /// The volume.
        volume: Uuid,
        /// Its new length.
        blocks: Blocks,
    },
    /// Makes a volume at least this long, whose first rows have been zeroed.
    ShowBlocks {
        /// The volume.
        volume: Uuid,
        /// The rows that have been zeroed.
        rows: u32,
        /// Its new length.
        blocks: Blocks,
    },
    /// Removes a volume.
    RemoveVolume {
        /// The volume.
        volume: Uuid,
    },
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
            Self::RegisterNode(spec) => node::register(state, spec),
            Self::OpenSlice(spec) => node::open_slice(state, spec),
            Self::CreateVolume(spec) => volume::create(state, spec, begun),
            Self::GrowVolume { volume, blocks } => volume::grow(state, *volume, *blocks),
            Self::ShowBlocks { volume, rows, blocks } => {
                volume::show(state, *volume, *rows, *blocks)
            }
            Self::RemoveVolume { volume } => volume::remove(state, *volume),
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

    /// Notes that the transaction depends on the key.
    fn decided_on(&mut self, key: Key) -> Result<(), Refusal> {
        self.state.check(&key)?;
        if !self.txn.compares.iter().any(|it| it.key == key) {
            let mod_revision = self.state.revision(&key);
            self.txn.compares.push(Compare { key, mod_revision });
        }
        Ok(())
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
