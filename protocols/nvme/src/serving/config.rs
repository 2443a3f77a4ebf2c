//! What a node is told of what it serves: by whom it is called, to whom it answers, within which
//! limits.

use std::collections::BTreeSet;
use std::sync::Arc;

use nearflash_request::{Usage, VolumeId};
use nearflash_units::{BlockSize, Blocks, ByteLen, MIB, Nanos};
use uuid::Uuid;

use crate::address::TransportAddress;
use crate::{HostName, NamespaceEntry, NamespaceId, Nqn};

/// What stays as it is while a node runs.
#[derive(Clone, Debug)]
pub struct TargetConfig {
    /// Each subsystem's serial number is made from this and its name: the same after a restart,
    /// and different on another node.
    pub serial_seed: u64,
    /// MN, at most 40 characters of ASCII.
    pub model: String,
    /// FR, at most 8 characters of ASCII.
    pub firmware: String,
    /// Who may connect.
    pub hosts: HostAccess,
    /// Where hosts can connect: what the discovery log lists.
    pub ports: Vec<Port>,
    /// What nobody may exceed.
    pub limits: Limits,
    /// What the health log tells.
    pub life: Life,
}

/// How the node has lived so far, and what was done with its volumes.
#[derive(Clone, Debug, Default)]
pub struct Life {
    /// How often it was started, this start included.
    pub starts: u64,
    /// How often it ended without having drained.
    pub unsafe_ends: u64,
    /// How long it ran before this start.
    pub ran: Nanos,
    /// What was done with its volumes, in earlier runs too.
    pub usage: Arc<Usage>,
}

/// Who may connect to subsystems.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum HostAccess {
    /// Every host.
    Any,
    /// Hosts of these names.
    Listed(BTreeSet<Nqn>),
}

impl HostAccess {
    /// Whether this host may.
    pub fn admits(&self, host: &HostName) -> bool {
        match (self, host) {
            (Self::Any, _) => true,
            (Self::Listed(hosts), HostName::Named(host)) => hosts.contains(host),
            (Self::Listed(_), HostName::Unnamed) => false,
        }
    }
}

/// A listener.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Port {
    /// PORTID in the discovery log.
    pub id: u16,
    /// Where it listens.
    pub listen: TransportAddress,
    /// What hosts are told instead, where they do not reach it by that address (NAT). Empty: the
    /// address where it listens or, when that is unspecified, the one that the host used.
    pub advertise: Vec<TransportAddress>,
}

/// Limits, each told to hosts in the field named.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Limits {
    /// MDTS: a power of two, at least 4 KiB.
    pub transfer_len_max: ByteLen,
    /// IOCCSZ less the command: bytes of data in an I/O capsule, a multiple of 16.
    pub in_capsule_len_max: u32,
    /// I/O queues of a controller.
    pub io_queues_max: u16,
    /// MQES: entries of a queue.
    pub queue_entries_max: u16,
    /// Controllers of the node, over all subsystems.
    pub controllers_max: u16,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            transfer_len_max: ByteLen(MIB),
            in_capsule_len_max: 8192,
            io_queues_max: 64,
            queue_entries_max: 1024,
            controllers_max: 1024,
        }
    }
}

/// A volume offered as a namespace.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NamespaceConfig {
    /// The subsystem that has it.
    pub subsystem: Nqn,
    /// Its number there, from 1 to [`NAMESPACE_ID_MAX`](crate::NAMESPACE_ID_MAX).
    pub namespace: NamespaceId,
    /// The volume.
    pub volume: VolumeId,
    /// What hosts know it by, on every path and for ever.
    pub uuid: Uuid,
    /// Size of its logical blocks.
    pub block_size: BlockSize,
    /// How many it has.
    pub blocks: Blocks,
    /// What its device writes at once, whole or not at all when power is lost.
    pub device_block_size: BlockSize,
    /// Its device has a volatile write cache, so that only a flush makes writes durable.
    pub volatile_cache: bool,
    /// What a deallocation does.
    pub deallocation: Deallocation,
    /// Writes are refused.
    pub write_protected: bool,
}

/// What becomes of deallocated blocks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Deallocation {
    /// Nothing: all blocks are always there.
    None,
    /// They are released, and read as zeroes or as before.
    Unspecified,
    /// They are released, and always read as zeroes.
    ReadsZeroes,
}

impl NamespaceConfig {
    /// What hosts best write in multiples of: shorter writes have devices read and change what they
    /// write at once.
    pub(super) fn physical_block_size(&self) -> BlockSize {
        self.block_size.max(self.device_block_size).max(BlockSize::B4096)
    }

    /// What I/O needs to know of it.
    pub(super) fn entry(&self) -> NamespaceEntry {
        NamespaceEntry {
            volume: self.volume,
            block_size: self.block_size,
            blocks: self.blocks,
            write_protected: self.write_protected,
        }
    }
}

/// Why namespaces cannot be published. The configuration's fault.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum PublishError {
    /// The number names no namespace.
    #[error("namespace {} of {subsystem}: numbers go from 1 to 1024", namespace.0)]
    NamespaceNumber {
        /// Whose.
        subsystem: Nqn,
        /// Which.
        namespace: NamespaceId,
    },
    /// Two namespaces with one number.
    #[error("namespace {} of {subsystem} is given twice", namespace.0)]
    Duplicate {
        /// Whose.
        subsystem: Nqn,
        /// Which.
        namespace: NamespaceId,
    },
    /// The name of discovery subsystems cannot name one with namespaces.
    #[error("a subsystem cannot have the discovery subsystem's name")]
    DiscoveryName,
}
