//! Direct, one-sided access to a node's flash: read and write by offset, with nothing in between.
//!
//! [`Client::connect`] reaches a node. [`Client::open`] gives a [`Volume`] for blocking calls,
//! [`Client::queue_pair`] a [`QueuePair`] for speed: many operations in flight, completions in any
//! order, nothing shared and nothing in the background. With the feature `tokio`,
//! `Client::open_async` gives an `AsyncVolume` for tasks. The same operation has the same name
//! everywhere, with `post_` before it on a queue pair. Spec: docs/direct-protocol.md.
//!
//! ```no_run
//! use nearflash::{Client, Credentials, QueueOptions};
//!
//! # fn main() -> Result<(), nearflash::Error> {
//! let client = Client::connect("direct://192.0.2.1:4421", Credentials::NONE)?;
//! let mut pair = client.queue_pair("data", QueueOptions::default())?;
//! for number in 0..8 {
//!     let buffer = pair.buffer(4096)?;
//!     pair.post_read_at(buffer, number * 4096)?;
//! }
//! let mut done = Vec::new();
//! while pair.in_flight() > 0 {
//!     pair.poll(&mut done)?;
//! }
//! for read in done {
//!     read.result?;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Invariants: a [`Buffer`] in flight belongs to the queue pair, so the application cannot access
//! it; an operation that may have changed a volume is never repeated implicitly.

#[cfg(feature = "tokio")]
mod async_cursor;
#[cfg(feature = "tokio")]
mod async_volume;
mod buffer;
mod client;
mod completion;
mod credentials;
mod cursor;
mod error;
mod handle;
mod handover;
mod link;
mod object;
mod objects;
mod options;
#[cfg(feature = "ownership")]
mod ownership;
mod pieces;
mod queue_pair;
#[cfg(feature = "tokio")]
mod readiness;
mod ring;
mod seal_key;
mod secured;
mod session;
mod shared;
mod silence;
mod slices;
mod slots;
mod url;
mod volume;
mod volume_info;
mod worker;

#[cfg(feature = "tokio")]
pub use async_cursor::AsyncCursor;
#[cfg(feature = "tokio")]
pub use async_volume::AsyncVolume;
pub use buffer::Buffer;
pub use client::Client;
pub use completion::{Completion, PostError, Token};
pub use credentials::{Credentials, CredentialsError};
pub use cursor::Cursor;
pub use error::{Code, Error, Lost, TlsFault, codes};
pub use handle::Handle;
pub use handover::{
    DURABLE_SIZE_IOCTL, HANDOVER_LEN, Handover, SEAL_IOCTL, SEAL_WITHOUT_PAGES_IOCTL, WRITTEN_IOCTL,
};
pub use object::Object;
pub use options::{Options, QueueOptions};
#[cfg(feature = "ownership")]
pub use ownership::{OwnerOptions, Ownership, TakeError};
pub use queue_pair::{OnHandle, QueuePair, WithTimeout};
pub use seal_key::SealKey;
pub use url::{Place, Url};
pub use volume::Volume;
pub use volume_info::VolumeInfo;

pub use crate::url::UrlError;
pub use nearflash_direct::wire::{Rights, SealToken};
pub use nearflash_direct::{
    Bearer, BearerError, PeerError, Run, Seal, SealError, SealTerms, Status,
};
