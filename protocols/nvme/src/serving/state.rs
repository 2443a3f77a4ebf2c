//! What a controller keeps of what its host has set, and of what the host is to hear.
//!
//! Spec: NVMe Base 2.0, 5.27 (features), 5.16.1 (LID 80h). How a host sets and asks for it is in
//! `features.rs` and `reservations.rs`.

use std::collections::{BTreeMap, VecDeque};

use nearflash_request::{ChangeKind, VolumeId};
use nearflash_units::Nanos;

use super::config::Limits;
use crate::log::{ReservationNotice, ReservationNotification};
use crate::{Command, NamespaceId, Notices};

/// What kind of controller a host connected to.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum ControllerKind {
    /// Has namespaces.
    Io,
    /// Tells where subsystems are.
    Discovery,
}

/// What a host has set.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Features {
    pub(super) arbitration: u32,
    /// Over and under threshold, in kelvins.
    pub(super) temperature: [u16; 2],
    pub(super) error_recovery: u32,
    pub(super) write_atomicity: u32,
    /// Asynchronous Event Configuration.
    pub(super) notices: Notices,
    /// I/O queue pairs that the host may have.
    pub(super) queues: u16,
    /// Milliseconds since 1970 as the host set them, and when.
    pub(super) timestamp: Option<(u64, Nanos)>,
    /// Host Behavior Support: the bytes that mean something.
    pub(super) host_behavior: [u8; HOST_BEHAVIOR_USED],
    pub(super) notification_masks: NotificationMasks,
}

/// Of Host Behavior Support.
pub(super) const HOST_BEHAVIOR_USED: usize = 3;

impl Features {
    /// As a controller begins: with all the notices that it knows.
    pub(super) fn new(kind: ControllerKind, limits: &Limits) -> Self {
        Self {
            arbitration: 0,
            temperature: [0xFFFF, 0],
            error_recovery: 0,
            write_atomicity: 0,
            notices: supported_notices(kind),
            queues: limits.io_queues_max,
            timestamp: None,
            host_behavior: [0; HOST_BEHAVIOR_USED],
            notification_masks: NotificationMasks::default(),
        }
    }
}

/// OAES: what there is to tell about.
pub(super) fn supported_notices(kind: ControllerKind) -> Notices {
    match kind {
        ControllerKind::Io => Notices(Notices::NAMESPACE | Notices::ANA),
        ControllerKind::Discovery => Notices(Notices::DISCOVERY),
    }
}

/// Notifications that wait for a host; the oldest goes when there is one more, and the count shows
/// the host that it missed some.
const NOTIFICATIONS_MAX: usize = 64;

/// What a controller has to tell its host of reservations.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Notifications {
    /// Oldest first.
    pub(super) waiting: VecDeque<ReservationNotification>,
    pub(super) count: u64,
}

impl Notifications {
    /// It happened.
    pub(super) fn push(&mut self, namespace: NamespaceId, notice: ReservationNotice) {
        if self.waiting.len() >= NOTIFICATIONS_MAX {
            self.waiting.pop_front();
        }
        // 0 is of the page that says nothing.
        self.count = self.count.checked_add(1).unwrap_or(1);
        self.waiting.push_back(ReservationNotification::new(self.count, notice, namespace));
    }
}

/// What the host does not want to hear of, by namespace: a bit for each kind of notification.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct NotificationMasks(pub(super) BTreeMap<NamespaceId, u32>);

impl NotificationMasks {
    pub(super) fn of(&self, namespace: NamespaceId) -> u32 {
        self.0.get(&namespace).copied().unwrap_or(0)
    }
}

/// A command that waits for the control side.
#[derive(Clone, Debug)]
pub(super) struct Changing {
    pub(super) command: Command,
    pub(super) kind: ChangeKind,
    /// Volumes that the same is still to be asked of.
    pub(super) rest: VecDeque<VolumeId>,
}
