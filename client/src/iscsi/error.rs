//! Why a target cannot be reached, or no longer.

use std::io;
use std::net::SocketAddr;

use nearflash_iscsi::PeerError;
use nearflash_iscsi::initiator::SubmitError;
use nearflash_iscsi::login::LoginStatus;
use nearflash_iscsi::params::ParamError;

use super::options::Options;
use super::status::TaskStatus;
use crate::stream::LinkError;

/// Why a target cannot be reached, or no longer. Each names its remedy where there is one.
#[derive(Debug, thiserror::Error)]
pub enum InitiatorError {
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
    /// The target does not take us.
    #[error("{target} refuses the login: {status}{}", remedy(*.status, .initiator, *.has_account))]
    Refused {
        /// Which target.
        target: String,
        /// As whom.
        initiator: String,
        /// Whether we had an account to prove.
        has_account: bool,
        /// Why.
        status: LoginStatus,
    },
    /// It is not the target that it should be.
    #[error(
        "{target} does not prove that it knows the secret of '{user}': is it the right target, and \
         are the target's user and secret those that the account was made with?"
    )]
    Impostor {
        /// Which target.
        target: String,
        /// As whom it should have proved itself.
        user: String,
    },
    /// Digests that the target does not do.
    #[error("{target} does not grant the digests asked for: ask for none")]
    NoDigests {
        /// Which target.
        target: String,
    },
    /// More connections than the target allows.
    #[error("{target} allows {granted} connections in a session, not {wanted}: ask for fewer")]
    TooManyConnections {
        /// Which target.
        target: String,
        /// By us.
        wanted: u16,
        /// By the target.
        granted: u32,
    },
    /// A question was not answered with what was asked.
    #[error("the target answers {what} {status}")]
    Task {
        /// Which.
        what: &'static str,
        /// How.
        status: TaskStatus,
    },
    /// The logical unit is not there, or has no size that we know how to use.
    #[error("LUN {lun} is not there: {there}")]
    NoUnit {
        /// Which.
        lun: u16,
        /// Which are, in words.
        there: String,
    },
    /// The target broke the protocol, or ended the connection.
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
    /// The socket failed.
    #[error("the connection failed: {0}")]
    Socket(#[from] io::Error),
    /// A connection of the session is gone, and with it the session and all that was in flight.
    #[error(
        "{source}; {in_flight} operations were in flight, and whether they took effect is unknown"
    )]
    Lost {
        /// Why.
        source: Box<Self>,
        /// How many.
        in_flight: usize,
    },
    /// An operation was not taken.
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
    /// Of a login.
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
            // What of it was refused shows in how the target answered our one offer.
            Self::Peer(PeerError::Param(
                ParamError::BadAnswer { key } | ParamError::DigestRefused { key },
            )) if key.ends_with("Digest") => Self::NoDigests { target: target.to_owned() },
            other => other,
        }
    }

    /// Whether connecting again may help: the connection is at fault, not what was asked.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Lost { source, .. } => source.is_transient(),
            Self::Unreachable { .. }
            | Self::Peer(_)
            | Self::Closed
            | Self::Silent { .. }
            | Self::Socket(_) => true,
            // The target's fault, as it says itself.
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

/// Status-Class of a target that failed. RFC 7143, 11.13.5.
const TARGET_FAULT_CLASS: u8 = 3;

/// What a refused initiator can do.
fn remedy(status: LoginStatus, initiator: &str, has_account: bool) -> String {
    match status {
        LoginStatus::AUTHENTICATION_FAILURE if has_account => {
            "; are user and secret those of an account there?".to_owned()
        }
        LoginStatus::AUTHENTICATION_FAILURE => "; give a CHAP account's user and secret".to_owned(),
        LoginStatus::AUTHORIZATION_FAILURE => format!("; admit the initiator {initiator} there"),
        LoginStatus::NOT_FOUND | LoginStatus::TARGET_REMOVED => {
            "; is there such a target? A discovery tells which there are".to_owned()
        }
        LoginStatus::TOO_MANY_CONNECTIONS => "; ask for fewer connections".to_owned(),
        LoginStatus::OUT_OF_RESOURCES => "; it has no room for one more".to_owned(),
        _ => String::new(),
    }
}
