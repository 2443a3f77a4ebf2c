//! The lines of the log about changes.

use nearflash_api::ApiError;
use nearflash_units::OneLine;

/// The name of this interface in the log.
pub(crate) const HTTP: &str = "http";

/// The target of the lines about changes. The node keeps them apart from all others.
pub const CHANGES: &str = "nearflash::changes";

/// Who asks for a change, and over which interface.
#[derive(Clone, Copy, Debug)]
pub struct Audit<'a> {
    /// The interface.
    pub through: &'a str,
    /// The user or the token.
    pub who: &'a str,
    /// The address; empty if the user tells enough.
    pub peer: &'a str,
}

impl Audit<'_> {
    /// The line in the log of a change: which call, its subject and the result.
    pub fn log(&self, call: &str, subject: &str, done: Result<(), &ApiError>) {
        let Self { through, who, peer } = self;
        // A subject is a peer's text, which an error may quote.
        let subject = OneLine(subject).to_string();
        match done {
            Ok(()) => {
                tracing::info!(target: CHANGES, who, call, subject, result = "ok", through, peer, "change");
            }
            Err(error) => {
                let (result, error) = (error.code.as_str(), OneLine(error).to_string());
                tracing::info!(target: CHANGES, who, call, subject, result, through, peer, error, "change");
            }
        }
    }
}
