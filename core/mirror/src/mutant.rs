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
    /// An operation ends while a replica that was dropped still uses its buffer.
    BufferInUse,
    /// M43: a write that is older than [`crate::REDRIVE`] is started.
    OldWrite,
    /// M1: a replica takes over before the lease that it has given is over.
    LeaseNotAwaited,
    /// M2: a read is answered without a lease.
    ReadsWithoutLease,
    /// M14: a transaction without an answer is taken as failed.
    UnknownIsFailure,
    /// An answer that shows an earlier state than is known counts as an answer.
    OlderIsAnswer,
    /// M26: a suspect takes over.
    SuspectTakesOver,
    /// A replica is added whatever places the replicas have now.
    PlacesIgnored,
    /// M30: a replica is in sync while writes that began before are not sent to it.
    CopiedTooEarly,
    /// M32: replica operations carry no session.
    NoSession,
    /// M33: a replica joins before what it has accepted or started has ended.
    JoinsUndrained,
    /// M37: a replica proposes itself before it has applied what it accepted.
    ProposesUndrained,
    /// M40: a restart does not wait for the writes of the dead process.
    GhostWrites,
    /// M11: pieces are copied without the locks of writes.
    CopyUnlocked,
    /// A replica is taken as equal without a flush.
    CopyUnflushed,
    /// A primary does not note what it writes.
    WritesUnnoted,
    /// A replica does not note the writes that it accepts.
    AcceptedUnnoted,
    /// A replica does not note what the primary repairs with its bytes.
    RepairUnnoted,
    /// A node does not learn that writes which it has answered may be lost.
    LossUntold,
    /// A copy does not flush the primary's replica.
    SourceUnflushed,
    /// A process believes that it has noted everything, although an earlier one has written.
    CoversAtStart,
    /// A replica that returns is taken for the one that left, whatever its slice shows.
    TokenIgnored,
    /// A replica that is alone in sync begins its term before its slice knows it.
    AloneUnnoted,
    /// A slice keeps no terms.
    TermsForgotten,
    /// A primary hands over to a replica whose slice may know nothing of the mirror.
    HandsOverUnnoted,
    /// A replica is added before its slice has the token.
    NotKept,
    /// Every second pair of different blocks has equal digests.
    DigestsCollide,
    /// A read is repaired without the lock of its range.
    RepairUnlocked,
    /// A node with a core that does not turn takes part as before.
    StallIgnored,
    /// A mirror that is gone stays in the table until the requests on it have ended.
    SeatOutlasts,
    /// A read is repaired from a replica to which everything is still being copied.
    RepairFromCopy,
    /// A replica takes the place of another one before it is flushed.
    ExchangedUnflushed,
}
