//! What the connections of one session share: serial numbers of commands, attentions, names.
//!
//! Spec: RFC 7143, 4.2.2.1 (command numbering). All connections of a session live on one core, so
//! nothing here is ever contended; the words are atomic because a connection is made on the first
//! core and then moves to its own.
//!
//! Invariant: ExpCmdSN and MaxCmdSN never go back, and never more commands are taken and not
//! answered than the window has.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use nearflash_request::{Identity, Nexus};
use nearflash_scsi::{Attentions, CopyRecords};
use nearflash_session::nexus;

use crate::login::{LoginDemand, SessionKind};
use crate::params::SessionParams;
use crate::pdu::Serial;

/// The tag of the one portal group that a node is.
pub const PORTAL_GROUP: u16 = 1;

/// How a command number stands to what is expected.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Turn {
    /// It is the next one, and is taken now.
    Now,
    /// Others come first.
    Later,
    /// It was taken before, or is more than the window allows: not looked at.
    Never,
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
    window: u32,
    /// Whether there may be other connections.
    is_multiple: bool,
    expected: AtomicU32,
    last: AtomicU32,
    /// Numbers ahead that nothing comes of any more: a bit for each number of the window, by its low
    /// bits; and how many there are.
    skipped: Box<[AtomicU64]>,
    skipped_count: AtomicU32,
    /// Requests that wait for their turn, on all connections.
    early_count: AtomicU32,
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
            identity: Identity::Iscsi {
                initiator: initiator.into(),
                isid: demand.isid,
                portal_group: PORTAL_GROUP,
            },
            params: demand.session,
            attentions: Attentions::new(),
            copies: CopyRecords::default(),
            window,
            is_multiple: demand.session.max_connections > 1,
            expected: AtomicU32::new(demand.cmd_sn.0),
            last: AtomicU32::new(demand.cmd_sn.plus(window - 1).0),
            skipped: (0..window.next_power_of_two().div_ceil(64))
                .map(|_| AtomicU64::new(0))
                .collect(),
            skipped_count: AtomicU32::new(0),
            early_count: AtomicU32::new(0),
            is_over: AtomicBool::new(false),
            is_forgotten: AtomicBool::new(false),
        }
    }

    /// Of a connection that is not in: nobody's.
    pub(super) fn none() -> Self {
        Self {
            tsih: 0,
            nexus: Nexus::NONE,
            identity: Identity::Iscsi {
                initiator: Box::default(),
                isid: [0; 6],
                portal_group: PORTAL_GROUP,
            },
            params: SessionParams::default(),
            attentions: Attentions::new(),
            copies: CopyRecords::default(),
            window: 1,
            is_multiple: false,
            expected: AtomicU32::new(0),
            last: AtomicU32::new(0),
            skipped: Box::default(),
            skipped_count: AtomicU32::new(0),
            early_count: AtomicU32::new(0),
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
        self.window
    }

    /// Whether other connections may wait for what happens on one.
    #[inline]
    pub(super) const fn is_multiple(&self) -> bool {
        self.is_multiple
    }

    /// ExpCmdSN: the next command.
    #[inline]
    pub(super) fn expected(&self) -> Serial {
        Serial(self.expected.load(Ordering::Relaxed))
    }

    /// MaxCmdSN: the last command that is taken now.
    #[inline]
    pub(super) fn last(&self) -> Serial {
        Serial(self.last.load(Ordering::Relaxed))
    }

    /// Where a command number stands. If it is its turn, the next one is expected.
    #[inline]
    pub(super) fn take_turn(&self, number: Serial) -> Turn {
        let expected = self.expected();
        if self.last().next() == expected {
            return Turn::Never; // the window is closed
        }
        let skips = self.skipped_count.load(Ordering::Relaxed) > 0;
        if number == expected {
            self.expected.store(expected.next().0, Ordering::Relaxed);
            if skips {
                self.pass_skipped();
            }
            Turn::Now
        } else if number.since(expected) > self.last().since(expected) {
            Turn::Never
        } else if skips && self.is_skipped(number) {
            Turn::Never
        } else {
            Turn::Later
        }
    }

    /// A command that was taken is answered: there is room for one more.
    #[inline]
    pub(super) fn give_back(&self) {
        self.last.store(self.last().next().0, Ordering::Relaxed);
    }

    /// Nothing comes of that number any more, if it is ahead: in its turn it counts as taken, and
    /// answered. Whether it is.
    pub(super) fn skip(&self, number: Serial) -> bool {
        let (expected, last) = (self.expected(), self.last());
        if last.next() == expected || number.since(expected) > last.since(expected) {
            return false;
        }
        let (word, bit) = self.skip_bit(number);
        if word.fetch_or(bit, Ordering::Relaxed) & bit == 0 {
            self.skipped_count.fetch_add(1, Ordering::Relaxed);
            self.pass_skipped();
        }
        true
    }

    /// Goes on behind the numbers that are next and that nothing comes of.
    #[cold]
    fn pass_skipped(&self) {
        let mut expected = self.expected();
        while self.is_skipped(expected) {
            let (word, bit) = self.skip_bit(expected);
            word.fetch_and(!bit, Ordering::Relaxed);
            self.skipped_count.fetch_sub(1, Ordering::Relaxed);
            expected = expected.next();
            self.expected.store(expected.0, Ordering::Relaxed);
            self.give_back();
        }
    }

    fn is_skipped(&self, number: Serial) -> bool {
        let (word, bit) = self.skip_bit(number);
        word.load(Ordering::Relaxed) & bit != 0
    }

    /// Where a number of the window is in [`Self::skipped`].
    fn skip_bit(&self, number: Serial) -> (&AtomicU64, u64) {
        let index = usize::try_from(number.0 / 64).expect("usize is at least 32 bits wide");
        // As many words as a power of two.
        (&self.skipped[index & (self.skipped.len() - 1)], 1 << (number.0 % 64))
    }

    /// One more request waits for its turn.
    pub(super) fn early_came(&self) {
        self.early_count.fetch_add(1, Ordering::Relaxed);
    }

    /// One waits no more.
    pub(super) fn early_left(&self) {
        self.early_count.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether any request waits for its turn, on any connection.
    #[inline]
    pub(super) fn is_any_early(&self) -> bool {
        self.early_count.load(Ordering::Relaxed) > 0
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
