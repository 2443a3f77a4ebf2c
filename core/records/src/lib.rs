//! The records that a node keeps: their keys, their values, and the transactions that change them. Pure.
//!
//! Records lie in a store, which is a map of keys with revisions. A change is one [`Txn`]: the keys that it was
//! decided on, with their revisions, and what it writes and deletes. This crate opens no connection and no file.

pub mod access;
pub mod check;
mod endpoint;
pub mod kept;
pub mod key;
pub mod local;
pub mod model;
pub mod record;
pub mod state;
pub mod store;
pub mod token;
pub mod users;

pub use access::{AccessRecord, AccessRecords};
pub use endpoint::{CLIENT_PORT, Endpoint, ParseEndpointError, listed};
pub use kept::Seen;
pub use key::{Key, ParseKeyError, prefix};
pub use record::{RecordError, VALUE_LEN_MAX};
pub use state::{ClusterState, Inconsistent};
pub use store::{
    Answer, Compare, Found, ModRevision, Operation, Put, RequestId, StoreEvent, StoreRequest, Txn,
};
