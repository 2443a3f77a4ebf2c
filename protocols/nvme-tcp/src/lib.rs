//! NVMe/TCP: both ends of a connection.
//!
//! Spec: NVMe/TCP 1.1. A connection is one queue pair. [`serving::TargetSession`] is the
//! controller's end, [`host::HostSession`] the host's; both are machines without sockets, clocks or
//! memory for payload: bytes and answers go in, chunks to send and demands come out. What commands
//! mean is `nearflash-nvme`'s. TLS is not theirs either: it stands between them and the socket.
//!
//! Knows nothing of devices, volumes' layout, threads or sockets.

pub mod check;
mod error;
mod framer;
pub mod host;
pub mod pdu;
pub mod serving;

pub use error::PeerError;
pub(crate) use nearflash_session::length;
pub use nearflash_session::{Chunk, Digests, Receiving, digest};
