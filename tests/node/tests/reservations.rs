//! Reservations by a host: they bind every other host and the clients of the other protocols, are
//! reported to the hosts that they concern, and outlive the node if they persist.
#![allow(clippy::unwrap_used)] // a failed test says where

use nearflash::direct::Status as DirectStatus;
use nearflash_node_tests::{Admin, Door, Node, Pdu, Place, Wire, numbered};
use nearflash_nvme::feature::FeatureId;
use nearflash_nvme::log::{GetLogPage, LogId};
use nearflash_nvme::{AsyncEvent, Command, IoOpcode, NamespaceId, Status};
use nearflash_units::Lba;

const NSID: NamespaceId = NamespaceId(1);
const BLOCK: usize = 4096;

const WRITE_EXCLUSIVE: u32 = 1 << 8;
const EXCLUSIVE_ACCESS: u32 = 2 << 8;
const REPLACE: u32 = 2;
const PREEMPT_AND_ABORT: u32 = 2;
const CLEAR: u32 = 1;
const PERSIST: u32 = 3 << 30;

/// A host with one I/O queue for volume `data`.
struct Host {
    admin: Admin,
    io: Wire,
}

impl Host {
    fn join(node: &Node<'_>) -> Self {
        Self::of(Admin::join(node, "data"))
    }

    fn of(admin: Admin) -> Self {
        let io = admin.io(1, 8);
        Self { admin, io }
    }

    fn again(&self, node: &Node<'_>) -> Self {
        Self::of(self.admin.join_again(node))
    }

    fn keys(&mut self, opcode: IoOpcode, cdw10: u32, keys: &[u64]) -> Status {
        let data: Vec<u8> = keys.iter().flat_map(|key| key.to_le_bytes()).collect();
        let len = u32::try_from(data.len()).unwrap();
        self.io.run_with(&Command::reservation(opcode, NSID, cdw10, len), &data)
    }

    fn register(&mut self, cdw10: u32, current: u64, new: u64) -> Status {
        self.keys(IoOpcode::RESERVATION_REGISTER, cdw10, &[current, new])
    }

    fn acquire(&mut self, cdw10: u32, key: u64, victim: u64) -> Status {
        self.keys(IoOpcode::RESERVATION_ACQUIRE, cdw10, &[key, victim])
    }

    fn release(&mut self, cdw10: u32, key: u64) -> Status {
        self.keys(IoOpcode::RESERVATION_RELEASE, cdw10, &[key])
    }

    /// Generation, type, number of registrants, and whether it persists.
    fn report(&mut self) -> [u32; 4] {
        let (status, data) = self.io.read(&Command::reservation_report(NSID, 4096));
        assert_eq!((status, data.len()), (Status::SUCCESS, 4096));
        let generation = u32::from_le_bytes(data[..4].try_into().unwrap());
        let registered = u16::from_le_bytes([data[5], data[6]]);
        [generation, data[4].into(), registered.into(), data[9].into()]
    }

    fn write(&mut self) -> Status {
        let len = u32::try_from(BLOCK).unwrap();
        let write = Command::write(NSID, Lba(3), 0, len).with_capsule_data(len);
        self.io.run_with(&write, &[0x5A; BLOCK])
    }

    fn read(&mut self) -> Status {
        self.io.read(&Command::read(NSID, Lba(3), 0, u32::try_from(BLOCK).unwrap())).0
    }

    fn flush(&mut self) -> Status {
        self.io.run(&Command::flush(NSID)).status()
    }

    /// The type of the oldest notification, and the number of further ones.
    fn notification(&mut self) -> [u8; 2] {
        let page = GetLogPage::new(LogId::RESERVATION_NOTIFICATION, 64);
        let (status, data) = self.admin.wire.read(&page.to_command(NamespaceId::NONE));
        assert_eq!(status, Status::SUCCESS);
        [data[8], data[9]]
    }

    fn wait_for_event(&mut self) {
        self.admin.wire.submit(&numbered(Command::async_event_request(), 77), &[]);
    }

    fn event(&mut self) -> AsyncEvent {
        let Pdu::Response(entry) = self.admin.wire.receive() else { panic!("an event") };
        assert_eq!((entry.cid.get(), entry.status()), (77, Status::SUCCESS));
        AsyncEvent::from_result(entry.dw0.get())
    }
}

fn conflict() -> Status {
    Status::RESERVATION_CONFLICT.dnr()
}

/// A node with volume `data` in memory.
fn node(place: &Place) -> Node<'_> {
    Node::with_direct(place, &["--device", "r=ram:64MiB", "--volume", "data=8MiB@r"])
}

#[test]
fn what_one_host_reserves_binds_hosts_and_direct_clients() {
    let place = Place::new();
    let node = node(&place);
    let (mut first, mut second) = (Host::join(&node), Host::join(&node));
    let clients = Door::ALL.map(|door| door.anonymous(&node).unwrap());
    let volumes = clients.each_ref().map(|client| client.open("data").unwrap());
    let refused = |result: Result<(), nearflash::Error>| {
        assert_eq!(result.unwrap_err().status(), Some(DirectStatus::RESERVED));
    };

    assert_eq!(first.acquire(WRITE_EXCLUSIVE, 0xA, 0), conflict(), "it has not registered");
    assert_eq!(first.register(0, 0, 0xA), Status::SUCCESS);
    assert_eq!(first.acquire(WRITE_EXCLUSIVE, 0xA, 0), Status::SUCCESS);
    assert_eq!(first.write(), Status::SUCCESS);
    assert_eq!(
        (second.write(), second.flush(), second.read()),
        (conflict(), conflict(), Status::SUCCESS)
    );
    for volume in &volumes {
        refused(volume.write_at(&[1], 0));
        refused(volume.flush());
        volume.read_at(&mut [0; 100], 50).unwrap();
    }

    assert_eq!(second.register(0, 0, 0xB), Status::SUCCESS);
    let preempt = EXCLUSIVE_ACCESS | PREEMPT_AND_ABORT;
    assert_eq!(second.acquire(preempt, 0xB, 0xA), Status::SUCCESS);
    assert_eq!((first.write(), first.read()), (conflict(), conflict()));
    assert_eq!((second.write(), second.read()), (Status::SUCCESS, Status::SUCCESS));
    for volume in &volumes {
        refused(volume.read_at(&mut [0; 100], 50));
    }

    assert_eq!(second.release(EXCLUSIVE_ACCESS, 0xB), Status::SUCCESS);
    assert_eq!((first.write(), first.flush()), (Status::SUCCESS, Status::SUCCESS));
    for volume in &volumes {
        volume.write_at(&[1], 0).unwrap();
    }
    node.terminate();
}

#[test]
fn a_host_is_the_same_over_all_its_controllers() {
    let place = Place::new();
    let node = node(&place);
    let mut host = Host::join(&node);
    assert_eq!(host.register(0, 0, 7), Status::SUCCESS);
    assert_eq!(host.acquire(EXCLUSIVE_ACCESS, 7, 0), Status::SUCCESS);
    let mut path = host.again(&node);
    assert_eq!((path.write(), path.read()), (Status::SUCCESS, Status::SUCCESS));
    drop(host);
    assert_eq!(path.report()[1..], [2, 1, 0]);
    assert_eq!(path.register(1, 7, 0), Status::SUCCESS);
    assert_eq!(path.report()[1..], [0, 0, 0], "the reservation goes with its holder");
}

#[test]
fn who_is_preempted_is_told() {
    let place = Place::new();
    let node = node(&place);
    let (mut first, mut second) = (Host::join(&node), Host::join(&node));
    assert_eq!(first.register(0, 0, 0xA), Status::SUCCESS);
    assert_eq!(second.register(0, 0, 0xB), Status::SUCCESS);
    first.wait_for_event();
    assert_eq!(second.acquire(WRITE_EXCLUSIVE | 1, 0xB, 0xA), Status::SUCCESS);
    assert_eq!(first.event(), AsyncEvent::RESERVATION_CHANGED);
    assert_eq!(first.notification(), [1, 0], "its registration is gone");
    assert_eq!(first.notification(), [0, 0]);
    assert_eq!(first.register(0, 0, 0xA), Status::SUCCESS);
    first.wait_for_event();
    assert_eq!(second.release(CLEAR, 0xB), Status::SUCCESS);
    assert_eq!(first.event(), AsyncEvent::RESERVATION_CHANGED);
    assert_eq!((first.notification(), second.notification()), ([3, 0], [0, 0]));
}

#[test]
fn a_reservation_outlives_the_node_where_it_was_to() {
    let place = Place::new();
    let device = place.flash("64MiB");
    let start = |flags: &[&str]| Node::start(&place, &[&["--device", &device], flags].concat());
    let node = start(&["--volume", "data=8MiB@flash"]);
    let (mut first, mut second) = (Host::join(&node), Host::join(&node));
    assert_eq!(first.register(PERSIST, 0, 0xA), Status::SUCCESS);
    assert_eq!(second.register(0, 0, 0xB), Status::SUCCESS);
    assert_eq!(first.acquire(EXCLUSIVE_ACCESS, 0xA, 0), Status::SUCCESS);
    node.crash();

    let device = format!("flash=file:{}", place.text("flash.img"));
    let node = Node::start(&place, &["--device", &device]);
    (first, second) = (first.again(&node), second.again(&node));
    assert_eq!(second.report()[1..], [2, 2, 1]);
    assert_eq!((first.write(), second.write()), (Status::SUCCESS, conflict()));
    let persistence = |value| Command {
        nsid: NSID.0.into(),
        ..Command::set_features(FeatureId::RESERVATION_PERSISTENCE, value)
    };
    let get = Command {
        nsid: NSID.0.into(),
        ..Command::get_features(FeatureId::RESERVATION_PERSISTENCE, 0)
    };
    assert_eq!(first.admin.wire.run(&get).dw0.get(), 1);
    assert_eq!(first.admin.wire.run(&persistence(0)).status(), Status::SUCCESS);
    assert_eq!(first.admin.wire.run(&get).dw0.get(), 0);
    node.crash();

    let node = Node::start(&place, &["--device", &device]);
    second = second.again(&node);
    assert_eq!(second.report(), [0, 0, 0, 0]);
    assert_eq!(second.write(), Status::SUCCESS);
}

/// A host that loses its access can no longer change its registration. NVMe Base 2.0, 8.19: only commands of hosts
/// and the loss of power end one. An operator decides on the access, and not on the cluster that reserves the volume.
#[test]
fn a_host_that_is_removed_keeps_its_reservation_until_another_preempts_it_or_the_operator_clears_it()
 {
    let place = Place::new();
    let node = node(&place);
    let (first, mut second) = (Host::join(&node), Host::join(&node));
    let nqn = first.admin.host_nqn();
    let reserve = |host: &mut Host| {
        assert_eq!(host.register(0, 0, 0xA), Status::SUCCESS);
        assert_eq!(host.acquire(WRITE_EXCLUSIVE, 0xA, 0), Status::SUCCESS);
    };
    let remove = |mut host: Host| {
        // It has not authenticated with the new key, and is disconnected.
        node.command(&["host", "add", &nqn]);
        host.io.closed();
        node.command(&["host", "remove", &nqn, "--forget"]);
        host
    };
    let mut first = first;
    reserve(&mut first);
    first = remove(first).again(&node);
    assert_eq!((second.write(), second.report()[1..].to_vec()), (conflict(), vec![1, 1, 0]));
    assert_eq!(first.write(), Status::SUCCESS, "the host is the same one when it is let in again");
    first = remove(first);
    assert_eq!(second.register(0, 0, 0xB), Status::SUCCESS);
    assert_eq!(second.acquire(WRITE_EXCLUSIVE | 1, 0xB, 0xA), Status::SUCCESS);
    first = first.again(&node);
    assert_eq!((second.write(), first.write()), (Status::SUCCESS, conflict()));
    assert_eq!(second.release(CLEAR, 0xB), Status::SUCCESS);
    reserve(&mut first);
    remove(first);
    assert_eq!(second.write(), conflict());
    node.command(&["reservation", "clear", "data"]);
    assert_eq!((second.write(), second.report()[1..].to_vec()), (Status::SUCCESS, vec![0, 0, 0]));
}

#[test]
fn a_host_that_dies_in_the_middle_of_a_change_hinders_nobody() {
    let place = Place::new();
    let node = node(&place);
    let mut other = Host::join(&node);
    for _ in 0..20 {
        let mut dying = Host::join(&node);
        let register =
            Command::reservation(IoOpcode::RESERVATION_REGISTER, NSID, REPLACE | 1 << 3, 16);
        for cid in 0..6 {
            dying.io.submit(&numbered(register, cid), &[5; 16]);
        }
    }
    assert_eq!(other.register(0, 0, 9), Status::SUCCESS);
    assert_eq!(other.release(CLEAR, 9), Status::SUCCESS);
    assert_eq!(other.write(), Status::SUCCESS);
    node.terminate();
}

#[test]
fn a_signal_to_end_is_followed_while_a_volume_is_reserved() {
    let place = Place::new();
    let node = node(&place);
    let mut host = Host::join(&node);
    assert_eq!(host.register(0, 0, 7), Status::SUCCESS);
    assert_eq!(host.acquire(EXCLUSIVE_ACCESS, 7, 0), Status::SUCCESS);
    node.terminate();
}
