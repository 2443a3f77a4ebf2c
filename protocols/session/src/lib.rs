//! Building blocks of every protocol's sessions, and their interface to the driver of a connection.
//!
//! A driver sees a serving end as a [`ServingEnd`]: where the next received bytes belong
//! ([`Receiving`]), what is to be sent ([`Output`], as [`Chunk`]s), which buffers are wanted.
//! Behind that, a session has a [`Framer`] that cuts the stream, a [`SlotTable`] of the commands in
//! flight, a [`BufferQueue`] of those that wait for memory, and an [`Outbox`]; an asking end has
//! [`Posted`] commands. A protocol adds its PDUs and what they mean.
//!
//! [`wire!`] declares the structures of a PDU, [`codes!`] the numbers that their fields are known
//! to hold, [`offset!`] says where a field stands.
//!
//! Knows nothing of any protocol's bytes, of sockets, or of memory.

mod buffers;
pub mod check;
pub mod digest;
mod framer;
mod nexus;
mod outbox;
mod output;
mod posted;
mod receiving;
mod serving;
mod slots;
mod wire;

pub use buffers::BufferQueue;
pub use digest::Digests;
pub use framer::{Body, Framer, Head, HeadRules, HeadShape, Layout};
pub use nexus::nexus;
pub use outbox::Outbox;
pub use output::{Chunk, Output};
pub use posted::{CommandData, Data, Posted, PostedCommand};
pub use receiving::{PayloadPart, Receiving};
pub use serving::ServingEnd;
pub use slots::SlotTable;
pub use wire::offset_of_wire;

/// A length of the wire as one of memory.
#[inline]
pub fn length(raw: u32) -> usize {
    usize::try_from(raw).expect("usize is at least 32 bits wide")
}
