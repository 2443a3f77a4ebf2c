//! What applications link to reach flash behind the network.
//!
//! [`direct`] is nearflash's own door: bytes by offset, one-sided, under permissions; its names are
//! also those of the crate. [`nvme_tcp`] is a host for any NVMe/TCP target, [`iscsi`] an initiator
//! for any iSCSI target, ours or another's. All are polled over real sockets; the protocols
//! themselves are `nearflash-direct`, `nearflash-nvme-tcp` and `nearflash-iscsi`, here are their
//! sockets, their memory and their patience.
//!
//! Knows nothing of nodes, maps or devices.

mod backoff;
pub mod direct;
pub mod iscsi;
mod memory;
pub mod nvme_tcp;
mod resolve;
mod stream;

pub use direct::{
    Buffer, Client, Completion, Credentials, Error, QueueOptions, QueuePair, Token, Volume,
};
pub use resolve::resolve;
