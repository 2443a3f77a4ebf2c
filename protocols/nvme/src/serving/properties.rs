//! Property Get and Property Set on a controller. NVMe Base 2.0, 3.1.3, 6.5 and 6.6.

use std::collections::VecDeque;

use super::admin::{Admin, Answer};
use super::controller::Controller;
use super::events::Events;
use super::state::{ControllerKind, Features, Notifications};
use super::{Action, DisconnectReason};
use crate::fabrics::PropertyAccess;
use crate::property::{Capabilities, Configuration, ControllerStatus, Version, offset};
use crate::{CompletionEntry, Status};

/// TO and CRWMT: a controller is ready immediately, and half a second is the minimum value.
const READY_TIMEOUT_500MS: u8 = 1;

/// A property: its offset, its size in ATTRIB's encoding, its value.
struct Property(u32, u8, fn(&Admin<'_>) -> u64);

const PROPERTIES: [Property; 6] = [
    Property(offset::CAPABILITIES, PropertyAccess::SIZE_8, capabilities),
    Property(offset::VERSION, PropertyAccess::SIZE_4, |_| u64::from(Version::V2_0.0)),
    Property(offset::CONFIGURATION, PropertyAccess::SIZE_4, |admin| {
        u64::from(admin.controller.configuration.0)
    }),
    Property(offset::STATUS, PropertyAccess::SIZE_4, |admin| u64::from(admin.controller.status.0)),
    Property(offset::SUBSYSTEM_RESET, PropertyAccess::SIZE_4, |_| 0),
    Property(offset::READY_TIMEOUTS, PropertyAccess::SIZE_4, |_| u64::from(READY_TIMEOUT_500MS)),
];

fn capabilities(admin: &Admin<'_>) -> u64 {
    let entries = admin.config.limits.queue_entries_max;
    Capabilities::fabrics(entries.saturating_sub(1), READY_TIMEOUT_500MS).0
}

pub(super) fn get(admin: &mut Admin<'_>) -> Result<Answer, Status> {
    let access = admin.command.as_property_access();
    let same = |property: &&Property| (property.0, property.1) == (access.offset, access.size);
    let Property(_, _, value) = PROPERTIES.iter().find(same).ok_or(Status::INVALID_FIELD.dnr())?;
    Ok(Answer { result: value(admin), data: Vec::new() })
}

/// Property Set of CC, the only property that a host may set.
pub(super) fn set(admin: &mut Admin<'_>) -> Result<Answer, Status> {
    let access = admin.command.as_property_access();
    if (access.offset, access.size) != (offset::CONFIGURATION, PropertyAccess::SIZE_4) {
        return Err(Status::INVALID_FIELD.dnr());
    }
    let value = u32::try_from(access.value).map_err(|_| Status::INVALID_FIELD.dnr())?;
    configure(admin, Configuration(value));
    Ok(Answer::default())
}

/// NVMe Base 2.0, 3.1.3.5, 3.5 and 3.6: enable, reset, shut down.
fn configure(admin: &mut Admin<'_>, new: Configuration) {
    let old = std::mem::replace(&mut admin.controller.configuration, new);
    match (old.enable(), new.enable()) {
        (false, true) => {
            let supported = supports(admin.controller.kind, new);
            let status = if supported { ControllerStatus::READY } else { ControllerStatus::FATAL };
            admin.controller.status = ControllerStatus(status);
        }
        (true, false) => reset(admin),
        (true, true) | (false, false) => {}
    }
    let status = &mut admin.controller.status.0;
    match (old.shutdown() != 0, new.shutdown() != 0) {
        (false, true) => *status |= ControllerStatus::SHUTDOWN_COMPLETE,
        (true, false) => *status &= !ControllerStatus::SHUTDOWN_COMPLETE,
        (true, true) | (false, false) => {}
    }
}

/// Whether the configuration is supported. A discovery controller has no I/O entry sizes.
fn supports(kind: ControllerKind, wanted: Configuration) -> bool {
    let entry_sizes = (wanted.io_command_len_shift(), wanted.io_completion_len_shift());
    let io_as_known = kind == ControllerKind::Discovery || entry_sizes == (6, 4);
    let command_set_as_known = matches!(wanted.command_set(), 0b000 | 0b110);
    io_as_known && command_set_as_known && wanted.page_shift() == 0 && wanted.arbitration() == 0
}

/// Resets everything except the admin queue's connection.
fn reset(admin: &mut Admin<'_>) {
    admin.controller.status = ControllerStatus::default();
    admin.controller.features = Features::new(admin.controller.kind, &admin.config.limits);
    admin.controller.events = Events::default();
    admin.controller.changed_namespaces.clear();
    admin.controller.notifications = Notifications::default();
    abort_event_requests(admin.controller, admin.actions);
    for queue in admin.controller.close_queues() {
        admin.actions.push_back(Action::Disconnect {
            controller: admin.controller.id,
            queue: Some(queue),
            reason: DisconnectReason::ControllerReset,
        });
    }
}

fn abort_event_requests(controller: &mut Controller, actions: &mut VecDeque<Action>) {
    for aborted in controller.event_requests.drain(..) {
        let completion = CompletionEntry::new(aborted, Status::ABORTED_SQ_DELETION);
        actions.push_back(Action::respond(controller.id, completion));
    }
}
