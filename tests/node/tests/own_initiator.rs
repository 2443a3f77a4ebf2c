//! The client's initiator and a node with little room: commands that are refused for lack of room
//! are executed in the end.
#![allow(clippy::unwrap_used)] // a failed test says where

use std::process::Command;

use nearflash::iscsi::{ConnectionOptions, Io, IoCompletion, LogicalUnit, Options, Session};
use nearflash_node_tests::{Node, Place, nearflash};
use nearflash_units::{Blocks, ByteLen, Lba, Nanos};

/// A pool of 5 MiB has 4 MiB for commands; the engine keeps one.
const FLAGS: [&str; 6] = ["--device", "r=ram:96MiB", "--volume", "data=64MiB@r", "--pool", "5MiB"];
const TARGET: &str = "iqn.2026-11.io.nearflash:data";
const DEPTH: u16 = 32;
const OP_LEN: ByteLen = ByteLen(1 << 20);
const BLOCKS_PER_OP: Blocks = Blocks(256);

/// A session with as many operations in flight as possible, each on its own blocks.
struct Worker {
    session: Session,
    unit: LogicalUnit,
    buffers: Vec<nearflash::iscsi::Buffer>,
    done: Vec<IoCompletion>,
}

impl Worker {
    fn connect(node: &Node<'_>, connections: u16) -> Self {
        let options = Options::new(node.iscsi_address(), TARGET).connections(connections);
        let depth = DEPTH / connections;
        let room = ConnectionOptions::for_ops(depth, OP_LEN);
        let mut session = Session::connect(&options, room).unwrap();
        let unit = session.logical_unit(0).unwrap();
        let buffers = (0..usize::from(DEPTH))
            .map(|slot| session.take_buffer(slot % usize::from(connections), OP_LEN).unwrap())
            .collect();
        Self { session, unit, buffers, done: Vec::new() }
    }

    /// Executes one operation on each place, all at once.
    fn run(&mut self, io: impl Fn(Lba, nearflash::iscsi::Buffer) -> Io) {
        for (place, buffer) in (0..).zip(&self.buffers) {
            let io = io(Lba(place * BLOCKS_PER_OP.0), *buffer);
            self.session.submit(place, &self.unit, io).unwrap();
        }
        while self.done.len() < self.buffers.len() {
            if !self.session.poll(&mut self.done).unwrap() {
                let sessions = std::slice::from_ref(&self.session);
                Session::wait_any(sessions, Nanos::from_secs(1)).unwrap();
            }
        }
        for done in self.done.drain(..) {
            assert!(done.status.is_good(), "{}: {}", done.token, done.status);
        }
    }

    /// Writes every place, and reads it back.
    fn write_and_read(&mut self, round: u8) {
        let byte = |place: usize| round.wrapping_mul(32).wrapping_add(u8::try_from(place).unwrap());
        for (place, buffer) in self.buffers.iter().enumerate() {
            self.session.bytes_mut(*buffer).fill(byte(place));
        }
        self.run(|start, buffer| Io::Write {
            start,
            count: BLOCKS_PER_OP,
            buffer,
            force_unit_access: false,
        });
        for buffer in &self.buffers {
            self.session.bytes_mut(*buffer).fill(0xA5);
        }
        self.run(|start, buffer| Io::Read { start, count: BLOCKS_PER_OP, buffer });
        for (place, buffer) in self.buffers.iter().enumerate() {
            let bytes = self.session.bytes(*buffer);
            assert!(bytes.iter().all(|there| *there == byte(place)), "place {place}");
        }
    }
}

#[test]
fn long_writes_of_more_than_the_pool_all_arrive_though_the_node_refuses_some() {
    let place = Place::new();
    let node = Node::with_iscsi(&place, &FLAGS);
    for connections in [1, 4] {
        let mut worker = Worker::connect(&node, connections);
        (1..=4).for_each(|round| worker.write_and_read(round));
        assert!(worker.session.sent_again() > 0, "{connections} connections: it refused none");
        worker.session.log_out().unwrap();
    }
    node.terminate();
}

#[test]
fn the_bench_writes_and_verifies_on_a_node_with_little_room() {
    let place = Place::new();
    let node = Node::with_iscsi(&place, &FLAGS);
    let url = format!("iscsi://{}/data", node.iscsi_address());
    let output = Command::new(nearflash())
        .args(["bench", &url, "--rw", "write", "--bs", "1m", "--iodepth", "32"])
        .args(["--size", "64m", "--verify", "crc32c"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    node.terminate();
}
