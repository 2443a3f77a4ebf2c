//! The daemon: configuration, catalog, control socket, and the cores that serve.

mod catalog;
pub mod config;
pub mod runtime;
mod runtime_face;

pub use catalog::{Catalog, CatalogError};
pub use runtime_face::{
    ConnectedHost, CoreStatus, Door, HostAccess, Namespace, Published, Runtime, RuntimeConfig,
    RuntimeStatus, StartError,
};
