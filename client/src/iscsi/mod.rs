//! An initiator for iSCSI over the system's sockets.
//!
//! [`Session::connect`] logs in to a target with one connection or several, and
//! [`Session::logical_unit`] learns what is there; operations then go over the connections of their
//! buffers. Each session is for the thread that polls it: nothing is shared between sessions, and
//! nothing runs in the background. [`discover`] asks which targets there are. Spec: RFC 7143, SPC-4,
//! SBC-3.
//!
//! Invariants: a buffer in flight is the connection's until its completion; after connecting,
//! nothing is allocated per operation.

mod account;
mod connection;
mod discovery;
mod error;
mod link;
mod options;
mod retries;
mod session;
mod status;
mod unit;

pub use account::{AccountFileError, account_from_file, mutual_account_from_files};
pub use discovery::discover;
pub use error::InitiatorError;
pub use options::{ConnectionOptions, INITIATOR_DEFAULT, Options};
pub use session::{Buffer, Io, IoCompletion, Session, Token};
pub use status::TaskStatus;
pub use unit::LogicalUnit;

pub use nearflash_iscsi::chap::{Account, AccountError, Credential, Secret, SecretLenError};
pub use nearflash_iscsi::initiator::{DiscoveredTarget, Ending, Sense, Status, SubmitError};
pub use nearflash_iscsi::login::LoginStatus;
pub use nearflash_iscsi::{Digests, PeerError};
