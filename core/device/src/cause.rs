//! The request that an operation on a device is for.
//!
//! It travels with the operation, so that mirrors and other nodes know what they need of the request
//! without asking the layers above for it.

use nearflash_request::{SentIn, Tag};
use nearflash_units::Nanos;

/// The driver's number for a connection. Every answer carries the owner of its request.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Owner(pub u64);

/// The request that an operation is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Cause {
    /// The connection that sent the request.
    pub owner: Owner,
    /// The session's number for the request.
    pub tag: Tag,
    /// The time until which it may begin, if it changes data.
    pub begin_by: Nanos,
    /// When another node sent it, or when it is sent to another node, if it is on a face of a mirror.
    pub sent_in: Option<SentIn>,
    /// The operation covers the whole range of the request.
    pub is_whole: bool,
}

impl Cause {
    /// Of an operation that is for no connection, or for several. It may begin at any time.
    pub const NONE: Self = Self {
        owner: Owner(u64::MAX),
        tag: Tag(0),
        begin_by: Nanos::NEVER,
        sent_in: None,
        is_whole: false,
    };
}
