use nearflash_request::Nexus;

use super::*;
use crate::fabrics::InvalidParameter;
use crate::{HostName, NqnField};

fn refused_command(host: &Host, target: &mut Target, offset: u16) {
    let refusal = host.connect(target).unwrap_err();
    assert_eq!(refusal.status, Status::CONNECT_INVALID_PARAMETERS.dnr());
    assert_eq!(refusal.result, u32::from(offset), "IATTR 0, IPO {offset}");
}

fn refused_data(host: &Host, target: &mut Target, offset: u16) {
    let refusal = host.connect(target).unwrap_err();
    assert_eq!(refusal.status, Status::CONNECT_INVALID_PARAMETERS.dnr());
    assert_eq!(refusal.result, 1 << 16 | u32::from(offset), "IATTR 1, IPO {offset}");
}

#[test]
fn a_refusal_says_what_its_status_means_for_a_connect() {
    let said = |host: &Host| host.connect(&mut target()).unwrap_err().to_string();
    let unknown = "0x4182 (no such subsystem, or the host sees none of its volumes)";
    assert_eq!(said(&Host::of(&nqn("unknown"))), unknown);
    let mut host = Host::of(&nqn("data"));
    host.connect.queue_entries_zero_based = 0;
    assert_eq!(said(&host), "0x4182 (Connect Invalid Parameters, byte 44 of the command)");
    let busy = Refusal::for_now(Status::CONNECT_CONTROLLER_BUSY);
    assert_eq!(busy.to_string(), "0x0181 (Controller Busy)");
    let invalid = Refusal::for_now(Status::CONNECT_INVALID_HOST.dnr());
    assert_eq!(invalid.to_string(), "0x4184 (Connect Invalid Host, do not retry)");
}

#[test]
fn connecting_the_admin_queue_makes_a_controller() {
    let mut target = target();
    let connected = Host::of(&nqn("data")).connect(&mut target).unwrap();
    assert_eq!(connected.kind, QueueKind::Admin);
    assert_eq!(connected.sq_entries, 32);
    assert_eq!(connected.namespaces.iter().count(), 1);
    let completion = connected.completion(CommandId(3));
    assert_eq!(completion.dw0.get(), u32::from(connected.controller.0));
    assert_eq!(completion.sq_head.get(), 0);
    let status = target.status();
    assert_eq!(status.hosts.len(), 1);
    assert_eq!(status.hosts[0].host, HostName::Named(nqn("host")));
    assert!(!status.hosts[0].ready);
}

#[test]
fn a_host_may_go_without_flow_control() {
    let mut host = Host::of(&nqn("data"));
    host.connect.attributes = Connect::DISABLE_SQ_FLOW_CONTROL;
    let connected = host.connect(&mut target()).unwrap();
    assert!(connected.disable_sq_flow_control);
    assert_eq!(connected.completion(CommandId(3)).sq_head.get(), 0xFFFF);
}

#[test]
fn io_queues_join_their_controller() {
    let (mut target, controller) = joined();
    for queue in 1..=4 {
        let host = Host::of(&nqn("data")).on_queue(queue, controller);
        let connected = host.connect(&mut target).unwrap();
        assert_eq!((connected.controller, connected.queue), (controller, QueueId(queue)));
        assert_eq!(connected.kind, QueueKind::Io);
    }
    assert_eq!(target.status().hosts[0].queues, [1, 2, 3, 4].map(QueueId));
}

#[test]
fn two_hosts_have_two_controllers() {
    let (mut target, first) = joined();
    let second = join(&mut target, &nqn("data"));
    assert_ne!(first, second);
}

#[test]
fn an_unknown_record_format_is_incompatible() {
    let mut host = Host::of(&nqn("data"));
    host.connect.record_format = 1;
    let refusal = host.connect(&mut target()).unwrap_err();
    assert_eq!(refusal.status, Status::CONNECT_INCOMPATIBLE_FORMAT.dnr());
}

#[test]
fn a_queue_of_one_entry_or_of_too_many_is_refused() {
    for entries in [0, 1024, u16::MAX] {
        let mut host = Host::of(&nqn("data"));
        host.connect.queue_entries_zero_based = entries;
        refused_command(&host, &mut target(), Connect::QUEUE_ENTRIES_OFFSET);
    }
}

#[test]
fn an_unknown_subsystem_is_refused_and_so_is_what_is_no_name() {
    refused_data(&Host::of(&nqn("other")), &mut target(), ConnectData::SUBSYSTEM_OFFSET);
    let mut host = Host::of(&nqn("data"));
    host.data.subsystem.0 = [b'x'; 256];
    refused_data(&host, &mut target(), ConnectData::SUBSYSTEM_OFFSET);
}

#[test]
fn a_host_without_a_name_joins_where_every_host_can() {
    let mut target = target();
    let mut host = Host::of(&nqn("data"));
    host.data.host = NqnField::EMPTY;
    let controller = host.connect(&mut target).unwrap().controller;
    ask(&mut target, controller, enable());
    host.on_queue(1, controller).connect(&mut target).unwrap();
    assert_eq!(target.status().hosts[0].host, HostName::Unnamed);
    // A named host cannot connect to the controller of an unnamed one.
    let named = Host::of(&nqn("data")).on_queue(2, controller);
    refused_data(&named, &mut target, ConnectData::HOST_OFFSET);
}

#[test]
fn a_host_without_a_name_is_refused_where_hosts_are_listed() {
    let hosts = HostAccess::Listed([nqn("friend")].into());
    let mut target = Target::new(TargetConfig { hosts, ..config() });
    target.publish(vec![namespace("data", 1)]).unwrap();
    for subsystem in [nqn("data"), Nqn::discovery()] {
        let mut host = Host::of(&subsystem);
        host.data.host = NqnField::EMPTY;
        refused_data(&host, &mut target, ConnectData::HOST_OFFSET);
    }
}

#[test]
fn a_host_with_an_invalid_name_is_refused_everywhere() {
    let mut host = Host::of(&nqn("data"));
    host.data.host.0[..4].copy_from_slice(b"iqn.");
    refused_data(&host, &mut target(), ConnectData::HOST_OFFSET);
}

#[test]
fn a_host_without_an_identifier_does_io_and_has_no_part_in_reservations() {
    let mut target = target();
    let mut host = Host::of(&nqn("data"));
    host.data.host_id = [0; 16];
    let connected = host.connect(&mut target).unwrap();
    assert_eq!(connected.nexus, Nexus::NONE);
    ask(&mut target, connected.controller, enable());
    let queue = host.on_queue(1, connected.controller).connect(&mut target).unwrap();
    assert_eq!((queue.kind, queue.nexus), (QueueKind::Io, Nexus::NONE));
}

#[test]
fn a_host_that_is_not_listed_is_an_invalid_host() {
    let hosts = HostAccess::Listed([nqn("friend")].into());
    let mut target = Target::new(TargetConfig { hosts, ..config() });
    target.publish(vec![namespace("data", 1)]).unwrap();
    let refusal = Host::of(&nqn("data")).connect(&mut target).unwrap_err();
    assert_eq!(refusal.status, Status::CONNECT_INVALID_HOST.dnr());
    let which = InvalidParameter::from_result(refusal.result);
    assert_eq!(which, InvalidParameter::Data(ConnectData::HOST_OFFSET));
    let unknown = Host::of(&nqn("unknown")).connect(&mut target).unwrap_err();
    assert_eq!(unknown, refusal, "it learns no names of subsystems");

    let mut friend = Host::of(&nqn("data"));
    friend.data.host = (&nqn("friend")).into();
    assert!(friend.connect(&mut target).is_ok());
}

#[test]
fn an_admin_queue_must_ask_for_a_new_controller() {
    let mut host = Host::of(&nqn("data"));
    host.data.controller_id = 1.into();
    refused_data(&host, &mut target(), ConnectData::CONTROLLER_ID_OFFSET);
}

#[test]
fn an_io_queue_needs_a_controller_of_its_subsystem_and_its_host() {
    let (mut target, controller) = joined();
    target.publish(vec![namespace("data", 1), namespace("more", 1)]).unwrap();
    let host = Host::of(&nqn("data")).on_queue(1, controller);
    let unknown = host.on_queue(1, ControllerId(77));
    refused_data(&unknown, &mut target, ConnectData::CONTROLLER_ID_OFFSET);
    let elsewhere = Host::of(&nqn("more")).on_queue(1, controller);
    refused_data(&elsewhere, &mut target, ConnectData::CONTROLLER_ID_OFFSET);
    let mut named = host.clone();
    named.data.host = (&nqn("somebody")).into();
    refused_data(&named, &mut target, ConnectData::HOST_OFFSET);
    let mut identified = host.clone();
    identified.data.host_id = [9; 16];
    refused_data(&identified, &mut target, ConnectData::HOST_ID_OFFSET);
    assert!(host.connect(&mut target).is_ok());
}

#[test]
fn an_io_queue_beyond_those_granted_is_refused() {
    let (mut target, controller) = joined();
    let host = Host::of(&nqn("data"));
    refused_command(&host.on_queue(5, controller), &mut target, Connect::QUEUE_OFFSET);
}

#[test]
fn an_io_queue_of_a_controller_that_is_not_enabled_is_refused() {
    let mut target = target();
    let host = Host::of(&nqn("data"));
    let controller = host.connect(&mut target).unwrap().controller;
    refused_command(&host.on_queue(1, controller), &mut target, Connect::QUEUE_OFFSET);
}

#[test]
fn a_discovery_controller_has_no_io_queues() {
    let mut target = target();
    let controller = join(&mut target, &Nqn::discovery());
    let host = Host::of(&Nqn::discovery()).on_queue(1, controller);
    refused_command(&host, &mut target, Connect::QUEUE_OFFSET);
}

#[test]
fn a_queue_in_use_is_refused_until_its_connection_has_ended() {
    let (mut target, controller) = joined();
    let host = Host::of(&nqn("data")).on_queue(1, controller);
    host.connect(&mut target).unwrap();
    let refusal = host.connect(&mut target).unwrap_err();
    assert_eq!(refusal.status, Status::COMMAND_SEQUENCE_ERROR);
    target.queue_closed(controller, QueueId(1));
    assert!(host.connect(&mut target).is_ok());
}

#[test]
fn with_the_admin_queue_the_controller_and_its_io_queues_end() {
    let (mut target, controller) = joined();
    Host::of(&nqn("data")).on_queue(2, controller).connect(&mut target).unwrap();
    target.queue_closed(controller, QueueId::ADMIN);
    let reason = DisconnectReason::AdminQueueClosed;
    let expected = Action::Disconnect { controller, queue: Some(QueueId(2)), reason };
    assert_eq!(actions(&mut target), [expected]);
    assert!(target.status().hosts.is_empty());
    target.queue_closed(controller, QueueId(2));
    target.queue_closed(controller, QueueId::ADMIN);
    assert_eq!(actions(&mut target), []);
}

#[test]
fn a_reset_ends_io_queues_and_lets_them_be_connected_anew() {
    let (mut target, controller) = joined();
    let host = Host::of(&nqn("data")).on_queue(1, controller);
    host.connect(&mut target).unwrap();
    target.admin(NOW, controller, &Command::property_set(offset::CONFIGURATION, 0), &[]);
    let reason = DisconnectReason::ControllerReset;
    let expected = Action::Disconnect { controller, queue: Some(QueueId(1)), reason };
    assert!(actions(&mut target).contains(&expected));
    refused_command(&host, &mut target, Connect::QUEUE_OFFSET);
    ask(&mut target, controller, enable());
    host.connect(&mut target).unwrap();
    // The end of the old connection does not end the new one.
    target.queue_closed(controller, QueueId(1));
    assert_eq!(target.status().hosts[0].queues, [QueueId(1)]);
    target.queue_closed(controller, QueueId(1));
    assert_eq!(target.status().hosts[0].queues, []);
}

#[test]
fn controllers_get_the_numbers_of_their_node_and_no_others() {
    let mut target = Target::new(TargetConfig { controller_ids: 65..=68, ..config() });
    target.publish(vec![namespace("data", 1)]).unwrap();
    let ids = [(); 2].map(|()| join(&mut target, &nqn("data")));
    assert_eq!(ids, [ControllerId(65), ControllerId(66)]);
    assert!(Host::of(&nqn("data")).connect(&mut target).is_err());
}

fn keyed(target: &mut Target, hosts: &[&str]) {
    target.set_keyed_hosts(Arc::new(hosts.iter().map(|host| nqn(host)).collect()));
}

#[test]
fn a_host_with_keys_must_authenticate_on_every_queue_and_a_host_without_them_need_not() {
    let mut target = target();
    keyed(&mut target, &["host"]);
    let host = Host::of(&nqn("data"));
    let admin = host.connect(&mut target).unwrap();
    let names = admin.authentication.clone().unwrap();
    assert_eq!((names.host, names.subsystem), (nqn("host"), nqn("data")));
    let result = admin.completion(CommandId(1)).dw0.get();
    assert_eq!(result, 0x0002_0000 | u32::from(admin.controller.0));
    ask(&mut target, admin.controller, enable());
    let io = host.on_queue(1, admin.controller).connect(&mut target).unwrap();
    assert!(io.authentication.is_some());
    let mut other = Host::of(&nqn("data"));
    other.data.host = (&nqn("other")).into();
    other.data.host_id = [2; 16];
    let other = other.connect(&mut target).unwrap();
    assert_eq!(other.authentication, None);
    assert_eq!(other.completion(CommandId(1)).dw0.get(), u32::from(other.controller.0));
}

#[test]
fn a_host_whose_keys_were_removed_enters_with_new_ones_alone() {
    let removed = |target: &mut Target, keyed: bool| {
        let mut hosts = HostTable::restore([], [nqn("host")]);
        if keyed {
            let key = Key::new(None, &[7; 32]).unwrap();
            let keys = HostKeys::new(key, None, Policy::default()).unwrap();
            hosts.add(&nqn("host"), keys.into()).unwrap();
        }
        target.set_keyed_hosts(Arc::new(hosts.keyed()));
    };
    let hosts = HostAccess::Listed([nqn("host")].into());
    let mut target = Target::new(TargetConfig { hosts, ..config() });
    target.publish(vec![namespace("data", 1)]).unwrap();
    let host = Host::of(&nqn("data"));
    removed(&mut target, false);
    let refusal = host.connect(&mut target).unwrap_err();
    assert_eq!(refusal.status, Status::CONNECT_INVALID_HOST.dnr(), "although it is listed");
    removed(&mut target, true);
    assert!(host.connect(&mut target).unwrap().authentication.is_some());
    target.set_keyed_hosts(Arc::default());
    assert!(host.connect(&mut target).is_ok(), "it is forgotten");
}

/// With the identifier of another host, a host would act as the holder of its reservations.
#[test]
fn the_identifier_of_a_host_that_has_proved_its_name_is_for_no_other_host() {
    let mut target = target();
    keyed(&mut target, &["host", "second"]);
    let of = |name: &str| {
        let mut host = Host::of(&nqn("data"));
        host.data.host = (&nqn(name)).into();
        host
    };
    // Nobody has proved a name yet.
    let first = of("host").connect(&mut target).unwrap().controller;
    let second = of("second").connect(&mut target).unwrap().controller;
    of("other").connect(&mut target).unwrap();
    ask(&mut target, first, enable());
    let refused = ["second", "other"].map(|name| of(name).connect(&mut target).unwrap_err());
    for refusal in refused {
        assert_eq!(refusal.status, Status::CONNECT_INVALID_PARAMETERS.dnr());
        let which = InvalidParameter::from_result(refusal.result);
        assert_eq!(which, InvalidParameter::Data(ConnectData::HOST_ID_OFFSET));
    }
    assert!(of("host").connect(&mut target).is_ok());
    // The other one was faster with its Connect, and slower with its proof.
    target.admin(NOW, second, &enable(), &[]);
    let reason = DisconnectReason::HostIdTaken;
    let ended = Action::Disconnect { controller: second, queue: None, reason };
    assert_eq!(actions(&mut target), [ended]);
    let mut own = of("second");
    own.data.host_id = [9; 16];
    assert!(own.connect(&mut target).is_ok());
    // A host without keys has nothing to prove.
    keyed(&mut target, &["second"]);
    actions(&mut target);
    assert!(of("second").connect(&mut target).is_ok());
}

#[test]
fn a_host_with_keys_is_admitted_next_to_those_that_are_listed() {
    let hosts = HostAccess::Listed([nqn("friend")].into());
    let mut target = Target::new(TargetConfig { hosts, ..config() });
    target.publish(vec![namespace("data", 1)]).unwrap();
    let host = Host::of(&nqn("data"));
    assert!(host.connect(&mut target).is_err());
    keyed(&mut target, &["host"]);
    assert!(host.connect(&mut target).unwrap().authentication.is_some());
}

#[test]
fn a_listener_for_hosts_with_keys_admits_no_other_host_and_not_for_discovery_either() {
    let mut target = target();
    keyed(&mut target, &["host"]);
    let arrival = Arrival { anonymous: false, ..arrival() };
    for subsystem in [nqn("data"), Nqn::discovery()] {
        let mut host = Host::of(&subsystem);
        let command = host.connect.to_command();
        let known = target.connect(NOW, &command, &host.data, arrival.clone()).unwrap();
        assert!(known.authentication.is_some());
        host.data.host = (&nqn("other")).into();
        let refusal = target.connect(NOW, &command, &host.data, arrival.clone()).unwrap_err();
        assert_eq!(refusal.status, Status::CONNECT_INVALID_HOST.dnr());
    }
}

#[test]
fn discovery_needs_no_authentication_where_hosts_without_keys_may_connect() {
    let mut target = target();
    keyed(&mut target, &["host"]);
    let connected = Host::of(&Nqn::discovery()).connect(&mut target).unwrap();
    assert_eq!(connected.authentication, None);
    keyed(&mut target, &[]);
    assert!(actions(&mut target).is_empty(), "it goes on");
}

#[test]
fn the_controller_of_a_host_ends_when_its_keys_are_added_or_removed() {
    let mut target = target();
    for hosts in [&["host"][..], &[]] {
        let controller = Host::of(&nqn("data")).connect(&mut target).unwrap().controller;
        keyed(&mut target, hosts);
        let reason = DisconnectReason::KeysChanged;
        assert_eq!(actions(&mut target), [Action::Disconnect { controller, queue: None, reason }]);
        assert!(target.status().hosts.is_empty());
    }
}

/// The identity of `host` for a subsystem.
fn identity(subsystem: &Nqn) -> PskIdentity {
    let text = format!("NVMe0R01 {} {subsystem}", nqn("host"));
    PskIdentity::parse(text.as_bytes()).unwrap()
}

/// How `host` arrives with TLS for a subsystem.
fn secured(subsystem: &Nqn) -> Arrival {
    Arrival { tls: Some(identity(subsystem)), ..arrival() }
}

fn with_psk(target: &mut Target, demand: Demand) {
    target.set_keyed_hosts(Arc::new([(nqn("host"), demand)].into_iter().collect()));
}

fn arrive(target: &mut Target, host: &Host, arrival: Arrival) -> Result<Connected, Refusal> {
    target.connect(NOW, &host.connect.to_command(), &host.data, arrival)
}

#[test]
fn tls_proves_the_name_of_a_host_where_hosts_must_prove_it() {
    let mut target = target();
    with_psk(&mut target, Demand::Required);
    let host = Host::of(&nqn("data"));
    let arrival = Arrival { anonymous: false, ..secured(&nqn("data")) };
    let connected = arrive(&mut target, &host, arrival).unwrap();
    assert_eq!(connected.authentication, None);
}

#[test]
fn a_connection_with_tls_is_for_the_host_and_the_subsystem_of_its_identity_only() {
    let mut target = target();
    with_psk(&mut target, Demand::Required);
    let host = Host::of(&nqn("data"));
    let refused = |target: &mut Target, host: &Host, subsystem: &Nqn| {
        arrive(target, host, secured(subsystem)).unwrap_err().status
    };
    let parameters = Status::CONNECT_INVALID_PARAMETERS.dnr();
    assert_eq!(refused(&mut target, &host, &Nqn::discovery()), parameters);
    let mut other = Host::of(&nqn("data"));
    other.data.host = (&nqn("other")).into();
    let invalid_host = Status::CONNECT_INVALID_HOST.dnr();
    assert_eq!(refused(&mut target, &other, &nqn("data")), invalid_host);
    assert!(arrive(&mut target, &host, secured(&nqn("data"))).is_ok());
}

#[test]
fn a_host_that_must_use_tls_connects_without_it_for_discovery_only() {
    let mut target = target();
    with_psk(&mut target, Demand::Required);
    let refusal = Host::of(&nqn("data")).connect(&mut target).unwrap_err();
    assert_eq!(refusal.status, Status::CONNECT_INVALID_HOST.dnr());
    assert!(Host::of(&Nqn::discovery()).connect(&mut target).is_ok());
    with_psk(&mut target, Demand::Allowed);
    assert!(Host::of(&nqn("data")).connect(&mut target).is_ok());
}

#[test]
fn every_queue_of_a_controller_uses_tls_or_no_queue_does() {
    let mut target = target();
    with_psk(&mut target, Demand::Allowed);
    let host = Host::of(&nqn("data"));
    for is_secured in [true, false] {
        let by = |with_tls| if with_tls { secured(&nqn("data")) } else { arrival() };
        let admin = arrive(&mut target, &host, by(is_secured)).unwrap().controller;
        ask(&mut target, admin, enable());
        let queue = Host::of(&nqn("data")).on_queue(1, admin);
        let refusal = arrive(&mut target, &queue, by(!is_secured)).unwrap_err();
        assert_eq!(refusal.status, Status::CONNECT_INVALID_HOST.dnr());
        assert!(arrive(&mut target, &queue, by(is_secured)).is_ok());
    }
}

#[test]
fn a_controller_ends_when_the_psk_of_its_host_is_removed_or_its_host_must_use_tls() {
    let mut target = target();
    let host = Host::of(&nqn("data"));
    let ends = |target: &mut Target, controller| {
        let reason = DisconnectReason::KeysChanged;
        assert_eq!(actions(target), [Action::Disconnect { controller, queue: None, reason }]);
    };
    let plain = host.connect(&mut target).unwrap().controller;
    with_psk(&mut target, Demand::Allowed);
    assert!(actions(&mut target).is_empty(), "it goes on");
    with_psk(&mut target, Demand::Required);
    ends(&mut target, plain);
    let with_tls = arrive(&mut target, &host, secured(&nqn("data"))).unwrap().controller;
    keyed(&mut target, &[]);
    ends(&mut target, with_tls);
}
