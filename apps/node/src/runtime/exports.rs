//! The conversion between the control side's types and those of the protocols: volumes, access and
//! status.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;

use nearflash_access::{ChapAccount, ChapSecret, ChapUser, Rights};
use nearflash_cluster::compile::HostDoors;
use nearflash_direct::serving::{
    self as direct_serving, Access, CredentialExport, Export, Exports, FilesGrant,
};
use nearflash_direct::{Face, Secret, wire};
use nearflash_engine::{CoreId, Kind};
use nearflash_iscsi::{chap, serving as iscsi};
use nearflash_media::Device;
use nearflash_nvme::TransportAddress;
use nearflash_nvme::serving::{
    Deallocation, HostAccess as TargetAccess, Limits, NamespaceConfig, Port, Target, TargetConfig,
};
use nearflash_nvme_tcp::serving::SessionConfig;
use nearflash_publish::Served;
use nearflash_records::record::AddressTls;
use nearflash_request::VolumeId;
use nearflash_scsi::{LogicalUnit, LogicalUnits, Provisioning};
use nearflash_session::DoorTls;
use nearflash_session::PlacesUsed;
use nearflash_shard::{CONNECTIONS_MAX, DirectConfig, PlaceKind};
use nearflash_space::{Epoch, Home};
use nearflash_units::ByteOffset;

use super::devices::devices_of;
use super::replies::Reply;
use crate::Ledger;
use crate::cluster::PEER_KEY;
use crate::files::FILES_KEY;
use crate::runtime_face::{
    ConnectedClient, ConnectedHost, ConnectedInitiator, CoreStatus, DirectAccess, DirectCredential,
    DirectFilesGrant, DirectGrant, DirectSeal, DirectVolume, DoorSocket, IscsiAccess, IscsiTarget,
    IscsiUnit, Namespace, OpenDoor, Outfit, PlaceUse, Published, RuntimeConfig, RuntimeStatus,
};
use nearflash_config::{HostAccess, InitiatorAccess, Protocol};

/// The subsystems and controllers of a node that starts.
pub(super) fn target(config: &RuntimeConfig) -> Target {
    let in_capsule_len_max = SessionConfig::default().in_capsule_len_max;
    let host_queues_max = config.cores.len() * CONNECTIONS_MAX / 4;
    let limits = Limits { in_capsule_len_max, host_queues_max, ..Limits::default() };
    Target::new(TargetConfig {
        serial_seed: config.node.as_u64_pair().0,
        model: "nearflash".to_owned(),
        firmware: env!("CARGO_PKG_VERSION").to_owned(),
        hosts: host_access(&config.hosts),
        ports: ports(config.ordinal, &config.doors),
        controller_ids: config.controller_ids.clone(),
        limits,
        life: config.life.clone(),
    })
}

/// The state that a node serves first.
pub(super) fn served(config: &RuntimeConfig, doors: &IscsiDoors) -> Served {
    let Published {
        volumes, namespaces: of_hosts, hosts, elsewhere: nodes, direct: clients, ..
    } = &config.published;
    let (all, peers) = (config.devices.clone(), config.peers.clone());
    Served {
        devices: Arc::new(devices_of(&Outfit { all, peers, mirrors: Vec::new() })),
        volumes: Arc::clone(volumes),
        namespaces: namespaces(of_hosts),
        rights: Arc::clone(hosts),
        elsewhere: elsewhere(nodes),
        keyed: Arc::new(config.keyed_hosts.keyed()),
        direct: Arc::new(direct(clients)),
        iscsi: Arc::new(iscsi(&config.published.iscsi, doors)),
    }
}

/// The namespaces that hosts see.
pub(super) fn namespaces(namespaces: &[Namespace]) -> Arc<[NamespaceConfig]> {
    namespaces.iter().map(namespace).collect()
}

fn namespace(namespace: &Namespace) -> NamespaceConfig {
    NamespaceConfig {
        subsystem: namespace.subsystem.clone(),
        namespace: namespace.nsid,
        volume: namespace.volume,
        uuid: namespace.uuid,
        block_size: namespace.block_size,
        blocks: namespace.blocks,
        device_block_size: namespace.device_block_size,
        volatile_cache: namespace.volatile_cache,
        deallocation: match namespace.deallocates {
            true => Deallocation::ReadsZeroes,
            false => Deallocation::None,
        },
        support: namespace.support,
        on_every_node: namespace.on_every_node,
        write_protected: false,
    }
}

/// The configuration of direct sessions.
pub(super) fn direct_config(devices: &[Arc<Device>], boot: u64) -> DirectConfig {
    let usual = DirectConfig::default();
    let largest = devices.iter().map(|device| device.properties().block_size).max();
    let session = direct_serving::SessionConfig {
        unit: largest.unwrap_or(usual.session.unit),
        boot,
        ..usual.session
    };
    // No key of an earlier start of the node is valid.
    let salt = uuid::Uuid::new_v4().into_bytes();
    DirectConfig { session, salt }
}

/// The exports of direct sessions: the grants of each credential become one table per volume.
pub(super) fn direct(access: &DirectAccess) -> Exports {
    let volume = |volume: &DirectVolume| {
        let export = Export {
            volume: volume.volume,
            bytes: volume.len.0,
            block_size: volume.block_size,
            epoch: wire_epoch(volume.epoch),
            uuid: *volume.uuid.as_bytes(),
            is_remote: !matches!(volume.home, Home::Node | Home::Part),
            is_public: volume.home.is_public(),
            face: match volume.home {
                Home::PrimaryFace => Some(Face::Primary),
                Home::ReplicaFace => Some(Face::Replica),
                _ => None,
            },
        };
        (volume.name.as_str().into(), export)
    };
    let credential = |credential: &DirectCredential| {
        let export = CredentialExport {
            secret: Secret::new(*credential.secret.bytes()),
            expired: credential.is_expired,
            access: compiled(&credential.grants, &credential.files),
        };
        (credential.id.as_str().into(), export)
    };
    let volumes = access.volumes.iter().map(volume);
    let seal = |seal: &DirectSeal| {
        let export = CredentialExport {
            secret: Secret::new(*seal.secret.bytes()),
            expired: false,
            access: compiled(&[seal.grant], &[]),
        };
        (wire::operator_name(seal.number.0), export)
    };
    let exports = Exports::new(volumes, access.credentials.iter().map(credential))
        .with_operator_seals(access.seals.iter().map(seal));
    let exports = if access.is_closed { exports.closed() } else { exports };
    let exports = match &access.peers {
        Some(it) => exports.with_peers(PEER_KEY, peers(access, &it.secret), it.boot),
        None => exports,
    };
    match &access.files {
        Some(files) => {
            let owned = access.volumes.iter().filter(|it| files.volumes.contains(&it.name));
            let owned: Vec<&DirectVolume> = owned.collect();
            let credential = full_access(&owned, &files.secret);
            exports.with_files_owner(FILES_KEY, credential, owned.iter().map(|it| it.volume))
        }
        None => exports,
    }
}

/// The credential of the other nodes of a cluster: they use the parts, and nothing else.
fn peers(access: &DirectAccess, secret: &nearflash_access::Secret) -> CredentialExport {
    let parts = access.volumes.iter().filter(|volume| !volume.home.is_public());
    full_access(&parts.collect::<Vec<_>>(), secret)
}

/// A credential that may read and write all of these volumes, and nothing else.
fn full_access(volumes: &[&DirectVolume], secret: &nearflash_access::Secret) -> CredentialExport {
    let grant = |volume: &&DirectVolume| DirectGrant {
        volume: volume.volume,
        start: ByteOffset(0),
        end: ByteOffset(volume.len.0),
        rights: Rights::ReadWrite,
    };
    let grants: Vec<DirectGrant> = volumes.iter().map(grant).collect();
    CredentialExport {
        secret: Secret::new(*secret.bytes()),
        expired: false,
        access: compiled(&grants, &[]),
    }
}

/// The node's way to initiators, which does not change while it runs.
#[derive(Clone, Debug)]
pub(super) struct IscsiDoors {
    portals: Vec<SocketAddr>,
    portal_group: u16,
    initiators: InitiatorAccess,
}

impl IscsiDoors {
    pub(super) fn new(config: &RuntimeConfig) -> Self {
        Self {
            portals: portals(&config.doors),
            portal_group: portal_group(config.ordinal),
            initiators: config.initiators.clone(),
        }
    }
}

/// The targets and accounts of iSCSI sessions.
pub(super) fn iscsi(access: &IscsiAccess, doors: &IscsiDoors) -> iscsi::Exports {
    let IscsiDoors { portals, portal_group, initiators } = doors;
    let elsewhere: Arc<[iscsi::RemotePortal]> =
        access.elsewhere.iter().flat_map(remote_portals).collect();
    let other_groups: Arc<[u16]> = elsewhere.iter().map(|portal| portal.group).collect();
    let target = |target: &IscsiTarget| {
        let units = target.units.iter().map(logical_unit);
        let units = LogicalUnits::new(&target.name, *portal_group, units);
        let units = units.with_other_groups(Arc::clone(&other_groups));
        (target.name.as_str().into(), Arc::new(units))
    };
    let exports = iscsi::Exports::new(access.targets.iter().map(target), portals.iter().copied());
    let exports = exports
        .with_nodes(*portal_group, elsewhere)
        .with_accounts(access.accounts.iter().map(account))
        .with_rights(Arc::clone(&access.rights));
    let exports = if access.is_closed { exports.closed() } else { exports };
    match initiators {
        InitiatorAccess::Any => exports,
        InitiatorAccess::Only(names) => {
            exports.with_initiators(names.iter().map(|name| name.as_str().into()))
        }
    }
}

fn logical_unit(unit: &IscsiUnit) -> LogicalUnit {
    LogicalUnit {
        lun: unit.lun,
        volume: unit.volume,
        uuid: *unit.uuid.as_bytes(),
        name: unit.name.to_string(),
        block_size: unit.block_size,
        blocks: unit.blocks,
        volatile_cache: unit.volatile_cache,
        provisioning: match (unit.is_thick, unit.deallocates) {
            (true, _) => Provisioning::Resource,
            (false, true) => Provisioning::Thin,
            (false, false) => Provisioning::Full,
        },
        support: unit.support,
        on_every_node: unit.on_every_node,
        write_protected: false,
        software_write_protected: unit.modes.write_protected,
        descriptor_sense: unit.modes.descriptor_sense,
        epoch: unit.epoch.0,
    }
}

fn account(account: &ChapAccount) -> chap::Account {
    let credential = |user: &ChapUser, secret: &ChapSecret| {
        let secret = chap::Secret::new(secret.as_str().as_bytes().to_vec());
        let secret = secret.expect("accounts have secrets that initiators take");
        chap::Credential { user: user.to_string(), secret }
    };
    let target = account.mutual.as_ref().map(|mutual| credential(&mutual.user, &mutual.secret));
    let made = chap::Account::new(credential(&account.user, &account.secret), target);
    let made = made.expect("an account's two secrets are not the same");
    made.for_initiators(account.initiators.iter().map(|name| name.as_str().into()))
}

fn compiled(grants: &[DirectGrant], files: &[DirectFilesGrant]) -> HashMap<VolumeId, Arc<Access>> {
    /// The ranges, and the directories.
    type Parts = (Vec<(Range<u64>, wire::Rights)>, Vec<FilesGrant>);
    let mut parts: HashMap<VolumeId, Parts> = HashMap::new();
    for grant in grants {
        let (ranges, _) = parts.entry(grant.volume).or_default();
        ranges.push((grant.start.0..grant.end.0, wire_rights(grant.rights)));
    }
    for grant in files {
        let (_, directories) = parts.entry(grant.volume).or_default();
        let (path, rights) = (grant.path.to_string(), wire_rights(grant.rights));
        directories.push(FilesGrant { path: path.into_bytes().into(), rights });
    }
    let access = |(volume, (ranges, directories))| {
        (volume, Arc::new(Access::new(ranges).with_files(directories)))
    };
    parts.into_iter().map(access).collect()
}

fn wire_rights(rights: Rights) -> wire::Rights {
    match rights {
        Rights::Read => wire::Rights::READ,
        Rights::ReadWrite => wire::Rights::READ_WRITE,
    }
}

/// An epoch on the wire has 32 bits, and 0 stands for none. Two epochs of one volume are equal only
/// after 4 294 967 295 changes of its layout.
fn wire_epoch(epoch: Epoch) -> u32 {
    let wrapped = epoch.0.saturating_sub(1) % u64::from(u32::MAX) + 1;
    u32::try_from(wrapped).expect("a remainder is less than its divisor")
}

fn host_access(hosts: &HostAccess) -> TargetAccess {
    match hosts {
        HostAccess::Only(hosts) => TargetAccess::Listed(hosts.iter().cloned().collect()),
        HostAccess::Any => TargetAccess::Any,
    }
}

/// PORTID of each address of a node, from 1 without a cluster. Two nodes have no number in common, because
/// a node of a cluster has at most 8 addresses of a protocol.
fn port_ids(ordinal: u16) -> impl Iterator<Item = u16> {
    let first = ordinal.saturating_mul(16) + 1;
    first..=u16::MAX
}

/// The portal group of a node, which is also its target port group and its relative target port.
fn portal_group(ordinal: u16) -> u16 {
    ordinal.max(iscsi::PORTAL_GROUP)
}

/// The ports of other nodes.
pub(super) fn elsewhere(nodes: &[HostDoors]) -> Arc<[Port]> {
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

fn remote_portals(node: &HostDoors) -> impl Iterator<Item = iscsi::RemotePortal> {
    let group = portal_group(node.ordinal);
    node.iscsi.iter().map(move |address| iscsi::RemotePortal { address: *address, group })
}

/// The ports of the discovery log.
fn ports(ordinal: u16, doors: &[OpenDoor]) -> Vec<Port> {
    let tcp = |door: &OpenDoor| match &door.socket {
        DoorSocket::Tcp { listener, advertise } if door.protocol == Protocol::NvmeTcp => {
            Some((listener.local_addr().unwrap_or(*advertise), *advertise, door.tls))
        }
        DoorSocket::Tcp { .. } | DoorSocket::Local(_) => None,
    };
    let port = |((listen, advertise, tls), id): ((SocketAddr, SocketAddr, DoorTls), u16)| {
        let advertise = (advertise != listen).then(|| TransportAddress::tcp(advertise));
        let listen = TransportAddress::tcp(listen);
        Port { id, listen, advertise: advertise.into_iter().collect(), tls }
    };
    doors.iter().filter_map(tcp).zip(port_ids(ordinal)).map(port).collect()
}

/// The portals that iSCSI discovery reports.
fn portals(doors: &[OpenDoor]) -> Vec<SocketAddr> {
    let portal = |door: &OpenDoor| match door.socket {
        DoorSocket::Tcp { advertise, .. } if door.protocol == Protocol::Iscsi => Some(advertise),
        DoorSocket::Tcp { .. } | DoorSocket::Local(_) => None,
    };
    doors.iter().filter_map(portal).collect()
}

/// The status of the cores, from the answer of each; it lists the processors of cores that did not
/// answer.
pub(super) fn status(
    processors: &[usize],
    replies: Vec<(CoreId, Reply)>,
    ledger: &Ledger,
) -> RuntimeStatus {
    let has_said = |core: usize| replies.iter().any(|(said, _)| usize::from(said.0) == core);
    let silent = processors.iter().enumerate().filter(|(core, _)| !has_said(*core));
    let silent = silent.map(|(_, processor)| *processor).collect();
    let mut status = RuntimeStatus { silent, ..RuntimeStatus::default() };
    for (core, reply) in replies {
        let Reply::Status(shard) = reply else { continue };
        let figures = ledger.of_core(core);
        let (read, write) = (figures.of(Kind::Read), figures.of(Kind::Write));
        let core = processors.get(usize::from(core.0)).copied().unwrap_or_default();
        status.cores.push(CoreStatus {
            core,
            connections: count(shard.connections),
            in_flight: count(shard.requests_in_flight),
            reads: read.done,
            writes: write.done,
            read_bytes: read.bytes,
            written_bytes: write.bytes,
            errors: figures.errors(),
            pool_free_bytes: shard.pool_free.0,
            clients: count(shard.client_count),
        });
        status.copies.extend(shard.copies);
        shard
            .places
            .into_iter()
            .for_each(|(kind, used)| add_places(&mut status.places, kind, used));
        status.clients.extend(shard.clients.into_iter().map(|it| client(it, core)));
        status.initiators.extend(shard.initiators.into_iter().map(|session| {
            let on = usize::from(session.status.core);
            ConnectedInitiator {
                initiator: session.status.initiator.into(),
                target: session.status.target.map(String::from),
                user: session.status.account.map(String::from),
                address: session.peer,
                connections: u32::try_from(session.status.connections.len()).unwrap_or(u32::MAX),
                core: processors.get(on).copied().unwrap_or_default(),
            }
        }));
        status.hosts.extend(shard.hosts.into_iter().map(|host| ConnectedHost {
            host: host.status.host,
            subsystem: host.status.subsystem,
            address: host.peer,
            io_queues: u32::try_from(host.status.queues.len()).unwrap_or(u32::MAX),
        }));
    }
    status
}

/// Adds the use of the places of one core to that of the cores before it.
fn add_places(places: &mut Vec<PlaceUse>, kind: PlaceKind, used: PlacesUsed) {
    let (holder, held) = used.most.map(|(name, held)| (String::from(name), count(held))).unzip();
    let of_core = PlaceUse {
        kind,
        used: count(used.used),
        places: count(used.places),
        holder,
        held: held.unwrap_or_default(),
    };
    match places.iter_mut().find(|it| it.kind == kind) {
        None => places.push(of_core),
        Some(all) => {
            all.used += of_core.used;
            all.places += of_core.places;
            if of_core.held > all.held {
                (all.holder, all.held) = (of_core.holder, of_core.held);
            }
        }
    }
}

/// The clients of a volume, from the answer of each core.
pub(super) fn clients(processors: &[usize], replies: Vec<(CoreId, Reply)>) -> Vec<ConnectedClient> {
    let of_core = |(core, reply): (CoreId, Reply)| {
        let core = processors.get(usize::from(core.0)).copied().unwrap_or_default();
        let Reply::Users(users) = reply else { return Vec::new() };
        users.into_iter().map(|it| client(it, core)).collect()
    };
    replies.into_iter().flat_map(of_core).collect()
}

fn client(client: nearflash_shard::ConnectedClient, core: usize) -> ConnectedClient {
    ConnectedClient {
        from: client.peer.to_string(),
        credential: client.key.map(String::from),
        is_in: client.is_ready,
        core,
        in_flight: count(client.requests_in_flight),
    }
}

fn count(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(volume: u32, range: Range<u64>, rights: Rights) -> DirectGrant {
        let (start, end) = (ByteOffset(range.start), ByteOffset(range.end));
        DirectGrant { volume: VolumeId(volume), start, end, rights }
    }

    #[test]
    fn grants_are_one_table_for_each_volume() {
        let grants = [
            grant(0, 0..4096, Rights::ReadWrite),
            grant(0, 4096..8192, Rights::Read),
            grant(3, 0..512, Rights::Read),
        ];
        let (path, rights) = ("/a".parse().unwrap(), Rights::Read);
        let files = [DirectFilesGrant { volume: VolumeId(5), path, rights }];
        let compiled = compiled(&grants, &files);
        assert_eq!(compiled.len(), 3);
        let of_files = &compiled[&VolumeId(5)];
        assert_eq!(of_files.hull(), wire::Rights::NONE, "files are no bytes");
        assert_eq!(&*of_files.files()[0].path, b"/a");
        let first = &compiled[&VolumeId(0)];
        assert!(
            first.allows(0..8192, wire::Rights::READ)
                && !first.allows(8191..8193, wire::Rights::READ)
        );
        assert!(
            first.allows(0..4096, wire::Rights::WRITE)
                && !first.allows(4095..4097, wire::Rights::WRITE)
        );
        assert_eq!(compiled[&VolumeId(3)].hull(), wire::Rights::READ);
    }

    #[test]
    fn a_core_that_says_nothing_is_named_by_its_processor() {
        let said = vec![(CoreId(1), Reply::Done)];
        assert_eq!(status(&[4, 6, 7], said, &Ledger::default()).silent, [4, 7]);
    }

    #[test]
    fn an_epoch_on_the_wire_is_never_zero() {
        let max = u64::from(u32::MAX);
        for (epoch, wire) in
            [(0, 1), (1, 1), (2, 2), (max, u32::MAX), (max + 1, 1), (u64::MAX, u32::MAX)]
        {
            assert_eq!(wire_epoch(Epoch(epoch)), wire, "{epoch}");
        }
    }
}
