//! The name of an open volume or object of a queue pair.

/// A volume or a sealed object that a [queue pair](super::QueuePair) has open, besides its own. It is one queue pair's.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Handle {
    pub(super) index: u16,
    /// Distinguishes it from earlier ones in its place.
    pub(super) serial: u32,
}

impl Handle {
    /// The queue pair's own volume.
    pub(super) const OWN: Self = Self { index: 0, serial: 0 };
}
