//! A client that has gone leaves no resources behind. A single test, since it counts those of the
//! whole process.
#![allow(clippy::unwrap_used)] // a failed test says where

mod common;

use common::{Client, reactor};
use nearflash_shard::World;

/// The resources of rings in this process: mappings, and open files of any kind.
fn held() -> (usize, usize) {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let mapped = maps.lines().filter(|line| line.contains("nearflash-rings")).count();
    (mapped, std::fs::read_dir("/proc/self/fd").unwrap().count())
}

#[test]
fn a_client_that_is_gone_leaves_neither_memory_nor_descriptors_behind() {
    let mut reactor = reactor(&["n=null:64M".to_owned()]);
    let before = held();
    for _ in 0..20 {
        let mut client = Client::attach(&mut reactor);
        let slice = client.area.take(4096).unwrap();
        let (socket, ring) = (client.socket, client.ring);
        client.operate(&mut reactor, 0, &slice, false);
        drop((client, slice));
        let mut events = Vec::new();
        reactor.poll(&mut events); // the bell's other end is gone
        reactor.close(socket);
        reactor.detach_ring(ring);
        reactor.poll(&mut events);
        assert_eq!(held(), before);
    }
}
