//! iSCSI: both ends of a connection.
//!
//! Spec: RFC 7143. [`serving::TargetSession`] is the target's end of one connection,
//! [`initiator::InitiatorSession`] the initiator's. Both are state machines without sockets,
//! clocks, randomness or memory for payload: bytes and answers go in, chunks to send and demands
//! come out. The crate `nearflash-scsi` interprets the commands.
//!
//! This crate knows nothing about devices, the layout of volumes, threads or sockets.

pub mod chap;
pub mod check;
mod error;
mod framer;
pub mod initiator;
pub mod login;
mod name;
pub mod params;
pub mod pdu;
pub mod serving;
mod small;
pub mod text;

pub use error::PeerError;
pub use name::name_part;
pub(crate) use nearflash_session::length;
pub use nearflash_session::{Chunk, Digests, Receiving};
