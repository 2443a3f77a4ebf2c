use super::*;
use crate::feature::FeatureId;
use crate::identify::parse_namespace_list;
use crate::log::{GetLogPage, LogId};

fn wait_for_event(target: &mut Target, controller: ControllerId, cid: u16) {
    let request = Command::async_event_request().with_command_id(CommandId(cid));
    target.admin(NOW, controller, &request, &[]);
}

/// The reported events, with the commands that they complete.
fn told(target: &mut Target) -> Vec<(u16, AsyncEvent)> {
    let respond = |action| match action {
        Action::Respond { completion, .. } if completion.status().is_success() => {
            Some((completion.cid.get(), AsyncEvent::from_result(completion.dw0.get())))
        }
        _ => None,
    };
    actions(target).into_iter().filter_map(respond).collect()
}

fn read_changed(target: &mut Target, controller: ControllerId, retain_event: bool) -> Vec<u32> {
    let page = GetLogPage { retain_event, ..GetLogPage::new(LogId::CHANGED_NAMESPACES, 4096) };
    let (_, data) = ask(target, controller, page.to_command(NamespaceId::ALL));
    parse_namespace_list(&data).iter().map(|nsid| nsid.0).collect()
}

#[test]
fn a_new_namespace_reaches_io_queues_and_a_waiting_host_at_once() {
    let (mut target, controller) = joined();
    wait_for_event(&mut target, controller, 1);
    assert_eq!(actions(&mut target), []);
    target.publish(vec![namespace("data", 1), namespace("data", 2)]).unwrap();
    let done = actions(&mut target);
    let Action::Namespaces { controller: whose, table } = &done[0] else {
        panic!("a new table was expected, not {done:?}")
    };
    assert_eq!(*whose, controller);
    assert_eq!(table.get(NamespaceId(2)).map(|entry| entry.volume), Some(VolumeId(102)));
    let Action::Respond { completion, .. } = &done[1] else {
        panic!("an event was expected, not {done:?}")
    };
    // Type 2h, information 00h, log page 04h.
    assert_eq!(completion.dw0.get(), 0x0004_0002);
    assert_eq!(read_changed(&mut target, controller, false), [2]);
    assert_eq!(read_changed(&mut target, controller, false), [0; 0]);
}

#[test]
fn a_resize_and_a_removal_are_changes_and_no_change_is_none() {
    let (mut target, controller) = joined();
    target.publish(vec![namespace("data", 1), namespace("data", 2)]).unwrap();
    read_changed_quietly(&mut target, controller);
    target.publish(vec![namespace("data", 1), namespace("data", 2)]).unwrap();
    assert_eq!(actions(&mut target), []);
    let resized = NamespaceConfig { blocks: Blocks(524_288), ..namespace("data", 1) };
    target.publish(vec![resized]).unwrap();
    actions(&mut target);
    assert_eq!(read_changed(&mut target, controller, false), [1, 2]);
}

fn read_changed_quietly(target: &mut Target, controller: ControllerId) {
    actions(target);
    read_changed(target, controller, false);
}

#[test]
fn a_change_that_nobody_waited_for_is_told_to_the_next_request() {
    let (mut target, controller) = joined();
    target.publish(vec![namespace("data", 1), namespace("data", 2)]).unwrap();
    assert_eq!(told(&mut target), []);
    wait_for_event(&mut target, controller, 5);
    assert_eq!(told(&mut target), [(5, AsyncEvent::NAMESPACE_CHANGED)]);
}

#[test]
fn an_event_is_not_told_again_before_its_page_is_read() {
    let (mut target, controller) = joined();
    wait_for_event(&mut target, controller, 1);
    wait_for_event(&mut target, controller, 2);
    target.publish(vec![namespace("data", 1), namespace("data", 2)]).unwrap();
    assert_eq!(told(&mut target), [(1, AsyncEvent::NAMESPACE_CHANGED)]);
    target.publish(vec![namespace("data", 1), namespace("data", 3)]).unwrap();
    assert_eq!(told(&mut target), []);
    assert_eq!(read_changed(&mut target, controller, true), [2, 3]);
    assert_eq!(read_changed(&mut target, controller, false), [2, 3]);
    target.publish(vec![namespace("data", 1)]).unwrap();
    assert_eq!(told(&mut target), [(2, AsyncEvent::NAMESPACE_CHANGED)]);
}

#[test]
fn a_host_that_does_not_want_an_event_is_not_told() {
    let (mut target, controller) = joined();
    let none = Command::set_features(FeatureId::ASYNC_EVENT_CONFIGURATION, 0);
    assert!(status_of(&mut target, controller, none).is_success());
    wait_for_event(&mut target, controller, 1);
    target.publish(vec![namespace("data", 1), namespace("data", 2)]).unwrap();
    assert_eq!(told(&mut target), []);
    assert_eq!(read_changed(&mut target, controller, false), [2]);
}

#[test]
fn more_changes_than_the_list_holds_are_all_changes() {
    let (mut target, controller) = joined();
    let all: Vec<_> = (1..=1024).map(|nsid| namespace("data", nsid)).collect();
    target.publish(all).unwrap();
    actions(&mut target);
    assert_eq!(read_changed(&mut target, controller, false).len(), 1023);
}

#[test]
fn one_request_more_than_may_wait_is_refused() {
    let (mut target, controller) = joined();
    for cid in 0..4 {
        wait_for_event(&mut target, controller, cid);
    }
    assert_eq!(actions(&mut target), []);
    let status = status_of(&mut target, controller, Command::async_event_request());
    assert_eq!(status, Status::ASYNC_EVENT_LIMIT_EXCEEDED.dnr());
}

#[test]
fn a_reset_answers_what_waits() {
    let (mut target, controller) = joined();
    wait_for_event(&mut target, controller, 9);
    target.admin(NOW, controller, &Command::property_set(offset::CONFIGURATION, 0), &[]);
    let done = actions(&mut target);
    let Action::Respond { completion, .. } = &done[0] else {
        panic!("the request's answer was expected, not {done:?}")
    };
    assert_eq!(completion.command_id(), CommandId(9));
    assert_eq!(completion.status(), Status::ABORTED_SQ_DELETION);
}

#[test]
fn a_subsystem_that_goes_takes_its_controllers_and_leaves_others() {
    let (mut target, controller) = joined();
    target.publish(vec![namespace("data", 1), namespace("more", 1)]).unwrap();
    let other = join(&mut target, &nqn("more"));
    target.publish(vec![namespace("more", 1)]).unwrap();
    let reason = DisconnectReason::SubsystemRemoved;
    assert_eq!(actions(&mut target), [Action::Disconnect { controller, queue: None, reason }]);
    assert_eq!(target.status().hosts.len(), 1);
    assert_eq!(target.status().hosts[0].controller, other);
    // A command that was still on its way is ignored.
    target.admin(NOW, controller, &Command::keep_alive(), &[]);
    assert_eq!(actions(&mut target), []);
}

#[test]
fn a_discovery_controller_is_told_that_its_log_changed() {
    let mut target = target();
    let controller = join(&mut target, &Nqn::discovery());
    wait_for_event(&mut target, controller, 1);
    target.publish(vec![namespace("data", 1), namespace("data", 2)]).unwrap();
    assert_eq!(told(&mut target), [], "the log names subsystems, not namespaces");
    target.publish(vec![namespace("data", 1), namespace("more", 1)]).unwrap();
    assert_eq!(told(&mut target), [(1, AsyncEvent::DISCOVERY_CHANGED)]);
}

#[test]
fn what_contradicts_itself_is_not_published() {
    let (mut target, _) = joined();
    let duplicate = vec![namespace("data", 1), namespace("data", 1)];
    let (subsystem, namespace_id) = (nqn("data"), NamespaceId(1));
    assert_eq!(
        target.publish(duplicate),
        Err(PublishError::Duplicate { subsystem, namespace: namespace_id })
    );
    for number in [0, 1025, u32::MAX] {
        let refused = target.publish(vec![namespace("data", number)]);
        assert!(matches!(refused, Err(PublishError::NamespaceNumber { .. })), "{number}");
    }
    let named = NamespaceConfig { subsystem: Nqn::discovery(), ..namespace("data", 1) };
    assert_eq!(target.publish(vec![named]), Err(PublishError::DiscoveryName));
    assert_eq!(actions(&mut target), []);
    assert_eq!(target.status().hosts.len(), 1);
}
