//! Volumes of a cluster: striped over the slices of several nodes, and served by each of them over every
//! protocol, while nodes and etcd are killed.
#![allow(clippy::unwrap_used)] // a failed test says where

use std::process::Command;

use nearflash::direct::Status as DirectStatus;
use nearflash::nvme_tcp::{HostIdentity, Options, Status, Uuid};
use nearflash::{iscsi, nvme_tcp};
use nearflash_iscsi::initiator::Status as ScsiStatus;
use nearflash_node_tests::{
    Door, Host, Initiator, Machine, Node, Stamp, Who, eventually, nearflash, refused, subsystem,
};
use serde_json::Value;

const MIB: u64 = 1 << 20;
const ANY_PORT: &str = "127.0.0.1:0";

/// Machines of one cluster, of which the first runs etcd.
fn cluster(count: usize) -> Vec<Machine> {
    let machines: Vec<Machine> = (0..count).map(|_| Machine::new()).collect();
    machines[0].init();
    machines[1..].iter().for_each(|machine| drop(machine.join(&machines[0], &[])));
    machines
}

/// The node of a machine, with a slice in a file.
fn serve<'a>(machine: &'a Machine, name: &str) -> Node<'a> {
    let slice = format!("flash=file:{},size=256MiB", machine.place.text("slice.img"));
    serve_with(machine, name, &["--slice", &slice])
}

fn serve_with<'a>(machine: &'a Machine, name: &str, flags: &[&str]) -> Node<'a> {
    let socket = machine.place.text("direct.sock");
    let direct = format!("{}:4421", machine.address);
    let doors = ["--direct", &direct, "--direct-local", &socket, "--iscsi", ANY_PORT];
    let flags = [&doors[..], &["--cluster", "--node", name, "--host", "any"], flags].concat();
    Node::start(&machine.place, &flags)
}

fn create(node: &Node<'_>, flags: &[&str]) -> Value {
    node.command(&[&["volume", "create", "data", "--replicas", "1"], flags].concat())
}

/// The nodes of a volume's mirrors, in order.
fn nodes_of(node: &Node<'_>) -> Vec<String> {
    let shown = node.command(&["volume", "show", "data"]);
    let mirrors = shown["layout"]["mirrors"].as_array().unwrap();
    let node = |mirror: &Value| mirror["replicas"][0]["node"].as_str().unwrap().to_owned();
    mirrors.iter().map(node).collect()
}

fn has_volume(node: &Node<'_>) -> bool {
    let listed = node.command(&["volume", "list"])["volumes"].clone();
    listed.as_array().unwrap().iter().any(|volume| volume["state"].is_null())
}

/// Writes stamps over each protocol of one node, and reads them over each protocol of another one.
fn assert_same(written: &Node<'_>, read: &Node<'_>, sequence: u64) {
    // Far enough apart to lie on different mirrors.
    let stamp = |at: u64| Stamp { lba: at * 16, sequence };
    let mut host = Host::connect(written, "data");
    assert_eq!(host.write_stamp(stamp(1)), Status::SUCCESS);
    let who = Who::named("writer");
    let mut initiator = Initiator::login(written, "data", &who).unwrap();
    assert_eq!(initiator.write(stamp(2).lba, &stamp(2).block(4096)), ScsiStatus::GOOD);
    for (door, at) in Door::ALL.into_iter().zip(3..) {
        let volume = door.anonymous(written).unwrap().open("data").unwrap();
        volume.write_at(&stamp(at).block(4096), stamp(at).lba * 4096).unwrap();
        volume.flush().unwrap();
    }
    let mut host = Host::connect(read, "data");
    let mut initiator = Initiator::login(read, "data", &who).unwrap();
    let doors = Door::ALL.map(|door| door.anonymous(read).unwrap().open("data").unwrap());
    for at in 1..=4 {
        let lba = stamp(at).lba;
        assert_eq!(host.read_stamp(lba), Some(stamp(at)));
        assert_eq!(Stamp::of(&initiator.read(lba)), Some(stamp(at)));
        for volume in &doors {
            let mut block = [0xA5; 4096];
            volume.read_at(&mut block, lba * 4096).unwrap();
            assert_eq!(Stamp::of(&block), Some(stamp(at)), "block {lba}");
        }
    }
}

#[test]
#[ignore = "needs etcd: run by make test"]
fn a_volume_over_three_nodes_is_the_same_on_each_of_them_over_every_protocol() {
    let machines = cluster(3);
    let nodes: Vec<Node<'_>> =
        machines.iter().zip(["n1", "n2", "n3"]).map(|(it, name)| serve(it, name)).collect();
    let made = create(&nodes[1], &["--size", "96MiB", "--width", "3"]);
    assert_eq!(made["volume"]["bytes"], 96 * MIB);
    let layout = &nodes[1].command(&["volume", "show", "data"])["layout"];
    let space = layout["space_bytes"].as_u64().unwrap();
    assert!(space >= 96 * MIB && layout["zeroed_bytes"].as_u64() == Some(space), "{layout}");
    let mut holders = nodes_of(&nodes[0]);
    holders.sort();
    assert_eq!(holders, ["n1", "n2", "n3"]);
    nodes.iter().for_each(|node| eventually("the volume", || has_volume(node)));
    for (sequence, (written, read)) in (1..).zip([(0, 1), (1, 2), (2, 0)]) {
        assert_same(&nodes[written], &nodes[read], sequence);
    }
    // Longer than a stripe unit, so that each node has a piece.
    let bytes: Vec<u8> = (0..3 * MIB).map(|at| u8::try_from(at % 251).unwrap()).collect();
    let volume = Door::Tcp.anonymous(&nodes[2]).unwrap().open("data").unwrap();
    volume.write_at(&bytes, MIB).unwrap();
    volume.write_zeroes(2 * MIB, 8192).unwrap();
    let volume = Door::Local.anonymous(&nodes[0]).unwrap().open("data").unwrap();
    let mut found = vec![0xA5; bytes.len()];
    volume.read_at(&mut found, MIB).unwrap();
    let zeroed = 1024 * 1024..1024 * 1024 + 8192;
    assert!(found[zeroed.clone()].iter().all(|byte| *byte == 0));
    assert!(found[..zeroed.start] == bytes[..zeroed.start]);
    assert!(found[zeroed.end..] == bytes[zeroed.end..]);
    // Nobody orders all operations of the volume, so those that need an order are refused.
    let refused = volume.compare_and_swap(0, 0, 1).unwrap_err().status();
    assert_eq!(refused, Some(DirectStatus::UNSUPPORTED));
}

#[test]
#[ignore = "needs etcd: run by make test"]
fn volumes_grow_are_removed_and_show_nothing_of_what_was_there_before() {
    let machines = cluster(2);
    let nodes = [serve(&machines[0], "n1"), serve(&machines[1], "n2")];
    for round in 0..2 {
        create(&nodes[round], &["--size", "64MiB"]);
        nodes.iter().for_each(|node| eventually("the volume", || has_volume(node)));
        let volume = Door::Tcp.anonymous(&nodes[0]).unwrap().open("data").unwrap();
        let mut bytes = vec![0xA5; 1024 * 1024];
        volume.read_at(&mut bytes, 63 * MIB).unwrap();
        assert!(bytes.iter().all(|byte| *byte == 0), "round {round}");
        bytes.fill(0xEE);
        volume.write_at(&bytes, 63 * MIB).unwrap();
        let grown = nodes[1 - round].command(&["volume", "resize", "data", "128MiB"]);
        assert_eq!(grown["volume"]["bytes"], 128 * MIB);
        let volume = Door::Tcp.anonymous(&nodes[1]).unwrap().open("data").unwrap();
        eventually("the new length", || {
            let volume = Door::Tcp.anonymous(&nodes[1]).unwrap().open("data").unwrap();
            volume.len() == 128 * MIB
        });
        volume.read_at(&mut bytes, 63 * MIB).unwrap();
        assert!(bytes.iter().all(|byte| *byte == 0xEE), "round {round}");
        let volume = Door::Tcp.anonymous(&nodes[1]).unwrap().open("data").unwrap();
        volume.read_at(&mut bytes, 127 * MIB).unwrap();
        assert!(bytes.iter().all(|byte| *byte == 0), "round {round}");
        volume.write_at(&[0xEE; 65536], 127 * MIB).unwrap();
        drop(volume);
        nodes[round].command(&["volume", "remove", "data", "--force", "--yes"]);
        nodes.iter().for_each(|node| eventually("the end", || !has_volume(node)));
    }
}

#[test]
#[ignore = "needs etcd: run by make test"]
fn etcd_that_is_killed_stalls_no_io_and_a_node_that_was_killed_serves_its_slice_again() {
    let machines = cluster(2);
    let (first, second) = (serve(&machines[0], "n1"), serve(&machines[1], "n2"));
    create(&first, &["--size", "64MiB", "--placement", "central:n2"]);
    assert!(nodes_of(&first).iter().all(|node| node == "n2"));
    eventually("the volume", || has_volume(&second));
    let volume = Door::Tcp.anonymous(&first).unwrap().open("data").unwrap();
    volume.write_at(&[1; 65536], 0).unwrap();
    volume.flush().unwrap();
    volume.write_at(&[3; 65536], 65536).unwrap();
    second.crash();
    let second = serve(&machines[1], "n2");
    let mut found = [0; 65536];
    volume.read_at(&mut found, 0).unwrap();
    assert_eq!(found, [1; 65536]);
    // The process has lost nothing that its device had taken, so the other node's flush can be believed.
    volume.flush().unwrap();
    volume.read_at(&mut found, 65536).unwrap();
    assert_eq!(found, [3; 65536]);
    eventually("the volume", || has_volume(&second));
    // The supervisor starts etcd again; I/O does not wait for it.
    machines[0].pid().into_iter().for_each(|pid| {
        rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    });
    volume.write_at(&[2; 65536], 0).unwrap();
    volume.read_at(&mut found, 0).unwrap();
    assert_eq!(found, [2; 65536]);
    machines[0].pid().into_iter().for_each(|pid| {
        rustix::process::kill_process(pid, rustix::process::Signal::CONT).unwrap();
    });
    // A change whose outcome was unknown may be repeated.
    let resize =
        ["volume", "resize", "data", "128MiB", "--data-dir", &machines[0].place.data_dir()]
            .map(str::to_owned);
    eventually("etcd to take changes again", || {
        Command::new(nearflash()).args(&resize).output().unwrap().status.success()
    });
    eventually("the new length", || listed_bytes(&second) == 128 * MIB);
}

/// The length of the only volume in the list of a node.
fn listed_bytes(node: &Node<'_>) -> u64 {
    node.command(&["volume", "list"])["volumes"][0]["bytes"].as_u64().unwrap_or_default()
}

#[test]
#[ignore = "needs etcd: run by make test"]
fn what_does_not_fit_a_cluster_is_refused_by_name() {
    let machines = cluster(2);
    let first = serve(&machines[0], "n1");
    let data_dir = machines[0].place.data_dir();
    let refusal = |arguments: &[&str]| {
        refused(&[&["volume", "create", "data"], arguments, &["--data-dir", &data_dir]].concat())
            .message
    };
    let size = ["--size", "64MiB", "--replicas"];
    let more = refusal(&[&size[..], &["2"]].concat());
    assert!(more.contains("replicas"), "{more}");
    let large = refusal(&["--size", "1TiB", "--replicas", "1"]);
    assert!(large.contains("free per node: n1 "), "{large}");
    let nowhere = refusal(&[&size[..], &["1", "--placement", "central:n7"]].concat());
    assert!(nowhere.contains("no node 'n7'"), "{nowhere}");
    let odd = refusal(&["--size", "1000", "--replicas", "1"]);
    assert!(odd.contains("4096-byte blocks"), "{odd}");
    let own = format!("flash=file:{},size=256MiB", machines[1].place.text("slice.img"));
    let twice = refused_start(&machines[1], "n1", &own);
    assert!(twice.contains("n1"), "{twice}");
    first.terminate();
    let other = format!("flash=file:{}", machines[0].place.text("slice.img"));
    let foreign = refused_start(&machines[1], "n2", &other);
    assert!(foreign.contains("slice"), "{foreign}");
}

/// The message of a start that is refused.
fn refused_start(machine: &Machine, name: &str, slice: &str) -> String {
    let data_dir = machine.place.data_dir();
    let doors = ["--nvme-tcp", ANY_PORT, "--direct", ANY_PORT, "--host", "any"];
    let flags = ["serve", "--data-dir", &data_dir, "--log", "error", "--cluster", "--node", name];
    machine.place.anonymous(&refused(&[&flags[..], &doors, &["--slice", slice]].concat()).message)
}

#[test]
#[ignore = "needs etcd: run by make test"]
fn a_slice_that_was_restored_from_an_older_copy_is_refused_and_not_written() {
    let machines = cluster(1);
    serve(&machines[0], "n1").terminate();
    let (slice, copy) = (machines[0].place.path("slice.img"), machines[0].place.path("copy.img"));
    std::fs::copy(&slice, &copy).unwrap();
    serve(&machines[0], "n1").terminate();
    std::fs::copy(&copy, &slice).unwrap();
    let spec = format!("flash=file:{}", slice.display());
    for _ in 0..3 {
        let message = refused_start(&machines[0], "n1", &spec);
        assert!(message.contains("restored from an older copy"), "{message}");
        assert!(std::fs::read(&slice).unwrap() == std::fs::read(&copy).unwrap());
    }
    // Without its superblock, it is not a new slice.
    let mut bytes = std::fs::read(&slice).unwrap();
    let superblocks = 1024 * 1024..1024 * 1024 + 8192;
    bytes[superblocks].fill(0);
    std::fs::write(&slice, &bytes).unwrap();
    let message = refused_start(&machines[0], "n1", &spec);
    assert!(message.contains("its superblock is gone"), "{message}");
    assert!(std::fs::read(&slice).unwrap() == bytes);
    std::fs::copy(&copy, &slice).unwrap();
    // Neither is it a device for volumes of the node alone.
    let data_dir = machines[0].place.data_dir();
    let device = ["serve", "--nvme-tcp", ANY_PORT, "--device", &spec, "--data-dir", &data_dir];
    let message = refused(&[&device[..], &["--log", "error"]].concat()).message;
    assert!(message.contains("is a slice of cluster"), "{message}");
    assert!(std::fs::read(&slice).unwrap() == std::fs::read(&copy).unwrap());
}

/// The addresses of the volume `data` that discovery at a node lists, for hosts and for initiators.
fn discovered(node: &Node<'_>) -> (Vec<String>, Vec<String>) {
    let identity = HostIdentity::from_uuid(Uuid::from_u128(1));
    let found = nvme_tcp::discover(&Options::new(node.address(), subsystem("data"), identity));
    let found = found.unwrap().into_iter();
    let of_data = found.filter(|it| it.is_nvm && it.subsystem == subsystem("data").to_string());
    let mut for_hosts: Vec<String> =
        of_data.map(|it| format!("{}:{}", it.address, it.service)).collect();
    let target = "iqn.2026-11.io.nearflash:data";
    let found = iscsi::discover(&iscsi::Options::new(node.iscsi_address(), target)).unwrap();
    let of_data = found.into_iter().filter(|it| it.name == target);
    let mut for_initiators: Vec<String> = of_data.flat_map(|it| it.addresses).collect();
    for_hosts.sort();
    for_initiators.sort();
    (for_hosts, for_initiators)
}

#[test]
#[ignore = "needs etcd: run by make test"]
fn discovery_at_each_node_lists_the_addresses_of_all_and_each_is_a_portal_group_of_its_own() {
    let machines = cluster(2);
    let nodes = [serve(&machines[0], "n1"), serve(&machines[1], "n2")];
    create(&nodes[0], &["--size", "64MiB", "--width", "1"]);
    let mut for_hosts = nodes.each_ref().map(|node| node.address().to_string());
    let [one, two] = nodes.each_ref().map(|node| node.iscsi_address());
    let mut for_initiators = [format!("{one},1"), format!("{two},2")];
    for_hosts.sort();
    for_initiators.sort();
    for node in &nodes {
        eventually("the volume", || has_volume(node));
        let all = || discovered(node) == (for_hosts.to_vec(), for_initiators.to_vec());
        eventually("the addresses of both nodes", all);
    }
}

/// The refusal to remove the volume, as this node says it.
fn refused_removal(machine: &Machine) -> String {
    refused(&["volume", "remove", "data", "--data-dir", &machine.place.data_dir()]).message
}

#[test]
#[ignore = "needs etcd: run by make test"]
fn a_volume_that_is_used_at_another_node_is_removed_only_by_force() {
    let machines = cluster(2);
    let nodes = [serve(&machines[0], "n1"), serve(&machines[1], "n2")];
    create(&nodes[0], &["--size", "32MiB"]);
    nodes.iter().for_each(|node| eventually("the volume", || has_volume(node)));
    let check = |user: &str| {
        let message = refused_removal(&machines[0]);
        assert!(message.contains("'data' is in use by") && message.contains(user), "{message}");
        assert!(message.contains("at node n2") && message.contains("--force"), "{message}");
    };
    for door in Door::ALL {
        let volume = door.anonymous(&nodes[1]).unwrap().open("data").unwrap();
        check("direct client");
        volume.write_at(&[7; 4096], 0).unwrap();
    }
    let mut host = Host::connect(&nodes[1], "data");
    check("NVMe host");
    assert_eq!(host.write_stamp(Stamp { lba: 1, sequence: 1 }), Status::SUCCESS);
    drop(host);
    let initiator = Initiator::login(&nodes[1], "data", &Who::named("a")).unwrap();
    check("iSCSI initiator iqn.2026-11.test:a");
    initiator.log_out();
    // Everybody has gone, and the refusals have left nothing behind.
    let remove = ["volume", "remove", "data", "--data-dir", &machines[0].place.data_dir()];
    let is_removed = || Command::new(nearflash()).args(remove).output().unwrap().status.success();
    eventually("the removal", is_removed);
    nodes.iter().for_each(|node| eventually("the end", || !has_volume(node)));

    create(&nodes[1], &["--size", "32MiB"]);
    nodes.iter().for_each(|node| eventually("the volume", || has_volume(node)));
    let volume = Door::Tcp.anonymous(&nodes[1]).unwrap().open("data").unwrap();
    check("direct client");
    nodes[0].command(&["volume", "remove", "data", "--force"]);
    eventually("the end", || volume.read_at(&mut [0; 4096], 0).is_err());
}

#[test]
#[ignore = "needs etcd: run by make test"]
fn a_node_that_does_not_say_who_uses_a_volume_holds_its_removal_up_only_while_it_counts_as_up() {
    let machines = cluster(2);
    let (first, second) = (serve(&machines[0], "n1"), serve(&machines[1], "n2"));
    create(&first, &["--size", "32MiB", "--placement", "central:n1"]);
    eventually("the volume", || has_volume(&second));
    let _volume = Door::Tcp.anonymous(&second).unwrap().open("data").unwrap();
    assert!(refused_removal(&machines[0]).contains("direct client"));
    second.crash();
    // The call waits until the lease of the node is over.
    first.command(&["volume", "remove", "data"]);
    assert!(!has_volume(&first));
}
