//! The state that the nodes of a cluster agree on: nodes, slices, and volumes striped over them.
//! Pure.
//!
//! A cluster store, etcd, holds the state as records under keys. This crate names the keys,
//! encodes the records, computes each change as one transaction from the records that it was
//! decided on, and follows the store. It opens no connection: whoever drives the [`store`] requests
//! is either a thread with an etcd client or the simulator.

pub mod agent;
pub mod change;
pub mod compile;
pub mod continuity;
pub mod kept;
pub mod key;
#[cfg(test)]
mod model;
pub mod record;
pub mod state;
pub mod store;
pub mod summary;
pub mod users;
pub mod verdict;

pub use agent::{Agent, AgentConfig, ChangeId, Outcome, StoreHealth};
pub use change::{Change, Refusal, Step};
pub use compile::{Tables, compile, face_name, face_uuid, part_name, part_uuid};
pub use continuity::{RolledBack, Seen};
pub use key::{Key, ParseKeyError, prefix};
pub use record::{RecordError, VALUE_LEN_MAX};
pub use state::{ClusterState, Inconsistent};
pub use store::{
    Answer, Compare, Found, ModRevision, Operation, Put, RequestId, StoreEvent, StoreRequest, Txn,
};
pub use summary::{NodeSummary, SliceSpace, slice_spaces, summary};
pub use verdict::{Level, Part, Verdict, data, mirrors_by_copies, verdict};
