//! The daemon: configuration, catalog, control socket, and the cores that serve.

pub mod config;
mod runtime_face;

pub use runtime_face::{
    ConnectedHost, CoreStatus, Door, HostAccess, Namespace, Published, Runtime, RuntimeConfig,
    RuntimeStatus, StartError,
};
