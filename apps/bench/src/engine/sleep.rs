//! Sleeping on several engines at once.

use std::os::fd::BorrowedFd;

use nearflash_units::Nanos;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::{Engine, EngineError};

/// Sleeps until any of the engines may have something to do, or for `span`. May return early.
///
/// # Errors
/// When an engine fails: its index and the error. When the system call fails, the index is 0.
pub fn on_all<E: Engine + ?Sized>(
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
