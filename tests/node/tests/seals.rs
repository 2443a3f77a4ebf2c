//! Seals: objects in runs of a volume, whose owner mints capabilities for others and revokes them. Over
//! TCP and shared memory.
#![allow(clippy::unwrap_used)] // a failed test says where

use std::time::{Duration, Instant};

use nearflash::direct::{Handle, Rights, Run, Seal, SealKey, SealTerms, Status};
use nearflash::{Buffer, Completion, Error, QueueOptions, QueuePair};
use nearflash_node_tests::{Door, Key, Node, PATIENCE, Place, two_cores};

const MIB: u64 = 1 << 20;

/// A node with two volumes of 16 MiB in memory, on two cores if there are as many.
fn in_memory(place: &Place) -> Node<'_> {
    let cores = two_cores();
    let mut flags = vec!["--device", "r=ram:64MiB", "--volume", "data=16MiB@r"];
    flags.extend(["--volume", "other=16MiB@r"]);
    if let Some(cores) = &cores {
        flags.extend(["--cores", cores]);
    }
    Node::with_direct(place, &flags)
}

/// The owner of objects in `data`, and a client that has no grant at all.
struct Parties {
    owner: QueuePair,
    key: SealKey,
    holder: nearflash::Client,
    owner_key: Key,
}

impl Parties {
    fn of(node: &Node<'_>, door: Door) -> Self {
        let [owner, holder, _] = names(door);
        let owner_key = Key::create(node, owner, &[]);
        owner_key.grant(node, "data", &["--rights", "rw"]);
        let holder_key = Key::create(node, holder, &[]);
        let client = owner_key.connect(node, door).unwrap();
        let mut owner = client.queue_pair("data", QueueOptions::default()).unwrap();
        let key = owner.seal_key().unwrap();
        let holder = holder_key.connect(node, door).unwrap();
        Self { owner, key, holder, owner_key }
    }

    fn terms(&self, version: u32, runs: &[(u64, u64)]) -> SealTerms {
        terms(&self.key, version, runs)
    }

    fn seal(&self, version: u32, runs: &[(u64, u64)]) -> Seal {
        self.key.mint(self.terms(version, runs)).unwrap()
    }
}

fn terms(key: &SealKey, version: u32, runs: &[(u64, u64)]) -> SealTerms {
    SealTerms {
        object: 7,
        uuid: [5; 16],
        version,
        rights: Rights::READ_WRITE,
        good_until: key.good_for(Duration::from_secs(60)),
        runs: runs.iter().map(|(start, len)| Run { start: *start, len: *len }).collect(),
    }
}

/// The keys of a transport's tests: an owner, a holder of seals, and one with grants on parts.
const fn names(door: Door) -> [&'static str; 3] {
    match door {
        Door::Tcp => ["owner-tcp", "holder-tcp", "part-tcp"],
        Door::Local => ["owner-local", "holder-local", "part-local"],
    }
}

fn status<T: std::fmt::Debug>(result: Result<T, Error>) -> Status {
    let error = result.expect_err("it is refused");
    error.status().unwrap_or_else(|| panic!("the node gives no status: {error}"))
}

/// Polls until everything posted has completed.
fn completed(pair: &mut QueuePair) -> Vec<Completion> {
    let mut completions = Vec::new();
    let deadline = Instant::now() + PATIENCE;
    while pair.in_flight() > 0 {
        pair.poll(&mut completions).expect("completions come before the end");
        assert!(Instant::now() < deadline, "operations never end");
    }
    completions
}

/// The only completion.
fn one(pair: &mut QueuePair) -> Result<Buffer, Error> {
    let done = completed(pair).pop().expect("something was posted");
    done.result.map(|_| done.buffer.unwrap_or_else(|| Buffer::new(0)))
}

fn read(pair: &mut QueuePair, handle: Handle, offset: u64, len: usize) -> Result<Vec<u8>, Error> {
    let buffer = pair.buffer(len)?;
    pair.post_read_on(handle, buffer, offset)?;
    one(pair).map(|buffer| buffer.to_vec())
}

fn write(pair: &mut QueuePair, handle: Handle, offset: u64, bytes: &[u8]) -> Result<(), Error> {
    let mut buffer = pair.buffer(bytes.len())?;
    buffer.copy_from_slice(bytes);
    pair.post_write_on(handle, buffer, offset)?;
    one(pair).map(drop)
}

fn read_own(pair: &mut QueuePair, offset: u64, len: usize) -> Result<Vec<u8>, Error> {
    let buffer = pair.buffer(len)?;
    pair.post_read_at(buffer, offset)?;
    one(pair).map(|buffer| buffer.to_vec())
}

#[test]
fn who_holds_a_seal_and_no_grant_uses_the_runs_of_its_object() {
    let place = Place::new();
    let node = in_memory(&place);
    for door in Door::ALL {
        let mut parties = Parties::of(&node, door);
        let seal = parties.seal(1, &[(9 * MIB + 4096, 2 * MIB), (4 * MIB, MIB), (8192, 12_288)]);
        let mut pair = parties.holder.sealed_queue_pair(&seal, QueueOptions::default()).unwrap();
        assert_eq!(
            (pair.len(), pair.info().epoch, pair.info().uuid),
            (3 * MIB + 12_288, 1, [5; 16])
        );
        let bytes: Vec<u8> = (0..3 * MIB + 12_288).map(|at| (at / 511 % 251) as u8).collect();
        let mut buffer = Buffer::new(bytes.len());
        buffer.copy_from_slice(&bytes);
        pair.post_write_at(buffer, 0).unwrap();
        one(&mut pair).unwrap();
        assert!(read_own(&mut pair, 0, bytes.len()).unwrap() == bytes, "the object's bytes");
        let mut in_volume = Vec::new();
        for (offset, len) in [(9 * MIB + 4096, 2 * MIB), (4 * MIB, MIB), (8192, 12_288)] {
            let len = usize::try_from(len).unwrap();
            in_volume.extend(read_own(&mut parties.owner, offset, len).unwrap());
        }
        assert!(in_volume == bytes, "they lie in its runs");
        pair.post_write_zeroes(MIB, 2 * MIB).unwrap();
        one(&mut pair).unwrap();
        let zeroed = read_own(&mut parties.owner, 4 * MIB, 1 << 20).unwrap();
        assert!(zeroed.iter().all(|byte| *byte == 0), "a range of two runs is zeroed in both");
        assert_eq!(status(read_own(&mut pair, 3 * MIB + 12_288 - 8, 9)), Status::OUT_OF_RANGE);
    }
    node.terminate();
}

#[test]
fn what_the_key_has_not_minted_is_refused() {
    let place = Place::new();
    let node = in_memory(&place);
    for door in Door::ALL {
        let parties = Parties::of(&node, door);
        let seal = parties.seal(1, &[(0, MIB), (4 * MIB, 4096)]).encode();
        let open = |seal: &Seal| parties.holder.sealed_queue_pair(seal, QueueOptions::default());
        let mut forged = 0;
        for at in 0..seal.len() {
            let mut bytes = seal.clone();
            bytes[at] ^= 0x10;
            let Ok(seal) = Seal::decode(&bytes) else { continue };
            assert_eq!(status(open(&seal)), Status::NOT_GRANTED, "byte {at}");
            forged += 1;
        }
        assert!(forged > 16, "{forged} were seals at all");
        for len in 0..seal.len() {
            assert!(Seal::decode(&seal[..len]).is_err(), "cut to {len} bytes");
        }
        open(&Seal::decode(&seal).unwrap()).unwrap();
    }
    node.terminate();
}

#[test]
fn a_seal_is_opened_while_it_is_good_and_not_longer() {
    let place = Place::new();
    let node = in_memory(&place);
    for door in Door::ALL {
        let parties = Parties::of(&node, door);
        let now = parties.key.good_for(Duration::ZERO);
        let open = |good_until| {
            let terms = SealTerms { good_until, ..parties.terms(1, &[(0, 4096)]) };
            let seal = parties.key.mint(terms).unwrap();
            parties.holder.sealed_queue_pair(&seal, QueueOptions::default())
        };
        open(now + 60).unwrap();
        // The node has just started, or it would be a second of long ago.
        if let Some(before) = now.checked_sub(1) {
            assert_eq!(status(open(before)), Status::STALE_EPOCH);
        }
        assert_eq!(status(open(now + 600)), Status::INVALID_FIELD, "good for too long");
    }
    node.terminate();
}

#[test]
fn a_seal_is_never_worth_more_than_the_grants_of_its_minter() {
    let place = Place::new();
    let node = in_memory(&place);
    for door in Door::ALL {
        let part = Key::create(&node, names(door)[2], &[]);
        part.grant(&node, "data", &["--range", "0..4MiB", "--rights", "rw"]);
        part.grant(&node, "data", &["--range", "4MiB..8MiB", "--rights", "r"]);
        let client = part.connect(&node, door).unwrap();
        let mut owner = client.queue_pair("data", QueueOptions::default()).unwrap();
        let key = owner.seal_key().unwrap();
        let mut open = |rights, runs: &[(u64, u64)]| {
            let seal = key.mint(SealTerms { rights, ..terms(&key, 1, runs) }).unwrap();
            owner.open_sealed(&seal)
        };
        let (r, rw) = (Rights::READ, Rights::READ_WRITE);
        open(rw, &[(0, 4 * MIB)]).unwrap();
        open(r, &[(4 * MIB, 4 * MIB)]).unwrap();
        assert_eq!(status(open(rw, &[(MIB, 4 * MIB)])), Status::NOT_GRANTED);
        assert_eq!(status(open(Rights::WRITE, &[(0, MIB), (4 * MIB, 4096)])), Status::NOT_GRANTED);
        assert_eq!(status(open(r, &[(7 * MIB, MIB + 4096)])), Status::NOT_GRANTED);
        assert_eq!(status(open(r, &[(15 * MIB, 2 * MIB)])), Status::OUT_OF_RANGE);
        assert_eq!(status(open(r, &[(512, 4096)])), Status::INVALID_FIELD, "parts of blocks");
        let handle = open(rw, &[(0, MIB)]).unwrap();
        write(&mut owner, handle, 0, &[1; 4096]).unwrap();
        node.command(&["credential", "remove", names(door)[2]]);
        assert_eq!(status(read(&mut owner, handle, 0, 4096)), Status::NOT_GRANTED);
    }
    node.terminate();
}

#[test]
fn a_seal_has_only_the_rights_in_it() {
    let place = Place::new();
    let node = in_memory(&place);
    let mut parties = Parties::of(&node, Door::Tcp);
    let terms = SealTerms { rights: Rights::READ, ..parties.terms(1, &[(0, MIB)]) };
    let seal = parties.key.mint(terms).unwrap();
    let handle = parties.owner.open_sealed(&seal).unwrap();
    read(&mut parties.owner, handle, 0, 4096).unwrap();
    assert_eq!(status(write(&mut parties.owner, handle, 0, &[1; 512])), Status::NOT_GRANTED);
    parties.owner.post_flush_on(handle).unwrap();
    assert_eq!(status(one(&mut parties.owner)), Status::NOT_GRANTED);
    node.terminate();
}

#[test]
fn every_operation_is_posted_on_a_handle() {
    let place = Place::new();
    let node = in_memory(&place);
    for door in Door::ALL {
        let mut parties = Parties::of(&node, door);
        let handle = parties.owner.open_sealed(&parties.seal(1, &[(4 * MIB, MIB)])).unwrap();
        let owner = &mut parties.owner;
        write(owner, handle, 0, &[9; 8192]).unwrap();
        owner.on(handle).post_write_zeroes(0, 4096).unwrap();
        one(owner).unwrap();
        owner.on(handle).post_write_zeroes(4096, 100).unwrap();
        one(owner).unwrap();
        owner.on(handle).post_fetch_add(8184, 1).unwrap();
        assert_eq!(completed(owner).pop().unwrap().result.unwrap(), u64::from_le_bytes([9; 8]));
        owner.on(handle).post_compare_and_swap(8176, u64::from_le_bytes([9; 8]), 5).unwrap();
        one(owner).unwrap();
        let found = read_own(owner, 4 * MIB, 8192).unwrap();
        assert!(found[..4196].iter().all(|byte| *byte == 0) && found[4196] == 9);
        assert_eq!(found[8176..], [[5, 0, 0, 0, 0, 0, 0, 0], [10, 9, 9, 9, 9, 9, 9, 9]].concat());
        owner.on(handle).post_flush().unwrap();
        owner.on(handle).post_discard(0, MIB).unwrap();
        assert!(completed(owner).iter().all(|done| done.result.is_ok()));
        owner.on(handle).post_discard(MIB, 512).unwrap();
        assert_eq!(status(one(owner)), Status::OUT_OF_RANGE, "of the object");
        let buffer = owner.buffer(512).unwrap();
        owner.on(handle).post_read_at(buffer, MIB - 512).unwrap();
        one(owner).unwrap();
        assert_eq!(read_own(owner, 4 * MIB - 512, 512).unwrap(), [0; 512], "its own volume again");
        owner.close(handle);
        let closed = owner.on(handle).post_flush();
        assert_eq!(status(closed), Status::NO_SUCH_VOLUME);
    }
    node.terminate();
}

#[test]
fn a_key_is_for_one_volume_and_for_who_may_write_it() {
    let place = Place::new();
    let node = in_memory(&place);
    let mut parties = Parties::of(&node, Door::Tcp);
    parties.owner_key.grant(&node, "other", &["--rights", "r"]);
    let client = parties.owner_key.connect(&node, Door::Tcp).unwrap();
    let mut other = client.queue_pair("other", QueueOptions::default()).unwrap();
    assert_eq!(status(other.seal_key()), Status::NOT_GRANTED, "a reader mints nothing");
    parties.owner_key.grant(&node, "other", &["--rights", "rw"]);
    let key = other.seal_key().unwrap();
    // Seals of the same object and version, of another volume: neither revokes the other.
    let seal = key.mint(terms(&key, 1, &[(0, MIB)])).unwrap();
    let (in_other, in_data) = (
        parties.owner.open_sealed(&seal).unwrap(),
        parties.owner.open_sealed(&parties.seal(1, &[(0, MIB)])).unwrap(),
    );
    write(&mut parties.owner, in_other, 0, &[3; 512]).unwrap();
    assert_eq!(read_own(&mut parties.owner, 0, 512).unwrap(), [0; 512]);
    other.revoke(7, 2).unwrap();
    assert_eq!(status(read(&mut parties.owner, in_other, 0, 8)), Status::STALE_EPOCH);
    read(&mut parties.owner, in_data, 0, 8).unwrap();
    let sealed = status(client.sealed_queue_pair(&seal, QueueOptions::default()));
    assert_eq!(sealed, Status::STALE_EPOCH);
    node.terminate();
}

#[test]
fn after_a_revocation_only_newer_versions_are_good() {
    let place = Place::new();
    let node = in_memory(&place);
    for door in Door::ALL {
        let mut parties = Parties::of(&node, door);
        let (old, new) = (parties.seal(1, &[(0, MIB)]), parties.seal(2, &[(8 * MIB, MIB)]));
        let holder = |seal| parties.holder.sealed_queue_pair(seal, QueueOptions::default());
        let (mut pair, mut other) = (holder(&old).unwrap(), holder(&old).unwrap());
        let handle = pair.open_sealed(&old).unwrap();
        parties.owner.revoke(7, 2).unwrap();
        for stale in [read_own(&mut pair, 0, 512), read_own(&mut other, 0, 512)] {
            assert_eq!(status(stale), Status::STALE_EPOCH);
        }
        assert_eq!(status(holder(&old)), Status::STALE_EPOCH, "a lower version");
        assert_eq!(status(pair.renew(handle, &old)), Status::STALE_EPOCH);
        pair.renew(handle, &new).unwrap();
        write(&mut pair, handle, 0, &[9; 512]).unwrap();
        assert_eq!(read_own(&mut parties.owner, 8 * MIB, 512).unwrap(), [9; 512]);
    }
    node.terminate();
}

#[test]
fn a_key_that_was_taken_away_voids_every_seal_under_it() {
    let place = Place::new();
    let node = in_memory(&place);
    let mut parties = Parties::of(&node, Door::Tcp);
    let seal = parties.seal(1, &[(0, MIB)]);
    let mut pair = parties.holder.sealed_queue_pair(&seal, QueueOptions::default()).unwrap();
    let generation = parties.key.generation() + 1;
    parties.owner.revoke_keys(generation).unwrap();
    assert_eq!(status(read_own(&mut pair, 0, 512)), Status::STALE_EPOCH);
    let again =
        parties.holder.sealed_queue_pair(&parties.seal(9, &[(0, MIB)]), QueueOptions::default());
    assert_eq!(status(again), Status::STALE_EPOCH, "minted later, under the old key");
    let key = parties.owner.seal_key().unwrap();
    assert_eq!(key.generation(), generation);
    let seal = key.mint(terms(&key, 1, &[(0, MIB)])).unwrap();
    parties.holder.sealed_queue_pair(&seal, QueueOptions::default()).unwrap();
    node.terminate();
}

#[test]
fn a_revocation_is_answered_when_nothing_of_the_seal_is_under_way() {
    let place = Place::new();
    let node = in_memory(&place);
    for door in Door::ALL {
        let mut parties = Parties::of(&node, door);
        for version in 1..100 {
            let seal = parties.seal(version, &[(0, MIB), (4 * MIB, MIB)]);
            let mut pair =
                parties.holder.sealed_queue_pair(&seal, QueueOptions::default()).unwrap();
            let handle = pair.open_sealed(&seal).unwrap();
            for at in 0..16 {
                let fill = u8::try_from(version).unwrap();
                let mut buffer = pair.buffer(4096).unwrap();
                buffer.fill(fill);
                pair.post_write_on(handle, buffer, at * 4096).unwrap();
                let buffer = pair.buffer(4096).unwrap();
                pair.post_read_on(handle, buffer, MIB + at * 4096).unwrap();
            }
            pair.submit().unwrap();
            parties.owner.revoke(7, version + 1).unwrap();
            // No write of the holder may come after this one.
            let mut buffer = parties.owner.buffer(65_536).unwrap();
            buffer.fill(0xEE);
            parties.owner.post_write_at(buffer, 0).unwrap();
            one(&mut parties.owner).unwrap();
            for done in completed(&mut pair) {
                let result = done.result;
                let stale = Error::Status(Status::STALE_EPOCH);
                assert!(result.is_ok() || result.unwrap_err().to_string() == stale.to_string());
            }
            let found = read_own(&mut parties.owner, 0, 65_536).unwrap();
            assert!(found.iter().all(|byte| *byte == 0xEE), "version {version}");
        }
    }
    node.terminate();
}

#[test]
fn a_thousand_objects_are_open_at_a_time() {
    let place = Place::new();
    let node = in_memory(&place);
    for door in Door::ALL {
        let mut parties = Parties::of(&node, door);
        let own = parties.seal(1, &[(0, 4096)]);
        let mut pair = parties.holder.sealed_queue_pair(&own, QueueOptions::default()).unwrap();
        let handles: Vec<Handle> = (0..1000)
            .map(|object| {
                let terms = SealTerms { object, ..parties.terms(1, &[(object * 4096, 4096)]) };
                pair.open_sealed(&parties.key.mint(terms).unwrap()).unwrap()
            })
            .collect();
        for (object, handle) in (0..).zip(&handles) {
            write(&mut pair, *handle, 8, &u64::to_le_bytes(object)).unwrap();
        }
        parties.owner.revoke(500, 2).unwrap();
        for (object, handle) in (0..).zip(&handles) {
            let found = read(&mut pair, *handle, 8, 8);
            if object == 500 {
                assert_eq!(status(found), Status::STALE_EPOCH);
                let found = read_own(&mut parties.owner, object * 4096 + 8, 8).unwrap();
                assert_eq!(found, object.to_le_bytes());
            } else {
                assert_eq!(found.unwrap(), object.to_le_bytes());
            }
        }
        handles.iter().for_each(|handle| pair.close(*handle));
        assert_eq!(status(read(&mut pair, handles[0], 0, 8)), Status::NO_SUCH_VOLUME);
    }
    node.terminate();
}

#[test]
fn after_a_reconnect_an_object_is_open_if_its_seal_is_good_and_else_stale() {
    let place = Place::new();
    let node = in_memory(&place);
    for door in Door::ALL {
        let mut parties = Parties::of(&node, door);
        let own = parties.seal(1, &[(0, 4096)]);
        let mut pair = parties.holder.sealed_queue_pair(&own, QueueOptions::default()).unwrap();
        let sealed = |object| {
            let terms = SealTerms { object, ..parties.terms(1, &[(MIB, MIB)]) };
            parties.key.mint(terms).unwrap()
        };
        let (good, gone) = (sealed(8), sealed(9));
        let (kept, lost) = (pair.open_sealed(&good).unwrap(), pair.open_sealed(&gone).unwrap());
        write(&mut pair, kept, 0, &[4; 512]).unwrap();
        parties.owner.revoke(9, 2).unwrap();
        pair.reconnect().unwrap();
        assert_eq!(read(&mut pair, kept, 0, 512).unwrap(), [4; 512]);
        assert_eq!(status(read(&mut pair, lost, 0, 512)), Status::STALE_EPOCH);
        let terms = SealTerms { object: 9, ..parties.terms(2, &[(MIB, MIB)]) };
        pair.renew(lost, &parties.key.mint(terms).unwrap()).unwrap();
        assert_eq!(read(&mut pair, lost, 0, 512).unwrap(), [4; 512]);
    }
    node.terminate();
}

#[test]
fn no_seal_survives_the_node() {
    let place = Place::new();
    let device = place.flash("64MiB");
    let flags = ["--device", &device, "--volume", "data=16MiB@flash"];
    let node = Node::with_direct(&place, &flags);
    let mut owner =
        Door::Local.anonymous(&node).unwrap().queue_pair("data", QueueOptions::default()).unwrap();
    let key = owner.seal_key().unwrap();
    let seal = key.mint(terms(&key, 1, &[(0, MIB)])).unwrap();
    owner.open_sealed(&seal).unwrap();
    node.terminate();
    let node = Node::with_direct(&place, &flags);
    let client = Door::Local.anonymous(&node).unwrap();
    let refused = status(client.sealed_queue_pair(&seal, QueueOptions::default()));
    assert_eq!(refused, Status::NOT_GRANTED);
    node.terminate();
}
