//! The end of a process of which one thread has panicked.

use std::thread;

/// Ends the process when its thread panics, in builds that unwind, too. Other cores would wait for a core
/// that panics, and other nodes would believe that this one lives; the end of a pulse would prove to them that
/// the cores have ended, too.
pub(crate) struct EndOfPanic;

impl Drop for EndOfPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            std::process::abort();
        }
    }
}
