//! The client library: applications link it to reach flash over the network.
//!
//! [`direct`] is nearflash's own protocol: one-sided access to bytes by offset, under permissions;
//! the crate re-exports its names. All else is optional:
//!
//! | feature | adds |
//! | --- | --- |
//! | `tokio` | `direct::AsyncVolume`, volumes for asynchronous programs |
//! | `ownership` | `direct::Ownership`, volumes that one process at a time writes |
//! | `nvme-tcp` | `nvme_tcp`, a host for any NVMe/TCP target, of nearflash or others |
//! | `iscsi` | `iscsi`, an initiator for any iSCSI target, of nearflash or others |
//! | `tls` | TLS 1.3 with pre-shared keys for NVMe/TCP and `direct+tls://`, by the system's OpenSSL |
//!
//! All are polled over real sockets. The crates `nearflash-direct`, `nearflash-nvme-tcp` and
//! `nearflash-iscsi` implement the protocols; this crate adds sockets, memory and time-outs.
//!
//! The crate knows nothing about nodes, layouts or devices.

mod backoff;
mod builders;
pub mod direct;
#[cfg(feature = "iscsi")]
pub mod iscsi;
#[cfg(any(feature = "iscsi", feature = "nvme-tcp"))]
mod memory;
#[cfg(feature = "nvme-tcp")]
pub mod nvme_tcp;
mod resolve;
mod span;
mod stream;
pub mod url;

#[cfg(feature = "tokio")]
pub use direct::AsyncVolume;
pub use direct::{
    Buffer, Client, Completion, Credentials, Error, Options, QueueOptions, QueuePair, Token,
    Volume, VolumeInfo,
};
#[cfg(feature = "ownership")]
pub use direct::{OwnerOptions, Ownership};
pub use resolve::resolve;
#[cfg(feature = "tls")]
pub use stream::TlsError;

/// The samples of the README are compiled with those of the documentation.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
