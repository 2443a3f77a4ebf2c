//! Connections that are lost under a file system: its next sync of a file says whether bytes may be
//! lost, once, and everything goes on.
#![allow(clippy::unwrap_used)] // a failed test says where

use crate::device;

use device::{Device, Dice};
use nearflash::direct::Rights;
use nearflash_files_service::{
    AttributeChanges, FileSystem, FilesError, FormatOptions, InodeNumber, Kind, Name, NewInode,
    Permissions, Renaming, Replace, UploadOptions, format,
};
use nearflash_units::{ByteLen, ByteOffset, MIB};

const LEN: ByteLen = ByteLen(24 * MIB);
const ROOT: InodeNumber = InodeNumber::ROOT;

fn opened() -> (Device, FileSystem) {
    let device = Device::new(LEN);
    format(device.disk(), FormatOptions::default()).unwrap();
    let files = FileSystem::open(device.disk()).unwrap();
    (device, files)
}

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).unwrap()
}

fn create(files: &FileSystem, text: &str, len: usize, byte: u8) -> InodeNumber {
    let permissions = Permissions { mode: 0o600, uid: 0, gid: 0 };
    let new = NewInode { kind: Kind::File, permissions, device: 0, target: Vec::new() };
    let (number, _) = files.create(ROOT, &name(text), new).unwrap();
    files.retain(number).unwrap();
    files.write(number, &vec![byte; len], ByteOffset(0)).unwrap();
    number
}

fn size(files: &FileSystem, number: InodeNumber) -> u64 {
    files.inode(number).unwrap().size.0
}

fn bytes(files: &FileSystem, number: InodeNumber) -> Vec<u8> {
    files.retain(number).unwrap();
    let mut bytes = vec![0; files.inode(number).unwrap().size.to_usize()];
    assert_eq!(files.read(number, &mut bytes, ByteOffset(0)).unwrap(), bytes.len());
    files.release(number);
    bytes
}

#[track_caller]
fn assert_lost(synced: Result<(), FilesError>) {
    let error = synced.unwrap_err();
    assert!(error.to_string().contains("the connection to the node was lost"), "{error}");
}

#[test]
fn a_file_system_without_changes_goes_on_after_a_loss_without_an_error() {
    let (device, files) = opened();
    let kept = create(&files, "kept", 10_000, 1);
    files.sync_all().unwrap();
    device.lose(true);
    files.sync_all().unwrap();
    files.sync(kept, false).unwrap();
    assert_eq!(bytes(&files, kept), vec![1; 10_000]);
    create(&files, "later", 10, 2);
    files.close().unwrap();
}

#[test]
fn a_file_that_was_written_in_place_reports_a_loss_once_and_others_do_not() {
    let (device, files) = opened();
    let (written, other) = (create(&files, "a", 10_000, 1), create(&files, "b", 10_000, 2));
    files.sync_all().unwrap();
    for is_data_only in [true, false] {
        files.write(written, &[3; 100], ByteOffset(50)).unwrap();
        device.lose(false);
        // The changes of others are made durable, and the loss is not forgotten.
        files.sync(other, false).unwrap();
        files.sync_all().unwrap();
        assert_lost(files.sync(written, is_data_only));
        files.sync(written, is_data_only).unwrap();
    }
    assert_eq!(bytes(&files, written)[50..150], [3; 100]);
}

#[test]
fn writes_that_a_flush_has_covered_are_not_lost() {
    let (device, files) = opened();
    let written = create(&files, "a", 10_000, 1);
    files.sync(written, false).unwrap();
    files.write(written, &[3; 100], ByteOffset(50)).unwrap();
    files.sync_all().unwrap();
    device.lose(true);
    files.sync(written, true).unwrap();
}

#[test]
fn names_outlast_a_loss_and_files_with_new_bytes_go_back_to_the_last_commit() {
    let (device, files) = opened();
    let grown = create(&files, "grown", 10_000, 1);
    let cut = create(&files, "cut", 200_000, 2);
    files.sync_all().unwrap();
    // The first one moves, and the second one loses blocks, and gets others.
    files.append(grown, &[3; 150_000]).unwrap();
    let size = |size| AttributeChanges { size: Some(ByteLen(size)), ..Default::default() };
    files.change(cut, size(5000)).unwrap();
    files.append(cut, &[4; 100_000]).unwrap();
    let fresh = create(&files, "fresh", 9000, 5);
    files.rename((ROOT, &name("grown")), (ROOT, &name("renamed")), Renaming::Replace).unwrap();
    device.lose(true);
    assert_lost(files.sync(fresh, false));
    files.sync(fresh, false).unwrap();
    assert_lost(files.sync_all());
    files.sync_all().unwrap();
    assert_lost(files.sync(cut, true));
    assert_lost(files.sync(grown, false));
    assert_eq!(files.lookup(ROOT, &name("renamed")).unwrap().0, grown);
    // The programs that have them open close them.
    for number in [grown, cut, fresh] {
        files.release(number);
    }
    assert_eq!(bytes(&files, fresh), []);
    assert_eq!(bytes(&files, grown), vec![1; 10_000]);
    let found = bytes(&files, cut);
    assert_eq!((found.len(), &found[..5000], found[199_999]), (200_000, &[2; 5000][..], 2));
    files.retain(fresh).unwrap();
    files.append(fresh, &[6; 7000]).unwrap();
    files.close().unwrap();
    let mut files = FileSystem::open(device.disk()).unwrap();
    assert_eq!(bytes(&files, fresh), [6; 7000]);
    let report = files.check().unwrap();
    assert!(report.is_sound(), "{report:?}");
}

#[test]
fn bytes_that_are_written_after_a_loss_stay_and_are_not_reported_as_lost() {
    let (device, files) = opened();
    let before = create(&files, "before", 9000, 5);
    device.lose(true);
    // Nothing was synchronised since, so nobody has dealt with the loss.
    let after = create(&files, "after", 9000, 6);
    files.append(after, &[6; 50_000]).unwrap();
    files.sync(after, true).unwrap();
    assert_eq!(bytes(&files, after), vec![6; 59_000]);
    assert_lost(files.sync(before, false));
    files.release(before);
    assert_eq!(bytes(&files, before), []);
}

/// As a database that undoes a transaction from its journal after fsync(2) has failed.
#[test]
fn bytes_that_are_lost_cannot_be_read_back_while_the_file_is_open_and_its_size_stays() {
    let (device, files) = opened();
    let number = create(&files, "journal", 5000, 1);
    files.sync_all().unwrap();
    files.append(number, &[2; 3000]).unwrap();
    let read = |offset| {
        let mut bytes = [0; 1000];
        files.read(number, &mut bytes, ByteOffset(offset)).map(|len| (len, bytes[0]))
    };
    device.lose(true);
    assert_lost(files.sync(number, true));
    files.sync(number, true).unwrap();
    assert_eq!(size(&files, number), 8000);
    assert_eq!(read(4500).unwrap(), (500, 1), "up to the first byte that is lost");
    for offset in [5000, 7999] {
        assert_lost(read(offset).map(drop));
    }
    assert!(files.seal(number, Rights::READ).is_err(), "others cannot read them either");
    // Behind them: the gap does not become zeroes.
    assert_eq!(files.append(number, &[3; 1000]).unwrap(), ByteOffset(8000));
    assert_eq!(read(8000).unwrap(), (1000, 3));
    assert_lost(read(7999).map(drop));
    // At their beginning and their end.
    files.write(number, &[4; 1000], ByteOffset(5000)).unwrap();
    files.write(number, &[5; 1000], ByteOffset(7000)).unwrap();
    assert_eq!((read(5000).unwrap(), read(7000).unwrap()), ((1000, 4), (1000, 5)));
    assert_lost(read(6000).map(drop));
    files.write(number, &[6; 1000], ByteOffset(6000)).unwrap();
    assert_eq!(read(6500).unwrap(), (1000, 6));
    files.sync(number, true).unwrap();
    assert_eq!(size(&files, number), 9000);
}

#[test]
fn a_file_that_went_back_has_its_earlier_size_once_all_have_closed_it_or_one_has_cut_it() {
    let (device, files) = opened();
    let cut = |number, size| {
        let changes = AttributeChanges { size: Some(ByteLen(size)), ..Default::default() };
        files.change(number, changes).unwrap();
    };
    let [closed, is_cut, again] = ["a", "b", "c"].map(|text| create(&files, text, 5000, 1));
    files.sync_all().unwrap();
    for number in [closed, is_cut] {
        files.append(number, &[2; 3000]).unwrap();
    }
    // Its earlier bytes are other ones than those that it had last.
    cut(again, 0);
    files.write(again, &[3; 1000], ByteOffset(0)).unwrap();
    device.lose(true);
    for number in [closed, is_cut, again] {
        assert_lost(files.sync(number, false));
    }
    let lost = files.read(again, &mut [0; 10], ByteOffset(0));
    assert_lost(lost.map(drop));
    cut(is_cut, 6000);
    assert_eq!([closed, is_cut, again].map(|number| size(&files, number)), [8000, 6000, 5000]);
    assert_lost(files.read(is_cut, &mut [0; 10], ByteOffset(5999)).map(drop));
    cut(is_cut, 5000);
    assert_eq!(bytes(&files, is_cut), vec![1; 5000]);
    for number in [closed, again] {
        files.release(number);
        assert_eq!(bytes(&files, number), vec![1; 5000]);
    }
}

#[test]
fn a_loss_is_reported_to_a_program_that_opens_the_file_after_its_writer_has_closed_it() {
    for is_power_lost in [false, true] {
        let (device, files) = opened();
        let (placed, grown) = (create(&files, "a", 9000, 1), create(&files, "b", 9000, 2));
        files.sync_all().unwrap();
        files.write(placed, &[3; 100], ByteOffset(50)).unwrap();
        files.append(grown, &[4; 100]).unwrap();
        files.release(placed);
        files.release(grown);
        device.lose(is_power_lost);
        // Another program deals with the loss.
        let other = create(&files, "c", 10, 5);
        files.sync(other, false).unwrap();
        for number in [placed, grown] {
            files.retain(number).unwrap();
            assert_lost(files.sync(number, true));
            files.sync(number, true).unwrap();
            files.release(number);
            files.retain(number).unwrap();
            files.sync(number, true).unwrap();
        }
        files.sync_all().unwrap();
    }
}

#[test]
fn a_file_that_is_closed_goes_back_too_and_the_next_sync_of_all_reports_it() {
    let (device, files) = opened();
    let number = create(&files, "closed", 9000, 5);
    files.release(number);
    device.lose(true);
    assert_lost(files.sync_all());
    files.sync_all().unwrap();
    assert_eq!(bytes(&files, number), []);
}

#[test]
fn a_loss_that_the_sync_of_a_file_has_reported_is_not_reported_again_by_the_sync_of_all() {
    let (device, files) = opened();
    let number = create(&files, "open", 9000, 5);
    device.lose(true);
    assert_lost(files.sync(number, false));
    files.sync_all().unwrap();
    files.close().unwrap();
}

#[test]
fn an_owner_whose_new_file_may_be_lost_ends_and_the_volume_has_the_former_one() {
    let device = Device::new(LEN);
    format(device.disk(), FormatOptions::default()).unwrap();
    let owner = device::own(device.disk()).unwrap();
    let path = device::path("file");
    let options = UploadOptions { size: None, replace: Replace::Allowed };
    let put =
        |stamp| owner.put(&path, &mut device::Stamped::new(stamp, 9000), options, &mut |_| {});
    put(1).unwrap();
    let losing = device.clone();
    let mut lost = false;
    let written = owner.put(&path, &mut device::Stamped::new(2, 9000), options, &mut |_| {
        if !std::mem::replace(&mut lost, true) {
            losing.lose(true);
        }
    });
    assert_lost(written.map(drop));
    put(3).unwrap();
    drop(owner);
    let found = device::tree(&device::reading(device.disk()).unwrap());
    assert_eq!(found, [("/file".to_owned(), Some((3, 9000)))].into());
}

/// The connection is lost at any operation of a history; afterwards, all that was synced is there.
#[test]
fn a_loss_at_any_operation_loses_no_synced_byte_and_shows_no_foreign_one() {
    for seed in 0..60 {
        let (device, files) = opened();
        let removed = create(&files, "removed", 4 << 20, 0xA5);
        files.unlink(ROOT, &name("removed")).unwrap();
        files.release(removed);
        files.sync_all().unwrap();
        let mut dice = Dice(seed);
        let numbers: Vec<_> = (0..4).map(|at| create(&files, &format!("{at}"), 3000, 7)).collect();
        files.sync_all().unwrap();
        // At this operation from now on, whatever it belongs to.
        // The bytes that were synced before an error, and whether there was none yet.
        let mut synced = [(3000, true); 4];
        device.lose_at(device.operation_count() + usize::try_from(dice.below(40)).unwrap());
        for _ in 0..30 {
            let at = usize::try_from(dice.below(4)).unwrap();
            let number = numbers[at];
            let len = usize::try_from(1 + dice.below(60_000)).unwrap();
            let done = match dice.below(6) {
                0 => {
                    let done = files.sync(number, dice.below(2) == 0);
                    synced[at].1 &= done.is_ok();
                    if synced[at].1 {
                        synced[at].0 = files.inode(number).unwrap().size.to_usize();
                    }
                    done
                }
                1 => files.write(number, &vec![7; len.min(3000)], ByteOffset(0)),
                2 => files.sync_all(),
                _ => files.append(number, &vec![7; len]).map(drop),
            };
            if let Err(error) = done {
                assert!(error.to_string().contains("connection"), "{seed}: {error}");
            }
        }
        let _ = files.sync_all();
        numbers.iter().for_each(|number| files.release(*number));
        let sizes: Vec<_> = numbers.iter().map(|it| files.inode(*it).unwrap().size).collect();
        files.close().unwrap();
        let mut files = FileSystem::open(device.disk()).unwrap();
        for ((number, size), (synced, _)) in numbers.iter().zip(sizes).zip(synced) {
            let found = bytes(&files, *number);
            assert_eq!(found.len(), size.to_usize(), "{seed}");
            assert!(found[..synced].iter().all(|byte| *byte == 7), "{seed}");
            // Lost bytes that were not written again are zero if later bytes follow.
            assert!(found.iter().all(|byte| [0, 7].contains(byte)), "{seed}");
        }
        let report = files.check().unwrap();
        assert!(report.is_sound(), "{seed}: {report:?}");
    }
}

#[test]
fn a_file_that_others_may_write_through_a_seal_reports_each_loss_once_until_its_seals_are_void() {
    let (device, files) = opened();
    let (sealed, other) = (create(&files, "a", 10_000, 1), create(&files, "b", 10_000, 2));
    files.sync_all().unwrap();
    files.seal(sealed, Rights::READ_WRITE).unwrap();
    files.seal(other, Rights::READ).unwrap();
    for _ in 0..2 {
        // The holder of the seal has written meanwhile, or not: this process does not know.
        files.sync(sealed, true).unwrap();
        device.lose(false);
        files.sync_all().unwrap();
        files.sync(other, true).unwrap();
        assert_lost(files.sync(sealed, true));
    }
    let size = AttributeChanges { size: Some(ByteLen(9_999)), ..AttributeChanges::default() };
    files.change(sealed, size).unwrap();
    files.sync(sealed, true).unwrap();
    device.lose(false);
    files.sync(sealed, true).unwrap();
}

#[test]
fn the_seals_of_a_file_that_goes_back_are_void_before_its_new_blocks_are_free() {
    let (device, files) = opened();
    let number = create(&files, "a", 10_000, 1);
    files.sync_all().unwrap();
    files.append(number, &[2; 100_000]).unwrap();
    files.seal(number, Rights::READ_WRITE).unwrap();
    assert_eq!(device.seals().len(), 1);
    device.lose(false);
    assert_lost(files.sync(number, false));
    assert!(device.seals().is_empty());
    files.release(number);
    assert_eq!(bytes(&files, number), vec![1; 10_000]);
}
