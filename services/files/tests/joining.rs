//! Files that have grown to several runs move to one after they were closed, and no byte is lost on the way.
#![allow(clippy::unwrap_used)] // a failed test says where

use crate::device;

use std::collections::BTreeMap;
use std::io::Read as _;

use device::{Device, Dice, Image, Stamped, check, own, path, reading, replay_at};
use nearflash::direct::Rights;
use nearflash_files_service::{
    Allocation, FileSystem, FilesError, FormatOptions, Inode, InodeNumber, Kind, Name, NewInode,
    Permissions, Replace, UploadOptions, format,
};
use nearflash_units::{ByteLen, ByteOffset, MIB};

const LEN: ByteLen = ByteLen(48 * MIB);
const ROOT: InodeNumber = InodeNumber::ROOT;
const STAMP: u64 = 7;
/// The length of a file that needs four gaps of 1 MiB.
const FILE_LEN: u64 = 3 * MIB + 5000;
/// The numbers of the files whose space becomes one gap in [`make_room`].
const ROOM: std::ops::Range<u32> = 20..32;

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).unwrap()
}

fn create(files: &FileSystem, text: &str) -> InodeNumber {
    let permissions = Permissions { mode: 0o600, uid: 0, gid: 0 };
    let new = NewInode { kind: Kind::File, permissions, device: 0, target: Vec::new() };
    let (number, _) = files.create(ROOT, &name(text), new).unwrap();
    files.retain(number).unwrap();
    number
}

/// A volume that files of 1 MiB fill, except for eight gaps between them.
fn crowded() -> (Device, FileSystem) {
    let device = Device::new(LEN);
    format(device.disk(), FormatOptions::default()).unwrap();
    let files = FileSystem::open(device.disk()).unwrap();
    let count = (0..).find(|nth: &u32| {
        let number = create(&files, &nth.to_string());
        let len = ByteLen(MIB);
        let reserved = files.allocate(number, ByteOffset(0), len, Allocation::KeepSize);
        files.release(number);
        reserved.is_err()
    });
    assert!(count > Some(ROOM.end), "{count:?}");
    remove(&files, (1..16).step_by(2));
    (device, files)
}

/// Removes some of the files of 1 MiB, and releases their space.
fn remove(files: &FileSystem, numbers: impl Iterator<Item = u32>) {
    numbers.for_each(|number| files.unlink(ROOT, &name(&number.to_string())).unwrap());
    files.sync_all().unwrap();
}

fn make_room(files: &FileSystem) {
    remove(files, ROOM);
}

fn stamped(len: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    Stamped::new(STAMP, len).read_to_end(&mut bytes).unwrap();
    bytes
}

/// An open file that has grown in the gaps of a crowded volume. It is durable.
fn split(files: &FileSystem) -> InodeNumber {
    let number = create(files, "file");
    for piece in stamped(FILE_LEN).chunks(300_000) {
        files.append(number, piece).unwrap();
    }
    files.sync_all().unwrap();
    assert!(runs(files, number) > 1);
    number
}

/// Closes a file, and lets it move.
fn close(files: &FileSystem, number: InodeNumber) {
    files.release(number);
    files.tidy();
}

fn runs(files: &FileSystem, number: InodeNumber) -> usize {
    files.inode(number).unwrap().runs.len()
}

fn assert_whole(files: &FileSystem, number: InodeNumber) {
    files.retain(number).unwrap();
    let mut bytes = vec![0; ByteLen(FILE_LEN + 1).to_usize()];
    let len = files.read(number, &mut bytes, ByteOffset(0)).unwrap();
    assert!(bytes[..len] == stamped(FILE_LEN), "{len} bytes");
    files.release(number);
}

/// Writes bytes of another file to all free space.
fn fill(files: &FileSystem) {
    let number = create(files, "other");
    while files.append(number, &[0xA5; 100_000]).is_ok() {}
    files.sync_all().unwrap();
    files.release(number);
}

#[test]
fn a_file_that_grew_between_others_is_in_one_run_after_it_is_closed() {
    let (device, files) = crowded();
    let number = split(&files);
    make_room(&files);
    let (before, free) = (files.inode(number).unwrap(), files.usage().unwrap().free);
    close(&files, number);
    let after = files.inode(number).unwrap();
    assert_eq!(after.runs.len(), 1);
    files.sync_all().unwrap();
    let same = Inode { runs: before.runs.clone(), version: before.version, ..after };
    assert_eq!(same, before, "only its place has changed");
    assert_eq!(files.usage().unwrap().free, free);
    assert_whole(&files, number);
    drop(files);
    let mut files = FileSystem::open(device.disk()).unwrap();
    assert_eq!(runs(&files, number), 1, "the move is durable");
    fill(&files);
    assert_whole(&files, number);
    let report = files.check().unwrap();
    assert!(report.is_sound(), "{report:?}");
}

#[test]
fn a_file_that_others_have_open_moves_when_the_last_one_closes_it() {
    let (_, files) = crowded();
    let number = split(&files);
    files.retain(number).unwrap();
    make_room(&files);
    close(&files, number);
    assert!(runs(&files, number) > 1);
    close(&files, number);
    assert_eq!(runs(&files, number), 1);
    assert_whole(&files, number);
}

#[test]
fn a_file_moves_only_if_it_got_as_many_bytes_since_it_was_opened_as_are_copied() {
    let (device, files) = crowded();
    let number = split(&files);
    drop(files);
    let files = FileSystem::open(device.disk()).unwrap();
    make_room(&files);
    files.retain(number).unwrap();
    files.append(number, &[7; 100]).unwrap();
    close(&files, number);
    assert!(runs(&files, number) > 1);
}

#[test]
fn a_file_that_no_gap_holds_moves_when_there_is_one() {
    let (_, files) = crowded();
    let number = split(&files);
    close(&files, number);
    assert!(runs(&files, number) > 1);
    make_room(&files);
    files.tidy();
    assert_eq!(runs(&files, number), 1);
    assert_whole(&files, number);
}

#[test]
fn a_file_without_links_is_not_copied_before_it_is_removed() {
    let (device, files) = crowded();
    let number = split(&files);
    make_room(&files);
    files.unlink(ROOT, &name("file")).unwrap();
    let before = device.operation_count();
    close(&files, number);
    assert_eq!(device.operation_count(), before);
}

#[test]
fn the_seals_of_a_file_are_void_before_it_is_copied_to_one_run() {
    let (device, files) = crowded();
    let number = split(&files);
    make_room(&files);
    files.seal(number, Rights::READ_WRITE).unwrap();
    let before = device.operation_count();
    close(&files, number);
    assert_eq!(runs(&files, number), 1);
    assert!(device.seals().is_empty());
    assert_eq!(device.revoked(), [(number.0, before)], "before the first write");
}

#[test]
fn a_reader_in_another_process_never_sees_other_bytes_at_the_former_place() {
    let (device, files) = crowded();
    let number = split(&files);
    make_room(&files);
    let reader = reading(device.disk()).unwrap();
    let opened = reader.open_file(&path("file")).unwrap();
    close(&files, number);
    fill(&files);
    let mut bytes = vec![0; ByteLen(FILE_LEN).to_usize()];
    let read = opened.read_at(&mut bytes, ByteOffset(0));
    assert!(matches!(read, Err(FilesError::Stale { .. })), "{read:?}");
    let opened = reader.open_file(&path("file")).unwrap();
    opened.read_at(&mut bytes, ByteOffset(0)).unwrap();
    assert!(bytes == stamped(FILE_LEN));
}

#[test]
fn an_upload_of_unknown_length_that_was_split_gets_its_name_in_one_run() {
    let (device, files) = crowded();
    drop(files);
    let mut owner = own(device.disk()).unwrap();
    let options = UploadOptions { size: None, replace: Replace::Never };
    let len = 5 * MIB + 1;
    let mut pending = owner.upload(&path("upload"), options).unwrap();
    pending.write(&stamped(len)).unwrap();
    for number in ROOM {
        owner.remove(&path(&number.to_string())).unwrap();
    }
    let (_, inode) = pending.finish().unwrap();
    assert_eq!(inode.runs.len(), 1);
    let mut found = Vec::new();
    owner.get(&path("upload"), &mut found, &mut |_| {}).unwrap();
    assert!(found == stamped(len));
    assert!(check(&mut owner).unwrap().is_sound());
}

/// A volume after a loss of power has the whole file.
fn check_after(image: Image, number: InodeNumber) -> usize {
    let device = Device::holding(image, LEN);
    let mut files = FileSystem::open(device.disk()).unwrap();
    let count = runs(&files, number);
    assert_whole(&files, number);
    let report = files.check().unwrap();
    assert!(report.is_sound(), "{report:?}");
    count
}

#[test]
fn a_loss_of_power_at_any_write_of_a_move_leaves_one_whole_copy() {
    let (device, files) = crowded();
    let number = split(&files);
    make_room(&files);
    let first = device.operation_count();
    close(&files, number);
    files.sync_all().unwrap();
    let moved = device.operation_count();
    // Other bytes at the former place would show if it were free too early.
    fill(&files);
    let mut found = BTreeMap::<usize, u32>::new();
    let is_chosen = |moment: usize, dice: &mut Dice| {
        moment >= first && (moment <= moved || dice.below(16) == 0)
    };
    replay_at(&device.operations(), &mut Dice(1), is_chosen, |_, image, _| {
        *found.entry(check_after(image, number)).or_default() += 1;
    });
    assert_eq!(found.len(), 2, "some losses undo the move, and some do not: {found:?}");
}

#[test]
fn a_node_that_fails_at_any_write_of_a_move_leaves_one_whole_copy() {
    for more in 0.. {
        let (device, files) = crowded();
        let number = split(&files);
        make_room(&files);
        let operations_max = device.operation_count() + more;
        device.fail_after(operations_max);
        close(&files, number);
        let has_failed = files.sync_all().is_err();
        drop(files);
        device.fail_after(usize::MAX);
        check_after(device.image(), number);
        if !has_failed {
            break;
        }
    }
}

#[test]
fn a_connection_that_is_lost_at_any_write_of_a_move_leaves_one_whole_copy() {
    for more in 0.. {
        let (device, files) = crowded();
        let number = split(&files);
        make_room(&files);
        let operation = device.operation_count() + more;
        device.lose_at(operation);
        close(&files, number);
        // It may report the loss.
        let _ = files.sync_all();
        let is_done = device.operation_count() < operation;
        assert_whole(&files, number);
        files.close().unwrap();
        check_after(device.image(), number);
        if is_done {
            break;
        }
    }
}
