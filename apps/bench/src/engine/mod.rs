//! How operations reach a target: fio's idea of an engine.
//!
//! An engine has as many slots as the queue depth, each with a buffer of one operation's length. It
//! is told which slot to start with what, hands everything that was told to the target in one
//! go, and says which slots are done. It never measures and never decides.

mod aligned;
mod direct;
mod file;
mod iscsi;
mod null;
mod nvme_tcp;
mod ring;

use nearflash_units::{ByteLen, Nanos};

pub use direct::{DirectEngine, DirectRemote};
pub use file::{FileEngine, FileError, FileOptions};
pub use iscsi::{IscsiEngine, IscsiRemote};
pub use null::NullEngine;
pub use nvme_tcp::{Needs, NvmeTcpEngine, Remote};

use crate::workload::Op;

/// A place for one operation in flight: below the engine's depth.
pub type Slot = usize;

/// Why an operation, or the whole engine, failed.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The system refused something.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// The target refused it, or failed at it.
    #[error("the target answers {0}")]
    Status(nearflash::nvme_tcp::Status),
    /// The logical unit refused it, or failed at it.
    #[error("the target answers {0}")]
    Task(nearflash::iscsi::TaskStatus),
    /// The session was lost.
    #[error(transparent)]
    Iscsi(#[from] nearflash::iscsi::InitiatorError),
    /// The connection was lost.
    #[error(transparent)]
    Remote(#[from] nearflash::nvme_tcp::HostError),
    /// The node refused it, failed at it, or is gone.
    #[error(transparent)]
    Direct(#[from] nearflash::direct::Error),
    /// Less was moved than asked, and it was not the end of the file.
    #[error("moved {moved} of {asked} bytes")]
    Short {
        /// By the target.
        moved: ByteLen,
        /// By us.
        asked: ByteLen,
    },
}

/// The end of one operation.
#[derive(Debug)]
pub struct Done {
    /// Which.
    pub slot: Slot,
    /// How.
    pub result: Result<(), EngineError>,
}

/// How operations reach a target.
pub trait Engine {
    /// The buffer of a slot that is not in flight.
    fn buffer(&self, slot: Slot) -> &[u8];

    /// The buffer of a slot that is not in flight, to fill.
    fn buffer_mut(&mut self, slot: Slot) -> &mut [u8];

    /// Queues one operation; [`Self::poll`] hands it to the target.
    fn submit(&mut self, slot: Slot, op: Op);

    /// Hands over what is queued, and appends what is done to `done`; never waits.
    ///
    /// # Errors
    /// When the engine as a whole cannot go on.
    fn poll(&mut self, done: &mut Vec<Done>) -> Result<(), EngineError>;

    /// Sleeps until something may be done, or for `span`. May return early.
    ///
    /// # Errors
    /// When the engine as a whole cannot go on.
    fn wait(&mut self, span: Nanos) -> Result<(), EngineError>;

    /// Everything written is on stable media when this returns.
    ///
    /// # Errors
    /// When it is not.
    fn flush(&mut self) -> Result<(), EngineError>;
}
