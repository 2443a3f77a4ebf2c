//! The parameters of a session and its connections.

use std::net::SocketAddr;
use std::sync::Arc;

use nearflash_iscsi::Digests;
use nearflash_iscsi::chap::Account;
use nearflash_units::{ByteLen, Nanos};

use crate::builders::builders;

/// The default InitiatorName.
pub const INITIATOR_DEFAULT: &str = "iqn.2026-11.io.nearflash:initiator";

/// The parameters of a session.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// The target's address.
    pub address: SocketAddr,
    /// InitiatorName.
    pub initiator: String,
    /// TargetName.
    pub target: String,
    /// The CHAP account of the initiator, with that of the target for mutual CHAP.
    pub account: Option<Arc<Account>>,
    /// The required digests.
    pub digests: Digests,
    /// The number of connections in the session.
    pub connections: u16,
    /// The time to wait for a connection, a login, or the answer to a command of the session
    /// itself.
    pub timeout: Nanos,
}

impl Options {
    /// One connection, no digests, no account, and a time-out of 10 s.
    pub fn new(address: SocketAddr, target: &str) -> Self {
        Self {
            address,
            initiator: INITIATOR_DEFAULT.to_owned(),
            target: target.to_owned(),
            account: None,
            digests: Digests::NONE,
            connections: 1,
            timeout: Nanos::from_secs(10),
        }
    }
}

builders!(Options {
    address: SocketAddr,
    initiator: String,
    target: String,
    account: Option<Arc<Account>>,
    digests: Digests,
    connections: u16,
    timeout: Nanos,
});

/// The resources of each connection.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ConnectionOptions {
    /// The maximum number of operations in flight.
    pub depth: u16,
    /// The number of buffers for payload.
    pub buffer_count: u32,
    /// The length of each buffer, and so the longest operation.
    pub buffer_len: ByteLen,
}

impl ConnectionOptions {
    /// A buffer for each of `depth` operations of `op_len`.
    pub fn for_ops(depth: u16, op_len: ByteLen) -> Self {
        Self { depth, buffer_count: u32::from(depth), buffer_len: op_len }
    }
}

builders!(ConnectionOptions { depth: u16, buffer_count: u32, buffer_len: ByteLen });
