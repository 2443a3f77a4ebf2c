//! Direct: one-sided access to flash. Both ends of a connection.
//!
//! The protocol is defined in `docs/direct-protocol.md`. [`serving::TargetSession`] is the node's
//! end, [`client::ClientSession`] the application's; both are machines without sockets, clocks or
//! memory for payload: bytes and answers go in, chunks to send and demands come out. The same two
//! serve a byte stream and rings in shared memory.
//!
//! Knows nothing of devices, of volumes' layout, of threads or of sockets.

pub mod check;
pub mod client;
mod error;
mod proof;
mod secret;
pub mod segments;
pub mod serving;
mod stream;
#[cfg(test)]
mod tests;
pub mod wire;

pub use error::PeerError;
pub use nearflash_session::{Chunk, Digests, Receiving};
pub(crate) use nearflash_session::{digest, length};
pub use proof::{CLIENT_LABEL, NODE_LABEL, client_proof, node_proof};
pub use secret::Secret;
pub use wire::{Opcode, Status};
