//! The interface of engines, and the sleep on several of them at once.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use nearflash_units::{ByteLen, Nanos};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::workload::Op;

/// Index of an operation in flight, below the engine's depth.
pub type Slot = usize;

/// The reason why an operation, or the whole engine, failed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum EngineError {
    /// A system call failed.
    #[error("{what}: {source}")]
    Io { what: &'static str, source: std::io::Error },
    /// The controller completed the command with an error.
    #[error("the target answered {0}")]
    Status(nearflash::nvme_tcp::Status),
    /// The logical unit ended the task with an error.
    #[error("{target} answered with {status}")]
    Task { target: Arc<str>, status: nearflash::iscsi::TaskStatus },
    /// The session was lost.
    #[error(transparent)]
    Iscsi(#[from] nearflash::iscsi::InitiatorError),
    /// The connection was lost.
    #[error(transparent)]
    Remote(#[from] nearflash::nvme_tcp::HostError),
    /// The node refused the operation, failed at it, or is gone.
    #[error(transparent)]
    Direct(#[from] nearflash::direct::Error),
    /// Fewer bytes were transferred than requested, although not at the end of the file.
    #[error("transferred {moved} of {asked} bytes")]
    Short { moved: ByteLen, asked: ByteLen },
}

impl From<std::io::Error> for EngineError {
    fn from(source: std::io::Error) -> Self {
        Self::Io { what: "read", source }
    }
}

/// The completion of one operation.
#[derive(Debug)]
pub struct Done {
    /// Its slot.
    pub slot: Slot,
    /// Its result.
    pub result: Result<(), EngineError>,
}

/// Carries out operations on a target.
pub trait Engine {
    /// The buffer of a slot that is not in flight.
    fn buffer(&self, slot: Slot) -> &[u8];

    /// The buffer of a slot that is not in flight, to be filled.
    fn buffer_mut(&mut self, slot: Slot) -> &mut [u8];

    /// Queues one operation; [`Self::poll`] submits it.
    fn submit(&mut self, slot: Slot, op: Op);

    /// Submits the queued operations, and appends the completions to `done`. Never blocks.
    ///
    /// # Errors
    /// When the engine as a whole has failed.
    fn poll(&mut self, done: &mut Vec<Done>) -> Result<(), EngineError>;

    /// Submits the queued operations without looking for completions, for a thread that polls other
    /// engines next.
    ///
    /// # Errors
    /// When the engine as a whole has failed.
    fn hand_over(&mut self) -> Result<(), EngineError>;

    /// Prepares to sleep together with other engines: submits the queued operations, and returns
    /// whether there is nothing to do now. Only then may the thread sleep on the
    /// [wakers](Self::wakers). [`Self::awake`] must follow in any case.
    ///
    /// # Errors
    /// When the engine as a whole has failed.
    fn doze(&mut self) -> Result<bool, EngineError>;

    /// Appends the descriptors to sleep on while the engine dozes.
    fn wakers<'a>(&'a self, wakers: &mut Vec<PollFd<'a>>);

    /// Ends the sleep.
    fn awake(&mut self);

    /// Sleeps until there may be something to do, or for `span`. May return early.
    ///
    /// # Errors
    /// When the engine as a whole has failed.
    fn wait(&mut self, span: Nanos) -> Result<(), EngineError> {
        sleep_on_all(&mut [self], span).map_err(|(_, error)| error)
    }

    /// Makes all completed writes durable before it returns.
    ///
    /// # Errors
    /// When the flush fails.
    fn flush(&mut self) -> Result<(), EngineError>;
}

/// An engine of any kind, so that one thread can drive different kinds.
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

/// Sleeps until any of the engines may have something to do, or for `span`. May return early.
///
/// # Errors
/// When an engine fails: its index and the error. When the system call fails, the index is 0.
pub fn sleep_on_all<E: Engine + ?Sized>(
    engines: &mut [&mut E],
    span: Nanos,
) -> Result<(), (usize, EngineError)> {
    let mut may_sleep = true;
    for (index, engine) in engines.iter_mut().enumerate() {
        may_sleep &= engine.doze().map_err(|error| (index, error))?;
    }
    let slept = if may_sleep { on_wakers(engines, span) } else { Ok(()) };
    for engine in engines.iter_mut() {
        engine.awake();
    }
    slept.map_err(|error| (0, error))
}

fn on_wakers<E: Engine + ?Sized>(engines: &[&mut E], span: Nanos) -> Result<(), EngineError> {
    let mut wakers: Vec<PollFd<'_>> = Vec::new();
    for engine in engines {
        engine.wakers(&mut wakers);
    }
    let timeout = Timespec {
        tv_sec: i64::try_from(span.0 / 1_000_000_000).unwrap_or(i64::MAX),
        tv_nsec: i64::try_from(span.0 % 1_000_000_000).expect("below a second"),
    };
    match poll(&mut wakers, Some(&timeout)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(errno) => Err(EngineError::Io { what: "poll", source: errno.into() }),
    }
}

/// A descriptor to poll for input and, if there is unsent data, for output.
pub(super) fn waker(descriptor: BorrowedFd<'_>, has_unsent: bool) -> PollFd<'_> {
    let interest = if has_unsent { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
    PollFd::from_borrowed_fd(descriptor, interest)
}
