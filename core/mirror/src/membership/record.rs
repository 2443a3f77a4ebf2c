//! The membership of a mirror in the cluster's store.

use serde::{Deserialize, Serialize};

use crate::table::Term;

/// Names the contents of the replicas of a mirror, as of the last addition to its membership.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Token(pub u64);

impl Token {
    /// The replicas of a new mirror, to which none was added yet.
    pub const FIRST: Self = Self(0);
}

/// A replica that is in sync, in one incarnation of its slice.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Element {
    /// The ordinal of the replica in its mirror.
    pub replica: u32,
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
    pub primary: u32,
    /// The replicas that have everything that was acknowledged; never empty.
    pub in_sync: Vec<Element>,
    /// The term since which no replica in sync has lost answered writes. Those that were answered in earlier
    /// terms, and that no flush has followed, may be lost: the last replica in sync lost its power.
    #[serde(default = "Term::first", skip_serializing_if = "Term::is_first")]
    pub kept_since: Term,
    /// Names their contents as of the last addition.
    #[serde(default)]
    pub token: Token,
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
    pub fn element(&self, replica: u32) -> Option<Element> {
        self.in_sync.iter().copied().find(|element| element.replica == replica)
    }

    /// Whether a replica is the only one in sync, in this incarnation of its slice.
    pub(super) fn is_alone(&self, element: Element) -> bool {
        self.in_sync == [element] && self.primary == element.replica
    }

    /// The next term, with these members.
    pub(super) fn next(&self, primary: u32, in_sync: Vec<Element>) -> Self {
        let term = Term(self.term.0 + 1);
        Self { term, primary, in_sync, ..self.clone() }
    }

    /// The next term, with a replica alone that has lost its power, and perhaps what was not flushed.
    pub(super) fn next_after_loss(&self, element: Element) -> Self {
        let next = self.next(element.replica, vec![element]);
        Self { kept_since: next.term, ..next }
    }
}
