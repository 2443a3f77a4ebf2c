//! Direct, one-sided access to a node's flash: read and write by offset, with nothing in between.
//!
//! [`Client::connect`] reaches a node. [`Client::open`] gives a [`Volume`] for blocking calls,
//! [`Client::queue_pair`] a [`QueuePair`] for speed: many operations in flight, completions in any
//! order, nothing shared and nothing in the background. Spec: docs/direct-protocol.md.
//!
//! Invariants: a [`Buffer`] in flight is the queue pair's, so nobody else sees or changes it; what
//! may have changed a volume is never repeated behind the caller's back.

mod buffer;
mod client;
mod credentials;
mod error;
mod options;
mod queue_pair;
mod url;
mod volume;

pub use buffer::Buffer;
pub use client::Client;
pub use credentials::{Credentials, CredentialsError};
pub use error::{Error, Lost};
pub use options::{Options, QueueOptions};
pub use queue_pair::{Completion, PostError, QueuePair, Token};
pub use url::{Place, Url, UrlError};
pub use volume::{Volume, VolumeInfo};
