//! The target as hosts see it: each test acts as a host, command by command.

mod admin;
mod connect;
mod discovery;
mod events;
mod features;
mod identify;
mod keep_alive;
mod places;
mod publish;
mod reservations;
mod rights;
mod support;

use std::net::SocketAddr;

use nearflash_request::{Support, VolumeId};
use nearflash_session::Origin;
use nearflash_units::{BlockSize, Blocks, Nanos};
use uuid::Uuid;

use super::*;
use crate::auth::{HostKeys, Key, Policy};
use crate::fabrics::{Connect, ConnectData};
use crate::hosts::{HostTable, KeyedHosts};
use crate::property::{Configuration, offset};
use crate::tls::{Demand, DoorTls, PskIdentity};
use crate::{CommandId, NamespaceId, TransportAddress};

const NOW: Nanos = Nanos::from_secs(100);

fn nqn(name: &str) -> Nqn {
    Nqn::new(&format!("nqn.2026-11.io.nearflash:{name}")).unwrap()
}

fn address(text: &str) -> TransportAddress {
    TransportAddress::tcp(text.parse::<SocketAddr>().unwrap())
}

fn local() -> TransportAddress {
    address("192.0.2.1:4420")
}

/// The address 192.0.2.`last`.
fn origin(last: u8) -> Origin {
    Origin::of([192, 0, 2, last].into())
}

fn arrival() -> Arrival {
    Arrival { local: local(), origin: origin(7), anonymous: true, tls: None }
}

fn config() -> TargetConfig {
    TargetConfig {
        controller_ids: crate::serving::ALL_CONTROLLER_IDS,
        serial_seed: 7,
        model: "nearflash".to_owned(),
        firmware: "0.1.0".to_owned(),
        hosts: HostAccess::Any,
        ports: vec![Port { id: 1, listen: local(), advertise: Vec::new(), tls: DoorTls::Off }],
        limits: Limits { controllers_max: 64, io_queues_max: 4, ..Limits::default() },
        life: Life::default(),
    }
}

fn namespace(subsystem: &str, nsid: u32) -> NamespaceConfig {
    NamespaceConfig {
        subsystem: nqn(subsystem),
        namespace: NamespaceId(nsid),
        volume: VolumeId(nsid.wrapping_add(100)),
        uuid: Uuid::from_u128(0xABC0 + u128::from(nsid)),
        block_size: BlockSize::B4096,
        blocks: Blocks(262_144),
        device_block_size: BlockSize::B512,
        volatile_cache: false,
        deallocation: Deallocation::ReadsZeroes,
        on_every_node: false,
        support: Support::ALL,
        write_protected: false,
    }
}

/// A target with namespace 1 of the subsystem `data`.
fn target() -> Target {
    let mut target = Target::new(config());
    target.publish(vec![namespace("data", 1)]).unwrap();
    target
}

/// The Connect parameters of one host.
#[derive(Clone)]
struct Host {
    connect: Connect,
    data: ConnectData,
}

impl Host {
    fn of(subsystem: &Nqn) -> Self {
        let id = Uuid::from_u128(0x1234);
        Self {
            connect: Connect { queue_entries_zero_based: 31, ..Connect::default() },
            data: ConnectData::new(id, ControllerId::DYNAMIC, subsystem, &nqn("host")),
        }
    }

    fn on_queue(&self, queue: u16, controller: ControllerId) -> Self {
        let mut host = self.clone();
        host.connect.queue = QueueId(queue);
        host.data.controller_id = controller.0.into();
        host
    }

    fn connect(&self, target: &mut Target) -> Result<Connected, Refusal> {
        target.connect(NOW, &self.connect.to_command(), &self.data, arrival())
    }
}

fn enable() -> Command {
    Command::property_set(offset::CONFIGURATION, Configuration::ENABLE.0)
}

/// A host with an enabled controller of the subsystem.
fn join(target: &mut Target, subsystem: &Nqn) -> ControllerId {
    let controller = Host::of(subsystem).connect(target).unwrap().controller;
    assert!(ask(target, controller, enable()).0.status().is_success());
    controller
}

/// A target with a controller of `data`.
fn joined() -> (Target, ControllerId) {
    let mut target = target();
    let controller = join(&mut target, &nqn("data"));
    (target, controller)
}

fn actions(target: &mut Target) -> Vec<Action> {
    std::iter::from_fn(|| target.poll_action()).collect()
}

/// Sends a command and returns its only completion.
fn ask(
    target: &mut Target,
    controller: ControllerId,
    command: Command,
) -> (CompletionEntry, Vec<u8>) {
    ask_with(target, controller, command, &[])
}

fn ask_with(
    target: &mut Target,
    controller: ControllerId,
    command: Command,
    data: &[u8],
) -> (CompletionEntry, Vec<u8>) {
    target.admin(NOW, controller, &command.with_command_id(CommandId(0xC1D)), data);
    match &actions(target)[..] {
        [Action::Respond { controller: whose, queue, completion, data }] => {
            assert_eq!((*whose, *queue), (controller, QueueId::ADMIN));
            assert_eq!(completion.command_id(), CommandId(0xC1D));
            (*completion, data.clone())
        }
        other => panic!("one answer was expected, not {other:?}"),
    }
}

fn status_of(target: &mut Target, controller: ControllerId, command: Command) -> Status {
    ask(target, controller, command).0.status()
}

/// The rows of 16 bytes that are not all zero.
fn dump(bytes: &[u8]) -> String {
    let rows = bytes.chunks(16).enumerate().filter(|(_, row)| row.iter().any(|byte| *byte != 0));
    rows.map(|(number, row)| {
        let hex: Vec<_> = row.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{:4}: {}\n", number * 16, hex.join(" "))
    })
    .collect()
}
