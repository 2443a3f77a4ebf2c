//! The daemon: configuration, catalog, control socket, and the cores that serve.
//!
//! The two sides share only the interface of [`RuntimeConfig`] and [`Cores`]: the control side (every module
//! except `runtime`), which may block and allocate, and the cores, which do neither.

mod asker;
mod authentication;
mod cluster;
mod clustered;
mod control;
mod crew;
mod doors;
mod end_of_panic;
mod error;
mod error_code;
mod files;
mod health;
mod http;
mod joining;
mod node;
mod prepare;
mod recorded;
mod remote;
pub mod runtime;
mod serve;
mod start_error;
mod volume_info;

pub use cluster::ChangeError;
pub use error::ZeroError;
pub use nearflash_access::{InitiatorName, ParseInitiatorNameError};
pub use nearflash_catalog::{Catalog, CatalogError, kept};
pub use nearflash_publish::iscsi_names::{IQN_PREFIX, target_iqn};
pub use nearflash_publish::{NQN_PREFIX, subsystem_nqn};
pub(crate) use nearflash_reactor::{Then, Ticket};
pub(crate) use runtime::OnMirrors;
pub use runtime::{Begun, Cores, CoresError, RuntimeConfig};
pub use serve::{Running, serve};
pub use start_error::StartError;
