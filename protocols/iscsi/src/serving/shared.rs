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

fn identity(initiator: &str, isid: [u8; 6], portal_group: u16) -> Identity {
    Identity::Iscsi { initiator: initiator.into(), isid, portal_group }
}

/// The state of a session that its connections share.
#[derive(Debug)]
pub struct SessionShared {
    /// The target's part of the session's identifier.
    pub tsih: u16,
    /// The I_T nexus, as reservations identify it; none for a discovery session.
    pub nexus: Nexus,
    /// The I_T nexus in the protocol's own names.
    pub identity: Identity,
    pub(super) params: SessionParams,
    pub(crate) attentions: Attentions,
    pub(super) copies: CopyRecords,
    pub(super) numbers: Numbers,
    /// Whether there may be other connections, which may wait for what happens on one.
    pub(super) is_multiple: bool,
    /// See [`Self::close_all`].
    is_over: AtomicBool,
    /// See [`Self::forget`].
    is_forgotten: AtomicBool,
}

impl SessionShared {
    /// The session that a login begins in a portal group, with at most `window` commands under way.
    pub(super) fn new(tsih: u16, portal_group: u16, window: u32, demand: &LoginDemand) -> Self {
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
            identity: identity(initiator, demand.isid, portal_group),
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
            identity: identity("", [0; 6], 0),
            params: SessionParams::default(),
            attentions: Attentions::default(),
            copies: CopyRecords::default(),
            numbers: Numbers::new(Serial(0), 1),
            is_multiple: false,
            is_over: AtomicBool::new(false),
            is_forgotten: AtomicBool::new(false),
        }
    }

    /// Requests every connection to close.
    pub(super) fn close_all(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Whether every connection is to close.
    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// A cold reset ended the session: the next one reports a power on, not a nexus loss.
    pub(super) fn forget(&self) {
        self.is_forgotten.store(true, Ordering::Relaxed);
    }

    /// Whether the end of the session is not remembered.
    pub(super) fn is_forgotten(&self) -> bool {
        self.is_forgotten.load(Ordering::Relaxed)
    }
}
