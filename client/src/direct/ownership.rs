//! Ownership of a volume: one process at a time writes it.
//!
//! [`Ownership::take`] makes this process the owner. [`Ownership::volume`] is the volume over the
//! owner's connections. When another process takes the volume over, the node ends these connections
//! before the first write of the new owner. Every later call fails with [`Error::Superseded`].
//!
//! `nearflash_direct::ownership` has the rules; this module adds connections, a clock, and a thread
//! that shows that the owner is alive.
//!
//! Ownership restricts only processes that use it: other clients with write access to the volume can
//! still write. The node ends connections only for the same key, so all owners of a volume use the
//! same credential.
//!
//! ```no_run
//! use nearflash::{Client, Credentials};
//! use nearflash::direct::{Ownership, OwnerOptions};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::connect("direct://192.0.2.1:4421", Credentials::NONE)?;
//! let options = OwnerOptions::new("files", "host1, process 4711");
//! let ownership = Ownership::take(&client, "data", &options)?;
//! ownership.volume().write_at(b"Hello, flash", 4096)?;
//! ownership.release()?;
//! # Ok(())
//! # }
//! ```

mod beat;
mod holding;
mod taking;

use std::sync::Arc;
use std::time::Duration;

use nearflash_direct::ownership::{
    OWNER_BLOCK_LEN, OwnerRecord, RECORD_OFFSET, RecordError, Refusal,
};

use self::beat::Beats;
use self::holding::{Holding, establish_all};
use super::client::Client;
use super::error::Error;
use super::volume::Volume;
use crate::span::span;

/// The description of an owner, and how it takes a volume.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OwnerOptions {
    /// The owner's name in messages; up to 63 bytes of it are kept.
    pub name: String,
    /// The address at which people find the owner; up to 127 bytes of it are kept.
    pub address: String,
    /// The offset of the owner block in the volume, in bytes: a multiple of 512. The block has 512
    /// bytes, which are used for nothing else, and are zeroes before the first owner.
    pub offset: u64,
    /// Whether the volume is also taken from an owner that is alive.
    pub take_over: bool,
}

crate::builders::builders!(OwnerOptions { offset: u64, take_over: bool });

impl OwnerOptions {
    /// An owner with this name and address. Its block is at the start of the volume, and it does not
    /// take over.
    pub fn new(name: impl Into<String>, address: impl Into<String>) -> Self {
        Self { name: name.into(), address: address.into(), offset: 0, take_over: false }
    }
}

/// An error of [`Ownership::take`].
#[derive(Clone, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
#[non_exhaustive]
pub enum TakeError {
    /// Another process owns the volume, and is alive.
    #[error(
        "volume '{volume}' has an owner: {owner}, seen {} ago: stop it, or use --take-over",
        span(.seen)
    )]
    Held {
        volume: String,
        owner: String,
        /// The time since its last sign of life, at most.
        seen: Duration,
    },
    /// Another process took the volume at the same time.
    #[error("volume '{volume}' was taken by another process at the same time: try again")]
    Raced { volume: String },
    /// The owner block has other contents.
    #[error(
        "volume '{volume}' has no owner block at byte {offset}: {source}; check that the volume is \
         the right one, or use --take-over to overwrite the block"
    )]
    Unreadable { volume: String, offset: u64, source: RecordError },
    /// The owner block cannot be used any more.
    #[error("volume '{volume}' has used its last term at byte {offset}: zero its owner block")]
    Exhausted { volume: String, offset: u64 },
    /// The owner block is not aligned.
    #[error("the offset of an owner block is a multiple of {OWNER_BLOCK_LEN}, not {offset}")]
    Offset { offset: u64 },
    /// An operation failed, or the volume was taken over before this process had it.
    #[error(transparent)]
    Client(#[from] Error),
}

impl TakeError {
    fn of(refusal: Refusal, volume: &str, offset: u64) -> Self {
        let volume = volume.to_owned();
        match refusal {
            Refusal::Held { owner, seen } => {
                Self::Held { volume, owner: described(owner.as_ref()), seen: seen.to_duration() }
            }
            Refusal::Raced => Self::Raced { volume },
            Refusal::Unreadable(source) => Self::Unreadable { volume, offset, source },
            Refusal::Exhausted => Self::Exhausted { volume, offset },
        }
    }
}

/// An owner in a message.
fn described(owner: Option<&OwnerRecord>) -> String {
    match owner {
        Some(owner) => format!("{} at {}", owner.name(), owner.address()),
        None => "a process that has not written its name yet".to_owned(),
    }
}

/// A volume that this process owns. When dropped, it releases the volume.
///
/// A thread changes the owner block every 2 s, so that other processes see that the owner is alive.
/// Nothing depends on its punctuality: a process that is paused for any time is refused by the node
/// if it has lost the volume meanwhile.
pub struct Ownership {
    volume: Volume,
    holding: Arc<Holding>,
    beats: Option<Beats>,
}

impl Ownership {
    /// Becomes the owner of a volume. If the volume has an owner that is alive, the call fails within
    /// some seconds, or takes over if the options say so. It waits 10 s for the signs of life of an
    /// owner that has ended without releasing the volume.
    ///
    /// The client needs read and write access to the volume. The volume lies on one node: volumes of a
    /// cluster or of another node have no compare-and-swap.
    ///
    /// # Errors
    /// When the volume has an owner, has other data in the place of the owner block, or an operation
    /// fails. The call does not continue over a new connection after it has changed the owner block,
    /// so it can be repeated.
    pub fn take(client: &Client, volume: &str, options: &OwnerOptions) -> Result<Self, TakeError> {
        let (term, uuid) = taking::take_term(client, volume, options)?;
        let holding = Arc::new(Holding::new(client.clone(), volume, options.offset, term));
        let workers = establish_all(&holding, uuid)?;
        let volume = Volume::owned(client.clone(), volume, workers);
        let record = OwnerRecord::new(term, &options.name, &options.address);
        let place = options.offset + RECORD_OFFSET as u64;
        let beats = Beats::start(volume.clone(), Arc::clone(&holding), record, place)?;
        Ok(Self { volume, holding, beats: Some(beats) })
    }

    /// The volume over the owner's connections. Clones stop working when the ownership is lost.
    pub fn volume(&self) -> &Volume {
        &self.volume
    }

    /// The number of this ownership. It is higher than that of every former owner.
    pub fn term(&self) -> u64 {
        self.holding.term().0
    }

    /// Whether no other owner is known. It can still be `true` for some seconds after another process
    /// took over, although no write succeeds any more.
    pub fn is_held(&self) -> bool {
        !self.holding.is_over()
    }

    /// Ends the ownership, so that the next process need not wait.
    ///
    /// # Errors
    /// When the release cannot be written to the volume. The ownership ends nevertheless; the next
    /// process waits until this one's silence has been long enough.
    pub fn release(mut self) -> Result<(), Error> {
        self.beats.take().map_or(Ok(()), Beats::release)
    }
}

impl Drop for Ownership {
    fn drop(&mut self) {
        if let Some(beats) = self.beats.take() {
            // The next process waits for the silence instead.
            let _ = beats.release();
        }
    }
}

impl std::fmt::Debug for Ownership {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut debug = f.debug_struct("Ownership");
        debug.field("volume", &self.volume.name()).field("term", &self.term());
        debug.finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use nearflash_direct::ownership::Term;
    use nearflash_units::Nanos;

    use super::*;

    fn message(refusal: Refusal) -> String {
        TakeError::of(refusal, "data", 512).to_string()
    }

    #[test]
    fn a_refusal_names_the_owner_and_the_remedy() {
        let owner = Some(OwnerRecord::new(Term(1), "files", "web1, process 7"));
        let held = |owner| message(Refusal::Held { owner, seen: Nanos::from_secs(2) });
        assert_eq!(
            held(owner),
            "volume 'data' has an owner: files at web1, process 7, seen 2 s ago: stop it, or use \
             --take-over"
        );
        assert!(held(None).contains("has not written its name yet"));
    }

    #[test]
    fn other_data_in_the_place_of_the_block_is_reported_with_its_place() {
        assert_eq!(
            message(Refusal::Unreadable(RecordError::Foreign)),
            "volume 'data' has no owner block at byte 512: it holds other data; check that the \
             volume is the right one, or use --take-over to overwrite the block"
        );
    }
}
