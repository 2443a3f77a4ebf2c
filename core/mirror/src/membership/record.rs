//! The membership of a mirror, as the cluster's store has it.

use serde::{Deserialize, Serialize};

use crate::table::Term;

/// A replica that is in sync, in one incarnation of its slice.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Element {
    /// The ordinal of the replica in its mirror.
    pub replica: u8,
    /// The incarnation of its slice. A replica whose slice has another one is *suspect*: it may hold
    /// less than it has accepted.
    pub incarnation: u64,
}

/// The membership of a mirror in one term.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// The term.
    pub term: Term,
    /// The ordinal of the primary.
    pub primary: u8,
    /// The replicas that have everything that was acknowledged; never empty.
    pub in_sync: Vec<Element>,
}

/// A record, and the revision of the store that wrote it. The higher revision counts.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Known {
    /// The record.
    pub record: Record,
    /// The revision.
    pub revision: i64,
}

impl Record {
    /// The element of a replica, if it is in sync.
    pub fn element(&self, replica: u8) -> Option<Element> {
        self.in_sync.iter().copied().find(|element| element.replica == replica)
    }

    /// The next term, with these members.
    pub(super) fn next(&self, primary: u8, in_sync: Vec<Element>) -> Self {
        Self { term: Term(self.term.0 + 1), primary, in_sync }
    }
}
