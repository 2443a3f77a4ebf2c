//! Messages between the nodes that share mirrors.
//!
//! Each node opens one connection to each partner on which it alone ever sends, its *pulse*. When the
//! process dies, the kernel ends that connection in an orderly way, which proves that no thread of the
//! process runs any more.

use nearflash_device::MirrorKey;
use serde::{Deserialize, Serialize};

use super::note::Tokens;
use super::record::{Known, Token};
use crate::table::Term;

/// A slice of a node, as it is now.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SliceState {
    /// The slice.
    pub slice: [u8; 16],
    /// How often it was opened for data.
    pub incarnation: u64,
    /// The first incarnation since its device may have lost its cache.
    pub power: u64,
}

/// A mirror for which a lease is asked.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// The mirror.
    pub mirror: MirrorKey,
    /// The term in which the asker is primary.
    pub term: Term,
    /// The session of the replica of the one who is asked.
    pub session: u32,
}

/// The last answer that has come from a node.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Heard {
    /// The number of its question.
    pub sequence: u64,
    /// How long ago it came, in milliseconds, by the clock of the node that it came to.
    pub ago_ms: u64,
}

/// A message.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub enum Pulse {
    /// The first message of each connection.
    Hello {
        /// The number of the process, drawn at its start.
        run: u64,
        /// Its slices.
        slices: Vec<SliceState>,
        /// The mirrors of which a slice knows this later term than the record, because an operator has accepted
        /// the state of a restored store.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        ahead: Vec<(MirrorKey, Term)>,
    },
    /// A primary asks for leases.
    Ask {
        /// The number of the question.
        sequence: u64,
        /// The mirrors that the two nodes share, and of which the asker is primary.
        questions: Vec<Question>,
        /// The last answer that has come, before any on this connection `None`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        heard: Option<Heard>,
    },
    /// The answer: until a lease is over, its giver takes part in no term without the holder.
    Grant {
        /// The number of the question.
        sequence: u64,
        /// The mirrors for which a lease is given.
        mirrors: Vec<MirrorKey>,
    },
    /// The membership of a mirror, for a node that knows an earlier one.
    Tell(MirrorKey, Known),
    /// A replica that is out of sync asks the primary to be taken back. Nothing that it accepted
    /// before is under way.
    Join {
        /// The mirror.
        mirror: MirrorKey,
        /// The incarnation of the replica's slice.
        incarnation: u64,
        /// The tokens that the slice has.
        tokens: Tokens,
    },
    /// The primary's answer to [`Self::Join`].
    Joined {
        /// The mirror.
        mirror: MirrorKey,
        /// The term.
        term: Term,
        /// The session that replica operations will carry.
        session: u32,
    },
    /// The replica accepts operations of that session on every core.
    Ready {
        /// The mirror.
        mirror: MirrorKey,
        /// The session.
        session: u32,
    },
    /// The replica has everything. Its slice is to have this token before the record does.
    Keep {
        /// The mirror.
        mirror: MirrorKey,
        /// The session.
        session: u32,
        /// The token.
        token: Token,
    },
    /// The answer to [`Self::Keep`]: the slice has it, durably.
    Kept {
        /// The mirror.
        mirror: MirrorKey,
        /// The session.
        session: u32,
    },
    /// To the primary: a write that was accepted has failed at the device, or the node leaves.
    Failed {
        /// The mirror.
        mirror: MirrorKey,
    },
}
