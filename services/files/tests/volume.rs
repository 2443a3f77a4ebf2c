//! Volumes that are refused by name, and what fills a volume.
#![allow(clippy::unwrap_used)] // a failed test says where

use crate::device;

use std::io::Read;

use device::{Device, Operation, Owner, Stamped, Tree, check, free_len, own, path, reading, tree};
use nearflash_files_service::{
    FileCalls as _, FileSystem, Files, FilesError, FormatOptions, InodeNumber, Kind, Name,
    NewInode, Permissions, Refusal, Replace, UploadOptions, format,
};
use nearflash_units::{ByteLen, ByteOffset, MIB};
use uuid::Uuid;

const LEN: ByteLen = ByteLen(16 * MIB);
const NEW: UploadOptions = UploadOptions { size: None, replace: Replace::Never };

fn formatted(len: ByteLen) -> Device {
    let device = Device::new(len);
    format(device.disk(), FormatOptions::default()).unwrap();
    device
}

fn put(owner: &Owner, name: &str, stamp: u64, len: u64) -> Result<(), FilesError> {
    let options = UploadOptions { size: Some(ByteLen(len)), replace: Replace::Never };
    owner.put(&path(name), &mut Stamped::new(stamp, len), options, &mut |_| {}).map(drop)
}

/// The one-line message of a failure.
fn message<T>(result: Result<T, FilesError>) -> String {
    let Err(error) = result else { panic!("it is refused") };
    let message = error.to_string();
    assert!(!message.contains('\n'), "{message}");
    message
}

#[test]
fn format_refuses_what_is_not_blank_by_name_unless_forced() {
    let device = Device::new(LEN);
    device.poke(b"\x53\xef", 0x438);
    let refused = message(format(device.disk(), FormatOptions::default()));
    assert!(refused.contains("'data' holds an ext2, ext3 or ext4 file system"), "{refused}");
    assert_eq!(device.operation_count(), 0);
    format(device.disk(), FormatOptions { force: true }).unwrap();
    let refused = message(format(device.disk(), FormatOptions::default()));
    assert!(
        refused.contains("holds files of nearflash") && refused.contains("--force"),
        "{refused}"
    );
    let at_the_end = Device::new(LEN);
    at_the_end.poke(&[1], 16 * 1024 * 1024 - 1);
    let refused = message(format(at_the_end.disk(), FormatOptions::default()));
    assert!(refused.contains("data that is not nearflash's"), "{refused}");
}

#[test]
fn a_volume_that_is_too_small_or_not_writable_is_not_formatted() {
    let small = message(format(Device::new(ByteLen(LEN.0 - 1)).disk(), FormatOptions::default()));
    assert!(small.contains("files need 16MiB or more"), "{small}");
    let device = Device::new(LEN);
    device.change(|properties| properties.is_writable = false);
    let refused = message(format(device.disk(), FormatOptions::default()));
    assert!(refused.contains("--rights rw"), "{refused}");
}

#[test]
fn a_blank_a_shrunk_and_a_copied_volume_are_refused_by_name() {
    let blank = message(Files::open(Device::new(LEN).disk()));
    assert!(blank.contains("'data' is not formatted for files"), "{blank}");
    let shrunk = formatted(ByteLen(2 * LEN.0));
    shrunk.change(|properties| properties.len = LEN);
    let refused = message(own(shrunk.disk()));
    assert!(refused.contains("has 16MiB and had 32MiB: resize it"), "{refused}");
    let copied = formatted(LEN);
    copied.change(|properties| properties.uuid = Uuid::from_u128(8));
    let refused = message(Files::open(copied.disk()));
    assert!(refused.contains(&Uuid::from_u128(7).to_string()), "{refused}");
}

#[test]
fn one_damaged_superblock_does_no_harm_and_two_are_named() {
    let device = formatted(LEN);
    device.poke(&[0xFF; 512], 1024);
    assert_eq!(tree(&reading(device.disk()).unwrap()), Tree::new());
    device.poke(&[0xFF; 512], 4096 + 1024);
    let refused = message(Files::open(device.disk()));
    assert!(refused.contains("superblock checksum"), "{refused}");
}

/// Opens a volume in every way, and reads and checks all its metadata.
fn examine(device: &Device) -> Result<(), FilesError> {
    Files::open(device.disk())?.check().map(|report| assert!(report.is_sound(), "{report:?}"))?;
    reading(device.disk())?.list(&path("/"), None, usize::MAX)?;
    let mut owner = own(device.disk())?;
    owner.mkdir(&path("new"))?;
    check(&mut owner).map(|report| assert!(report.is_sound(), "{report:?}"))
}

#[test]
fn damaged_metadata_is_an_error_that_names_the_volume_wherever_it_is() {
    let device = formatted(LEN);
    let owner = own(device.disk()).unwrap();
    for stamp in 0..200 {
        put(&owner, &format!("a file with the number {stamp}"), stamp, 100).unwrap();
    }
    drop(owner);
    let (start, sound) = (MIB, device.image());
    let (mut damaged, mut count) = (0, 0);
    for block in 0..4 * MIB / 4096 {
        let at = usize::try_from(start + block * 4096).unwrap();
        let mut bytes = [0; 4096];
        sound.read(&mut bytes, at);
        if bytes.iter().all(|byte| *byte == 0) {
            continue;
        }
        count += 1;
        bytes[..512].iter_mut().for_each(|byte| *byte ^= 0x55);
        let device = Device::holding(sound.clone(), LEN);
        device.poke(&bytes, at);
        if let Err(error) = examine(&device) {
            assert!(matches!(error, FilesError::DamagedStore { .. }), "block {block}: {error}");
            let message = error.to_string();
            assert!(message.starts_with("metadata of volume 'data' is damaged: "), "{message}");
            assert!(message.contains("restore the volume from a backup"), "{message}");
            assert_eq!(error.errno(), rustix::io::Errno::IO);
            damaged += 1;
        }
    }
    // Blocks of earlier commits, and one of two copies of the header, may hold anything.
    assert!(damaged > 10 && damaged < count, "{damaged} of {count} blocks");
    let headless = Device::holding(sound, LEN);
    headless.poke(&[0xFF; 8192], usize::try_from(start).unwrap());
    let message = message(reading(headless.disk()));
    assert!(message.contains("'data' is damaged: its header has the wrong checksum"), "{message}");
}

#[test]
fn a_reader_needs_no_right_to_write() {
    let device = formatted(LEN);
    put(&own(device.disk()).unwrap(), "f", 1, 9000).unwrap();
    device.change(|properties| properties.is_writable = false);
    let before = device.operation_count();
    let files = reading(device.disk()).unwrap();
    assert_eq!(tree(&files), Tree::from([("/f".to_owned(), Some((1, 9000)))]));
    assert!(files.files().check().unwrap().is_sound());
    drop(files);
    assert_eq!(device.operation_count(), before);
    let refused = message(own(device.disk()));
    assert!(refused.contains("--rights rw"), "{refused}");
}

#[test]
fn a_full_volume_refuses_a_file_and_has_room_again_when_one_is_removed() {
    let device = formatted(LEN);
    let owner = own(device.disk()).unwrap();
    let before = free_len(&owner);
    put(&owner, "a", 1, 6 * MIB).unwrap();
    let full = message(put(&owner, "b", 2, 6 * MIB));
    assert!(full.contains("'data' has no space for it: 6MiB"), "{full}");
    let streamed = owner.put(&path("b"), &mut std::io::repeat(7), NEW, &mut |_| {});
    assert!(message(streamed).contains("no space"), "an endless source");
    assert_eq!(free_len(&owner).0, before.0 - 6 * MIB, "failures take no space");
    owner.remove(&path("a")).unwrap();
    put(&owner, "b", 2, 6 * MIB).unwrap();
    assert_eq!(tree(&owner), Tree::from([("/b".to_owned(), Some((2, 6 * MIB)))]));
}

#[test]
fn a_source_of_unknown_length_gets_the_blocks_that_hold_it() {
    let device = formatted(ByteLen(2 * LEN.0));
    let owner = own(device.disk()).unwrap();
    let before = free_len(&owner);
    let len = 5 * MIB + 1;
    let mut done = Vec::new();
    let source = &mut Stamped::new(3, len);
    let (_, inode) = owner.put(&path("f"), source, NEW, &mut |len| done.push(len.0)).unwrap();
    assert_eq!(done, [4 * MIB, len]);
    assert_eq!((inode.size, inode.runs.len()), (ByteLen(len), 1));
    assert_eq!(free_len(&owner).0, before.0 - 5 * MIB - 4096);
    assert_eq!(tree(&owner), Tree::from([("/f".to_owned(), Some((3, len)))]));
}

#[test]
fn a_source_is_read_to_its_end_whatever_length_was_expected() {
    let device = formatted(LEN);
    let owner = own(device.disk()).unwrap();
    let (before, bytes) = (free_len(&owner), vec![7; ByteLen(9 * MIB + 5).to_usize()]);
    for (expected, len) in
        [(0, 5), (4096, 23), (10 * MIB, 9 * MIB + 5), (10, 9 * MIB + 5), (MIB, 0)]
    {
        let options = UploadOptions { size: Some(ByteLen(expected)), replace: Replace::Never };
        let source = &bytes[..usize::try_from(len).unwrap()];
        let (_, inode) = owner.put(&path("f"), &mut &*source, options, &mut |_| {}).unwrap();
        assert_eq!(inode.size, ByteLen(len), "{expected}");
        let used = len.next_multiple_of(4096);
        assert_eq!(free_len(&owner).0, before.0 - used, "no space is left behind its end");
        let mut got = Vec::new();
        owner.get(&path("f"), &mut got, &mut |_| {}).unwrap();
        assert!(got == source);
        owner.remove(&path("f")).unwrap();
        assert_eq!(free_len(&owner), before);
    }
}

#[test]
fn a_source_that_fails_or_a_file_of_another_size_than_announced_creates_no_file() {
    let device = formatted(LEN);
    let owner = own(device.disk()).unwrap();
    let before = free_len(&owner);
    let options = UploadOptions { size: Some(ByteLen(10)), replace: Replace::Never };
    let begin = || owner.upload(&path("f"), options).unwrap();
    let (mut short, mut long) = (begin(), begin());
    short.write(b"12345").unwrap();
    assert!(message(short.finish()).contains("has 5B, and 10B were announced"));
    assert!(message(long.write(&[0; 11])).contains("longer than 10B"));
    long.abandon();
    struct Failing;
    impl Read for Failing {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::PermissionDenied.into())
        }
    }
    let failed = owner.put(&path("f"), &mut Failing, NEW, &mut |_| {});
    assert!(message(failed).contains("cannot read the source"));
    assert_eq!(free_len(&owner), before);
    assert_eq!(tree(&owner), Tree::new());
}

#[test]
fn an_upload_that_nobody_finishes_leaves_no_file_and_no_space() {
    let device = formatted(LEN);
    let owner = own(device.disk()).unwrap();
    let before = free_len(&owner);
    let begin = |name: &str| {
        let mut upload = owner.upload(&path(name), NEW).unwrap();
        upload.write(&[7; 5 << 20]).unwrap();
        upload
    };
    drop(begin("dropped"));
    assert_eq!(free_len(&owner), before);
    let mut left = begin("left");
    // The commit of another file makes it durable, without a name.
    owner.mkdir(&path("d")).unwrap();
    assert_eq!(free_len(&owner).0, before.0 - 4 * MIB);
    drop(owner);
    assert!(message(left.write(b"more")).contains("was released"));
    assert!(message(left.finish()).contains("was released"));
    assert_eq!(tree(&reading(device.disk()).unwrap()), Tree::from([("/d".to_owned(), None)]));
    let mut next = own(device.disk()).unwrap();
    assert_eq!(free_len(&next), before);
    assert!(check(&mut next).unwrap().is_sound());
}

#[test]
fn files_that_are_only_read_are_not_changed() {
    let device = formatted(LEN);
    put(&own(device.disk()).unwrap(), "f", 1, 100).unwrap();
    let files = reading(device.disk()).unwrap();
    let refused = [
        message(files.mkdir(&path("d"))),
        message(files.remove(&path("f"))),
        message(files.rename(&path("f"), &path("g"), Replace::Never)),
        message(files.upload(&path("g"), NEW)),
    ];
    assert!(refused.iter().all(|message| message.contains("open for reading")), "{refused:?}");
    let written = own(device.disk()).unwrap().files().usage().unwrap();
    assert_eq!(files.files().usage().unwrap(), written);
}

#[test]
fn a_put_that_may_not_replace_is_refused_before_its_source_is_read() {
    let device = formatted(LEN);
    let owner = own(device.disk()).unwrap();
    put(&owner, "f", 1, 100).unwrap();
    owner.mkdir(&path("d")).unwrap();
    struct Unread;
    impl Read for Unread {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            panic!("the source is not read")
        }
    }
    let refused = |text: &str, replace| {
        let options = UploadOptions { size: None, replace };
        let FilesError::Refused(refusal) =
            owner.put(&path(text), &mut Unread, options, &mut |_| {}).unwrap_err()
        else {
            panic!("{text} is refused")
        };
        refusal
    };
    assert_eq!(refused("f", Replace::Never), Refusal::Exists(path("f")));
    assert_eq!(refused("d", Replace::Allowed), Refusal::IsADirectory(path("d")));
    assert_eq!(refused("f/g", Replace::Allowed), Refusal::NotADirectory(path("f")));
    assert_eq!(refused("e/g", Replace::Allowed), Refusal::NotFound(path("e")));
    assert_eq!(refused("", Replace::Allowed), Refusal::Root);
}

#[test]
fn a_volume_that_grows_while_it_is_open_has_more_space_after_the_next_sync() {
    let device = formatted(LEN);
    let files = FileSystem::open(device.disk()).unwrap();
    let before = files.usage().unwrap();
    device.change(|properties| properties.len = ByteLen(3 * LEN.0));
    files.sync_all().unwrap();
    let after = files.usage().unwrap();
    assert_eq!(after.total.0 - before.total.0, 2 * LEN.0);
    assert_eq!(after.free.0 - before.free.0, 2 * LEN.0);
    let permissions = Permissions { mode: 0o600, uid: 0, gid: 0 };
    let new = NewInode { kind: Kind::File, permissions, device: 0, target: Vec::new() };
    let name = Name::new(b"long").unwrap();
    let (number, _) = files.create(InodeNumber::ROOT, &name, new).unwrap();
    files.retain(number).unwrap();
    let bytes = vec![7; ByteLen(2 * LEN.0).to_usize()];
    files.write(number, &bytes, ByteOffset(0)).unwrap();
    files.release(number);
    files.sync_all().unwrap();
    assert_eq!(files.usage().unwrap().free.0, after.free.0 - 2 * LEN.0);
    files.close().unwrap();
    let report = Files::open(device.disk()).unwrap().check().unwrap();
    assert!(report.is_sound(), "{report:?}");
}

#[test]
fn a_volume_that_has_grown_has_more_space() {
    let device = formatted(LEN);
    let before = free_len(&own(device.disk()).unwrap());
    device.change(|properties| properties.len = ByteLen(2 * LEN.0));
    assert_eq!(free_len(&own(device.disk()).unwrap()).0, before.0 + LEN.0);
    device.change(|properties| properties.len = LEN);
    assert!(message(own(device.disk())).contains("resize it to 32MiB"));
}

#[test]
fn a_metadata_page_that_is_damaged_is_found() {
    let device = formatted(LEN);
    put(&own(device.disk()).unwrap(), "f", 1, 9000).unwrap();
    // The entry's name lies in a page of the metadata, which begins at 1 MiB.
    let mut bytes = vec![0; 4 * 1024 * 1024];
    let disk = device.disk();
    disk.read_at(&mut bytes, nearflash_units::ByteOffset(MIB)).unwrap();
    let key = [&1_u64.to_be_bytes()[..], b"f"].concat();
    let places = bytes.windows(key.len()).enumerate().filter(|(_, window)| *window == key);
    let places: Vec<usize> = places.map(|(at, _)| at).collect();
    assert!(!places.is_empty());
    for place in places {
        device.poke(b"g", 1024 * 1024 + place + 8);
    }
    match Files::open(device.disk()).and_then(|files| files.check()) {
        Ok(report) => assert!(!report.is_sound(), "{report:?}"),
        Err(error) => assert!(error.to_string().contains("'data'"), "{error}"),
    }
}

#[test]
fn a_change_of_names_costs_two_flushes_and_a_file_no_more() {
    let device = formatted(LEN);
    let owner = own(device.disk()).unwrap();
    // The store takes its first pages, and has grown.
    for name in ["g", "h"] {
        put(&owner, name, 2, 9000).unwrap();
    }
    let flushes = |change: &dyn Fn(&Owner)| {
        let before = device.operation_count();
        change(&owner);
        let operations = device.operations();
        let fresh = operations[before..].iter();
        fresh.filter(|operation| matches!(operation, Operation::Flush)).count()
    };
    assert_eq!(flushes(&|owner| owner.mkdir(&path("d")).unwrap()), 2);
    assert_eq!(flushes(&|owner| put(owner, "d/f", 1, 9000).unwrap()), 2);
    let rename = |owner: &Owner| owner.rename(&path("d/f"), &path("f"), Replace::Never);
    assert_eq!(flushes(&|owner| rename(owner).unwrap()), 2);
    assert_eq!(flushes(&|owner| owner.remove(&path("f")).map(drop).unwrap()), 2);
}

fn with_directory(device: &Device) -> FileSystem {
    let files = FileSystem::open(device.disk()).unwrap();
    let permissions = Permissions { mode: 0o755, uid: 0, gid: 0 };
    let new = NewInode { kind: Kind::Directory, permissions, device: 0, target: Vec::new() };
    files.create(InodeNumber::ROOT, &Name::new(b"kept").unwrap(), new).unwrap();
    files
}

#[test]
fn closing_makes_all_changes_durable_and_gives_the_volume_back() {
    let device = formatted(LEN);
    with_directory(&device).close().unwrap();
    assert_eq!(device.releases(), 1);
    let kept: Tree = [("/kept".to_owned(), None)].into();
    assert_eq!(tree(&reading(device.disk()).unwrap()), kept);
}

#[test]
fn closing_reports_changes_that_are_lost_and_gives_the_volume_back_nevertheless() {
    let device = formatted(LEN);
    let files = with_directory(&device);
    device.fail_after(device.operation_count());
    let error = files.close().unwrap_err();
    assert!(matches!(error, FilesError::Disk { .. }) && !error.is_superseded(), "{error}");
    assert_eq!(device.releases(), 1);
}

#[test]
fn an_error_says_whether_another_process_has_taken_the_volume_over() {
    let superseded = || nearflash::Error::Superseded { volume: "data".into(), owner: "b".into() };
    let disk = |source| FilesError::Disk { volume: "data".into(), source };
    let errors = [
        (FilesError::from(superseded()), true),
        (disk(superseded().into()), true),
        (disk(std::io::ErrorKind::ConnectionReset.into()), false),
        (FilesError::from(nearflash::Error::NoVolume), false),
    ];
    for (error, expected) in errors {
        assert_eq!(error.is_superseded(), expected, "{error}");
    }
}
