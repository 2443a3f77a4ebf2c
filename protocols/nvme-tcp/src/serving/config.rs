//! What a target session is told, what it asks for, and what it is answered.

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
    /// The most data in a capsule of an I/O queue: what IOCCSZ tells hosts. A session always takes
    /// the 8 KiB that hosts may put into a capsule of an admin queue.
    pub in_capsule_len_max: u32,
    /// MAXH2CDATA: the most data in one H2CData. A multiple of 4, at least 4096.
    pub h2c_data_len_max: u32,
    /// How long a host may take from the connection's first byte until its queue is connected.
    pub handshake_timeout: Nanos,
    /// The digests that a host may have if it wants them.
    pub digests: Digests,
    /// CPDA: how hosts must align data.
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

/// What a queue pair is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum QueueKind {
    /// All commands are handed out whole.
    Admin,
    /// Commands become requests.
    Io,
}

/// A queue that a Connect brought into being.
#[derive(Clone, Debug)]
pub struct Granted {
    /// Admin for an admin queue and for a discovery controller's.
    pub kind: QueueKind,
    /// Its number.
    pub queue: QueueId,
    /// Entries of the submission queue, 1's based, at least 2.
    pub sq_entries: u16,
    /// What the controller's host may reach, by NSID. Not looked at for an admin queue.
    pub namespaces: Arc<NamespaceTable>,
    /// Who the host is to reservations.
    pub asker: Asker,
}

/// Who asks for what comes over a queue.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Asker {
    /// As reservations know it.
    pub nexus: Nexus,
    /// In NVMe's own names.
    pub identity: Identity,
}

/// What a session wants done.
#[derive(Clone, Debug)]
pub enum Demand {
    /// By the engine; answered with [`nearflash_session::ServingEnd::handle_completion`].
    Request(Request),
    /// By the control side; answered with [`super::TargetSession::handle_change`].
    Change(Tag, Box<Change>),
    /// By the subsystem; answered with [`super::TargetSession::handle_connected`].
    Connect(Box<ConnectDemand>),
    /// By the controller; answered with [`super::TargetSession::handle_admin_response`].
    Admin(Box<AdminDemand>),
}

/// A host wants this connection to be a queue pair.
#[derive(Clone, Debug)]
pub struct ConnectDemand {
    /// The command: [`Command::as_connect`] reads it.
    pub command: Command,
    /// Who the host is and whom it wants.
    pub data: Box<ConnectData>,
}

/// A command of an admin queue.
#[derive(Clone, Debug)]
pub struct AdminDemand {
    /// The command.
    pub command: Command,
    /// What came with it.
    pub data: Vec<u8>,
}
