//! The daemon: configuration, catalog, control socket, and the cores that serve.
//!
//! The two sides share only the interface of [`RuntimeConfig`] and [`Runtime`]: the control side
//! (every module except `runtime`), which may block and allocate, and the cores, which do neither.

mod authentication;
mod boot;
mod changes;
mod cluster;
mod clustered;
mod control;
mod crew;
mod doors;
mod end_of_panic;
mod error;
mod error_code;
pub mod events;
mod files;
mod health;
mod http;
mod joining;
mod ledger;
mod node;
mod peer_lines;
mod prepare;
mod recorded;
mod refusals;
mod remote;
pub mod runtime;
mod runtime_face;
mod serve;
mod start_error;
mod volume_info;

pub use cluster::ChangeError;
pub use error::ZeroError;
pub use ledger::Ledger;
pub use nearflash_access::{InitiatorName, ParseInitiatorNameError};
pub use nearflash_catalog::{Catalog, CatalogError, kept};
pub use nearflash_publish::iscsi_names::{IQN_PREFIX, target_iqn};
pub use nearflash_publish::{NQN_PREFIX, subsystem_nqn};
pub use nearflash_reactor::Ticket;
pub use runtime_face::{
    Asked, AskedBy, Asker, Authentication, Connected, ConnectedClient, ConnectedHost,
    ConnectedInitiator, CoreStatus, CoreTrace, CoresError, DoorSocket, FilesNews, MirrorNews,
    OnAuthentication, OnFiles, OnMirrors, OpenDoor, PlaceUse, Runtime, RuntimeConfig,
    RuntimeStatus, Then, TraceSpec,
};
pub use serve::{Running, serve};
pub use start_error::StartError;
