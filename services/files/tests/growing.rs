//! Files that grow at the same time in a small volume: space that one holds is there for the others.
#![allow(clippy::unwrap_used)] // a failed test says where

use crate::device;

use std::sync::Barrier;

use device::{Device, check, own, path};
use nearflash_files_service::{
    Allocation, BLOCK, FileSystem, FormatOptions, InodeNumber, Kind, Name, NewInode, Permissions,
    Replace, UploadOptions, format,
};
use nearflash_units::{ByteLen, ByteOffset, MIB};

const LEN: ByteLen = ByteLen(32 * MIB);
const ROOT: InodeNumber = InodeNumber::ROOT;

fn formatted() -> Device {
    let device = Device::new(LEN);
    format(device.disk(), FormatOptions::default()).unwrap();
    device
}

/// Creates a file, which is open.
fn create(files: &FileSystem, text: &str) -> InodeNumber {
    let permissions = Permissions { mode: 0o600, uid: 0, gid: 0 };
    let new = NewInode { kind: Kind::File, permissions, device: 0, target: Vec::new() };
    let (number, _) = files.create(ROOT, &Name::new(text.as_bytes()).unwrap(), new).unwrap();
    files.retain(number).unwrap();
    number
}

fn bytes(files: &FileSystem, number: InodeNumber) -> Vec<u8> {
    let mut bytes = vec![0; files.inode(number).unwrap().size.to_usize()];
    assert_eq!(files.read(number, &mut bytes, ByteOffset(0)).unwrap(), bytes.len());
    bytes
}

/// Appends in turn, until a tenth of the volume is free. The metadata takes space, too.
fn grow_in_turn(files: &FileSystem, numbers: &[InodeNumber], piece: usize) {
    for (turn, number) in numbers.iter().cycle().enumerate() {
        let usage = files.usage().unwrap();
        if usage.free.0 < usage.total.0 / 10 + ByteLen::from_usize(piece).0 {
            return;
        }
        files.append(*number, &vec![u8::try_from(turn % 251).unwrap(); piece]).unwrap();
    }
}

#[test]
fn open_files_that_grow_in_turn_fill_nine_tenths_of_a_volume() {
    for piece in [5000, 70_000, 300_000, 1_500_000] {
        let device = formatted();
        let mut files = FileSystem::open(device.disk()).unwrap();
        let numbers = ["a", "b", "c", "d"].map(|text| create(&files, text));
        grow_in_turn(&files, &numbers, piece);
        for (nth, number) in numbers.into_iter().enumerate() {
            let turns = bytes(&files, number);
            let mut expected = (nth..).step_by(4).map(|turn| u8::try_from(turn % 251).unwrap());
            assert!(
                turns.chunks(piece).all(|bytes| bytes == vec![expected.next().unwrap(); piece])
            );
            files.release(number);
        }
        let report = files.check().unwrap();
        assert!(report.is_sound(), "{report:?}");
    }
}

#[test]
fn uploads_of_several_threads_share_a_volume() {
    let device = formatted();
    let mut owner = own(device.disk()).unwrap();
    let begun = Barrier::new(4);
    std::thread::scope(|threads| {
        for nth in 0..4_u8 {
            let (owner, begun) = (&owner, &begun);
            threads.spawn(move || {
                let options = UploadOptions { size: None, replace: Replace::Never };
                let mut file = owner.upload(&path(&nth.to_string()), options).unwrap();
                begun.wait();
                for _ in 0..5 {
                    file.write(&vec![nth; ByteLen(MIB).to_usize()]).unwrap();
                }
                file.finish().unwrap();
            });
        }
    });
    for nth in 0..4_u8 {
        let mut found = Vec::new();
        owner.get(&path(&nth.to_string()), &mut found, &mut |_| {}).unwrap();
        assert_eq!(found, vec![nth; ByteLen(5 * MIB).to_usize()]);
    }
    assert!(check(&mut owner).unwrap().is_sound());
}

#[test]
fn files_that_several_threads_extend_in_short_pieces_share_a_volume() {
    for _ in 0..20 {
        let device = formatted();
        let files = FileSystem::open(device.disk()).unwrap();
        let begun = Barrier::new(4);
        std::thread::scope(|threads| {
            for nth in 0..4_u8 {
                let (files, begun) = (&files, &begun);
                let number = create(files, &nth.to_string());
                threads.spawn(move || {
                    begun.wait();
                    for piece in 0..80 {
                        let offset = ByteOffset(piece << 16);
                        files.write(number, &[nth; 1 << 16], offset).unwrap();
                    }
                    assert!(bytes(files, number) == vec![nth; 80 << 16]);
                });
            }
        });
    }
}

#[test]
fn an_inode_has_the_blocks_of_its_bytes_and_what_it_holds_to_grow_is_free() {
    let device = formatted();
    let files = FileSystem::open(device.disk()).unwrap();
    let before = files.usage().unwrap().free;
    let (growing, other) = (create(&files, "growing"), create(&files, "other"));
    for _ in 0..3 {
        files.append(growing, &[1; 1_000_000]).unwrap();
    }
    let inode = files.inode(growing).unwrap();
    let has: u64 = inode.runs.iter().map(|run| run.len().0).sum();
    assert_eq!(has, 3_000_000_u64.next_multiple_of(BLOCK.bytes().into()));
    files.sync_all().unwrap();
    let free = files.usage().unwrap().free;
    assert_eq!(free.0, before.0 - has);
    // The last block is missing, as runs have whole MiB.
    let wanted = ByteLen(free.0 / MIB * MIB - MIB);
    files.allocate(other, ByteOffset(0), wanted, Allocation::KeepSize).unwrap();
    files.append(growing, &[2; 4096]).unwrap();
    assert_eq!(bytes(&files, growing)[2_999_999..3_000_001], [1, 2]);
}

#[test]
fn uploads_of_unknown_length_follow_each_other_until_the_volume_is_full() {
    let device = formatted();
    let mut owner = own(device.disk()).unwrap();
    let options = UploadOptions { size: None, replace: Replace::Never };
    let source = |nth: u8| vec![nth; ByteLen(8 * MIB + 1).to_usize()];
    for nth in 0..3_u8 {
        owner.put(&path(&nth.to_string()), &mut &source(nth)[..], options, &mut |_| {}).unwrap();
    }
    owner.remove(&path("1")).unwrap();
    owner.put(&path("3"), &mut &source(3)[..], options, &mut |_| {}).unwrap();
    for nth in [0, 2, 3_u8] {
        let mut found = Vec::new();
        owner.get(&path(&nth.to_string()), &mut found, &mut |_| {}).unwrap();
        assert_eq!(found, source(nth));
    }
    assert!(check(&mut owner).unwrap().is_sound());
}
