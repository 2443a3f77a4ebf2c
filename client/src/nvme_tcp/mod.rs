//! A host for NVMe/TCP over the system's sockets.
//!
//! [`Controller::connect`] joins a subsystem and learns what it can; [`QueuePair::connect`] makes
//! queues to it, each for the thread that polls it: nothing is shared between them, and nothing
//! runs in the background. Spec: NVMe Base 2.0, 6; NVMe/TCP 1.1.
//!
//! Invariants: a buffer in flight is the connection's until its completion; after connecting,
//! nothing is allocated per command.

mod connection;
mod controller;
mod discovery;
mod error;
mod options;
mod queue_pair;

pub use crate::backoff::Backoff;
pub use controller::{Controller, Namespace};
pub use discovery::{Discovered, discover};
pub use error::HostError;
pub use options::{HostIdentity, Options, QueueOptions};
pub use queue_pair::{Io, IoCompletion, QueuePair, Token};

pub use nearflash_nvme::{NamespaceId, Nqn, NqnError, QueueId, Status};
pub use nearflash_nvme_tcp::Digests;
pub use nearflash_nvme_tcp::host::SubmitError;
pub use nearflash_request::BufferId;
