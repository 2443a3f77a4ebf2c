//! iSCSI: both ends of a connection.
//!
//! Spec: RFC 7143. [`serving::TargetSession`] is the target's end of one connection,
//! [`initiator::InitiatorSession`] the initiator's; both are machines without sockets, clocks,
//! randomness or memory for payload: bytes and answers go in, chunks to send and demands come out.
//! What commands mean is `nearflash-scsi`'s.
//!
//! Knows nothing of devices, volumes' layout, threads or sockets.

pub mod chap;
pub mod check;
mod digest;
mod error;
mod framer;
pub mod initiator;
pub mod login;
pub mod params;
pub mod pdu;
pub mod serving;
mod small;
pub mod text;

pub use digest::Digests;
pub use error::PeerError;
pub use nearflash_session::{Chunk, Receiving};

/// A length of the wire as one of memory.
#[inline]
pub(crate) fn length(raw: u32) -> usize {
    usize::try_from(raw).expect("usize is at least 32 bits wide")
}
