//! A node that stood still does not execute what its hosts have given up meanwhile: a host writes over a path to
//! the node while it stands still, gives the path up, repeats the write over another node, and writes again. The
//! newer write must stay.
//!
//! A host that gives up a silent path sooner than a node refuses old input (2 s), and without closing it, is no
//! case of these tests, and neither is a node whose clock stood still, too: see `docs/consistency.md`, Exceptions.
#![allow(clippy::unwrap_used)] // a failed test says where

use std::time::Duration;

use nearflash_node_tests::{Cut, Machine, Mirrored, Path, Protocol, eventually};

/// The part of the node that stands still in the volume's mirror.
#[derive(Clone, Copy, Debug)]
enum Part {
    Primary,
    Secondary,
    /// It has no replica: hosts use it to reach those that have.
    EntryOnly,
}

impl Part {
    const ALL: [Self; 3] = [Self::Primary, Self::Secondary, Self::EntryOnly];

    fn node(self, nodes: &Mirrored<'_>) -> usize {
        let mirror = nodes.mirror(0);
        match self {
            Self::Primary => mirror.primary(),
            Self::Secondary => mirror.secondary(),
            Self::EntryOnly => {
                let (primary, secondary) = (mirror.primary(), mirror.secondary());
                (0..3).find(|it| ![primary, secondary].contains(it)).expect("there are three nodes")
            }
        }
    }
}

/// A path to the node that will stand still, and its block.
struct Tried {
    protocol: Protocol,
    cut: Cut,
    lba: u64,
    path: Option<Path>,
}

fn block(byte: u8) -> Vec<u8> {
    vec![byte; 4096]
}

const EARLIER: u8 = 0xE0;
const GIVEN_UP: u8 = 0xA0;
const NEWER: u8 = 0xB0;

/// Writes until a path takes it: the mirror may have no primary for a moment.
fn write_over(nodes: &Mirrored<'_>, at: usize, protocol: Protocol, name: &str, lba: u64, byte: u8) {
    eventually("the other node takes the write", || {
        let mut path = Path::open(protocol, nodes.node(at), name, Duration::from_secs(60));
        path.write(lba, &block(byte))
    });
}

/// A node stands still for this time, while hosts of every protocol give their paths to it up in these ways.
fn stands_still(nodes: &Mirrored<'_>, part: Part, time: Duration, cuts: &[Cut]) {
    let still = part.node(nodes);
    let other = nodes.other(still);
    // A host that keeps silent is expected to have given up by then, and its time-out is shorter or longer.
    let keep_alive = Duration::from_secs(if time > Duration::from_secs(5) { 4 } else { 120 });
    let ways = cuts.iter().flat_map(|cut| Protocol::ALL.map(|protocol| (protocol, *cut)));
    let mut tried: Vec<Tried> = (1..)
        .zip(ways)
        .map(|(number, (protocol, cut))| {
            let lba = number * 64;
            let name = format!("host-{number}");
            let mut path = Path::open(protocol, nodes.node(still), &name, keep_alive);
            assert!(path.write(lba, &block(EARLIER)), "{protocol:?}");
            Tried { protocol, cut, lba, path: Some(path) }
        })
        .collect();
    nodes.freeze(still, time, || {
        for Tried { cut, lba, path, .. } in &mut tried {
            let mut given_up = path.take().unwrap();
            given_up.post(*lba, &block(GIVEN_UP));
            *path = given_up.give_up(*cut);
        }
        for Tried { protocol, lba, .. } in &tried {
            let name = format!("other-{lba}");
            for byte in [GIVEN_UP, NEWER] {
                write_over(nodes, other, *protocol, &name, *lba, byte);
            }
        }
    });
    // It serves again, so it has taken what lay in its sockets, or discarded it.
    nodes.heals(other);
    for at in [still, other] {
        let mut path =
            Path::open(Protocol::NvmeTcp, nodes.node(at), "reader", Duration::from_secs(60));
        for Tried { protocol, cut, lba, .. } in &tried {
            let found = path.read(*lba)[0];
            assert_eq!(found, NEWER, "{part:?} for {time:?}: {protocol:?}, {cut:?}, at node {at}");
        }
    }
}

fn machines() -> Vec<Machine> {
    let machines: Vec<Machine> = (0..3).map(|_| Machine::new()).collect();
    Mirrored::unite(&machines);
    machines
}

#[test]
#[ignore = "needs etcd: run by make test"]
fn a_write_of_a_path_that_was_given_up_while_its_node_stood_still_has_no_effect() {
    let machines = machines();
    let nodes = Mirrored::start(&machines);
    nodes.create(&["--size", "64MiB", "--width", "1"]);
    for part in [Part::Primary, Part::EntryOnly] {
        stands_still(&nodes, part, Duration::from_secs(3), &Cut::ALL);
    }
}

#[test]
#[ignore = "a minute of nodes that stand still: run by make test-all"]
fn whatever_the_node_and_however_long_it_stood_still() {
    let machines = machines();
    let nodes = Mirrored::start(&machines);
    nodes.create(&["--size", "64MiB", "--width", "1"]);
    for part in Part::ALL {
        // For less than a lease, nobody else becomes primary, and a silent host has no reason to give up.
        stands_still(&nodes, part, Duration::from_millis(600), &[Cut::Close, Cut::Reset]);
        for seconds in [3, 8] {
            stands_still(&nodes, part, Duration::from_secs(seconds), &Cut::ALL);
        }
    }
    stands_still(&nodes, Part::Primary, Duration::from_secs(20), &Cut::ALL);
}
