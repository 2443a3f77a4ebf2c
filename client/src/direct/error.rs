//! The errors of operations and connections.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use nearflash_direct::{PeerError, Status};

use super::credentials::CredentialsError;
use crate::span::span;
use crate::url::UrlError;

/// An error of an operation or a connection. Each message is one line that names the thing, and the
/// remedy if there is one.
#[derive(Clone, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
#[non_exhaustive]
pub enum Error {
    /// The URL is not valid.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// The credential cannot be used.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    /// The host name cannot be resolved.
    #[error("cannot resolve {host}: {source}")]
    Resolve { host: String, source: Arc<io::Error> },
    /// The connection cannot be established.
    #[error("cannot connect to {place}: {source}; is a node listening there?")]
    Unreachable { place: String, source: Arc<io::Error> },
    /// The node refuses the connection.
    #[error("{place} refuses the connection: {}{}", reason(.source), remedy(.source))]
    Refused { place: String, source: PeerError },
    /// The connection cannot use TLS.
    #[error("{place}: {fault}")]
    Tls { place: String, fault: TlsFault },
    /// The node does not support the digests that the URL requires.
    #[error("{place} does not grant the requested digests: drop digest= from the URL")]
    NoDigests { place: String },
    /// The node does not answer during the connection's setup.
    #[error("{place} did not answer {what} within {}", span(.within))]
    Silent { place: String, what: &'static str, within: Duration },
    /// The URL names no volume, which this call needs.
    #[error("the URL names no volume: append /VOLUME")]
    NoVolume,
    /// A volume cannot be opened.
    #[error("cannot open volume '{volume}': {status}{}", open_remedy(*.status))]
    Open { volume: String, status: Status },
    /// The node reports that the operation failed.
    #[error("{0}")]
    Status(Status),
    /// The connection ended before the answer. The operation has changed nothing, and may be
    /// repeated.
    #[error("the connection was lost: {0}")]
    ConnectionLost(Lost),
    /// The connection ended before the answer, and the operation may have changed the volume.
    #[error("the connection was lost, and whether the operation took effect is unknown: {0}")]
    Unknown(Lost),
    /// The queue pair's depth is reached.
    #[error(
        "{depth} operations are in flight, the maximum of this queue pair: poll before posting more"
    )]
    QueueFull { depth: u32 },
    /// The length is not valid for one operation.
    #[error("an operation takes 1 to {max} bytes, not {len}: post several operations")]
    Length { len: u64, max: u64 },
    /// The queue pair's shared memory is used up.
    #[error(
        "the queue pair has fewer than {len} bytes of memory left: drop buffers, or request more \
         in QueueOptions"
    )]
    NoMemory { len: u64 },
    /// Another process has taken the volume over. Nothing of this process is written any more.
    #[error("volume '{volume}' has another owner: {owner}; this process has lost it")]
    Superseded {
        volume: String,
        /// The name and address of the other owner.
        owner: String,
    },
}

/// The reason why a connection cannot use TLS.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TlsFault {
    /// The program was built without TLS.
    #[error(
        "this program has no TLS: use one that is built with OpenSSL and the feature `tls` of the crate \
         `nearflash`"
    )]
    Absent,
    /// The address answers with other bytes.
    #[error(
        "the address does not answer with TLS: write direct:// or start the node with ,tls=allowed behind \
         its address"
    )]
    NotSpoken,
    /// The node has refused the key.
    #[error(
        "the node refuses the handshake of TLS, because the key is unknown or its secret is another one; give \
         the key and the secret that `nearflash credential create` printed"
    )]
    Refused,
    /// The node violated the protocol, or TLS cannot be used here.
    #[error("the handshake of TLS failed: {0}")]
    Failed(String),
}

/// The cause of a lost connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
#[non_exhaustive]
pub enum Lost {
    /// The node closed the connection without a goodbye: it ended, or was killed.
    #[error("the node closed it")]
    Closed,
    /// The node closed the connection before its first answer, as an address that requires TLS does.
    #[error(
        "the node closed it before its first answer; if the address requires TLS, write direct+tls://"
    )]
    Unanswered,
    /// The node closed the connection during the handshake of TLS, as an address without TLS does.
    #[error(
        "the node closed it during the handshake of TLS; if the address has no TLS, write direct://"
    )]
    ClosedInHandshake,
    /// The node was silent for too long.
    #[error("the node was silent for {}", span(.within))]
    Silent { within: Duration },
    /// The time-out of a call has passed. If the call has a connection of its own, the client gives
    /// it up.
    #[error("the call's time-out has passed")]
    TimedOut,
    /// The system reported an error.
    #[error("{0}")]
    System(io::ErrorKind),
    /// The node violated the protocol, or sent a goodbye.
    #[error("{0}")]
    Peer(PeerError),
}

/// The error of a call or a post that is late before it has posted anything.
pub(super) const LATE: Error = Error::ConnectionLost(Lost::TimedOut);

impl Error {
    /// This error for the whole call, whose earlier parts may have changed the volume.
    pub(super) fn after_changes(self, may_have_changed: bool) -> Self {
        match self {
            Self::ConnectionLost(lost) if may_have_changed => Self::Unknown(lost),
            error => error,
        }
    }

    /// The number of this error among [`codes`]: the status number if the node reported a status.
    pub fn code(&self) -> u32 {
        let own = match self {
            Self::Url(_) | Self::NoVolume | Self::Tls { fault: TlsFault::Absent, .. } => {
                Own::InvalidUrl
            }
            Self::Credentials(_) => Own::InvalidCredentials,
            Self::Resolve { .. } | Self::Unreachable { .. } | Self::Silent { .. } => {
                Own::Unreachable
            }
            Self::NoDigests { .. } => Own::Refused,
            Self::ConnectionLost(_) => Own::ConnectionLost,
            Self::Unknown(_) => Own::OutcomeUnknown,
            Self::QueueFull { .. } => Own::QueueFull,
            Self::Length { .. } => Own::InvalidLength,
            Self::NoMemory { .. } => Own::NoMemory,
            Self::Superseded { .. } => Own::Superseded,
            Self::Refused { .. } | Self::Tls { .. } | Self::Open { .. } | Self::Status(_) => {
                match self.status() {
                    Some(status) => return u32::from(status.0),
                    None => Own::Refused,
                }
            }
        };
        own.code()
    }

    /// The error's name, the same in Rust, C and Python.
    pub fn name(&self) -> &'static str {
        match self.status() {
            Some(status) => status.name(),
            None => codes().find(|code| code.code == self.code()).map_or("", |code| code.name),
        }
    }

    /// The status, if the node reported one.
    pub fn status(&self) -> Option<Status> {
        match self {
            Self::Refused { source, .. } => refusal(source),
            // The node reports it by an alert of TLS.
            Self::Tls { fault: TlsFault::Refused, .. } => Some(Status::AUTHENTICATION_FAILED),
            Self::Open { status, .. } | Self::Status(status) => Some(*status),
            _ => None,
        }
    }

    /// Whether a new connection may help, since the connection is at fault and not the request.
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

/// For code that works on files. The source of the system's error is this error.
impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        let kind = match &error {
            Error::Url(_) | Error::NoVolume | Error::Length { .. } => io::ErrorKind::InvalidInput,
            Error::Tls { fault: TlsFault::Absent, .. } => io::ErrorKind::Unsupported,
            Error::Resolve { source, .. } | Error::Unreachable { source, .. } => source.kind(),
            Error::Silent { .. } => io::ErrorKind::TimedOut,
            Error::ConnectionLost(lost) | Error::Unknown(lost) => match lost {
                Lost::Silent { .. } | Lost::TimedOut => io::ErrorKind::TimedOut,
                Lost::System(kind) => *kind,
                Lost::Closed | Lost::Unanswered | Lost::ClosedInHandshake | Lost::Peer(_) => {
                    io::ErrorKind::ConnectionReset
                }
            },
            Error::NoMemory { .. } => io::ErrorKind::OutOfMemory,
            _ => match error.status() {
                Some(Status::NO_SUCH_VOLUME) => io::ErrorKind::NotFound,
                Some(Status::OUT_OF_RANGE) => io::ErrorKind::InvalidInput,
                Some(Status::NOT_GRANTED | Status::AUTHENTICATION_FAILED) => {
                    io::ErrorKind::PermissionDenied
                }
                Some(Status::WRITE_PROTECTED) => io::ErrorKind::ReadOnlyFilesystem,
                Some(Status::CAPACITY_EXCEEDED) => io::ErrorKind::StorageFull,
                Some(Status::BUSY) => io::ErrorKind::ResourceBusy,
                _ => io::ErrorKind::Other,
            },
        };
        Self::new(kind, error)
    }
}

/// An error as a number, a name and a sentence, the same in Rust, C and Python.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Code {
    /// The number of the node's status; for the client's own errors, a number above all statuses.
    pub code: u32,
    /// Its name, in capitals.
    pub name: &'static str,
    /// Its meaning.
    pub sentence: &'static str,
}

/// Every code: the node's statuses from OK on, then the client's own errors.
pub fn codes() -> impl Iterator<Item = Code> {
    let statuses = Status::all().map(|status| Code {
        code: u32::from(status.0),
        name: status.name(),
        sentence: status.sentence(),
    });
    let own = OWN.iter().map(|(own, name, sentence)| Code { code: own.code(), name, sentence });
    statuses.chain(own)
}

/// The errors of the client itself.
#[derive(Clone, Copy)]
enum Own {
    InvalidUrl,
    InvalidCredentials,
    Unreachable,
    Refused,
    ConnectionLost,
    OutcomeUnknown,
    QueueFull,
    InvalidLength,
    NoMemory,
    Superseded,
}

/// The first code above every status.
const OWN_FIRST: u32 = 0x1_0000;

impl Own {
    const fn code(self) -> u32 {
        OWN_FIRST + self as u32
    }
}

const OWN: [(Own, &str, &str); 10] = [
    (Own::InvalidUrl, "INVALID_URL", "the URL is not valid, or names no volume"),
    (Own::InvalidCredentials, "INVALID_CREDENTIALS", "the key or its secret cannot be used"),
    (Own::Unreachable, "UNREACHABLE", "no node answers at the address"),
    (Own::Refused, "REFUSED", "the node refuses the connection"),
    (
        Own::ConnectionLost,
        "CONNECTION_LOST",
        "the connection was lost before the answer; nothing was changed",
    ),
    (
        Own::OutcomeUnknown,
        "OUTCOME_UNKNOWN",
        "the connection was lost before the answer; whether the volume was changed is unknown",
    ),
    (Own::QueueFull, "QUEUE_FULL", "the queue pair's depth is reached"),
    (Own::InvalidLength, "INVALID_LENGTH", "the length is not valid for one operation"),
    (Own::NoMemory, "NO_MEMORY", "the queue pair's memory is used up"),
    (Own::Superseded, "SUPERSEDED", "another process has taken the volume over"),
];

/// The status of a failed handshake, if it has one.
fn refusal(source: &PeerError) -> Option<Status> {
    match source {
        PeerError::Goodbye(status) => Some(*status),
        PeerError::Impostor | PeerError::Unauthenticated => Some(Status::AUTHENTICATION_FAILED),
        PeerError::ShareTaken => Some(Status::BUSY),
        PeerError::CredentialExpired => Some(Status::CREDENTIAL_EXPIRED),
        PeerError::Version { .. } => Some(Status::VERSION),
        _ => None,
    }
}

/// The remedy of a volume that cannot be opened, where the status does not say it.
fn open_remedy(status: Status) -> &'static str {
    match status {
        Status::NO_SUCH_VOLUME => "; 'nearflash volume list' at the node names all",
        Status::NOT_GRANTED => {
            "; if the volume exists, 'nearflash grant add' at the node gives access to it"
        }
        _ => "",
    }
}

/// The reason for a refused connection: the node's, if it says one.
fn reason(source: &PeerError) -> String {
    match source {
        PeerError::Goodbye(status) => status.to_string(),
        other => other.to_string(),
    }
}

/// The remedy for a refused connection.
fn remedy(source: &PeerError) -> &'static str {
    match refusal(source) {
        Some(Status::AUTHENTICATION_FAILED) => {
            "; give the key and the secret that `nearflash credential create` printed"
        }
        Some(Status::CREDENTIAL_EXPIRED) => {
            "; create another one with `nearflash credential create`"
        }
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_names_are_distinct_and_an_error_has_one() {
        let all: Vec<Code> = codes().collect();
        for (at, code) in all.iter().enumerate() {
            assert!(all[at + 1..].iter().all(|other| other.code != code.code));
            assert!(all[at + 1..].iter().all(|other| other.name != code.name));
        }
        let lost = Error::Unknown(Lost::Closed);
        assert_eq!((lost.code(), lost.name()), (0x1_0005, "OUTCOME_UNKNOWN"));
        let status = Error::Status(Status::NOT_GRANTED);
        assert_eq!((status.code(), status.name()), (4, "NOT_GRANTED"));
        let open = Error::Open { volume: "x".to_owned(), status: Status(999) };
        assert_eq!((open.code(), open.name()), (999, "UNKNOWN"));
    }

    #[test]
    fn a_later_part_of_a_call_that_was_lost_leaves_the_call_unknown() {
        let after = |error: Error, may_have_changed| error.after_changes(may_have_changed);
        assert!(matches!(after(LATE, false), Error::ConnectionLost(Lost::TimedOut)));
        assert!(matches!(after(LATE, true), Error::Unknown(Lost::TimedOut)));
        assert!(matches!(after(Error::NoVolume, true), Error::NoVolume));
    }

    #[test]
    fn messages_are_one_line() {
        let place = || "direct://a:1".to_owned();
        let goodbye = PeerError::Goodbye;
        let errors = [
            Error::Refused { place: place(), source: goodbye(Status::AUTHENTICATION_FAILED) },
            Error::Silent { place: place(), what: "HELLO", within: Duration::from_millis(250) },
            Error::Length { len: 0, max: 8 << 20 },
            Error::Tls { place: place(), fault: TlsFault::Absent },
            Error::Tls { place: place(), fault: TlsFault::NotSpoken },
            Error::Tls { place: place(), fault: TlsFault::Refused },
            Error::ConnectionLost(Lost::Unanswered),
            Error::ConnectionLost(Lost::ClosedInHandshake),
            Error::ConnectionLost(Lost::System(io::ErrorKind::TimedOut)),
            Error::Unknown(Lost::Peer(goodbye(Status::SHUTTING_DOWN))),
        ];
        for error in errors {
            let message = error.to_string();
            assert!(!message.contains('\n') && message.len() > 20, "{message}");
        }
        let silent = Lost::Silent { within: Duration::from_millis(250) };
        assert_eq!(silent.to_string(), "the node was silent for 250 ms");
    }
}
