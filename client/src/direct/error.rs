//! Why an operation did not succeed, or a node cannot be reached.

use std::io;
use std::sync::Arc;

use nearflash_direct::{PeerError, Status};

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
    /// The node does not let us in.
    #[error("{place} refuses the connection: {source}{}", remedy(.source))]
    Refused {
        /// Where.
        place: String,
        /// Why.
        source: PeerError,
    },
    /// The node does not do the digests that the URL asks for.
    #[error("{place} does not grant the digests asked for: drop digest= from the URL")]
    NoDigests {
        /// Where.
        place: String,
    },
    /// The node does not answer.
    #[error("{place} gave no answer to {what} within {seconds} s")]
    Silent {
        /// Where.
        place: String,
        /// To what.
        what: &'static str,
        /// How long we waited.
        seconds: u64,
    },
    /// The URL names no volume, and one is needed.
    #[error("the URL names no volume: append /VOLUME")]
    NoVolume,
    /// A volume cannot be opened.
    #[error("cannot open volume '{volume}': {status}")]
    Open {
        /// Which.
        volume: String,
        /// Why.
        status: Status,
    },
    /// The node could not do it.
    #[error("{0}")]
    Status(Status),
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
    /// Not a length that one operation has.
    #[error("an operation has 1 to {max} bytes, not {len}: post several")]
    Length {
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
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
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
    /// The node broke the protocol, or said goodbye.
    #[error("{0}")]
    Peer(PeerError),
}

impl Error {
    /// The error's name, the same in Rust, C and Python: the status's where the node gave one.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Url(_) | Self::NoVolume => "INVALID_URL",
            Self::Credentials(_) => "INVALID_CREDENTIALS",
            Self::Resolve { .. } | Self::Unreachable { .. } | Self::Silent { .. } => "UNREACHABLE",
            Self::Refused { source, .. } => refusal(source).map_or("REFUSED", Status::name),
            Self::NoDigests { .. } => "REFUSED",
            Self::Open { status, .. } | Self::Status(status) => status.name(),
            Self::ConnectionLost(_) => "CONNECTION_LOST",
            Self::Unknown(_) => "OUTCOME_UNKNOWN",
            Self::QueueFull { .. } => "QUEUE_FULL",
            Self::Length { .. } => "INVALID_LENGTH",
            Self::NoMemory { .. } => "NO_MEMORY",
        }
    }

    /// The node's status, where it gave one.
    pub fn status(&self) -> Option<Status> {
        match self {
            Self::Refused { source, .. } => refusal(source),
            Self::Open { status, .. } | Self::Status(status) => Some(*status),
            _ => None,
        }
    }

    /// Whether connecting again may help: the connection is at fault, not what was asked.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. }
            | Self::Silent { .. }
            | Self::ConnectionLost(_)
            | Self::Unknown(_) => true,
            _ => {
                let status = self.status();
                status == Some(Status::BUSY) || status == Some(Status::SHUTTING_DOWN)
            }
        }
    }
}

/// The status that a handshake failed with, if that is what ended it.
fn refusal(source: &PeerError) -> Option<Status> {
    match source {
        PeerError::Goodbye { status } => Some(*status),
        PeerError::Impostor | PeerError::Unauthenticated => Some(Status::AUTHENTICATION_FAILED),
        PeerError::CredentialExpired => Some(Status::CREDENTIAL_EXPIRED),
        PeerError::Version { .. } => Some(Status::VERSION),
        _ => None,
    }
}

/// What a refused application can do.
fn remedy(source: &PeerError) -> &'static str {
    match refusal(source) {
        Some(Status::AUTHENTICATION_FAILED) => {
            "; give the key and the secret that `nearflash credential create` printed"
        }
        Some(Status::CREDENTIAL_EXPIRED) => "; make another with `nearflash credential create`",
        _ => "",
    }
}
