//! Seals of files end before anything else happens to the blocks that they map.
#![allow(clippy::unwrap_used)] // a failed test says where

use crate::device;

use device::Device;
use nearflash::direct::Rights;
use nearflash_files_service::{
    AttributeChanges, AttributeWrite, FileSystem, FilesError, FormatOptions, InodeNumber, Kind,
    Name, NewInode, Permissions, format,
};
use nearflash_units::{ByteLen, ByteOffset, MIB};

const ROOT: InodeNumber = InodeNumber::ROOT;
const BOTH: Rights = Rights::READ_WRITE;

/// A volume of files with one open file of this many bytes.
fn opened(len: u64) -> (Device, FileSystem, InodeNumber) {
    let device = Device::new(ByteLen(64 * MIB));
    format(device.disk(), FormatOptions::default()).unwrap();
    let files = FileSystem::open(device.disk()).unwrap();
    let number = create(&files, "file", len);
    (device, files, number)
}

fn create(files: &FileSystem, name: &str, len: u64) -> InodeNumber {
    let permissions = Permissions { mode: 0o600, uid: 0, gid: 0 };
    let new = NewInode { kind: Kind::File, permissions, device: 0, target: Vec::new() };
    let (number, _) = files.create(ROOT, &named(name), new).unwrap();
    files.retain(number).unwrap();
    files.write(number, &vec![7; ByteLen(len).to_usize()], ByteOffset(0)).unwrap();
    number
}

fn named(text: &str) -> Name {
    Name::new(text.as_bytes()).unwrap()
}

fn is_refused(files: &FileSystem, number: InodeNumber, rights: Rights) -> bool {
    matches!(files.seal(number, rights), Err(FilesError::NoSeal { .. }))
}

#[test]
fn a_file_that_grows_keeps_its_seals_and_one_that_is_cut_loses_them_first() {
    let (device, files, number) = opened(100_000);
    let seal = files.seal(number, BOTH).unwrap();
    assert_eq!(seal.reach, ByteLen(24 * 4096));
    files.append(number, &[8; 300_000]).unwrap();
    assert_eq!(device.seals().len(), 1, "it grew in place");

    let size = AttributeChanges { size: Some(ByteLen(399_999)), ..Default::default() };
    files.change(number, size).unwrap();
    assert!(device.seals().is_empty(), "one byte less is enough");
    let again = files.seal(number, Rights::READ).unwrap();
    assert!(again.seal.terms().version > seal.seal.terms().version);
}

#[test]
fn the_seals_of_a_file_are_void_before_its_end_is_copied_elsewhere() {
    let (device, files, number) = opened(100_000);
    let other = create(&files, "other", 100_000);
    // Each grows in place until it meets the other one.
    let moved = (0..400).find(|_| {
        files.sync_all().unwrap();
        files.seal(number, BOTH).unwrap();
        let before = device.operation_count();
        files.append(number, &[8; 100_000]).unwrap();
        files.append(other, &[9; 100_000]).unwrap();
        let is_moved = !device.revoked().is_empty();
        assert!(is_moved || !device.seals().is_empty(), "growing in place is not a reason");
        assert!(!is_moved || device.revoked()[0] == (number.0, before), "before the first write");
        is_moved
    });
    assert!(moved.is_some(), "one of them has met the other one");
}

#[test]
fn the_seals_of_a_removed_file_are_void_before_its_blocks_are_used_again() {
    let (device, files, number) = opened(8 * MIB);
    files.seal(number, BOTH).unwrap();
    files.unlink(ROOT, &named("file")).unwrap();
    files.sync_all().unwrap();
    assert_eq!(device.seals().len(), 1, "it is open, and keeps its blocks");
    files.release(number);
    let before = device.operation_count();
    files.sync_all().unwrap();
    assert!(device.seals().is_empty());
    let (object, moment) = device.revoked()[0];
    assert!(object == number.0 && moment > before, "after the commit that removed it");
}

#[test]
fn blocks_whose_seals_cannot_be_revoked_are_not_used_again() {
    let (device, files, number) = opened(MIB);
    files.seal(number, BOTH).unwrap();
    device.fail_after(device.operation_count());
    let size = AttributeChanges { size: Some(ByteLen(0)), ..Default::default() };
    files.change(number, size).unwrap_err();
    assert_eq!(files.inode(number).unwrap().size, ByteLen(MIB), "nothing has changed");
    assert_eq!(device.seals().len(), 1);
}

#[test]
fn a_new_owner_voids_the_seals_of_the_last_one_before_it_writes() {
    let (device, files, number) = opened(MIB);
    files.seal(number, BOTH).unwrap();
    files.sync_all().unwrap();
    drop(files);
    device.change(|properties| properties.len = ByteLen(128 * MIB));
    device.fail_after(device.operation_count());
    // The superblock would have the new length.
    FileSystem::open(device.disk()).unwrap_err();
    assert!(device.seals().is_empty());
}

#[test]
fn files_whose_privileges_a_write_must_clear_are_not_sealed_for_writing() {
    let (device, files, number) = opened(MIB);
    let mode = |mode| AttributeChanges { mode: Some(mode), ..Default::default() };
    files.seal(number, BOTH).unwrap();
    files.change(number, mode(0o4755)).unwrap();
    assert!(device.seals().is_empty(), "the file has become privileged");
    assert!(is_refused(&files, number, BOTH));
    files.seal(number, Rights::READ).unwrap();
    files.change(number, mode(0o755)).unwrap();
    files.seal(number, BOTH).unwrap();

    let capability = b"security.capability";
    files.set_attribute(number, capability, b"value", AttributeWrite::Any).unwrap();
    assert!(device.seals().is_empty() && is_refused(&files, number, BOTH));
    assert!(is_refused(&files, create(&files, "short", 4095), Rights::READ), "no whole block");
}

#[test]
fn a_write_through_a_seal_changes_the_time_of_the_file() {
    let (_, files, number) = opened(MIB);
    let past = Some(nearflash_units::Nanos(1));
    let changes = AttributeChanges { modified_at: past, ..Default::default() };
    files.change(number, changes).unwrap();
    files.mark_written(number).unwrap();
    assert!(Some(files.inode(number).unwrap().modified_at) > past);
}

#[test]
fn a_size_is_durable_after_a_sync_and_until_it_changes_or_writes_may_be_lost() {
    let (device, files, number) = opened(100_000);
    let _seal = files.seal(number, BOTH).unwrap();
    let size = || {
        files
            .durable_size(number)
            .map_err(|error| assert!(matches!(error, FilesError::NoSeal { .. })))
            .ok()
    };
    assert_eq!(size(), None);
    files.sync(number, true).unwrap();
    assert_eq!(size(), Some(ByteLen(100_000)));
    files.write(number, &[9; 5000], ByteOffset(0)).unwrap();
    assert_eq!(size(), Some(ByteLen(100_000)), "in its place");
    files.append(number, &[8; 1]).unwrap();
    assert_eq!(size(), None);
    files.sync(number, true).unwrap();
    let longer = AttributeChanges { size: Some(ByteLen(MIB)), ..Default::default() };
    files.change(number, longer).unwrap();
    files.sync(number, true).unwrap();
    assert_eq!(size(), None, "its last bytes have no place");
    files.write(number, &[7; 4096], ByteOffset(MIB - 4096)).unwrap();
    files.sync(number, true).unwrap();
    assert_eq!(size(), Some(ByteLen(MIB)));

    device.lose(false);
    assert_eq!(size(), None, "the next sync reports what may be lost");
    assert!(files.sync(number, true).is_err());
    files.sync(number, true).unwrap();
    assert_eq!(size(), Some(ByteLen(MIB)));
}

#[test]
fn a_seal_without_pages_is_void_before_the_kernel_keeps_one_and_other_seals_stay() {
    let (device, files, number) = opened(100_000);
    files.seal(number, BOTH).unwrap();
    files.keep_pages(number).unwrap();
    assert_eq!(device.seals().len(), 1, "its holder looks for pages");
    let without = files.seal_without_pages(number, BOTH).unwrap();
    // A later seal of the other kind does not hide it.
    files.seal(number, Rights::READ).unwrap();
    files.keep_pages(number).unwrap();
    assert!(device.seals().is_empty());
    let again = files.seal(number, BOTH).unwrap();
    assert!(again.seal.terms().version > without.seal.terms().version);
    files.keep_pages(number).unwrap();
    assert_eq!(device.seals().len(), 1, "none without pages is in use");
}
