//! Devices read and write the memory of clients, and entries pass both ways.
#![allow(clippy::unwrap_used)] // a failed test says where

mod common;

use common::{Client, reactor};
use nearflash_reactor::Reactor;
use nearflash_ring::Payload;
use nearflash_session::Origin;
use nearflash_shard::{Place, RingBroken, RingRefused, RingSpec, World};
use nearflash_units::ByteLen;

#[test]
fn every_kind_of_device_reads_into_and_writes_from_a_clients_memory() {
    let folder = tempfile::tempdir().unwrap();
    let file = format!("f=file:{},size=64M", folder.path().join("f").display());
    let mut reactor = reactor(&[file, "r=ram:64M".to_owned()]);
    let mut client = Client::attach(&mut reactor);
    for device in 0..2 {
        let mut written = client.area.take(16_384).unwrap();
        for (at, byte) in written.iter_mut().enumerate() {
            *byte = u8::try_from((at / 7 + device) % 251).unwrap();
        }
        let mut read = client.area.take(16_384).unwrap();
        read.fill(0xA5);
        let device = u32::try_from(device).unwrap();
        client.operate(&mut reactor, device, &written, true);
        client.operate(&mut reactor, device, &read, false);
        assert!(*read == *written, "device {device}");
    }
}

#[test]
fn the_null_device_reads_as_zeroes_into_a_clients_memory_and_no_further() {
    let mut reactor = reactor(&["n=null:64M".to_owned()]);
    let mut client = Client::attach(&mut reactor);
    let mut slices: Vec<_> = (0..3).map(|_| client.area.take(4096).unwrap()).collect();
    slices.iter_mut().for_each(|slice| slice.fill(0xA5));
    client.operate(&mut reactor, 0, &slices[1], false);
    let sums = slices.iter().map(|slice| slice.iter().map(|byte| u64::from(*byte)).sum::<u64>());
    assert_eq!(sums.collect::<Vec<_>>(), [0xA5 * 4096, 0, 0xA5 * 4096]);
}

#[test]
fn entries_and_bytes_pass_both_ways() {
    let mut reactor = reactor(&[]);
    let mut client = Client::attach(&mut reactor);
    let request = [3; 32]; // a FLUSH
    assert_eq!(client.end.push(&request, Payload::None), Ok(true));
    client.end.publish();
    let mut entries = Vec::new();
    assert_eq!(reactor.take_entries(client.ring, &mut entries), Ok(()));
    assert_eq!(entries, [request]);
    reactor.put_entries(client.ring, &[[2; 32]]).unwrap();
    entries.clear();
    assert_eq!(client.end.take(9, &mut entries), Ok(1));
    assert_eq!(entries, [[2; 32]]);

    let mut slice = client.area.take(8192).unwrap();
    slice[4000..4005].copy_from_slice(b"flash");
    let buffer = reactor.pool().take(ByteLen(4096)).unwrap();
    let place = Place { buffer, offset: 9, len: 5 };
    let offset = u64::from(slice.offset());
    reactor.fill_from_ring(client.ring, offset + 4000, place);
    reactor.copy_to_ring(client.ring, place, offset + 5000);
    reactor.zero_in_ring(client.ring, offset + 4000, 2);
    let mut seen = [0; 5];
    reactor.copy_from_ring(client.ring, offset + 4000, &mut seen);
    assert_eq!((&slice[5000..5005], &seen), (&b"flash"[..], b"\0\0ash"));
}

#[test]
fn rings_that_are_too_large_too_many_or_broken_are_errors() {
    let mut reactor = reactor(&[]);
    let client = Client::attach(&mut reactor);
    for (entries, data_len) in [(3, 4096), (8, 0), (1 << 30, 4096), (8, u64::MAX)] {
        let spec = RingSpec { entries, data_len: ByteLen(data_len), owner: Origin::User(7) };
        assert_eq!(reactor.attach_ring(client.socket, spec), Err(RingRefused::Size));
    }
    // The client takes no answers: the completion ring has twice as many entries as there can be
    // requests.
    let put: Vec<_> = (0..17).map(|_| reactor.put_entries(client.ring, &[[0; 32]])).collect();
    assert_eq!(put.iter().position(|put| *put == Err(RingBroken)), Some(16));
    let mut made = |user| {
        let spec = RingSpec { entries: 1, data_len: ByteLen(4096), owner: Origin::User(user) };
        (1..300).map_while(|_| reactor.attach_ring(client.socket, spec).ok()).count()
    };
    let share = nearflash_reactor::RINGS_MAX / 2;
    assert_eq!([made(7) + 1, made(8), made(9)], [share, share, 0], "the first client is of user 7");
}

#[test]
fn data_areas_are_bounded_together_and_room_comes_back() {
    let mut reactor = reactor(&[]);
    let client = Client::attach(&mut reactor);
    let data_len = ByteLen(nearflash_ring::DATA_LEN_MAX);
    let attach = |reactor: &mut Reactor, user| {
        reactor.attach_ring(
            client.socket,
            RingSpec { entries: 1, data_len, owner: Origin::User(user) },
        )
    };
    let mut made: Vec<_> = (0..99).map_while(|_| attach(&mut reactor, 8).ok()).collect();
    let most = nearflash_reactor::SHARED_LEN_MAX.0 / nearflash_ring::DATA_LEN_MAX;
    assert_eq!(u64::try_from(made.len()), Ok(most / 2), "a user has half of it");
    made.extend((0..99).map_while(|_| attach(&mut reactor, 9).ok()));
    // The first client has a small part of it.
    made.extend((0..99).map_while(|_| attach(&mut reactor, 10).ok()));
    assert_eq!(u64::try_from(made.len()), Ok(most - 1));
    assert_eq!(attach(&mut reactor, 11), Err(RingRefused::TooMany));
    reactor.detach_ring(made[3]);
    assert_eq!(attach(&mut reactor, 11), Ok(made[3]));
}
