//! The configuration of a target session, its demands, and their replies.

use std::sync::Arc;

use nearflash_nvme::fabrics::ConnectData;
use nearflash_nvme::{Command, NamespaceTable, QueueId};
use nearflash_request::{Change, Identity, Nexus, Request, Tag};
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
    /// The maximum time from the start of the session until its queue is connected.
    pub handshake_timeout: Nanos,
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
            digests: Digests::BOTH,
            alignment: DataAlignment(0),
        }
    }
}

/// The kind of commands on a queue pair.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum QueueKind {
    /// Commands are handed out unchanged.
    Admin,
    /// Commands are decoded and become requests.
    Io,
}

/// The queue that a successful Connect creates.
#[derive(Clone, Debug)]
pub struct Granted {
    /// Admin for the admin queue of any controller, including a discovery controller.
    pub kind: QueueKind,
    /// The queue's number.
    pub queue: QueueId,
    /// The number of submission queue entries, 1's based, at least 2.
    pub sq_entries: u16,
    /// The namespaces that the host can access. Not used for an admin queue.
    pub namespaces: Arc<NamespaceTable>,
    /// The host's identity for reservations.
    pub asker: Asker,
}

/// The host that sends commands on a queue.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Asker {
    /// The identity for reservations.
    pub nexus: Nexus,
    /// The same identity in NVMe's identifiers.
    pub identity: Identity,
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
}

/// A Connect that the host sent.
#[derive(Clone, Debug)]
pub struct ConnectDemand {
    /// The command. [`Command::as_connect`] decodes it.
    pub command: Command,
    /// The names of the host and of the subsystem.
    pub data: Box<ConnectData>,
}

/// A command of an admin queue.
#[derive(Clone, Debug)]
pub struct AdminDemand {
    /// The command.
    pub command: Command,
    /// The data from the host.
    pub data: Vec<u8>,
}
