//! An iSCSI initiator over the system's sockets.
//!
//! [`Session::connect`] logs in to a target with one or more connections, and
//! [`Session::logical_unit`] reads the geometry of a unit; an operation uses the connection of its
//! buffer. One thread polls a session: sessions share nothing, and nothing runs in the background.
//! [`discover`] lists the targets. Spec: RFC 7143, SPC-4, SBC-3.
//!
//! Invariants: a buffer in flight belongs to the connection until its completion; once connected,
//! operations allocate no memory.

mod account;
mod connection;
mod discovery;
mod error;
mod io;
mod link;
mod options;
mod retries;
mod session;
mod status;
mod unit;

pub use account::{AccountFileError, account_from_file, mutual_account_from_files};
pub use discovery::discover;
pub use error::InitiatorError;
pub use io::{Buffer, Io, IoCompletion, Token};
pub use options::{ConnectionOptions, INITIATOR_DEFAULT, Options};
pub use session::Session;
pub use status::TaskStatus;
pub use unit::LogicalUnit;

pub use nearflash_iscsi::chap::{Account, AccountError, Credential, Secret, SecretLenError};
pub use nearflash_iscsi::initiator::{DiscoveredTarget, Ending, Sense, Status, SubmitError};
pub use nearflash_iscsi::pdu::LoginStatus;
pub use nearflash_iscsi::{Digests, PeerError, name_part};
pub use nearflash_units::{BlockSize, Blocks, ByteLen, Lba, Nanos};
