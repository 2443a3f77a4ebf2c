//! Reservations in the controller: the host's identity, notifications about other hosts' changes,
//! and the persistence feature. Reservation commands are I/O commands and do not pass through here.
//!
//! Spec: NVMe Base 2.0, 8.19, 5.16.1 (LID 80h) and 5.27.1 (FIDs 82h and 83h).

use std::collections::VecDeque;
use std::sync::Arc;

use nearflash_request::{
    Attention, Change, ChangeKind, ChangeResult, Identity, Nexus, Raised, VolumeId,
};
use nearflash_session::nexus;
use zerocopy::IntoBytes;

use super::admin::{Admin, Answer, Reply};
use super::config::NamespaceConfig;
use super::controller::Controller;
use super::state::{Changing, ControllerKind, NotificationMasks};
use super::{Action, Target, tell_events};
use crate::log::{ReservationNotice, ReservationNotification};
use crate::reservation::status_of;
use crate::{AsyncEvent, CommandId, CompletionEntry, ControllerId, NamespaceId, Nqn, Status};

/// REGPRE, RESREL and RESPRE: the bits of the Reservation Notification Mask.
const MASK_BITS: u32 = 0b1110;

/// PTPL of the Reservation Persistence feature.
const PERSISTS: u32 = 1;

/// The host's identity for reservations, which is the same for all its controllers and after a
/// restart. A host without an identifier gets [`Nexus::NONE`], since all such hosts would share one
/// identity.
pub(super) fn nexus_of(host_id: &[u8; 16], subsystem: &Nqn) -> Nexus {
    if *host_id == [0; 16] {
        return Nexus::NONE;
    }
    nexus("nvme", &[host_id, subsystem.as_str().as_bytes()])
}

/// NVMe Base 2.0, 5.16.1 (LID 80h): the oldest notification, removed unless RAE is set.
pub(super) fn page(admin: &mut Admin<'_>, retain_event: bool) -> Vec<u8> {
    let notifications = &mut admin.controller.notifications;
    let Some(oldest) = notifications.waiting.front() else {
        return ReservationNotification::none().as_bytes().to_vec();
    };
    let more = notifications.waiting.len() - 1;
    let available = u8::try_from(more).expect("fewer wait than NOTIFICATIONS_MAX");
    let page = ReservationNotification { available, ..*oldest }.as_bytes().to_vec();
    if !retain_event {
        notifications.waiting.pop_front();
        admin.controller.events.clear(AsyncEvent::RESERVATION_CHANGED);
        if more > 0 {
            raise_event(admin.controller);
        }
    }
    page
}

fn raise_event(controller: &mut Controller) {
    controller.events.raise(AsyncEvent::RESERVATION_CHANGED, controller.features.notices);
}

/// Reservation Notification Mask of one namespace. NVMe Base 2.0, 5.27.1 (FID 82h).
pub(super) fn get_mask(admin: &Admin<'_>, masks: &NotificationMasks) -> Result<Answer, Status> {
    let namespace = admin.command.namespace_id();
    volume_of(admin, namespace)?;
    Ok(Answer::result(masks.of(namespace)))
}

/// Sets the mask of one namespace or of all.
pub(super) fn set_mask(admin: &mut Admin<'_>, value: u32) -> Result<u32, Status> {
    if value & !MASK_BITS != 0 {
        return Err(Status::INVALID_FIELD.dnr());
    }
    let asked = admin.command.namespace_id();
    let namespaces: Vec<NamespaceId> = if asked == NamespaceId::ALL {
        reservable(admin).map(|(nsid, _)| nsid).collect()
    } else {
        volume_of(admin, asked)?;
        vec![asked]
    };
    let NotificationMasks(masks) = &mut admin.controller.features.notification_masks;
    masks.extend(namespaces.into_iter().map(|nsid| (nsid, value)));
    Ok(0)
}

/// The volume of a namespace that has reservations; the features are not supported for the others.
fn volume_of(admin: &Admin<'_>, namespace: NamespaceId) -> Result<VolumeId, Status> {
    let config = admin.namespaces().get(&namespace).ok_or(Status::INVALID_NAMESPACE.dnr())?;
    if config.support.reservations { Ok(config.volume) } else { Err(Status::INVALID_FIELD.dnr()) }
}

/// The namespaces that have reservations.
fn reservable<'a>(
    admin: &'a Admin<'_>,
) -> impl Iterator<Item = (NamespaceId, &'a NamespaceConfig)> {
    let all = admin.namespaces().iter().map(|(nsid, config)| (*nsid, config));
    all.filter(|(_, config)| config.support.reservations)
}

/// Reservation Persistence of one namespace. NVMe Base 2.0, 5.27.1 (FID 83h).
pub(super) fn get_persistence(admin: &mut Admin<'_>) -> Result<Reply, Status> {
    let volume = volume_of(admin, admin.command.namespace_id())?;
    change(admin, ChangeKind::Report, [volume].into());
    Ok(Reply::Later)
}

/// The value without a Set Features: registrations do not persist.
pub(super) fn default_persistence(admin: &Admin<'_>) -> Result<Answer, Status> {
    volume_of(admin, admin.command.namespace_id())?;
    Ok(Answer::result(0))
}

/// Sets the persistence of one namespace or of all, one after the other.
pub(super) fn set_persistence(admin: &mut Admin<'_>, value: u32) -> Result<Reply, Status> {
    let asked = admin.command.namespace_id();
    let volumes: VecDeque<VolumeId> = if asked == NamespaceId::ALL {
        reservable(admin).map(|(_, config)| config.volume).collect()
    } else {
        [volume_of(admin, asked)?].into()
    };
    if volumes.is_empty() {
        return Ok(Reply::Now(Answer::default()));
    }
    change(admin, ChangeKind::SetPersistence(value & PERSISTS != 0), volumes);
    Ok(Reply::Later)
}

fn change(admin: &mut Admin<'_>, kind: ChangeKind, volumes: VecDeque<VolumeId>) {
    let mut changing = Changing { command: *admin.command, kind, rest: volumes };
    admin.actions.extend(next_change(admin.controller, &mut changing));
    admin.controller.changing.push(changing);
}

fn next_change(controller: &Controller, changing: &mut Changing) -> Option<Action> {
    let change = Change {
        volume: changing.rest.pop_front()?,
        nexus: controller.nexus,
        identity: controller.identity(),
        kind: changing.kind,
    };
    let command_id = changing.command.command_id();
    Some(Action::Change { controller: controller.id, command_id, change })
}

impl Controller {
    /// The host's identity, for reports.
    pub(super) fn identity(&self) -> Identity {
        Identity::Nvme { host_id: self.host_id, controller: self.id.0 }
    }
}

impl Target {
    /// The result of an [`Action::Change`]. It is ignored if the controller has ended.
    pub fn handle_change(
        &mut self,
        controller: ControllerId,
        command_id: CommandId,
        result: &ChangeResult,
    ) {
        let Some(controller) = self.controllers.get_mut(&controller) else { return };
        let waiting = &mut controller.changing;
        let place = waiting.iter().position(|it| it.command.command_id() == command_id);
        let Some(place) = place else { return };
        let mut changing = waiting.swap_remove(place);
        let status = status_of(result);
        if status.is_success()
            && let Some(next) = next_change(controller, &mut changing)
        {
            controller.changing.push(changing);
            return self.actions.push_back(next);
        }
        if !status.is_success() {
            controller.errors.record(&changing.command, status);
        }
        let value = match result {
            ChangeResult::Report(report) => u32::from(report.persists) * PERSISTS,
            _ => 0,
        };
        let completion = CompletionEntry::with_result(command_id, status, value);
        self.actions.push_back(Action::respond(controller.id, completion));
    }

    /// Notifies hosts of an attention of a volume.
    pub fn raise(&mut self, raised: &Raised) {
        let (Some(volume), Some(notice)) = (raised.volume, notice_of(raised.attention)) else {
            return;
        };
        let concerned = |it: &&mut Controller| {
            it.kind == ControllerKind::Io && raised.to.include(it.nexus) && it.nexus != Nexus::NONE
        };
        for controller in self.controllers.values_mut().filter(concerned) {
            let view = Arc::clone(&controller.view);
            let mut namespaces = view.namespaces.iter();
            let Some((nsid, _)) = namespaces.find(|(_, config)| config.volume == volume) else {
                continue;
            };
            if controller.features.notification_masks.of(*nsid) & notice.mask_bit() == 0 {
                controller.notifications.push(*nsid, notice);
                raise_event(controller);
                tell_events(controller, &mut self.actions);
            }
        }
    }
}

/// The reservation notification for an attention. Other changes reach hosts as namespace changes.
fn notice_of(attention: Attention) -> Option<ReservationNotice> {
    match attention {
        Attention::RegistrationsPreempted => Some(ReservationNotice::RegistrationPreempted),
        Attention::ReservationsReleased => Some(ReservationNotice::ReservationReleased),
        Attention::ReservationsPreempted => Some(ReservationNotice::ReservationPreempted),
        Attention::PowerOn
        | Attention::ColdReset
        | Attention::Reset
        | Attention::TasksCleared
        | Attention::NexusLoss
        | Attention::CapacityChanged
        | Attention::UnitsChanged
        | Attention::ModeChanged => None,
    }
}
