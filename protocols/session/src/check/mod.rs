//! The kit of every protocol's property checks.
//!
//! [`Serving`] and [`Requesting`] are one end of a connection with its [`Memory`], for a check that
//! plays the other end; a [`Trial`] also knows the requests under way. A [`Wire`] joins two ends by
//! byte streams that split and merge at random, serves requests from a [`Volume`], and compares
//! every answer with a model. A protocol adds its requests, their expected answers, and its faults.

mod choices;
mod ends;
mod memory;
mod trial;
mod volume;
mod wire;

pub use choices::Choices;
pub use ends::{Requesting, Serving};
pub use memory::Memory;
pub use trial::{InFlight, Trial};
pub use volume::Volume;
pub use wire::{Door, Expected, Link, Wire};

/// Passes on a stream in parts of these lengths, which repeat. A length counts from 0.
pub fn in_parts(mut stream: &[u8], cuts: &[u8], mut feed: impl FnMut(&[u8])) {
    let mut lens = cuts.iter().map(|cut| usize::from(*cut) + 1).cycle();
    while !stream.is_empty() {
        let len = lens.next().map_or(stream.len(), |len| len.min(stream.len()));
        let (part, rest) = stream.split_at(len);
        feed(part);
        stream = rest;
    }
}
