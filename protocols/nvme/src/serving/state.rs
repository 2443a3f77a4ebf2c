//! The state that a controller keeps for its host: feature values and notifications.
//!
//! Spec: NVMe Base 2.0, 5.27 (features), 5.16.1 (LID 80h). `features.rs` and `reservations.rs` have
//! the commands that set and read it.

use std::collections::{BTreeMap, VecDeque};

use nearflash_request::{ChangeKind, VolumeId};
use nearflash_units::Nanos;

use super::config::Limits;
use crate::log::{ReservationNotice, ReservationNotification};
use crate::{Command, NamespaceId, Notices};

/// The kind of controller to which a host connected.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum ControllerKind {
    /// A controller with namespaces.
    Io,
    /// A discovery controller.
    Discovery,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Features {
    pub(super) arbitration: u32,
    /// Over and under threshold, in kelvins.
    pub(super) temperature: [u16; 2],
    pub(super) error_recovery: u32,
    pub(super) write_atomicity: u32,
    /// Asynchronous Event Configuration.
    pub(super) notices: Notices,
    /// The number of I/O queue pairs that the host may connect.
    pub(super) queues: u16,
    /// Milliseconds since 1970 as the host set them, and the time at which it did.
    pub(super) timestamp: Option<(u64, Nanos)>,
    /// Host Behavior Support: the bytes that have a meaning.
    pub(super) host_behavior: [u8; HOST_BEHAVIOR_USED],
    pub(super) notification_masks: NotificationMasks,
}

/// The number of Host Behavior Support bytes that have a meaning.
pub(super) const HOST_BEHAVIOR_USED: usize = 3;

impl Features {
    /// The default values, with all supported notices enabled.
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

pub(super) fn supported_notices(kind: ControllerKind) -> Notices {
    match kind {
        ControllerKind::Io => Notices(Notices::NAMESPACE | Notices::ANA),
        ControllerKind::Discovery => Notices(Notices::DISCOVERY),
    }
}

/// The most pending notifications. A further one replaces the oldest, as the count shows.
const NOTIFICATIONS_MAX: usize = 64;

/// The reservation notifications of a controller.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Notifications {
    /// Oldest first.
    pub(super) waiting: VecDeque<ReservationNotification>,
    pub(super) count: u64,
}

impl Notifications {
    pub(super) fn push(&mut self, namespace: NamespaceId, notice: ReservationNotice) {
        if self.waiting.len() >= NOTIFICATIONS_MAX {
            self.waiting.pop_front();
        }
        // 0 marks the empty page.
        self.count = self.count.checked_add(1).unwrap_or(1);
        self.waiting.push_back(ReservationNotification::new(self.count, notice, namespace));
    }
}

/// The disabled notifications by namespace, one bit for each type.
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
    /// The volumes that the same change is still to be made on.
    pub(super) rest: VecDeque<VolumeId>,
}
