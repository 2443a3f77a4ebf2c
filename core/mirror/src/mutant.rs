//! Deliberate bugs, each of which the simulation must find.

/// A rule that is left out.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(
    not(test),
    allow(dead_code, reason = "the code names them, and only tests switch one on")
)]
pub(crate) enum Mutant {
    /// M4: a replica accepts writes of other terms.
    TermIgnored,
    /// M5: the local write does not wait for RECEIVED.
    LocalFirst,
    /// M6: writes take no lock.
    NoLock,
    /// M16: a flush flushes the local device alone.
    LocalFlush,
    /// M17: a deallocation goes to the devices as it is.
    Hint,
    /// A write is answered when the local one is done.
    OneCopy,
    /// M13: a replica claims to be drained while writes that it accepted are under way.
    Undrained,
    /// A replica forgets a write that failed after RECEIVED.
    FailureTold,
    /// A write is given up because nobody is primary for the moment.
    Abandoned,
    /// An operation ends while a replica that was dropped still uses its buffer.
    BufferInUse,
    /// M43: a write that is older than [`crate::REDRIVE`] is started.
    OldWrite,
}
