//! The bell: it rings when the served state or a job has changed, for the HTTP interface.

use std::fmt;
use std::sync::OnceLock;

/// The function that hears of changes.
type Tell = Box<dyn Fn() + Send + Sync>;

/// Rings after each change, once somebody listens.
#[derive(Default)]
pub(super) struct Bell(OnceLock<Tell>);

impl fmt::Debug for Bell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bell").finish_non_exhaustive()
    }
}

impl Bell {
    /// The function to call, which must not block.
    pub(super) fn set(&self, tell: Tell) {
        // The node has one HTTP interface, which starts once.
        let _ = self.0.set(tell);
    }

    pub(super) fn ring(&self) {
        if let Some(tell) = self.0.get() {
            tell();
        }
    }
}
