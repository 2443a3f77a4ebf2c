//! The discovery log page for one host. NVMe Base 2.0, 3.1.2.3 and 5.16.1.23.

use zerocopy::IntoBytes;

use super::admin::Admin;
use super::config::Port;
use super::subsystem::Subsystem;
use crate::address::TransportAddress;
use crate::log::{DiscoveryEntry, DiscoveryHeader, SubsystemType};
use crate::tls::{Demand, DoorTls};
use crate::{ControllerId, Nqn, NqnField};

/// ASQSZ: the minimum that the specification allows.
const ADMIN_QUEUE_ENTRIES: u16 = 32;

/// The discovery subsystem itself, and every subsystem of which the host sees a namespace, at every
/// address; empty for a host that may not connect.
pub(super) fn log(admin: &Admin<'_>) -> Vec<u8> {
    let mut entries = Vec::new();
    if admin.is_admitted() {
        let here = paths(admin, &admin.config.ports);
        let elsewhere = paths(admin, admin.elsewhere);
        entries.extend(here.iter().map(discovery_entry));
        let is_shown = |it: &Subsystem| it.is_seen_by(&admin.controller.host, admin.rights);
        for (nqn, subsystem) in admin.subsystems.iter().filter(|(_, it)| is_shown(it)) {
            entries.extend(here.iter().map(|path| entry(nqn, path)));
            if subsystem.is_on_every_node() {
                entries.extend(elsewhere.iter().map(|path| entry(nqn, path)));
            }
        }
    }
    let count = u64::try_from(entries.len()).expect("a count fits");
    let mut log = DiscoveryHeader::new(admin.discovery_generation, count).as_bytes().to_vec();
    log.extend_from_slice(entries.as_bytes());
    log
}

/// A way to a subsystem.
struct Path {
    port: u16,
    address: TransportAddress,
    is_secured: bool,
}

/// The ways through these ports for the host.
fn paths(admin: &Admin<'_>, ports: &[Port]) -> Vec<Path> {
    let (demand, local) = (admin.keyed_hosts.tls(&admin.controller.host), admin.controller.local);
    let of = |port: &Port| {
        let secured = is_secured(port, demand);
        let path = |is_secured| {
            let id = port.id;
            let addresses = addresses(port, local).into_iter();
            addresses.map(move |address| Path { port: id, address, is_secured })
        };
        secured.map(path).into_iter().flatten().collect::<Vec<_>>()
    };
    let mut all: Vec<Path> = Vec::new();
    for path in ports.iter().flat_map(of) {
        // Two listeners on all addresses, one of each family, can be one address for the host.
        if !all.iter().any(|it| it.address == path.address) {
            all.push(path);
        }
    }
    all
}

/// Whether a host with this demand uses TLS at a port; `None` if it cannot connect there. A host that may connect
/// without TLS is not told about it: the log has no words for both.
fn is_secured(port: &Port, demand: Option<Demand>) -> Option<bool> {
    match (port.tls, demand) {
        (DoorTls::Off, Some(Demand::Required)) => None,
        (DoorTls::Required, _) | (DoorTls::Allowed, Some(Demand::Required)) => Some(true),
        (DoorTls::Off | DoorTls::Allowed, _) => Some(false),
    }
}

/// The addresses of a port for a host that connected to `local`.
fn addresses(port: &Port, local: TransportAddress) -> Vec<TransportAddress> {
    if !port.advertise.is_empty() {
        return port.advertise.clone();
    }
    if !port.listen.is_unspecified() {
        return vec![port.listen];
    }
    // A listener on all IPv6 addresses accepts IPv4 too. One on all IPv4 addresses accepts only
    // IPv4.
    let listens = port.listen.socket();
    let reachable = listens.is_ipv6() || local.socket().is_ipv4();
    let mut used = local.socket();
    used.set_port(listens.port());
    if reachable { vec![TransportAddress::tcp(used)] } else { Vec::new() }
}

/// The discovery subsystem at this node. All of the node's addresses lead to one log.
fn discovery_entry(path: &Path) -> DiscoveryEntry {
    DiscoveryEntry {
        subsystem_type: SubsystemType::CURRENT_DISCOVERY,
        flags: (DiscoveryEntry::SAME_INFORMATION | DiscoveryEntry::PERSISTENT_CONNECTIONS).into(),
        ..entry(&Nqn::discovery(), path)
    }
}

fn entry(subsystem: &Nqn, path: &Path) -> DiscoveryEntry {
    let address = path.address;
    let mut entry = DiscoveryEntry {
        transport: address.transport(),
        family: address.family(),
        subsystem_type: SubsystemType::NVM,
        requirements: DiscoveryEntry::SQ_FLOW_CONTROL_OPTIONAL,
        port_id: path.port.into(),
        controller_id: ControllerId::DYNAMIC.0.into(),
        admin_queue_entries_max: ADMIN_QUEUE_ENTRIES.into(),
        flags: 0.into(),
        reserved: [0; 20],
        service: address.service(),
        reserved2: [0; 192],
        subsystem: NqnField::from(subsystem),
        address: address.address(),
        transport_specific: [0; 256],
    };
    if path.is_secured {
        entry.requirements |= DiscoveryEntry::SECURE_CHANNEL_REQUIRED;
        entry.transport_specific[0] = DiscoveryEntry::TLS_1_3;
    }
    entry
}
