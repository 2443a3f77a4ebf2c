//! Who connects, to what, and how.

use std::net::SocketAddr;
use std::sync::Arc;

use nearflash_iscsi::Digests;
use nearflash_iscsi::chap::Account;
use nearflash_units::{ByteLen, Nanos};

/// InitiatorName unless another is given.
pub const INITIATOR_DEFAULT: &str = "iqn.2026-11.io.nearflash:initiator";

/// What to connect to, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where.
    pub address: SocketAddr,
    /// InitiatorName.
    pub initiator: String,
    /// TargetName.
    pub target: String,
    /// How to prove who this is, and perhaps what the target must prove.
    pub account: Option<Arc<Account>>,
    /// The digests to insist on.
    pub digests: Digests,
    /// Connections of the session.
    pub connections: u16,
    /// How long to wait for the answer to a connection, a login or a question.
    pub timeout: Nanos,
}

impl Options {
    /// With one connection, no digests, no account and 10 s of patience.
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

/// The room of each connection.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionOptions {
    /// Operations in flight.
    pub depth: u16,
    /// Buffers for the payload of operations.
    pub buffer_count: u32,
    /// Of each buffer: the longest operation's payload.
    pub buffer_len: ByteLen,
}

impl ConnectionOptions {
    /// With a buffer for each of `depth` operations of `op_len`.
    pub fn for_ops(depth: u16, op_len: ByteLen) -> Self {
        Self { depth, buffer_count: u32::from(depth), buffer_len: op_len }
    }
}
