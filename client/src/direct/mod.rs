//! Direct, one-sided access to a node's flash: read and write by offset, with nothing in between.
//!
//! [`Client::connect`] reaches a node. [`Client::open`] gives a [`Volume`] for blocking calls,
//! [`Client::queue_pair`] a [`QueuePair`] for speed: many operations in flight, completions in any
//! order, nothing shared and nothing in the background. Spec: docs/direct-protocol.md.
//!
//! Invariants: a [`Buffer`] in flight is the queue pair's, so nobody else sees or changes it; what
//! may have changed a volume is never repeated behind the caller's back.

#[cfg(feature = "tokio")]
mod async_volume;
mod buffer;
mod client;
mod completion;
mod credentials;
mod error;
mod link;
mod options;
mod queue_pair;
#[cfg(feature = "tokio")]
mod readiness;
mod ring;
mod session;
mod silence;
mod slots;
mod url;
mod volume;
mod worker;

#[cfg(feature = "tokio")]
pub use async_volume::AsyncVolume;
pub use buffer::Buffer;
pub use client::Client;
pub use completion::{Completion, PostError, Token};
pub use credentials::{Credentials, CredentialsError};
pub use error::{Code, Error, Lost, codes};
pub use options::{Options, QueueOptions};
pub use queue_pair::QueuePair;
pub use url::{Place, Url, UrlError};
pub use volume::{Volume, VolumeInfo};

pub use nearflash_direct::{PeerError, Status};
