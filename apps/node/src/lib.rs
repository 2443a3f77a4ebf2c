//! The daemon: configuration, catalog, control socket, and the cores that serve.
//!
//! Two sides that know of each other only what [`RuntimeConfig`] and [`Runtime`] say: the control
//! side (everything here but `runtime`), which may block and allocate, and the cores, which do
//! neither.

pub mod api;
mod catalog;
pub mod check;
pub mod config;
pub mod control;
mod error;
mod exports;
mod node;
mod prepare;
pub mod runtime;
mod runtime_face;
mod serve;

pub use catalog::{Catalog, CatalogError};
pub use error::{HostCount, NodeError};
pub use exports::{NQN_PREFIX, subsystem_nqn};
pub use runtime_face::{
    ConnectedHost, CoreStatus, Door, HostAccess, Namespace, Published, Runtime, RuntimeConfig,
    RuntimeStatus, StartError,
};
pub use serve::{Running, serve, serve_with};
