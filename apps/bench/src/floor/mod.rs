//! The floor: the bare exchange of requests and answers over loopback TCP, on one connection or, where
//! many clients ask, on one for each.
//!
//! Both sides spin on non-blocking calls, each one thread pinned to a core; every turn takes all that
//! has arrived on a connection and sends all that is due in one call. Nothing is parsed, looked up or stored, and yet
//! every byte is copied into the kernel and out of it as a real exchange must, so no protocol over
//! this kernel's TCP can do better: a remote figure is worth its ratio to this one.
//!
//! Byte counts are those of the protocol beside which it stands ([`Headers`]). NVMe/TCP 1.0 (3.6.2):
//! a read is a 72-byte command capsule, answered by a 24-byte C2HData header and the payload, its
//! success in a flag; a write is a capsule with the payload in it, answered by a 24-byte response
//! capsule. Direct: 32 bytes each way beside the payload. iSCSI (RFC 7143, 11): a read is a 48-byte
//! SCSI Command PDU, answered by a 48-byte Data-In header and the payload, the status in that header;
//! a write is a command with the payload as immediate data, answered by a 48-byte SCSI Response.

mod exchange;
mod run;
mod tune;

pub use exchange::{Exchange, Headers};
pub use run::{FloorCores, FloorError, FloorRun, FloorSpec, Tuning, measure};
pub use tune::tuned;
