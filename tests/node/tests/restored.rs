//! Restoring from a copy: a slice while its node was down, and etcd while all nodes were down. The
//! newest bytes win, or nothing is served.
#![allow(clippy::unwrap_used)] // a failed test says where

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use nearflash_node_tests::{
    Door, Machine, Mirrored, Node, Stamp, copy_file, copy_folder, eventually,
};
use rustix::process::{Signal, kill_process};

const BLOCKS: u64 = 16;

/// Two machines of a cluster whose etcd is on a third one.
fn machines() -> (Vec<Machine>, Machine) {
    let (etcd, machines) = (Machine::new(), vec![Machine::new(), Machine::new()]);
    etcd.init();
    let file = |name| etcd.etcd(name).display().to_string();
    let (ca, cert, key) = (file("ca.pem"), file("machine.pem"), file("machine.key"));
    let address = &etcd.address;
    let url = format!("etcd://{address}?ca={ca}&cert={cert}&key={key}&prefix=/restored");
    let [one, two] = &machines[..] else { panic!("there are two") };
    one.answer(&["init", "--name", "lab", "--listen", &one.address, "--etcd", &url]);
    two.join(one, &[]);
    (machines, etcd)
}

/// Writes blocks all over the volume, and flushes them.
fn write(node: &Node<'_>, sequence: u64) {
    let volume = Door::Tcp.anonymous(node).unwrap().open("data").unwrap();
    for lba in (0..BLOCKS).map(|number| number * 1000) {
        volume.write_at(&Stamp { lba, sequence }.block(4096), lba * 4096).unwrap();
    }
    volume.flush().unwrap();
}

/// The sequences that the blocks have. Waits until the node serves the volume.
fn read(node: &Node<'_>) -> Vec<u64> {
    let read = |lba: u64| {
        let volume = Door::Tcp.anonymous(node).ok()?.open("data").ok()?;
        let mut block = [0; 4096];
        volume.with_timeout(Duration::from_secs(1)).read_at(&mut block, lba * 4096).ok()?;
        Stamp::of(&block).map(|stamp| stamp.sequence)
    };
    eventually("the volume is served", || read(0).is_some());
    (0..BLOCKS).map(|number| read(number * 1000).unwrap()).collect()
}

#[test]
#[ignore = "needs etcd: run by make test"]
fn a_slice_that_was_restored_from_a_copy_of_its_present_run_gets_everything_it_lacks() {
    let (machines, _etcd) = machines();
    let mut nodes = Mirrored::start(&machines);
    nodes.create(&["--size", "64MiB", "--width", "1"]);
    let mirror = nodes.mirror(0);
    let (one, two) = (mirror.primary(), mirror.secondary());
    write(nodes.node(one), 1);
    let place = &nodes.machine(one).place;
    let (slice, copy) = (place.path("slice.img"), place.path("copy.img"));
    copy_file(&slice, &copy).unwrap();
    write(nodes.node(one), 2);
    // The other node begins to note what is written from now on.
    nodes.terminate(two);
    nodes.serve(two);
    eventually("both replicas", || nodes.is_whole(one));
    nodes.crash(one);
    assert_eq!(read(nodes.node(two)), [2; 16]);
    copy_file(&copy, &slice).unwrap();
    nodes.serve(one);
    eventually("both replicas", || nodes.is_whole(two));
    nodes.assert_replicas_agree(two);
    copy_file(&slice, &copy).unwrap();
    nodes.crash(two);
    assert_eq!(read(nodes.node(one)), [2; 16]);
    // Alone, a slice of the time before the last addition is not used.
    nodes.serve(two);
    eventually("both replicas", || nodes.is_whole(one));
    nodes.crash(two);
    assert_eq!(read(nodes.node(one)), [2; 16]);
    write(nodes.node(one), 3);
    nodes.crash(one);
    copy_file(&copy, &slice).unwrap();
    let said = nodes.refused(one);
    assert!(said.contains("lacks later writes to mirror 0 of volume data"), "{said}");
    assert!(fs::read(&slice).unwrap() == fs::read(&copy).unwrap());
}

/// One replica is alone in sync, and has later writes. Then all nodes end, and etcd goes back to the time before.
/// Returns the nodes of the older replica and of the newer one, and the newest state of etcd.
fn let_etcd_go_back(nodes: &mut Mirrored<'_>, etcd: &mut Machine) -> (usize, usize, PathBuf) {
    let data = etcd.etcd("data");
    let (older, newest) = (etcd.etcd("older"), etcd.etcd("newest"));
    nodes.create(&["--size", "64MiB", "--width", "1"]);
    let mirror = nodes.mirror(0);
    let (one, two) = (mirror.primary(), mirror.secondary());
    write(nodes.node(one), 1);
    let pid = etcd.pid().unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    copy_folder(&data, &older).unwrap();
    kill_process(pid, Signal::CONT).unwrap();
    // From now on, the other replica is alone.
    nodes.crash(one);
    assert_eq!(read(nodes.node(two)), [1; 16]);
    write(nodes.node(two), 2);
    nodes.crash(two);
    etcd.kill();
    fs::rename(&data, &newest).unwrap();
    copy_folder(&older, &data).unwrap();
    etcd.supervise();
    (one, two, newest)
}

#[test]
#[ignore = "needs etcd: run by make test"]
fn nodes_that_start_on_a_restored_etcd_do_not_let_the_older_replica_win() {
    let (machines, mut etcd) = machines();
    let data = etcd.etcd("data");
    let mut nodes = Mirrored::start(&machines);
    let (one, two, newest) = let_etcd_go_back(&mut nodes, &mut etcd);
    let slice = nodes.machine(two).place.path("slice.img");
    let before = fs::read(&slice).unwrap();
    let said = nodes.refused(two);
    assert!(said.contains("etcd has been restored from an older snapshot"), "{said}");
    assert!(fs::read(&slice).unwrap() == before);
    // The older replica does not know that, and waits for the other one.
    nodes.serve(one);
    let said = nodes.refused(two);
    assert!(said.contains("etcd has been restored from an older snapshot"), "{said}");
    let volume = Door::Tcp.anonymous(nodes.node(one)).unwrap().open("data").unwrap();
    let mut block = [0; 4096];
    assert!(volume.with_timeout(Duration::from_secs(1)).read_at(&mut block, 0).is_err());
    nodes.terminate(one);
    // With the newest state, everything is there.
    etcd.supervise_no_more();
    etcd.kill();
    fs::remove_dir_all(&data).unwrap();
    fs::rename(&newest, &data).unwrap();
    etcd.supervise();
    nodes.serve(two);
    assert_eq!(read(nodes.node(two)), [2; 16]);
}

#[test]
#[ignore = "needs etcd: run by make test"]
fn on_a_restored_etcd_that_was_accepted_the_newer_replica_wins() {
    let (machines, mut etcd) = machines();
    let mut nodes = Mirrored::start(&machines);
    let (one, two, _) = let_etcd_go_back(&mut nodes, &mut etcd);
    // In the older state, both nodes run until their leases are over.
    let accept = ["accept-restored", "--force", "--yes"];
    eventually("the state is accepted", || nodes.machine(one).run(&accept).status.success());
    nodes.serve(one);
    nodes.serve(two);
    assert_eq!(read(nodes.node(one)), [2; 16]);
    eventually("both replicas", || nodes.is_whole(two));
    nodes.assert_replicas_agree(two);
}
