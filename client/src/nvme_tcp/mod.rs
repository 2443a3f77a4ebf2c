//! An NVMe/TCP host over the system's sockets.
//!
//! [`Controller::connect`] connects to a subsystem and reads its properties; [`QueuePair::connect`]
//! creates an I/O queue pair, which one thread polls: queue pairs share nothing, and nothing runs
//! in the background. With the feature `tls`, a host can use TLS with a pre-shared key for all of its
//! connections. Spec: NVMe Base 2.0, 6; NVMe/TCP 1.1.
//!
//! Invariants: a buffer in flight belongs to the connection until its completion; once connected,
//! commands allocate no memory.

mod connection;
mod controller;
mod discovery;
mod error;
mod namespace;
mod options;
mod queue_pair;
#[cfg(feature = "tls")]
mod secured;

pub use controller::Controller;
pub use discovery::{Discovered, discover};
pub use error::HostError;
pub use namespace::Namespace;
pub use options::{HostIdentity, Options, QueueOptions};
pub use queue_pair::{Io, IoCompletion, QueuePair, Token};
#[cfg(feature = "tls")]
pub use secured::{PskFileError, Tls};

#[cfg(feature = "tls")]
pub use crate::stream::TlsError;
#[cfg(feature = "tls")]
pub use nearflash_nvme::tls::{Derivation, DeriveError, Psk, PskError, Version};

pub use nearflash_nvme::{NamespaceId, Nqn, NqnError, QueueId, Status};
pub use nearflash_nvme_tcp::Digests;
pub use nearflash_nvme_tcp::host::SubmitError;
pub use nearflash_request::BufferId;
pub use nearflash_units::{BlockSize, Blocks, ByteLen, Lba, Nanos};
pub use uuid::Uuid;
