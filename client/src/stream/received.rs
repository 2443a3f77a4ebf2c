//! The result of one receive.

/// The result of one receive.
pub(super) struct Received {
    pub(super) len: usize,
    /// Whether the socket has no more data for now.
    pub(super) is_all: bool,
}

impl Received {
    pub(super) const NOTHING: Self = Self { len: 0, is_all: true };
}
