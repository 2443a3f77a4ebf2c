//! The state that the nodes of a cluster agree on: nodes, slices, and volumes striped over them.
//! Pure.
//!
//! A cluster store, etcd, holds the state as records under keys (`nearflash-records`). This crate follows the
//! store, and carries changes out (`nearflash-planner`). It opens no connection: the driver of its requests is
//! either a thread with an etcd client or the simulator.

pub mod agent;
pub mod compile;
pub mod continuity;
#[cfg(test)]
mod hostile;
pub mod summary;
pub mod verdict;

pub use agent::{Agent, AgentConfig, ChangeId, Outcome, StoreHealth};
pub use compile::{Tables, compile, face_name, face_uuid, part_name, part_uuid};
pub use summary::{NodeSummary, SliceSpace, slice_spaces, summary};
pub use verdict::{Level, Part, Verdict, data, mirrors_by_copies, verdict};
