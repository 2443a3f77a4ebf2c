//! NVMe/TCP: both ends of a connection.
//!
//! Spec: NVMe/TCP 1.1. A connection is one queue pair. [`serving::TargetSession`] is the
//! controller's end, [`host::HostSession`] the host's. Both are state machines without sockets,
//! clocks or payload memory: bytes and completions go in, chunks to send and demands come out.
//! `nearflash-nvme` interprets the commands. TLS is a layer between a session and the socket.
//!
//! The crate has no devices, volume layouts, threads or sockets.

pub mod check;
mod error;
mod framer;
pub mod host;
pub mod pdu;
pub mod serving;

pub use error::PeerError;
pub(crate) use nearflash_session::length;
pub use nearflash_session::{Chunk, Digests, Receiving, digest};
