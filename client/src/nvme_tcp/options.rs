//! The parameters of a connection to a subsystem.

use std::net::SocketAddr;

use nearflash_nvme::Nqn;
use nearflash_nvme_tcp::Digests;
use nearflash_units::{ByteLen, Nanos};
use uuid::Uuid;

#[cfg(feature = "tls")]
use super::secured::Tls;
use crate::builders::builders;

/// The identity of this host.
#[derive(Clone, Debug)]
pub struct HostIdentity {
    /// HOSTNQN.
    pub nqn: Nqn,
    /// HOSTID, the same for all connections of a host.
    pub id: Uuid,
}

impl HostIdentity {
    /// A host with this identifier, and the UUID-based NQN that the specification derives from it.
    /// NVMe Base 2.0, 4.5.
    pub fn from_uuid(id: Uuid) -> Self {
        let name = format!("nqn.2014-08.org.nvmexpress:uuid:{}", id.hyphenated());
        Self { nqn: Nqn::new(&name).expect("the form is the specification's own"), id }
    }
}

/// The parameters of a connection to a subsystem.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// The target's address.
    pub address: SocketAddr,
    /// SUBNQN.
    pub subsystem: Nqn,
    /// This host's identity.
    pub host: HostIdentity,
    /// The digests to request; those that the controller does not grant are not used.
    pub digests: Digests,
    /// KATO: the controller may end the association after this time without a command.
    pub keep_alive: Nanos,
    /// The time to wait for a connection or the answer to an admin command.
    pub timeout: Nanos,
    /// TLS for every connection.
    #[cfg(feature = "tls")]
    pub tls: Option<Tls>,
}

impl Options {
    /// No TLS, no digests, a keep-alive time-out of 15 s, and a time-out of 10 s.
    pub fn new(address: SocketAddr, subsystem: Nqn, host: HostIdentity) -> Self {
        Self {
            address,
            subsystem,
            host,
            digests: Digests::NONE,
            keep_alive: Nanos::from_secs(15),
            timeout: Nanos::from_secs(10),
            #[cfg(feature = "tls")]
            tls: None,
        }
    }
}

builders!(Options {
    address: SocketAddr,
    subsystem: Nqn,
    host: HostIdentity,
    digests: Digests,
    keep_alive: Nanos,
    timeout: Nanos,
});

#[cfg(feature = "tls")]
builders!(Options { tls: Option<Tls> });

impl Options {
    /// Whether the connections use TLS.
    pub(super) fn uses_tls(&self) -> bool {
        #[cfg(feature = "tls")]
        return self.tls.is_some();
        #[cfg(not(feature = "tls"))]
        false
    }
}

/// The resources of a queue pair.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct QueueOptions {
    /// The maximum number of commands in flight.
    pub depth: u16,
    /// The number of buffers for payload.
    pub buffer_count: u32,
    /// The length of each buffer, and so the longest command's payload.
    pub buffer_len: ByteLen,
}

impl QueueOptions {
    /// A buffer for each of `depth` commands of `op_len`.
    pub fn for_ops(depth: u16, op_len: ByteLen) -> Self {
        Self { depth, buffer_count: u32::from(depth), buffer_len: op_len }
    }
}

builders!(QueueOptions { depth: u16, buffer_count: u32, buffer_len: ByteLen });
