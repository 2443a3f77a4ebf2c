//! The progress of a command, on a terminal, when it takes longer than a second.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use nearflash_units::ByteLen;

use crate::tables;

/// Interval of the display.
const PERIOD: Duration = Duration::from_secs(1);

/// A display, which is removed when it is dropped.
pub(super) struct Progress {
    total: Option<ByteLen>,
    /// The time of the next display; `None` if there is no terminal.
    next_at: Option<Instant>,
    is_shown: bool,
}

impl Progress {
    /// The progress of a copy of `total` bytes, if that is known.
    pub(super) fn new(total: Option<ByteLen>) -> Self {
        let next_at = io::stderr().is_terminal().then(|| Instant::now() + PERIOD);
        Self { total, next_at, is_shown: false }
    }

    /// This many bytes are copied.
    pub(super) fn at(&mut self, done: ByteLen) {
        let now = Instant::now();
        if self.next_at.is_none_or(|next_at| now < next_at) {
            return;
        }
        self.next_at = Some(now + PERIOD);
        self.is_shown = true;
        let total = self.total.map(|total| format!(" of {}", tables::size(total.0)));
        let text = format!("{}{}", tables::size(done.0), total.unwrap_or_default());
        // A failure to show progress is ignored.
        let _ = write!(io::stderr(), "\r\x1b[Kcopied {text}");
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_shown {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}
