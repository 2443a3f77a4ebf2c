//! The options of a mount.

use std::num::NonZero;
use std::time::Duration;

/// The contents that the kernel keeps.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Cache {
    /// None: every read and write of a program is one of the volume.
    #[default]
    None,
    /// Pages that were read or written, in the page cache. Writes still go to the volume at once.
    Read,
}

/// How a volume is mounted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct MountOptions {
    /// The contents that the kernel keeps.
    pub cache: Cache,
    /// Whether other users see the files. Their permissions decide.
    pub allow_other: bool,
    /// The number of threads, which is the number of requests that are answered at a time.
    pub threads: NonZero<usize>,
    /// Whether the volume is also taken from a process that is alive.
    pub take_over: bool,
    /// The time for which the kernel keeps names and attributes; `None` for the default.
    pub attributes_for: Option<Duration>,
}

impl MountOptions {
    /// The default number of threads.
    pub const THREADS: NonZero<usize> = NonZero::new(2).expect("not zero");
}
