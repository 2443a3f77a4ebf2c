use zerocopy::FromBytes;

use super::*;
use crate::log::{DiscoveryEntry, DiscoveryHeader, GetLogPage, LogId, SubsystemType};

/// The generation, and the subsystem and address of each entry, as read by the host named `host`
/// that connected to `local`.
fn read(target: &mut Target, local: &str, host: &str) -> (u64, Vec<(String, String)>) {
    let mut asking = Host::of(&Nqn::discovery());
    asking.data.host = (&nqn(host)).into();
    let connect = asking.connect.to_command();
    let arrival = Arrival { local: address(local), ..arrival() };
    let connected = target.connect(NOW, &connect, &asking.data, arrival).unwrap();
    assert_eq!(connected.kind, QueueKind::Discovery);
    ask(target, connected.controller, enable());
    let page = GetLogPage::new(LogId::DISCOVERY, 8192).to_command(NamespaceId::NONE);
    let (completion, data) = ask(target, connected.controller, page);
    assert!(completion.status().is_success());
    target.queue_closed(connected.controller, QueueId::ADMIN);

    let (header, rest) = DiscoveryHeader::ref_from_prefix(&data).unwrap();
    let count = usize::try_from(header.entries.get()).unwrap();
    let entries =
        rest.chunks(1024).take(count).map(|it| DiscoveryEntry::ref_from_bytes(it).unwrap());
    let entries = entries.filter(|it| it.subsystem_type == SubsystemType::NVM).map(|entry| {
        let (address, service) = (entry.address.text(), entry.service.text());
        let read = TransportAddress::from_discovery(entry.transport, &address, &service);
        (entry.subsystem.get().unwrap().to_string(), read.unwrap().to_string())
    });
    (header.generation.get(), entries.collect())
}

fn addresses(ports: &[(&str, &[&str])], local: &str) -> Vec<String> {
    let port = |(id, (listen, advertise)): (u16, &(&str, &[&str]))| Port {
        id,
        listen: address(listen),
        advertise: advertise.iter().map(|it| address(it)).collect(),
        tls: DoorTls::Off,
    };
    let ports = (1..).zip(ports).map(port).collect();
    let mut target = Target::new(TargetConfig { ports, ..config() });
    target.publish(vec![namespace("data", 1)]).unwrap();
    read(&mut target, local, "host").1.into_iter().map(|(_, address)| address).collect()
}

#[test]
fn every_subsystem_is_listed_at_every_port() {
    let mut target = target();
    target.publish(vec![namespace("data", 1), namespace("more", 1)]).unwrap();
    let (_, entries) = read(&mut target, "192.0.2.1:8009", "host");
    let at = "192.0.2.1:4420".to_owned();
    let expected = ["data", "more"].map(|name| (nqn(name).to_string(), at.clone()));
    assert_eq!(entries, expected);
}

#[test]
fn the_log_has_a_new_generation_when_subsystems_change() {
    let mut target = target();
    let (before, _) = read(&mut target, "192.0.2.1:4420", "host");
    target.publish(vec![namespace("data", 1), namespace("data", 2)]).unwrap();
    assert_eq!(read(&mut target, "192.0.2.1:4420", "host").0, before);
    target.publish(vec![namespace("more", 1)]).unwrap();
    assert_eq!(read(&mut target, "192.0.2.1:4420", "host").0, before + 1);
}

#[test]
fn a_host_with_a_list_discovers_only_subsystems_of_which_it_sees_a_namespace() {
    use nearflash_request::{HostList, HostRight, HostRights, UnlistedHosts, VolumeId};
    let mut target = target();
    target.publish(vec![namespace("data", 1), namespace("more", 2)]).unwrap();
    let list = HostList::from([(VolumeId(102), HostRight::Read)]);
    let lists = [(nqn("host").as_str().into(), list)];
    let (before, _) = read(&mut target, "192.0.2.1:4420", "host");
    target.set_rights(std::sync::Arc::new(HostRights::new(lists, UnlistedHosts::All)));
    let mut names = |host| {
        let (generation, entries) = read(&mut target, "192.0.2.1:4420", host);
        assert_ne!(generation, before);
        entries.into_iter().map(|(name, _)| name).collect::<Vec<_>>()
    };
    assert_eq!(names("host"), [nqn("more").to_string()]);
    assert_eq!(names("other"), [nqn("data").to_string(), nqn("more").to_string()]);
}

#[test]
fn a_host_that_is_not_listed_discovers_nothing() {
    let hosts = HostAccess::Listed([nqn("friend")].into());
    let mut target = Target::new(TargetConfig { hosts, ..config() });
    target.publish(vec![namespace("data", 1)]).unwrap();
    assert_eq!(read(&mut target, "192.0.2.1:4420", "stranger").1, []);
    assert_eq!(read(&mut target, "192.0.2.1:4420", "friend").1.len(), 1);
}

#[test]
fn a_listener_of_all_addresses_is_listed_by_the_one_that_the_host_used() {
    let all = [("0.0.0.0:4420", &[][..])];
    assert_eq!(addresses(&all, "192.0.2.9:8009"), ["192.0.2.9:4420"]);
    assert_eq!(addresses(&all, "[::ffff:192.0.2.9]:8009"), ["192.0.2.9:4420"]);
    assert_eq!(addresses(&all, "[2001:db8::1]:8009"), [""; 0]);
    let all = [("[::]:4420", &[][..])];
    assert_eq!(addresses(&all, "[2001:db8::1]:8009"), ["[2001:db8::1]:4420"]);
    assert_eq!(addresses(&all, "192.0.2.9:8009"), ["192.0.2.9:4420"]);
}

#[test]
fn advertised_addresses_are_listed_instead_of_the_listeners() {
    let nat = [("127.0.0.1:4420", &["10.0.2.2:4420", "[2001:db8::2]:4421"][..])];
    let expected = ["10.0.2.2:4420", "[2001:db8::2]:4421"];
    assert_eq!(addresses(&nat, "127.0.0.1:4420"), expected);
}

#[test]
fn an_entry_has_the_bytes_that_hosts_read() {
    let mut target = target();
    let controller = join(&mut target, &Nqn::discovery());
    let page = GetLogPage::new(LogId::DISCOVERY, 3072).to_command(NamespaceId::NONE);
    let (_, data) = ask(&mut target, controller, page);
    assert_eq!(data[8..16], [2, 0, 0, 0, 0, 0, 0, 0]);
    let entry = &data[1024..2048];
    assert_eq!(entry[..12], [3, 1, 3, 4, 1, 0, 0xFF, 0xFF, 32, 0, 3, 0], "EPCSD and DUPRETINFO");
    assert_eq!(entry[256..293], *b"nqn.2014-08.org.nvmexpress.discovery\0");
    assert_eq!(entry[512..522], *b"192.0.2.1 ");
    let entry = &data[2048..];
    assert_eq!(entry[..10], [3, 1, 2, 4, 1, 0, 0xFF, 0xFF, 32, 0]);
    assert_eq!(entry[32..40], *b"4420    ");
    assert_eq!(entry[256..285], *b"nqn.2026-11.io.nearflash:data");
    assert_eq!(entry[285..512], [0; 227]);
    assert_eq!(entry[512..522], *b"192.0.2.1 ");
    assert_eq!(entry[768..], [0; 256]);
}

/// TREQ and SECTYPE of each entry for `host`, which has a PSK with this demand.
fn secured(tls: DoorTls, demand: Option<Demand>) -> Vec<(u8, u8)> {
    let port = Port { id: 1, listen: local(), advertise: Vec::new(), tls };
    let mut target = Target::new(TargetConfig { ports: vec![port], ..config() });
    target.publish(vec![namespace("data", 1)]).unwrap();
    let hosts: KeyedHosts = demand.into_iter().map(|demand| (nqn("host"), demand)).collect();
    target.set_keyed_hosts(Arc::new(hosts));
    let controller = join(&mut target, &Nqn::discovery());
    let page = GetLogPage::new(LogId::DISCOVERY, 8192).to_command(NamespaceId::NONE);
    let (_, data) = ask(&mut target, controller, page);
    let (header, rest) = DiscoveryHeader::ref_from_prefix(&data).unwrap();
    let count = usize::try_from(header.entries.get()).unwrap();
    let entry = |bytes| {
        let entry = DiscoveryEntry::ref_from_bytes(bytes).unwrap();
        (entry.subsystem_type, entry.requirements, entry.transport_specific[0])
    };
    let all: Vec<_> = rest.chunks(1024).take(count).map(entry).collect();
    let of = |kind| all.iter().filter(move |it| it.0 == kind).map(|it| (it.1, it.2));
    // The discovery subsystem is at the same addresses.
    assert!(of(SubsystemType::CURRENT_DISCOVERY).eq(of(SubsystemType::NVM)));
    of(SubsystemType::NVM).collect()
}

#[test]
fn the_log_tells_each_host_whether_it_must_use_tls() {
    let (plain, tls) = ((0b100, 0), (0b101, 2));
    let (required, allowed) = (Some(Demand::Required), Some(Demand::Allowed));
    for (door, demand, expected) in [
        (DoorTls::Off, None, &[plain][..]),
        (DoorTls::Off, allowed, &[plain]),
        (DoorTls::Off, required, &[]),
        (DoorTls::Allowed, None, &[plain]),
        (DoorTls::Allowed, allowed, &[plain]),
        (DoorTls::Allowed, required, &[tls]),
        (DoorTls::Required, None, &[tls]),
        (DoorTls::Required, allowed, &[tls]),
    ] {
        assert_eq!(secured(door, demand), expected, "{door:?} {demand:?}");
    }
}

/// A port of another node.
fn elsewhere(id: u16, at: &str) -> Port {
    Port { id, listen: address(at), advertise: Vec::new(), tls: DoorTls::Off }
}

#[test]
fn the_subsystems_of_a_cluster_are_listed_at_the_ports_of_every_node() {
    let mut target = target();
    let shared = NamespaceConfig { on_every_node: true, ..namespace("shared", 1) };
    target.publish(vec![namespace("data", 1), shared]).unwrap();
    let (before, entries) = read(&mut target, "192.0.2.1:4420", "host");
    assert_eq!(entries.len(), 2);
    let ports = [elsewhere(33, "192.0.2.2:4420"), elsewhere(49, "192.0.2.3:4420")];
    target.set_elsewhere(ports.clone().into());
    let (after, entries) = read(&mut target, "192.0.2.1:4420", "host");
    assert_eq!(after, before + 1);
    let at = |name: &str, address: &str| (nqn(name).to_string(), address.to_owned());
    let expected = [
        at("data", "192.0.2.1:4420"),
        at("shared", "192.0.2.1:4420"),
        at("shared", "192.0.2.2:4420"),
        at("shared", "192.0.2.3:4420"),
    ];
    assert_eq!(entries, expected);
    target.set_elsewhere(ports.into());
    assert_eq!(read(&mut target, "192.0.2.1:4420", "host").0, after, "nothing has changed");
}

#[test]
fn a_host_that_stays_is_told_of_a_node_that_joins() {
    let mut target = target();
    let controller = join(&mut target, &Nqn::discovery());
    let request = Command::async_event_request().with_command_id(CommandId(9));
    target.admin(NOW, controller, &request, &[]);
    assert!(actions(&mut target).is_empty());
    target.set_elsewhere([elsewhere(33, "192.0.2.2:4420")].into());
    let Some(Action::Respond { completion, .. }) = actions(&mut target).pop() else { panic!() };
    let event = crate::AsyncEvent::from_result(completion.dw0.get());
    assert_eq!(event, crate::AsyncEvent::DISCOVERY_CHANGED);
}
