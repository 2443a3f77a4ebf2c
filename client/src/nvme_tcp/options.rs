//! Who connects, to what, and how.

use std::net::SocketAddr;

use nearflash_nvme::Nqn;
use nearflash_nvme_tcp::Digests;
use nearflash_units::{ByteLen, Nanos};
use uuid::Uuid;

/// Who this host is.
#[derive(Clone, Debug)]
pub struct HostIdentity {
    /// HOSTNQN.
    pub nqn: Nqn,
    /// HOSTID: the same for all connections of one host.
    pub id: Uuid,
}

impl HostIdentity {
    /// A host with this identifier and the NQN that the specification makes of it. NVMe Base 2.0,
    /// 4.5.
    pub fn from_uuid(id: Uuid) -> Self {
        let name = format!("nqn.2014-08.org.nvmexpress:uuid:{}", id.hyphenated());
        Self { nqn: Nqn::new(&name).expect("the form is the specification's own"), id }
    }
}

/// What to connect to, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where.
    pub address: SocketAddr,
    /// SUBNQN.
    pub subsystem: Nqn,
    /// Who we are.
    pub host: HostIdentity,
    /// The digests to ask for. What the controller does not grant is not used.
    pub digests: Digests,
    /// KATO: after this long without a word the controller may drop us.
    pub keep_alive: Nanos,
    /// How long to wait for the answer to a connection or an admin command.
    pub timeout: Nanos,
}

impl Options {
    /// With no digests, 15 s keep-alive as Linux has it for discovery-less hosts, 10 s of patience.
    pub fn new(address: SocketAddr, subsystem: Nqn, host: HostIdentity) -> Self {
        Self {
            address,
            subsystem,
            host,
            digests: Digests::NONE,
            keep_alive: Nanos::from_secs(15),
            timeout: Nanos::from_secs(10),
        }
    }
}

/// One queue pair.
#[derive(Clone, Copy, Debug)]
pub struct QueueOptions {
    /// Commands in flight.
    pub depth: u16,
    /// Buffers for the payload of commands.
    pub buffer_count: u32,
    /// Of each buffer: the longest command's payload.
    pub buffer_len: ByteLen,
}

impl QueueOptions {
    /// With a buffer for each of `depth` commands of `op_len`.
    pub fn for_ops(depth: u16, op_len: ByteLen) -> Self {
        Self { depth, buffer_count: u32::from(depth), buffer_len: op_len }
    }
}
