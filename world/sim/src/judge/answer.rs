//! The answer to a command, independent of the protocol.

/// The answer to a command, in any protocol.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Answer {
    /// Success.
    Done,
    /// A comparison failed.
    Differs,
    /// The other half of the compare-and-write failed.
    OtherHalfFailed,
    /// A reservation forbids it.
    Conflict,
    /// It is beyond the end of the volume.
    BehindTheEnd,
    /// A device failed, or may have.
    DeviceFailed,
    /// The path to the node of the volume is lost: it may have been done.
    PathLost,
    /// Not executed: the target had to report a condition first.
    Attention,
    /// A task management function aborted it before it began.
    Aborted,
    /// The node had no room for its data, and did not begin it.
    Full,
    /// No grant allows it.
    NotLetIn,
    /// The volume has changed and must be opened again.
    Stale,
    /// Another error, with this code.
    Unexpected(u32),
}

impl Answer {
    pub(crate) fn is_success(self) -> bool {
        self == Self::Done
    }
}
