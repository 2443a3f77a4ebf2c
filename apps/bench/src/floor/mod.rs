//! The floor: the bare exchange of requests and answers over loopback TCP, on one connection, or on
//! one per client.
//!
//! Both sides spin on non-blocking calls, each in one thread that is pinned to a core. Every turn
//! takes everything that has arrived on a connection, and sends all answers or requests that are
//! due in one call. Nothing is parsed, looked up or stored. Still, every byte is copied into the
//! kernel and out of it as in a real exchange, so no protocol over this kernel's TCP can be faster,
//! and a remote figure is best judged by its ratio to the floor.
//!
//! Byte counts are those of the protocol that is compared ([`Headers`]). NVMe/TCP 1.0 (3.6.2): a
//! read is a 72-byte command capsule, answered by a 24-byte C2HData header and the payload, with
//! the success in a flag; a write is a capsule that contains the payload, answered by a 24-byte
//! response capsule. Direct: 32 bytes each way in addition to the payload. iSCSI (RFC 7143, 11): a
//! read is a 48-byte SCSI Command PDU, answered by a 48-byte Data-In header, which has the status,
//! and the payload; a write is a command with the payload as immediate data, answered by a 48-byte
//! SCSI Response PDU.
//!
//! A floor may have three parties: the server passes each request on to a third party, and answers
//! when that has answered. A node that writes to the replica of another node, or that reads from
//! it, does the same. The sides may also sleep instead of spinning ([`Waits`]), so that several of
//! them can share a core.

mod end;
mod error;
mod exchange;
mod relay;
mod run;
mod spec;
mod tune;
mod usage;

pub use error::FloorError;
pub use exchange::{Exchange, Headers};
pub use run::{FloorRun, measure};
pub use spec::{FloorCores, FloorSpec, Tuning, Waits};
pub use tune::tuned;
