use nearflash_request::{
    Addressees, Attention, Change, ChangeKind, ChangeResult, Identity, Nexus, Raised, Refusal,
    Report,
};
use zerocopy::FromBytes;

use super::*;
use crate::feature::FeatureId;
use crate::log::{GetLogPage, LogId, ReservationNotification};
use crate::{AsyncEvent, NamespaceId};

const VOLUME: VolumeId = VolumeId(101);

fn nexus_of(target: &Target, controller: ControllerId) -> Nexus {
    target.controllers[&controller].nexus
}

fn raised(attention: Attention, to: Addressees) -> Raised {
    Raised { volume: Some(VOLUME), to, attention }
}

fn read_page(target: &mut Target, controller: ControllerId, retain_event: bool) -> [u64; 4] {
    let page = GetLogPage { retain_event, ..GetLogPage::new(LogId::RESERVATION_NOTIFICATION, 64) };
    target.admin(NOW, controller, &page.to_command(NamespaceId::NONE), &[]);
    let Some(Action::Respond { data, .. }) = target.poll_action() else {
        panic!("the page is answered at once")
    };
    let page = ReservationNotification::read_from_bytes(&data).unwrap();
    let [notice, available] = [page.notice, page.available].map(u64::from);
    [page.count.get(), notice, available, u64::from(page.namespace.get())]
}

fn wait_for_event(target: &mut Target, controller: ControllerId, cid: u16) {
    let request = Command::async_event_request().with_command_id(CommandId(cid));
    target.admin(NOW, controller, &request, &[]);
}

/// The reported events.
fn told(target: &mut Target) -> Vec<(ControllerId, AsyncEvent)> {
    let event = |action| match action {
        Action::Respond { controller, completion, .. } => {
            (controller, AsyncEvent::from_result(completion.dw0.get()))
        }
        other => panic!("an event was expected, not {other:?}"),
    };
    actions(target).into_iter().map(event).collect()
}

/// A second host of the subsystem.
fn join_other(target: &mut Target) -> ControllerId {
    let mut host = Host::of(&nqn("data"));
    host.data.host_id = [9; 16];
    let controller = host.connect(target).unwrap().controller;
    assert!(ask(target, controller, enable()).0.status().is_success());
    controller
}

#[test]
fn a_host_is_the_same_over_its_controllers_and_another_in_every_other_subsystem() {
    let (mut target, first) = joined();
    target.publish(vec![namespace("data", 1), namespace("more", 1)]).unwrap();
    actions(&mut target);
    let second = join(&mut target, &nqn("data"));
    let elsewhere = join(&mut target, &nqn("more"));
    let other = join_other(&mut target);
    assert_eq!(nexus_of(&target, first), nexus_of(&target, second));
    assert_ne!(nexus_of(&target, first), nexus_of(&target, elsewhere));
    assert_ne!(nexus_of(&target, first), nexus_of(&target, other));
}

#[test]
fn a_host_without_an_identifier_is_nobody() {
    let mut target = target();
    let mut host = Host::of(&nqn("data"));
    host.data.host_id = [0; 16];
    assert_eq!(host.connect(&mut target).unwrap().nexus, Nexus::NONE);
}

#[test]
fn hosts_are_told_by_an_event_and_a_page_of_what_concerns_them() {
    let (mut target, first) = joined();
    let other = join_other(&mut target);
    for controller in [first, other] {
        wait_for_event(&mut target, controller, 1);
    }
    let only = Addressees::Only(nexus_of(&target, other));
    target.raise(&raised(Attention::RegistrationsPreempted, only));
    assert_eq!(told(&mut target), [(other, AsyncEvent::RESERVATION_CHANGED)]);
    assert_eq!(read_page(&mut target, other, false), [1, 1, 0, 1]);
    assert_eq!(read_page(&mut target, other, false), [0; 4], "there is no more");
    assert_eq!(read_page(&mut target, first, false), [0; 4]);
}

#[test]
fn each_notification_is_read_once_and_announced_until_none_is_left() {
    let (mut target, controller) = joined();
    wait_for_event(&mut target, controller, 1);
    target.raise(&raised(Attention::ReservationsReleased, Addressees::All));
    target.raise(&raised(Attention::ReservationsPreempted, Addressees::All));
    assert_eq!(told(&mut target).len(), 1, "the second is behind the same event");
    wait_for_event(&mut target, controller, 2);
    assert_eq!(read_page(&mut target, controller, true), [1, 2, 1, 1]);
    assert_eq!(told(&mut target), [], "the event was to be retained");
    assert_eq!(read_page(&mut target, controller, false), [1, 2, 1, 1]);
    assert_eq!(told(&mut target), [(controller, AsyncEvent::RESERVATION_CHANGED)]);
    assert_eq!(read_page(&mut target, controller, false), [2, 3, 0, 1]);
}

#[test]
fn a_host_that_reads_nothing_loses_the_oldest_and_sees_it_by_the_count() {
    let (mut target, controller) = joined();
    for _ in 0..100 {
        target.raise(&raised(Attention::ReservationsReleased, Addressees::All));
    }
    assert_eq!(read_page(&mut target, controller, false), [37, 2, 63, 1]);
}

#[test]
fn what_is_masked_is_not_told() {
    let (mut target, controller) = joined();
    let mask = |nsid, value| Command {
        nsid,
        ..Command::set_features(FeatureId::RESERVATION_NOTIFICATION, value)
    };
    let get =
        Command { nsid: 1.into(), ..Command::get_features(FeatureId::RESERVATION_NOTIFICATION, 0) };
    assert!(status_of(&mut target, controller, mask(1.into(), 0b0100)).is_success());
    assert_eq!(ask(&mut target, controller, get).0.dw0.get(), 0b0100);
    target.raise(&raised(Attention::ReservationsReleased, Addressees::All));
    assert_eq!(read_page(&mut target, controller, false), [0; 4]);
    target.raise(&raised(Attention::RegistrationsPreempted, Addressees::All));
    assert_eq!(read_page(&mut target, controller, false), [1, 1, 0, 1]);
    let all = mask(u32::MAX.into(), 0b1110);
    assert!(status_of(&mut target, controller, all).is_success());
    assert_eq!(ask(&mut target, controller, get).0.dw0.get(), 0b1110);
    let refused = [
        (mask(1.into(), 1), Status::INVALID_FIELD),
        (mask(7.into(), 2), Status::INVALID_NAMESPACE),
        (Command { nsid: u32::MAX.into(), ..get }, Status::INVALID_NAMESPACE),
    ];
    for (command, status) in refused {
        assert_eq!(status_of(&mut target, controller, command), status.dnr());
    }
}

#[test]
fn what_is_no_reservation_s_or_another_volume_s_is_no_notification() {
    let (mut target, controller) = joined();
    target.raise(&raised(Attention::Reset, Addressees::All));
    let released = raised(Attention::ReservationsReleased, Addressees::All);
    target.raise(&Raised { volume: Some(VolumeId(9)), ..released });
    target.raise(&Raised { volume: None, ..released });
    assert_eq!(read_page(&mut target, controller, false), [0; 4]);
}

#[test]
fn a_reset_forgets_notifications_and_masks() {
    let (mut target, controller) = joined();
    target.raise(&raised(Attention::ReservationsReleased, Addressees::All));
    ask(&mut target, controller, Command::property_set(offset::CONFIGURATION, 0));
    ask(&mut target, controller, enable());
    assert_eq!(read_page(&mut target, controller, false), [0; 4]);
}

fn persistence(nsid: u32, get: bool, value: u32) -> Command {
    let feature = FeatureId::RESERVATION_PERSISTENCE;
    let command = match get {
        true => Command::get_features(feature, 0),
        false => Command::set_features(feature, value),
    };
    Command { nsid: nsid.into(), ..command }.with_command_id(CommandId(0xC1D))
}

/// The changes that the target requests. Any other action fails the test.
fn changes(target: &mut Target) -> Vec<Change> {
    let change = |action| match action {
        Action::Change { command_id: CommandId(0xC1D), change, .. } => change,
        other => panic!("a change was expected, not {other:?}"),
    };
    actions(target).into_iter().map(change).collect()
}

/// The status and dword 0 of the only completion.
fn answered(target: &mut Target) -> (Status, u32) {
    match &actions(target)[..] {
        [Action::Respond { completion, .. }] => (completion.status(), completion.dw0.get()),
        other => panic!("one answer was expected, not {other:?}"),
    }
}

#[test]
fn persistence_is_asked_of_the_control_side() {
    let (mut target, controller) = joined();
    target.admin(NOW, controller, &persistence(1, true, 0), &[]);
    let asked = changes(&mut target);
    let identity =
        Identity::Nvme { host_id: *Uuid::from_u128(0x1234).as_bytes(), controller: controller.0 };
    let nexus = nexus_of(&target, controller);
    assert_eq!(asked, [Change { volume: VOLUME, nexus, identity, kind: ChangeKind::Report }]);
    let report = Report { persists: true, ..Report::default() };
    let result = ChangeResult::Report(Box::new(report));
    target.handle_change(controller, CommandId(0xC1D), &result);
    assert_eq!(answered(&mut target), (Status::SUCCESS, 1));
}

#[test]
fn persistence_of_all_is_set_volume_by_volume_until_one_fails() {
    let (mut target, controller) = joined();
    target.publish((1..=3).map(|nsid| namespace("data", nsid)).collect::<Vec<_>>()).unwrap();
    actions(&mut target);
    target.admin(NOW, controller, &persistence(u32::MAX, false, 1), &[]);
    for volume in [101, 102] {
        let asked = changes(&mut target);
        assert_eq!(asked.len(), 1, "one at a time");
        assert_eq!(asked[0].volume, VolumeId(volume));
        assert_eq!(asked[0].kind, ChangeKind::SetPersistence(true));
        let result = match volume {
            101 => ChangeResult::Done,
            _ => ChangeResult::Refused(Refusal::NotRecorded),
        };
        target.handle_change(controller, CommandId(0xC1D), &result);
    }
    assert_eq!(answered(&mut target), (Status::INTERNAL_ERROR, 0));
    target.handle_change(controller, CommandId(0xC1D), &ChangeResult::Done);
    assert_eq!(actions(&mut target), [], "it is answered once");
}

#[test]
fn persistence_of_no_namespace_is_refused_and_its_default_is_off() {
    let (mut target, controller) = joined();
    for command in [persistence(7, false, 1), persistence(7, true, 0), persistence(0, true, 0)] {
        let status = status_of(&mut target, controller, command);
        assert_eq!(status, Status::INVALID_NAMESPACE.dnr());
    }
    for (select, value) in [(1_u32, 0), (3, 0b110)] {
        let mut command = persistence(1, true, 0);
        command.cdw10 = (command.cdw10.get() | select << 8).into();
        assert_eq!(ask(&mut target, controller, command).0.dw0.get(), value);
    }
}

#[test]
fn a_controller_that_is_gone_needs_no_answer() {
    let (mut target, controller) = joined();
    target.admin(NOW, controller, &persistence(1, true, 0), &[]);
    changes(&mut target);
    target.queue_closed(controller, QueueId::ADMIN);
    target.handle_change(controller, CommandId(0xC1D), &ChangeResult::Done);
    assert_eq!(actions(&mut target), []);
}
