//! The nodes of a cluster as ports for hosts and initiators.

use std::net::SocketAddr;
use std::sync::Arc;

use nearflash_cluster::compile::HostDoors;
use nearflash_iscsi::serving::{PORTAL_GROUP, RemotePortal};
use nearflash_nvme::TransportAddress;
use nearflash_nvme::serving::Port;
use nearflash_records::record::AddressTls;
use nearflash_session::DoorTls;

/// PORTID of each address of a node, from 1 without a cluster. Two nodes have no number in common, because
/// a node of a cluster has at most 8 addresses of a protocol.
pub fn port_ids(ordinal: u16) -> impl Iterator<Item = u16> {
    let first = ordinal.saturating_mul(16) + 1;
    first..=u16::MAX
}

/// The ports of other nodes.
pub(crate) fn ports(nodes: &[HostDoors]) -> Arc<[Port]> {
    let port = |((address, tls), id): (&(SocketAddr, Option<AddressTls>), u16)| Port {
        id,
        listen: TransportAddress::tcp(*address),
        advertise: Vec::new(),
        tls: match tls {
            None => DoorTls::Off,
            Some(AddressTls::Allowed) => DoorTls::Allowed,
            Some(AddressTls::Required) => DoorTls::Required,
        },
    };
    nodes
        .iter()
        .flat_map(|node| node.nvme_tcp.iter().zip(port_ids(node.ordinal)).map(port))
        .collect()
}

/// The portal group of a node, which is also its target port group and its relative target port.
pub(crate) fn portal_group(ordinal: u16) -> u16 {
    ordinal.max(PORTAL_GROUP)
}

/// The portals of another node.
pub(crate) fn portals(node: &HostDoors) -> impl Iterator<Item = RemotePortal> {
    let group = portal_group(node.ordinal);
    node.iscsi.iter().map(move |address| RemotePortal { address: *address, group })
}
