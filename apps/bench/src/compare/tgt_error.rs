//! The errors of `tgt`.

use std::io;

/// Errors of `tgt`.
#[derive(Debug, thiserror::Error)]
pub enum TgtError {
    /// Its file, folder or process cannot be used.
    #[error("tgt: {what}: {source}")]
    Io {
        /// The object of the failed operation.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// A `tgtadm` command failed.
    #[error("tgtadm {command}: {said}")]
    Refused {
        /// The command.
        command: String,
        /// Its error message.
        said: String,
    },
}
