//! Building blocks of every protocol's sessions, and their interface to the driver of a connection.
//!
//! A driver sees a serving end as a [`ServingEnd`]: the destination of the next received bytes
//! ([`Receiving`]), the output to send ([`Output`], as [`Chunk`]s), and the buffers that it needs.
//! Internally, a session has a [`Framer`] that splits the stream, a [`SlotTable`] of the commands
//! in flight, a [`BufferQueue`] of those that wait for memory, and an [`Outbox`]. A requesting end
//! has [`Posted`] commands. A protocol adds its PDUs and their meaning.
//!
//! [`wire!`] declares the structures of a PDU, [`codes!`] the known values of their fields.
//! [`offset!`] returns the offset of a field.
//!
//! The crate has no protocol's bytes, no sockets and no memory.

mod buffers;
pub mod check;
pub mod digest;
mod door_tls;
mod framer;
mod nexus;
mod outbox;
mod output;
mod places;
mod posted;
mod receiving;
mod requesting;
mod serving;
mod slots;
mod wire;

pub use buffers::BufferQueue;
pub use digest::Digests;
pub use door_tls::DoorTls;
pub use framer::{Body, Framer, Head, HeadRules, HeadShape, Layout};
pub use nexus::nexus;
pub use outbox::Outbox;
pub use output::{Chunk, Output};
pub use places::{Origin, PlacesUsed, crowded_out};
pub use posted::{CommandData, Data, Posted, PostedCommand};
pub use receiving::{PayloadPart, Receiving};
pub use requesting::RequestingEnd;
pub use serving::ServingEnd;
pub use slots::SlotTable;
pub use wire::offset_of_wire;

/// A length of the wire as one of memory.
#[inline]
pub fn length(raw: u32) -> usize {
    usize::try_from(raw).expect("usize is at least 32 bits wide")
}
