//! A load that checks what it reads: [`Load`] finds acknowledged writes that are lost, and reads that are
//! older than what a client has seen.
//!
//! Unlike [`verify`](crate::verify), which checks the bytes of one job, it compares the views of clients at
//! several nodes, while nodes fail.

mod load;
mod stamp;

pub use load::{Kind, Load, LoadSize, Violations};
pub use stamp::Stamp;
