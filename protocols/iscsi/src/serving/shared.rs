//! The state that the connections of one session share: command numbers, unit attentions, names.
//!
//! Spec: RFC 7143, 4.2 (sessions). All connections of a session live on one core, so nothing here
//! is ever contended; the words are atomic because a connection is made on the first core and then
//! moves to its own.

use std::sync::atomic::{AtomicBool, Ordering};

use nearflash_request::{Identity, Nexus};
use nearflash_scsi::{Attentions, CopyRecords};
use nearflash_session::nexus;

use super::numbers::Numbers;
use crate::login::{LoginDemand, SessionKind};
use crate::params::SessionParams;
use crate::pdu::Serial;

/// TargetPortalGroupTag: a node is one portal group.
pub const PORTAL_GROUP: u16 = 1;

fn identity(initiator: &str, isid: [u8; 6]) -> Identity {
    Identity::Iscsi { initiator: initiator.into(), isid, portal_group: PORTAL_GROUP }
}

/// The state of a session that its connections share.
#[derive(Debug)]
pub struct SessionShared {
    tsih: u16,
    nexus: Nexus,
    identity: Identity,
    params: SessionParams,
    attentions: Attentions,
    copies: CopyRecords,
    /// The numbers of its commands.
    pub(super) numbers: Numbers,
    /// Whether there may be other connections.
    is_multiple: bool,
    /// See [`Self::close_all`].
    is_over: AtomicBool,
    /// See [`Self::forget`].
    is_forgotten: AtomicBool,
}

impl SessionShared {
    /// The session that a login begins.
    pub(super) fn new(tsih: u16, window: u32, demand: &LoginDemand) -> Self {
        let initiator = demand.initiator.as_str();
        let nexus = match &demand.kind {
            SessionKind::Normal { target } => {
                nexus("iscsi", &[initiator.as_bytes(), &demand.isid, target.as_bytes()])
            }
            SessionKind::Discovery => Nexus::NONE,
        };
        Self {
            tsih,
            nexus,
            identity: identity(initiator, demand.isid),
            params: demand.session,
            numbers: Numbers::new(demand.cmd_sn, window),
            is_multiple: demand.session.max_connections > 1,
            ..Self::none()
        }
    }

    /// The state of a connection before its login.
    pub(super) fn none() -> Self {
        Self {
            tsih: 0,
            nexus: Nexus::NONE,
            identity: identity("", [0; 6]),
            params: SessionParams::default(),
            attentions: Attentions::new(),
            copies: CopyRecords::default(),
            numbers: Numbers::new(Serial(0), 1),
            is_multiple: false,
            is_over: AtomicBool::new(false),
            is_forgotten: AtomicBool::new(false),
        }
    }

    /// The target's part of the session's identifier.
    pub fn tsih(&self) -> u16 {
        self.tsih
    }

    /// The I_T nexus, as reservations identify it; none for a discovery session.
    pub fn nexus(&self) -> Nexus {
        self.nexus
    }

    /// The same in the protocol's own names.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The negotiated parameters of the session.
    pub fn params(&self) -> &SessionParams {
        &self.params
    }

    /// The pending unit attentions.
    pub fn attentions(&self) -> &Attentions {
        &self.attentions
    }

    /// The records of its third-party copies.
    pub(super) fn copies(&self) -> &CopyRecords {
        &self.copies
    }

    /// How many commands may be under way.
    pub fn window(&self) -> u32 {
        self.numbers.window()
    }

    /// Whether other connections may wait for what happens on one.
    pub(super) const fn is_multiple(&self) -> bool {
        self.is_multiple
    }

    /// Requests every connection to close.
    pub(super) fn close_all(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Whether every connection is to close.
    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// The session ended by a cold reset: the initiator's next session reports a power on instead
    /// of the loss of this nexus.
    pub(super) fn forget(&self) {
        self.is_forgotten.store(true, Ordering::Relaxed);
    }

    /// Whether the end of the session is not remembered.
    pub(super) fn is_forgotten(&self) -> bool {
        self.is_forgotten.load(Ordering::Relaxed)
    }
}
