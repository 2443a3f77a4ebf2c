//! Requests to the cluster store and its answers, as values: the thread with the etcd client and
//! the simulator's store execute the same ones.
//!
//! A request may stay without an answer. Of a transaction this means that it may take effect at any
//! later time, or never; asking it again is safe, since its compares let it take effect once.

use std::fmt;

use nearflash_units::Nanos;
use zeroize::Zeroizing;

use crate::key::Key;

/// Most keys of one page of a range. A page is at most 64 MiB, and usually some 400 KiB.
pub const PAGE_KEYS_MAX: usize = 1000;

/// Most compares, and most puts and deletes, of a transaction: the limit of an etcd that nobody
/// has configured.
pub const TXN_OPERATIONS_MAX: usize = 128;

/// The revision of the store at which a key was last changed; 0: the key does not exist.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ModRevision(pub u64);

/// etcd's cluster id, which is in each of its answers. An etcd that is restored from a snapshot usually has
/// another one than before.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct StoreId(pub u64);

/// As `etcdctl` shows it.
impl fmt::Display for StoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

/// The proof that the store has gone back.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum RolledBack {
    /// Another cluster id.
    #[error("its cluster id is {found}, and was {known}")]
    Store { known: StoreId, found: StoreId },
    /// A smaller revision.
    #[error("it is at revision {found}, and was at {known}")]
    Revision { known: u64, found: u64 },
    /// Another history.
    #[error("its history is another one")]
    History,
    /// A restore was accepted while this process ran.
    #[error("a restored state was accepted: restart this node")]
    Accepted,
    /// A key as it was before.
    #[error("'{key}' is as of revision {found}, and was as of {known}")]
    Key { key: Key, known: u64, found: u64 },
    /// A key that nothing deleted.
    #[error("'{0}' is gone, and nothing shows that it was deleted")]
    Gone(Key),
    /// A key that was not there.
    #[error("'{key}' is there as of revision {found}, and was not there at {read}")]
    Back { key: Key, found: u64, read: u64 },
}

/// The number of a request, which its answer repeats.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct RequestId(pub u64);

/// A transaction: if every compare holds, all puts and deletes take effect, otherwise none.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Txn {
    /// The keys that it was decided on.
    pub compares: Vec<Compare>,
    /// The values to write.
    pub puts: Vec<Put>,
    /// The keys to delete.
    pub deletes: Vec<Key>,
}

/// Holds if the key was last changed at this revision.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Compare {
    /// The key.
    pub key: Key,
    /// The revision.
    pub mod_revision: ModRevision,
}

/// A value to write. Its `Debug` output hides the value, which may be a secret.
#[derive(Clone, Eq, PartialEq)]
pub struct Put {
    /// The key.
    pub key: Key,
    /// The value.
    pub value: Zeroizing<Vec<u8>>,
    /// The lease with which the key ends.
    pub lease: Option<i64>,
}

impl fmt::Debug for Put {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, len) = (&self.key, self.value.len());
        f.debug_struct("Put").field("key", key).field("len", &len).finish_non_exhaustive()
    }
}

/// A request to the store.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct StoreRequest {
    /// Its number.
    pub id: RequestId,
    /// The endpoint to ask, as an index into the configured ones.
    pub endpoint: usize,
    /// The time at which the agent stops waiting. The call may then be dropped.
    pub deadline: Nanos,
    /// The operation.
    pub operation: Operation,
}

/// The operation of a request. Keys are whole names: [`Key::path`].
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Operation {
    /// Reads keys in ascending order.
    Range {
        /// Whether the endpoint answers from its own data, which may be behind. Otherwise, the read is
        /// linearizable, and waits for an election.
        is_local: bool,
        /// The first key to read.
        from: String,
        /// The prefix that all keys have.
        prefix: String,
        /// The revision to read at; 0 for the newest.
        revision: u64,
        /// Whether the values are left out.
        keys_only: bool,
        /// The maximum number of keys in an answer.
        limit: usize,
    },
    /// Carries out a transaction.
    Txn(Txn),
    /// Reports changes under a prefix until it ends. A new watch replaces the former one.
    Watch {
        /// The prefix.
        prefix: String,
        /// The first revision whose changes are reported.
        from_revision: u64,
    },
    /// Creates a lease.
    LeaseGrant {
        /// Its length in seconds.
        ttl: u32,
    },
    /// Renews a lease.
    LeaseKeepAlive {
        /// The lease.
        lease: i64,
    },
    /// Asks for the state of the store's members.
    Status,
}

/// Something that the store reports.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum StoreEvent {
    /// A request has been answered, or never will be.
    Answered {
        /// The request.
        id: RequestId,
        /// The store that has answered; `None` if none has.
        store: Option<StoreId>,
        /// The answer.
        answer: Answer,
    },
    /// Keys changed. The changes of one revision come in one event.
    Changed {
        /// The watch.
        id: RequestId,
        /// The revision that has been reported in full.
        revision: u64,
        /// The keys with their new values; `None` for deleted ones.
        changes: Vec<Found>,
    },
    /// A watch reports nothing more: it was cut, or its next revision has been compacted.
    WatchEnded {
        /// The watch.
        id: RequestId,
        /// Whether the changes after the last reported revision can no longer be had.
        is_compacted: bool,
        /// Why.
        reason: String,
    },
}

/// A key that was found or that changed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Found {
    /// Its whole name.
    pub key: String,
    /// Its value; `None` if it was deleted or was not asked for.
    pub value: Option<Vec<u8>>,
    /// The revision of its last change.
    pub mod_revision: ModRevision,
}

/// The answer to a request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Answer {
    /// To a range.
    Range {
        /// The revision of the store that it shows.
        revision: u64,
        /// The keys, in ascending order.
        found: Vec<Found>,
        /// Whether keys follow.
        more: bool,
    },
    /// To a transaction.
    Txn {
        /// Whether its compares held.
        succeeded: bool,
        /// The revision of the store after it; that of its puts, if they took effect.
        revision: u64,
    },
    /// To a watch: it has begun.
    Watching,
    /// To a lease that was asked for.
    Lease {
        /// The lease.
        lease: i64,
    },
    /// To a renewal.
    KeptAlive {
        /// Whether the lease still exists.
        exists: bool,
    },
    /// To a question for the members.
    Status(StoreStatus),
    /// The revision of a range has been compacted.
    Compacted,
    /// No answer: the request may have taken effect, may take effect later, or never.
    Unknown {
        /// The reason, in the words of the client.
        reason: String,
    },
}

/// The state of the store's members.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct StoreStatus {
    /// The members that vote.
    pub voters: u32,
    /// Those of them that answered.
    pub healthy: u32,
    /// The alarms that are raised, such as `NOSPACE`.
    pub alarms: Vec<String>,
    /// Whether nearflash does not run them.
    pub is_external: bool,
}
