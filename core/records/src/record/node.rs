//! The records of the cluster and of its nodes.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;

use nearflash_space::Name;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{Record, Schema, as_text};
use crate::key::ORDINAL_MAX;

/// The feature level of this program. A cluster of a higher level is refused.
pub const FEATURE_LEVEL: u32 = 4;

/// The lowest feature level whose clusters have jobs.
pub const JOBS_LEVEL: u32 = 2;

/// The lowest feature level whose clusters move replicas.
pub const MOVES_LEVEL: u32 = 4;

/// The lowest feature level whose clusters have one list of access for all nodes.
pub const ACCESS_LEVEL: u32 = 3;

/// The version of a program in the record of its node. Programs of level 1 wrote no level.
pub fn version_with_level(version: &str) -> String {
    format!("{version}+level.{FEATURE_LEVEL}")
}

/// The feature level of the program that wrote this version.
pub fn level_of(version: &str) -> u32 {
    let level = version.split_once("+level.").and_then(|(_, level)| level.parse().ok());
    level.unwrap_or(1)
}

/// Most addresses of one door.
pub const ADDRESSES_MAX: usize = 8;

/// Longest text of a version, in bytes.
const VERSION_LEN_MAX: usize = 64;

/// The cluster.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterRecord {
    /// The schema.
    pub schema: Schema,
    /// Its name, for people.
    #[serde(with = "as_text")]
    pub name: Name,
    /// Its UUID, which is also in every key.
    pub uuid: Uuid,
    /// The features that its records may use.
    pub feature_level: u32,
    /// When it was created, in seconds since 1970.
    pub created: u64,
}

/// Which of the store's histories this is. A store that is restored from a snapshot repeats a history; when an
/// operator accepts it, another one begins.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct HistoryRecord {
    /// The schema.
    pub schema: Schema,
    /// Random.
    pub id: Uuid,
    /// When it began, in seconds since 1970. A later one counts.
    pub began: u64,
}

/// A node has seen the store.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SeenRecord {
    /// The schema.
    pub schema: Schema,
    /// Up to this revision.
    pub revision: u64,
}

/// Longest name of a member of etcd, in bytes.
const MACHINE_LEN_MAX: usize = 256;

/// A protocol that a node listens for.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Door {
    /// NVMe/TCP.
    NvmeTcp,
    /// iSCSI.
    Iscsi,
    /// The direct protocol, which the nodes speak with each other, too.
    Direct,
    /// The pulses of other nodes, which have leases and memberships of mirrors.
    Pulse,
}

/// As the option is called with which a node gets its addresses.
impl fmt::Display for Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NvmeTcp => "--nvme-tcp",
            Self::Iscsi => "--iscsi",
            Self::Direct => "--direct",
            Self::Pulse => "--pulse",
        })
    }
}

/// Whether the connections to an address use TLS.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AddressTls {
    /// Those of peers that begin with a handshake.
    Allowed,
    /// All of them.
    Required,
}

/// A node.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct NodeRecord {
    /// The schema.
    pub schema: Schema,
    /// Its name, unique in the cluster.
    #[serde(with = "as_text")]
    pub name: Name,
    /// Its number, unique in the cluster: 1 to [`ORDINAL_MAX`].
    pub ordinal: u16,
    /// The addresses of each door.
    pub addresses: BTreeMap<Door, Vec<SocketAddr>>,
    /// The addresses of NVMe/TCP whose connections use TLS.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tls: BTreeMap<SocketAddr, AddressTls>,
    /// The version of its program.
    pub version: String,
    /// The name that its machine has as a member of etcd; empty for a machine that is not a member.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub machine: String,
}

/// A node that was removed. The record stays, so that the node is refused when it comes back.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RemovedRecord {
    /// The schema.
    pub schema: Schema,
    /// The name that it had. Another node may have it now.
    #[serde(with = "as_text")]
    pub name: Name,
    /// The name that its machine had as a member of etcd; empty if the machine was none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub machine: String,
    /// Its slices.
    pub slices: Vec<Uuid>,
}

/// A node runs.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct AliveRecord {
    /// The schema.
    pub schema: Schema,
    /// The random number of the process.
    pub run: u64,
    /// The version of the list of access by which all cores of the node serve, and which the node has kept; older
    /// requests have ended. Absent before the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<u64>,
}

/// The answer of a node to the question who uses a volume. The question is an answer of another node that has
/// a higher number.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct UsersRecord {
    /// The schema.
    pub schema: Schema,
    /// The number of the question.
    pub number: u64,
    /// The users in a few words; empty if there are none.
    pub users: String,
}

impl Record for ClusterRecord {}

impl Record for HistoryRecord {}

impl Record for SeenRecord {}

impl Record for NodeRecord {
    fn check(&self) -> Result<(), &'static str> {
        match self {
            _ if self.ordinal == 0 || self.ordinal > ORDINAL_MAX => Err("ordinal is not 1 to 1023"),
            _ if self.addresses.values().any(|list| list.len() > ADDRESSES_MAX) => {
                Err("a door has more than 8 addresses")
            }
            _ if self.version.len() > VERSION_LEN_MAX => Err("version is longer than 64 bytes"),
            _ if self.machine.len() > MACHINE_LEN_MAX => Err("machine is longer than 256 bytes"),
            _ => Ok(()),
        }
    }
}

impl Record for AliveRecord {}

impl Record for RemovedRecord {}

impl Record for UsersRecord {}
