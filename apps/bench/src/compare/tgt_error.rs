//! The errors of `tgt`.

use std::io;

/// Errors of `tgt`.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum TgtError {
    /// Its file, folder or process cannot be used.
    #[error("tgt: {what}: {source}")]
    Io { what: &'static str, source: io::Error },
    /// A `tgtadm` command failed.
    #[error("tgtadm {command}: {said}")]
    Refused { command: String, said: String },
}
