//! The answer to a command, independent of the protocol.

/// The answer to a command, in any protocol.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Answer {
    /// With success.
    Done,
    /// A comparison failed.
    Differs,
    /// The other half of it failed.
    OtherHalfFailed,
    /// A reservation forbids it.
    Conflict,
    /// It lies behind the volume's end.
    BehindTheEnd,
    /// A device failed, or may have.
    DeviceFailed,
    /// It was not looked at: something else had to be told first.
    Attention,
    /// A task management function ended it before it began.
    Aborted,
    /// The node had no room for its data, and it was not begun.
    Full,
    /// No grant allows it.
    NotLetIn,
    /// The volume has changed and has to be looked at again.
    Stale,
    /// Something else, by this number.
    Unexpected(u32),
}

impl Answer {
    pub(crate) fn is_success(self) -> bool {
        self == Self::Done
    }
}
