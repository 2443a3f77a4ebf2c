//! Direct: one-sided access to flash. This crate has both ends of a connection.
//!
//! The protocol is defined in `docs/direct-protocol.md`. [`serving::TargetSession`] is the node's
//! end, [`client::ClientSession`] the application's; both are state machines without sockets,
//! clocks or payload memory: bytes and answers go in, chunks to send and demands come out. Both
//! support a byte stream as well as rings in shared memory. [`ownership`] has the block by which a process owns a
//! volume, and the state machines that claim it with the protocol's own operations.
//!
//! The crate has no devices, volume layouts, threads or sockets.

mod block_digest;
pub mod check;
pub mod client;
mod error;
mod face;
pub mod ownership;
mod proof;
mod secret;
pub mod segments;
pub mod serving;
mod stream;
#[cfg(test)]
mod tests;
mod tls;
pub mod wire;

pub use block_digest::{BlockDigest, block_digest, digests_len};
pub use error::PeerError;
pub use face::Face;
pub use nearflash_session::{Chunk, Digests, Receiving};
pub(crate) use nearflash_session::{digest, length};
pub use proof::{CLIENT_LABEL, NODE_LABEL, client_proof, node_proof};
pub use secret::{SECRET_LEN, Secret};
pub use tls::{TLS_IDENTITY_LEN_MAX, TlsIdentity, TlsIdentityError, TlsKey};
pub use wire::{Bearer, BearerError, Opcode, Run, Seal, SealError, SealTerms, Status};
