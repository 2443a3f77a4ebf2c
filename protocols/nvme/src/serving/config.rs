//! The configuration of a target: its identity, the hosts that may connect, its namespaces and
//! limits.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::Arc;

use nearflash_request::{Support, Usage, VolumeId};
use nearflash_units::{BlockSize, Blocks, ByteLen, MIB, Nanos};
use uuid::Uuid;

use crate::address::TransportAddress;
use crate::tls::DoorTls;
use crate::{ControllerId, HostName, NamespaceEntry, NamespaceId, Nqn};

/// The controller ids of a node that shares no subsystem with another one.
pub const ALL_CONTROLLER_IDS: RangeInclusive<u16> = 1..=ControllerId::MAX.0;

/// The configuration that does not change while a node runs.
#[derive(Clone, Debug)]
pub struct TargetConfig {
    /// The seed of the serial numbers. A serial number is derived from it and the subsystem's name,
    /// so that it is the same after a restart and differs on another node.
    pub serial_seed: u64,
    /// MN, at most 40 ASCII characters.
    pub model: String,
    /// FR, at most 8 ASCII characters.
    pub firmware: String,
    /// The hosts that may connect.
    pub hosts: HostAccess,
    /// The listeners, which the discovery log lists. No two nodes of a cluster have ports of one number.
    pub ports: Vec<Port>,
    /// The numbers that controllers get. Several nodes that serve one subsystem need different ones: a
    /// host refuses a second controller with the number of another one.
    pub controller_ids: RangeInclusive<u16>,
    /// The limits for hosts.
    pub limits: Limits,
    /// The source of the health log page.
    pub life: Life,
}

/// The node's history, for the health log page.
#[derive(Clone, Debug, Default)]
pub struct Life {
    /// The number of starts, including the current one.
    pub starts: u64,
    /// The number of times that the node ended without a drain.
    pub unsafe_ends: u64,
    /// The time that the node ran before the current start.
    pub ran: Nanos,
    /// Reports the traffic of each volume, including that of earlier runs. With `None`, the health
    /// log reports no traffic.
    pub usage: Option<Arc<dyn Usage>>,
}

/// The hosts that may connect to subsystems.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum HostAccess {
    /// Every host.
    Any,
    /// Hosts with one of these names.
    Listed(BTreeSet<Nqn>),
}

impl HostAccess {
    /// Whether this host may connect.
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
    /// The address on which it listens.
    pub listen: TransportAddress,
    /// The addresses to advertise instead, for hosts that do not reach the listener by its own
    /// (NAT). If empty, the discovery log has the listener's address or, if that is unspecified,
    /// the one that the host used.
    pub advertise: Vec<TransportAddress>,
    /// Whether its connections use TLS.
    pub tls: DoorTls,
}

/// Limits, each reported to hosts in the named field.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Limits {
    /// MDTS: a power of two, at least 4 KiB.
    pub transfer_len_max: ByteLen,
    /// IOCCSZ without the command: bytes of data in an I/O capsule, a multiple of 16.
    pub in_capsule_len_max: u32,
    /// The maximum number of I/O queues of a controller.
    pub io_queues_max: u16,
    /// MQES: the maximum number of entries of a queue.
    pub queue_entries_max: u16,
    /// The maximum number of I/O controllers of the node, over all subsystems. A host has a quarter of them at most.
    pub controllers_max: u16,
    /// The maximum number of discovery controllers of the node.
    pub discovery_controllers_max: u16,
    /// The maximum number of I/O queues of a host, over all of its controllers. Hosts that prove nothing have twice
    /// as many for each address.
    pub host_queues_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            transfer_len_max: ByteLen(MIB),
            in_capsule_len_max: 8192,
            io_queues_max: 64,
            queue_entries_max: 1024,
            controllers_max: 1024,
            discovery_controllers_max: 256,
            host_queues_max: 4096,
        }
    }
}

/// A volume exported as a namespace.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NamespaceConfig {
    /// The subsystem of the namespace.
    pub subsystem: Nqn,
    /// Its number in the subsystem, from 1 to [`NAMESPACE_ID_MAX`](crate::NAMESPACE_ID_MAX).
    pub namespace: NamespaceId,
    /// The volume.
    pub volume: VolumeId,
    /// The identifier by which hosts recognize the namespace on every path. It never changes.
    pub uuid: Uuid,
    /// The logical block size.
    pub block_size: BlockSize,
    /// The number of logical blocks.
    pub blocks: Blocks,
    /// The unit that the device writes atomically across a power failure.
    pub device_block_size: BlockSize,
    /// The device has a volatile write cache, so that only a flush makes writes durable.
    pub volatile_cache: bool,
    /// The effect of a deallocation.
    pub deallocation: Deallocation,
    /// The commands that it has.
    pub support: Support,
    /// Every node of the cluster serves it.
    pub on_every_node: bool,
    /// Writes are refused.
    pub write_protected: bool,
}

/// The effect of a deallocation.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Deallocation {
    /// None: all blocks stay allocated.
    None,
    /// The blocks are released, and read as zeroes or as before.
    Unspecified,
    /// The blocks are released, and always read as zeroes.
    ReadsZeroes,
}

impl NamespaceConfig {
    /// The write granularity below which the device must read, modify and write.
    pub(super) fn physical_block_size(&self) -> BlockSize {
        self.block_size.max(self.device_block_size).max(BlockSize::B4096)
    }

    /// The properties that decoding I/O commands needs.
    pub(super) fn entry(&self) -> NamespaceEntry {
        NamespaceEntry {
            volume: self.volume,
            block_size: self.block_size,
            blocks: self.blocks,
            support: self.support,
            write_protected: self.write_protected,
        }
    }
}

/// Why a set of namespaces cannot be published: an error of the configuration.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum PublishError {
    /// The number is not a valid namespace number.
    #[error("namespace {} of {subsystem}: numbers go from 1 to 1024", namespace.0)]
    NamespaceNumber { subsystem: Nqn, namespace: NamespaceId },
    /// Two namespaces have the same number.
    #[error("namespace {} of {subsystem} is given twice", namespace.0)]
    Duplicate { subsystem: Nqn, namespace: NamespaceId },
    /// A subsystem with namespaces has the discovery subsystem's name.
    #[error("a subsystem cannot have the discovery subsystem's name")]
    DiscoveryName,
}
