//! Why an operation did not succeed, or a node cannot be reached.

use std::io;
use std::sync::Arc;

use super::credentials::CredentialsError;
use super::url::UrlError;

/// Why an operation did not succeed, or a node cannot be reached. Each is one line that names the
/// thing, and its remedy where there is one.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The URL is none.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// The credential cannot be used.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    /// The host's name has no address.
    #[error("{host} has no address: {source}")]
    Resolve {
        /// The name.
        host: String,
        /// What the resolver said.
        source: Arc<io::Error>,
    },
    /// Nobody answers.
    #[error("cannot connect to {place}: {source}; is a node listening there?")]
    Unreachable {
        /// Where.
        place: String,
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// The connection ended before this was answered. It changed nothing, and may be repeated.
    #[error("the connection was lost: {0}")]
    ConnectionLost(Lost),
    /// The connection ended before this was answered, and it may have changed the volume, or not.
    #[error("whether it took effect is unknown, the connection was lost: {0}")]
    Unknown(Lost),
    /// As much is in flight as the queue pair takes.
    #[error(
        "{depth} operations are in flight, all that the queue pair takes: poll before posting more"
    )]
    QueueFull {
        /// How many it takes.
        depth: u32,
    },
    /// More than one operation moves.
    #[error("{len} bytes are more than the {max} of one operation: post several")]
    TooLong {
        /// Asked for.
        len: u64,
        /// The limit.
        max: u64,
    },
    /// The queue pair's memory is used up.
    #[error(
        "the queue pair has no {len} bytes of memory left: drop buffers, or ask for more in QueueOptions"
    )]
    NoMemory {
        /// Asked for.
        len: u64,
    },
}

/// Why a connection ended.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Lost {
    /// The node closed it without a word: it ended, or was killed.
    #[error("the node closed it")]
    Closed,
    /// The node said nothing for too long.
    #[error("the node said nothing for {seconds} s")]
    Silent {
        /// How long.
        seconds: u64,
    },
    /// The system ended it.
    #[error("{0}")]
    System(io::ErrorKind),
}

impl Error {
    /// The error's name, the same in Rust, C and Python.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Url(_) => "INVALID_URL",
            Self::Credentials(_) => "INVALID_CREDENTIALS",
            Self::Resolve { .. } | Self::Unreachable { .. } => "UNREACHABLE",
            Self::ConnectionLost(_) => "CONNECTION_LOST",
            Self::Unknown(_) => "UNKNOWN",
            Self::QueueFull { .. } => "QUEUE_FULL",
            Self::TooLong { .. } => "TOO_LONG",
            Self::NoMemory { .. } => "NO_MEMORY",
        }
    }
}
