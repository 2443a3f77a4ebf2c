//! What the sessions of every door share with whoever drives them: where the next received bytes
//! belong ([`Receiving`]), and what is to be sent ([`Output`], as [`Chunk`]s). And among each other:
//! the [`digest`] that their protocols have in common,
//! and how a [`nexus`] is derived from names.
//!
//! Knows nothing of any protocol's bytes, of sockets, or of memory.

pub mod digest;
mod nexus;
mod output;
mod receiving;

pub use nexus::nexus;
pub use output::{Chunk, Output};
pub use receiving::{PayloadPart, Receiving};
