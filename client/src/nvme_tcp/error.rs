//! Why a controller cannot be reached, or no longer.

use std::io;
use std::net::SocketAddr;

use nearflash_nvme::{NamespaceId, Nqn, Status};
use nearflash_nvme_tcp::PeerError;
use nearflash_nvme_tcp::host::SubmitError;

use crate::stream::LinkError;

/// Why a controller cannot be reached, or no longer. Each names its remedy where there is one.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The name has no address.
    #[error("{host} has no address: {source}")]
    Resolve {
        /// The name.
        host: String,
        /// What the resolver said.
        source: io::Error,
    },
    /// Nobody answers.
    #[error("cannot connect to {address}: {source}; is a target listening there?")]
    Unreachable {
        /// Where.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The subsystem does not take us.
    #[error("{subsystem} refuses the connection: {status}{}", remedy(*.status))]
    Refused {
        /// Which subsystem.
        subsystem: Nqn,
        /// Why.
        status: Status,
    },
    /// An admin command failed.
    #[error("{what} failed: {status}")]
    Command {
        /// Which.
        what: &'static str,
        /// Why.
        status: Status,
    },
    /// The namespace is not there, or has no size that we know how to use.
    #[error("namespace {} is not there: `nvme list-ns` or `nearflash volume list` tell which are", .0.0)]
    NoNamespace(NamespaceId),
    /// The controller broke the protocol, or ended the connection.
    #[error(transparent)]
    Peer(#[from] PeerError),
    /// The connection ended without a word.
    #[error("the connection was closed by the target")]
    Closed,
    /// No answer in time.
    #[error("no answer to {what} within {seconds} s")]
    Silent {
        /// To what.
        what: &'static str,
        /// How long we waited.
        seconds: u64,
    },
    /// The controller says that only a reset helps (CSTS.CFS).
    #[error("the controller has failed and wants a reset")]
    Fatal,
    /// The socket failed.
    #[error("the connection failed: {0}")]
    Socket(#[from] io::Error),
    /// A command was not taken.
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
    /// Whether connecting again may help: the connection is at fault, not what was asked.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. }
            | Self::Peer(_)
            | Self::Closed
            | Self::Silent { .. }
            | Self::Fatal
            | Self::Socket(_) => true,
            Self::Refused { status, .. } | Self::Command { status, .. } => !status.is_dnr(),
            Self::Resolve { .. } | Self::NoNamespace(_) | Self::Submit(_) => false,
        }
    }
}

/// What a refused host can do.
fn remedy(status: Status) -> &'static str {
    match status.code() {
        Status::CONNECT_INVALID_HOST => "; admit this host's NQN at the target",
        Status::CONNECT_INVALID_PARAMETERS => "; is there such a subsystem?",
        Status::CONNECT_CONTROLLER_BUSY => "; it has no queue left",
        Status::AUTHENTICATION_REQUIRED => "; it wants authentication, which this host has not",
        _ => "",
    }
}
