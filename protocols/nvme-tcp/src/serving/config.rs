//! The configuration of a target session, its demands, and their replies.

use nearflash_nvme::Command;
use nearflash_nvme::auth::Step;
use nearflash_nvme::fabrics::ConnectData;
use nearflash_request::{Change, Request, Tag};
use nearflash_units::Nanos;

use crate::digest::Digests;
use crate::pdu::DataAlignment;

/// The limits of one session.
#[derive(Clone, Copy, Debug)]
pub struct SessionConfig {
    /// The maximum in-capsule data of an I/O queue, which IOCCSZ reports. A session always accepts
    /// the 8 KiB that hosts may send in a capsule of an admin queue.
    pub in_capsule_len_max: u32,
    /// MAXH2CDATA: the maximum data in one H2CData. A multiple of 4, at least 4096.
    pub h2c_data_len_max: u32,
    /// The maximum time from the start of the session until its queue is connected and, if it must be,
    /// authenticated.
    pub handshake_timeout: Nanos,
    /// Hosts without keys may connect.
    pub anonymous: bool,
    /// The digests that are enabled if a host requests them.
    pub digests: Digests,
    /// CPDA: the alignment of the data that hosts send.
    pub alignment: DataAlignment,
}

impl Default for SessionConfig {
    fn default() -> Self {
        Self {
            in_capsule_len_max: 16 * 1024,
            h2c_data_len_max: 1024 * 1024,
            handshake_timeout: Nanos::from_secs(10),
            anonymous: true,
            digests: Digests::BOTH,
            alignment: DataAlignment(0),
        }
    }
}

/// A demand: work that the session hands out.
#[derive(Clone, Debug)]
pub enum Demand {
    /// For the engine; completed with [`nearflash_session::ServingEnd::handle_completion`].
    Request(Request),
    /// For the control side; completed with [`super::TargetSession::handle_change`].
    Change(Tag, Box<Change>),
    /// For the subsystem; completed with [`super::TargetSession::handle_connected`].
    Connect(Box<ConnectDemand>),
    /// For the controller; completed with [`super::TargetSession::handle_admin_response`].
    Admin(Box<AdminDemand>),
    /// For a thread that may compute for milliseconds; completed with
    /// [`super::TargetSession::handle_authentication`].
    Authentication(Box<Step>),
}

/// A Connect that the host sent.
#[derive(Clone, Debug)]
pub struct ConnectDemand {
    /// The command. [`Command::as_connect`] decodes it.
    pub command: Command,
    /// The names of the host and of the subsystem.
    pub data: Box<ConnectData>,
    /// [`SessionConfig::anonymous`].
    pub anonymous: bool,
}

/// A command of an admin queue.
#[derive(Clone, Debug)]
pub struct AdminDemand {
    /// The command.
    pub command: Command,
    /// The data from the host.
    pub data: Vec<u8>,
}
