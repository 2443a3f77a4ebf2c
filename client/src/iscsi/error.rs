//! The errors of an initiator.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use nearflash_iscsi::PeerError;
use nearflash_iscsi::initiator::SubmitError;
use nearflash_iscsi::params::ParamError;
use nearflash_iscsi::pdu::LoginStatus;

use super::options::Options;
use super::status::TaskStatus;
use crate::span::span;
use crate::stream::LinkError;

/// An error of an initiator. Each message names the remedy if there is one.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum InitiatorError {
    /// The host name cannot be resolved.
    #[error("cannot resolve {host}: {source}")]
    Resolve { host: String, source: io::Error },
    /// The connection cannot be established.
    #[error("cannot connect to {address}: {source}; is a target listening there?")]
    Unreachable { address: SocketAddr, source: io::Error },
    /// The target refuses the login.
    #[error("{target} refuses the login: {status}{}", remedy(*.status, .initiator, *.has_account))]
    Refused { target: String, initiator: String, has_account: bool, status: LoginStatus },
    /// The target has failed to authenticate itself.
    #[error(
        "{target} failed to authenticate itself as '{user}': check the address, and the mutual \
         user and secret of the CHAP account"
    )]
    Impostor {
        target: String,
        /// The user that it had to authenticate as.
        user: String,
    },
    /// The target does not support the requested digests.
    #[error("{target} does not grant the requested digests: request none")]
    NoDigests { target: String },
    /// The target allows fewer connections.
    #[error("{target} allows {granted} connections in a session, not {wanted}: request fewer")]
    TooManyConnections { target: String, wanted: u16, granted: u32 },
    /// A command of the session itself has failed.
    #[error("the target answered {what} with {status}")]
    Task { what: &'static str, status: TaskStatus },
    /// The logical unit does not exist, or has an unsupported block size.
    #[error("LUN {lun} does not exist: {there}")]
    NoUnit { lun: u16, there: String },
    /// The target violated the protocol, or ended the connection.
    #[error(transparent)]
    Peer(#[from] PeerError),
    /// The target closed the connection without a logout.
    #[error("the connection was closed by the target")]
    Closed,
    /// The target did not answer in time.
    #[error("no answer to {what} within {}", span(.within))]
    Silent { what: &'static str, within: Duration },
    /// The socket failed.
    #[error("the connection failed: {0}")]
    Socket(#[from] io::Error),
    /// A connection of the session is lost, and with it the session and all operations in flight.
    #[error(
        "{source}; {in_flight} operations were in flight, and whether they took effect is unknown"
    )]
    Lost { source: Box<Self>, in_flight: usize },
    /// An operation was not accepted.
    #[error(transparent)]
    Submit(#[from] SubmitError),
}

impl From<LinkError<PeerError>> for InitiatorError {
    fn from(error: LinkError<PeerError>) -> Self {
        match error {
            LinkError::Closed => Self::Closed,
            LinkError::Socket(source) => Self::Socket(source),
            LinkError::Peer(error) => Self::Peer(error),
        }
    }
}

impl InitiatorError {
    pub(super) fn of_login(self, options: &Options, target: &str) -> Self {
        match self {
            Self::Peer(PeerError::Login(status)) => Self::Refused {
                target: target.to_owned(),
                initiator: options.initiator.clone(),
                has_account: options.account.is_some(),
                status,
            },
            Self::Peer(PeerError::Impostor) => {
                let wanted = options.account.as_ref().and_then(|account| account.target());
                let user = wanted.map(|wanted| wanted.user.clone()).unwrap_or_default();
                Self::Impostor { target: target.to_owned(), user }
            }
            // The initiator makes a single offer, so the target's answer shows the refusal.
            Self::Peer(PeerError::Param(
                ParamError::BadAnswer(key) | ParamError::DigestRefused(key),
            )) if key.ends_with("Digest") => Self::NoDigests { target: target.to_owned() },
            other => other,
        }
    }

    /// Whether a new connection may help, since the connection is at fault and not the request.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Lost { source, .. } => source.is_transient(),
            Self::Unreachable { .. }
            | Self::Peer(_)
            | Self::Closed
            | Self::Silent { .. }
            | Self::Socket(_) => true,
            // The status class says that the target is at fault.
            Self::Refused { status, .. } => status.class() == TARGET_FAULT_CLASS,
            Self::Resolve { .. }
            | Self::Impostor { .. }
            | Self::NoDigests { .. }
            | Self::TooManyConnections { .. }
            | Self::Task { .. }
            | Self::NoUnit { .. }
            | Self::Submit(_) => false,
        }
    }
}

/// The status class of a target error. RFC 7143, 11.13.5.
const TARGET_FAULT_CLASS: u8 = 3;

/// The remedy for a refused login.
fn remedy(status: LoginStatus, initiator: &str, has_account: bool) -> String {
    match status {
        LoginStatus::AUTHENTICATION_FAILURE if has_account => {
            "; check the user and the secret".to_owned()
        }
        LoginStatus::AUTHENTICATION_FAILURE => {
            "; add the user and the secret of a CHAP account".to_owned()
        }
        LoginStatus::AUTHORIZATION_FAILURE => format!("; admit the initiator {initiator} there"),
        LoginStatus::NOT_FOUND | LoginStatus::TARGET_REMOVED => {
            "; does this target exist, and may the initiator use it? A discovery lists those that it may".to_owned()
        }
        LoginStatus::TOO_MANY_CONNECTIONS => "; request fewer connections".to_owned(),
        LoginStatus::OUT_OF_RESOURCES => "; it has no room for another session".to_owned(),
        _ => String::new(),
    }
}
