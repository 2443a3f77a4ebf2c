//! What the connections of one session share: the numbers of its commands, attentions, names.
//!
//! Spec: RFC 7143, 4.2 (sessions). All connections of a session live on one core, so nothing here is
//! ever contended; the words are atomic because a connection is made on the first core and then moves
//! to its own.

use std::sync::atomic::{AtomicBool, Ordering};

use nearflash_request::{Identity, Nexus};
use nearflash_scsi::{Attentions, CopyRecords};
use nearflash_session::nexus;

use super::numbers::Numbers;
use crate::login::{LoginDemand, SessionKind};
use crate::params::SessionParams;
use crate::pdu::Serial;

/// The tag of the one portal group that a node is.
pub const PORTAL_GROUP: u16 = 1;

fn identity(initiator: &str, isid: [u8; 6]) -> Identity {
    Identity::Iscsi { initiator: initiator.into(), isid, portal_group: PORTAL_GROUP }
}

/// A session: what its connections have in common.
#[derive(Debug)]
pub struct SessionShared {
    tsih: u16,
    nexus: Nexus,
    identity: Identity,
    params: SessionParams,
    attentions: Attentions,
    copies: CopyRecords,
    /// Of its commands.
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

    /// Of a connection that is not in: nobody's.
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

    /// Who asks, as reservations know it. None for a discovery session.
    pub fn nexus(&self) -> Nexus {
        self.nexus
    }

    /// The same in the protocol's own names.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// What was negotiated for all connections.
    pub fn params(&self) -> &SessionParams {
        &self.params
    }

    /// What the initiator has not been told yet.
    pub fn attentions(&self) -> &Attentions {
        &self.attentions
    }

    /// What is remembered of its third-party copies.
    pub(super) fn copies(&self) -> &CopyRecords {
        &self.copies
    }

    /// How many commands may be under way.
    pub fn window(&self) -> u32 {
        self.numbers.window()
    }

    /// Whether other connections may wait for what happens on one.
    #[inline]
    pub(super) const fn is_multiple(&self) -> bool {
        self.is_multiple
    }

    /// Every connection is to close.
    pub(super) fn close_all(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Whether they are.
    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// The target has begun anew with its end: the initiator's next session is told that, and not of
    /// this one's end.
    pub(super) fn forget(&self) {
        self.is_forgotten.store(true, Ordering::Relaxed);
    }

    /// Whether nobody is to be told of its end.
    pub(super) fn is_forgotten(&self) -> bool {
        self.is_forgotten.load(Ordering::Relaxed)
    }
}
