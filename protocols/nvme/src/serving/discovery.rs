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

/// Every subsystem of which the host sees a namespace, at every address; empty for a host that may not
/// connect.
pub(super) fn log(admin: &Admin<'_>) -> Vec<u8> {
    let admitted = admin.is_admitted();
    let demand = admin.keyed_hosts.tls(&admin.controller.host);
    let is_shown = |it: &Subsystem| admitted && it.is_seen_by(&admin.controller.host, admin.rights);
    let mut entries = Vec::new();
    let mut count = 0;
    for (subsystem, _) in admin.subsystems.iter().filter(|(_, it)| is_shown(it)) {
        for port in &admin.config.ports {
            let Some(secured) = is_secured(port, demand) else { continue };
            for address in addresses(port, admin.controller.local) {
                let mut entry = entry(subsystem, port.id, address);
                if secured {
                    entry.requirements |= DiscoveryEntry::SECURE_CHANNEL_REQUIRED;
                    entry.transport_specific[0] = DiscoveryEntry::TLS_1_3;
                }
                entries.extend_from_slice(entry.as_bytes());
                count += 1;
            }
        }
    }
    let mut log = DiscoveryHeader::new(admin.discovery_generation, count).as_bytes().to_vec();
    log.append(&mut entries);
    log
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

fn entry(subsystem: &Nqn, port_id: u16, address: TransportAddress) -> DiscoveryEntry {
    DiscoveryEntry {
        transport: address.transport(),
        family: address.family(),
        subsystem_type: SubsystemType::NVM,
        requirements: DiscoveryEntry::SQ_FLOW_CONTROL_OPTIONAL,
        port_id: port_id.into(),
        controller_id: ControllerId::DYNAMIC.0.into(),
        admin_queue_entries_max: ADMIN_QUEUE_ENTRIES.into(),
        flags: 0.into(),
        reserved: [0; 20],
        service: address.service(),
        reserved2: [0; 192],
        subsystem: NqnField::from(subsystem),
        address: address.address(),
        transport_specific: [0; 256],
    }
}
