//! The errors of a host.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use nearflash_nvme::{NamespaceId, Nqn, Status};
use nearflash_nvme_tcp::PeerError;
use nearflash_nvme_tcp::host::SubmitError;

use crate::span::span;
use crate::stream::LinkError;
#[cfg(feature = "tls")]
use crate::stream::TlsError;

/// An error of a host. Each message names the remedy if there is one.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum HostError {
    /// The host name cannot be resolved.
    #[error("cannot resolve {host}: {source}")]
    Resolve { host: String, source: io::Error },
    /// The connection cannot be established.
    #[error("cannot connect to {address}: {source}; is a target listening there?")]
    Unreachable { address: SocketAddr, source: io::Error },
    /// The connection has no TLS.
    #[cfg(feature = "tls")]
    #[error("cannot use TLS with {address}: {source}{}", tls_remedy(.source))]
    Tls { address: SocketAddr, source: TlsError },
    /// The PSK has no key for the names of the host and the subsystem.
    #[cfg(feature = "tls")]
    #[error(transparent)]
    Psk(#[from] nearflash_nvme::tls::DeriveError),
    /// The target closed a new connection before it answered Connect.
    #[error("{address} closed the connection before it answered Connect; does it require TLS?")]
    NotJoined { address: SocketAddr },
    /// The subsystem refuses the connection.
    #[error("{subsystem} refuses the connection: {status}{}", remedy(*.status))]
    Refused { subsystem: Nqn, status: Status },
    /// An admin command failed.
    #[error("{what} failed: {status}")]
    Command { what: &'static str, status: Status },
    /// The namespace does not exist, or has an unsupported block size.
    #[error("namespace {} does not exist: `nvme list-ns` or `nearflash volume list` lists those that do", .0.0)]
    NoNamespace(NamespaceId),
    /// The controller violated the protocol, or ended the connection.
    #[error(transparent)]
    Peer(#[from] PeerError),
    /// The controller closed the connection without a termination request.
    #[error("the connection was closed by the target")]
    Closed,
    /// The controller did not answer in time.
    #[error("no answer to {what} within {}", span(.within))]
    Silent { what: &'static str, within: Duration },
    /// The controller reports a fatal status (CSTS.CFS), so that only a reset helps.
    #[error("the controller has failed and requires a reset")]
    Fatal,
    /// The socket failed.
    #[error("the connection failed: {0}")]
    Socket(#[from] io::Error),
    /// A command was not accepted.
    #[error(transparent)]
    Submit(#[from] SubmitError),
}

impl From<LinkError<PeerError>> for HostError {
    fn from(error: LinkError<PeerError>) -> Self {
        match error {
            LinkError::Closed => Self::Closed,
            LinkError::Socket(source) => Self::Socket(source),
            LinkError::Peer(error) => Self::Peer(error),
        }
    }
}

impl HostError {
    /// Whether a new connection may help, since the connection is at fault and not the request.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. }
            | Self::Peer(_)
            | Self::Closed
            | Self::NotJoined { .. }
            | Self::Silent { .. }
            | Self::Fatal
            | Self::Socket(_) => true,
            Self::Refused { status, .. } | Self::Command { status, .. } => !status.is_dnr(),
            Self::Resolve { .. } | Self::NoNamespace(_) | Self::Submit(_) => false,
            #[cfg(feature = "tls")]
            Self::Tls { source, .. } => source.is_transient(),
            #[cfg(feature = "tls")]
            Self::Psk(_) => false,
        }
    }
}

/// The remedy for a refused connection.
fn remedy(status: Status) -> &'static str {
    match status.code() {
        Status::CONNECT_INVALID_HOST => {
            "; admit this host's NQN at the target, or use TLS if the host must"
        }
        Status::CONNECT_INVALID_PARAMETERS => {
            "; does this subsystem exist, and may this host use it?"
        }
        Status::CONNECT_CONTROLLER_BUSY => "; it has no free queue",
        Status::AUTHENTICATION_REQUIRED => "; it requires authentication, which this host lacks",
        _ => "",
    }
}

/// The remedy for a connection without TLS.
#[cfg(feature = "tls")]
fn tls_remedy(source: &TlsError) -> &'static str {
    match source {
        TlsError::Refused { .. } => {
            "; give this host's NQN the same PSK and derivation at the target, for example with \
             'nearflash host add NQN --psk-file FILE'"
        }
        TlsError::NoTls | TlsError::Closed => "; serve this address with TLS, or omit the PSK",
        _ => "",
    }
}
