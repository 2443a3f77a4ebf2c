//! Hosts with a list of volumes: the namespaces that they see, and those that they do not.

use nearflash_request::{HostList, HostRight, HostRights, UnlistedHosts, VolumeId};

use super::*;
use crate::identify::{Cns, Identify, parse_namespace_list};
use crate::log::{GetLogPage, LogId};

/// The volume of namespace `nsid`.
const fn volume(nsid: u32) -> VolumeId {
    VolumeId(nsid + 100)
}

/// The rights of the host of these tests, by namespace.
fn rights(list: &[(u32, HostRight)]) -> Arc<HostRights> {
    let list: HostList = list.iter().map(|(nsid, right)| (volume(*nsid), *right)).collect();
    Arc::new(HostRights::new([(nqn("host").as_str().into(), list)], UnlistedHosts::All))
}

/// Namespaces 1 to 3 of `data`, and namespace 4 of `more`.
fn target() -> Target {
    let mut target = Target::new(config());
    let data = (1..=3).map(|nsid| namespace("data", nsid));
    target.publish(data.chain([namespace("more", 4)]).collect::<Vec<_>>()).unwrap();
    target
}

fn seen(target: &mut Target, controller: ControllerId) -> Vec<u32> {
    let identify = Identify::new(Cns::ACTIVE_NAMESPACES).to_command(NamespaceId(0));
    let list = parse_namespace_list(&ask(target, controller, identify).1);
    list.iter().map(|nsid| nsid.0).collect()
}

/// The answer to a host that asks for a namespace by its number: whether there is one, and whether it is write
/// protected.
fn probed(target: &mut Target, controller: ControllerId, nsid: u32) -> Option<bool> {
    let (done, data) =
        ask(target, controller, Identify::new(Cns::NAMESPACE).to_command(NamespaceId(nsid)));
    assert!(done.status().is_success());
    data.iter().any(|byte| *byte != 0).then(|| data[99] & 1 == 1)
}

#[test]
fn a_host_with_a_list_sees_its_namespaces_and_learns_nothing_of_others_by_their_numbers() {
    let mut target = target();
    target.set_rights(rights(&[(1, HostRight::ReadWrite), (3, HostRight::Read)]));
    let controller = join(&mut target, &nqn("data"));
    assert_eq!(seen(&mut target, controller), [1, 3]);
    let found = [1, 2, 3].map(|nsid| probed(&mut target, controller, nsid));
    assert_eq!(found, [Some(false), None, Some(true)]);
    let descriptors = Identify::new(Cns::NAMESPACE_DESCRIPTORS).to_command(NamespaceId(2));
    let refused = Status::INVALID_NAMESPACE.dnr();
    assert_eq!(status_of(&mut target, controller, descriptors), refused);
    let ana = GetLogPage::new(LogId::ANA, 4096).to_command(NamespaceId::ALL);
    let (_, page) = ask(&mut target, controller, ana);
    // NNSID of the group, and its two numbers.
    assert_eq!((page[20], page[48], page[52]), (2, 1, 3));
    let io = Host::of(&nqn("data")).on_queue(1, controller).connect(&mut target).unwrap();
    let found =
        [1, 2, 3].map(|nsid| io.namespaces.get(NamespaceId(nsid)).map(|it| it.write_protected));
    assert_eq!(found, [Some(false), None, Some(true)]);
}

#[test]
fn a_host_may_not_connect_to_a_subsystem_of_which_it_sees_nothing() {
    let mut target = target();
    target.set_rights(rights(&[(4, HostRight::Read)]));
    let refused = Host::of(&nqn("data")).connect(&mut target).unwrap_err();
    let unknown = Host::of(&nqn("unknown")).connect(&mut target).unwrap_err();
    assert_eq!(refused, unknown, "it does not learn that the subsystem exists");
    assert_eq!(refused.status, Status::CONNECT_INVALID_PARAMETERS.dnr());
    assert!(Host::of(&nqn("more")).connect(&mut target).is_ok());
    let mut other = Host::of(&nqn("data"));
    other.data.host = (&nqn("other")).into();
    assert!(other.connect(&mut target).is_ok(), "a host without a list sees all");
    let none = HostRights::new([], UnlistedHosts::None);
    target.set_rights(Arc::new(none));
    assert_eq!(other.connect(&mut target).unwrap_err(), unknown);
}

#[test]
fn a_connected_host_is_told_of_its_new_rights_and_keeps_its_controller() {
    let mut target = target();
    let controller = join(&mut target, &nqn("data"));
    let event = Command::async_event_request().with_command_id(CommandId(1));
    target.admin(NOW, controller, &event, &[]);
    target.set_rights(rights(&[(2, HostRight::Read)]));
    let done = actions(&mut target);
    let [Action::Namespaces { table, .. }, Action::Respond { completion, .. }] = &done[..] else {
        panic!("a table and an event were expected, not {done:?}")
    };
    let found = [1, 2, 3].map(|nsid| table.get(NamespaceId(nsid)).map(|it| it.write_protected));
    assert_eq!(found, [None, Some(true), None]);
    // Type 2h, information 00h, log page 04h.
    assert_eq!(completion.dw0.get(), 0x0004_0002);
    let changed = GetLogPage::new(LogId::CHANGED_NAMESPACES, 4096).to_command(NamespaceId::ALL);
    let list = parse_namespace_list(&ask(&mut target, controller, changed).1);
    assert_eq!(list.iter().map(|nsid| nsid.0).collect::<Vec<_>>(), [1, 2, 3]);
    // All of them gone: the controller stays, and sees nothing.
    target.set_rights(rights(&[]));
    actions(&mut target);
    assert_eq!(seen(&mut target, controller), [0; 0]);
    assert!(Host::of(&nqn("data")).on_queue(1, controller).connect(&mut target).is_ok());
    target.set_rights(Arc::default());
    actions(&mut target);
    assert_eq!(seen(&mut target, controller), [1, 2, 3]);
}

#[test]
fn a_host_is_not_told_of_changes_of_namespaces_that_it_does_not_see() {
    let mut target = target();
    target.set_rights(rights(&[(1, HostRight::ReadWrite)]));
    let controller = join(&mut target, &nqn("data"));
    let event = Command::async_event_request().with_command_id(CommandId(1));
    target.admin(NOW, controller, &event, &[]);
    let grown = NamespaceConfig { blocks: Blocks(524_288), ..namespace("data", 2) };
    target.publish(vec![namespace("data", 1), grown, namespace("more", 4)]).unwrap();
    assert_eq!(actions(&mut target), []);
    target.set_rights(rights(&[(1, HostRight::ReadWrite), (4, HostRight::Read)]));
    assert_eq!(actions(&mut target), [], "the list has another subsystem, too");
}
