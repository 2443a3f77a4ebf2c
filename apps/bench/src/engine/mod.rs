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
pub mod sleep;

use std::sync::Arc;

use nearflash_units::{ByteLen, Nanos};
use rustix::event::PollFd;

pub use direct::{DirectEngine, DirectRemote};
pub use file::{FILE_BATCH, FileEngine, FileError, FileOptions};
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
    #[error("{target} answers {status}")]
    Task {
        /// Its target, and where that is.
        target: Arc<str>,
        /// How it ended.
        status: nearflash::iscsi::TaskStatus,
    },
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

    /// Hands over what is queued and does not look at what is done, for who polls others first.
    ///
    /// # Errors
    /// When the engine as a whole cannot go on.
    fn hand_over(&mut self) -> Result<(), EngineError>;

    /// Gets ready to sleep beside others: hands over what is queued, and says whether there is nothing
    /// to do now. Only then may one sleep, on its [wakers](Self::wakers). [`Self::awake`] follows in
    /// any case.
    ///
    /// # Errors
    /// When the engine as a whole cannot go on.
    fn doze(&mut self) -> Result<bool, EngineError>;

    /// Appends what becomes ready when something may be done, while it dozes.
    fn wakers<'a>(&'a self, wakers: &mut Vec<PollFd<'a>>);

    /// Sleep is over.
    fn awake(&mut self);

    /// Sleeps until something may be done, or for `span`. May return early.
    ///
    /// # Errors
    /// When the engine as a whole cannot go on.
    fn wait(&mut self, span: Nanos) -> Result<(), EngineError> {
        sleep::on_all(&mut [self], span).map_err(|(_, error)| error)
    }

    /// Everything written is on stable media when this returns.
    ///
    /// # Errors
    /// When it is not.
    fn flush(&mut self) -> Result<(), EngineError>;
}

/// An engine of any kind, so that different ones are driven by one thread.
pub type AnyEngine = Box<dyn Engine>;

impl Engine for AnyEngine {
    fn buffer(&self, slot: Slot) -> &[u8] {
        (**self).buffer(slot)
    }

    fn buffer_mut(&mut self, slot: Slot) -> &mut [u8] {
        (**self).buffer_mut(slot)
    }

    fn submit(&mut self, slot: Slot, op: Op) {
        (**self).submit(slot, op);
    }

    fn poll(&mut self, done: &mut Vec<Done>) -> Result<(), EngineError> {
        (**self).poll(done)
    }

    fn hand_over(&mut self) -> Result<(), EngineError> {
        (**self).hand_over()
    }

    fn doze(&mut self) -> Result<bool, EngineError> {
        (**self).doze()
    }

    fn wakers<'a>(&'a self, wakers: &mut Vec<PollFd<'a>>) {
        (**self).wakers(wakers);
    }

    fn awake(&mut self) {
        (**self).awake();
    }

    fn wait(&mut self, span: Nanos) -> Result<(), EngineError> {
        (**self).wait(span)
    }

    fn flush(&mut self) -> Result<(), EngineError> {
        (**self).flush()
    }
}
