//! Readers of a volume whose files an owner changes at the same time, and files that are written at
//! the same time.
#![allow(clippy::unwrap_used)] // a failed test says where

use crate::device;

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use device::{Device, Dice, Image, Operation, Owner, Stamped, check, free_len, own, path, reading};
use nearflash_files_service::{
    Disk, DiskProperties, Files, FilesError, FormatOptions, InodeNumber, Opened, Refusal, Replace,
    UploadOptions, format,
};
use nearflash_units::{ByteLen, ByteOffset, MIB};

const LEN: ByteLen = ByteLen(16 * MIB);
const NAMES: [&str; 4] = ["a", "b", "c", "d"];

fn formatted() -> Device {
    let device = Device::new(LEN);
    format(device.disk(), FormatOptions::default()).unwrap();
    device
}

fn put(owner: &Owner, name: &str, stamp: u64, len: u64) -> InodeNumber {
    let options = UploadOptions { size: Some(ByteLen(len)), replace: Replace::Allowed };
    owner.put(&path(name), &mut Stamped::new(stamp, len), options, &mut |_| {}).unwrap().0
}

fn stamped(stamp: u64, len: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    Stamped::new(stamp, len).read_to_end(&mut bytes).unwrap();
    bytes
}

fn read(file: &Opened<Files>) -> Result<Vec<u8>, FilesError> {
    let mut bytes = vec![0; file.inode().size.to_usize()];
    file.read_at(&mut bytes, ByteOffset(0)).map(|()| bytes)
}

#[test]
fn a_reader_sees_every_change_of_a_living_owner() {
    let device = formatted();
    let reader = reading(device.disk()).unwrap();
    let owner = own(device.disk()).unwrap();
    for stamp in 1..20 {
        put(&owner, "a", stamp, 5000);
        let file = reader.open_file(&path("a")).unwrap();
        assert_eq!(read(&file).unwrap(), stamped(stamp, 5000));
    }
    owner.mkdir(&path("dir")).unwrap();
    owner.rename(&path("a"), &path("dir/b"), Replace::Never).unwrap();
    drop(owner);
    let listed = reader.list(&path("dir"), None, 9).unwrap();
    assert_eq!(listed[0].0.name.as_bytes(), b"b");
    assert_eq!(listed[0].1.size, ByteLen(5000));
    let missing = reader.stat(&path("a")).unwrap_err();
    assert!(matches!(missing, FilesError::Refused(Refusal::NotFound(_))));
    let refused = reader.open_file(&path("dir")).unwrap_err();
    assert!(matches!(refused, FilesError::Refused(Refusal::IsADirectory(_))));
}

#[test]
fn an_open_file_is_read_until_it_is_removed_or_replaced_also_if_it_is_renamed() {
    let device = formatted();
    let owner = own(device.disk()).unwrap();
    for (nth, name) in [(1, "kept"), (2, "replaced"), (3, "removed")] {
        put(&owner, name, nth, 20_000);
    }
    let reader = reading(device.disk()).unwrap();
    let open = |name| reader.open_file(&path(name)).unwrap();
    let [kept, replaced, removed] = ["kept", "replaced", "removed"].map(open);
    owner.rename(&path("kept"), &path("moved"), Replace::Never).unwrap();
    assert_eq!(read(&kept).unwrap(), stamped(1, 20_000));
    put(&owner, "replaced", 4, 20_000);
    owner.remove(&path("removed")).unwrap();
    put(&owner, "other", 5, 40_000);
    for (file, name) in [(&replaced, "/replaced"), (&removed, "/removed")] {
        let error = read(file).unwrap_err();
        assert!(matches!(error, FilesError::Stale { .. }), "{error}");
        assert!(error.to_string().starts_with(name), "{error}");
    }
    assert_eq!(read(&kept).unwrap(), stamped(1, 20_000));
    let mut beyond = [0; 2];
    assert!(kept.read_at(&mut beyond, ByteOffset(19_999)).is_err());
}

#[test]
fn files_are_written_at_the_same_time_and_appear_when_they_are_finished() {
    let device = formatted();
    let mut owner = own(device.disk()).unwrap();
    let reader = reading(device.disk()).unwrap();
    let free = free_len(&owner);
    let begin = |owner: &Owner, name, size| {
        let options = UploadOptions { size, replace: Replace::Allowed };
        owner.upload(&path(name), options).unwrap()
    };
    let lens = [0, 1, 4096, 5000, 3 << 20, (4 << 20) + 1];
    let names = ["0", "1", "2", "3", "4", "5"];
    let mut files: Vec<_> = names.iter().map(|name| begin(&owner, name, None)).collect();
    for (nth, len) in (1..).zip(lens) {
        let bytes = stamped(nth, len);
        let file = &mut files[usize::try_from(nth).unwrap() - 1];
        for part in bytes.chunks(1_000_000) {
            file.write(part).unwrap();
        }
        assert_eq!(file.len(), ByteLen(len));
    }
    assert_eq!(reader.list(&path(""), None, 9).unwrap(), []);
    for file in files {
        file.finish().unwrap();
    }
    for ((nth, len), name) in (1..).zip(lens).zip(names) {
        let file = reader.open_file(&path(name)).unwrap();
        assert_eq!(read(&file).unwrap(), stamped(nth, len));
    }
    for name in names {
        owner.remove(&path(name)).unwrap();
    }
    // Abandoned, too short, and refused at the end: none of them keeps space.
    let mut abandoned = begin(&owner, "a", None);
    abandoned.write(&[1; 5 << 20]).unwrap();
    abandoned.abandon();
    let short = begin(&owner, "b", Some(ByteLen(10))).finish().unwrap_err();
    assert!(matches!(short, FilesError::SourceShort { .. }), "{short}");
    let refused = begin(&owner, "c", None);
    owner.mkdir(&path("c")).unwrap();
    let error = refused.finish().unwrap_err();
    assert!(matches!(error, FilesError::Refused(Refusal::IsADirectory(_))), "{error}");
    let mut full = begin(&owner, "d", None);
    assert!(matches!(full.write(&[1; 16 << 20]), Err(FilesError::NoSpace { .. })));
    full.abandon();
    owner.remove(&path("c")).unwrap();
    assert_eq!(free_len(&owner), free);
    assert!(check(&mut owner).unwrap().is_sound());
}

/// A volume that an owner changes while it is read: between any two blocks of a read.
#[derive(Debug)]
struct Moving {
    state: Mutex<(Image, usize, Dice)>,
    operations: Vec<Operation>,
    properties: DiskProperties,
}

impl Moving {
    fn starting_at(moment: usize, operations: Vec<Operation>, dice: Dice) -> Self {
        let mut image = Image::default();
        operations[..moment].iter().for_each(|operation| image.apply(operation));
        let properties = Device::new(LEN).disk().properties();
        Self { state: Mutex::new((image, moment, dice)), operations, properties }
    }

    fn is_over(&self) -> bool {
        self.state.lock().unwrap().1 == self.operations.len()
    }
}

impl Disk for Moving {
    fn properties(&self) -> DiskProperties {
        self.properties.clone()
    }

    fn read_at(&self, bytes: &mut [u8], offset: ByteOffset) -> io::Result<()> {
        let mut state = self.state.lock().unwrap();
        let (image, moment, dice) = &mut *state;
        let mut at = usize::try_from(offset.0).unwrap();
        for part in bytes.chunks_mut(4096) {
            // Long pauses and long runs of changes, so that many operations fit between two of them.
            let steps = if dice.below(12) == 0 { dice.below(12) } else { 0 };
            for _ in 0..steps {
                if let Some(operation) = self.operations.get(*moment) {
                    image.apply(operation);
                    *moment += 1;
                }
            }
            image.read(part, at);
            at += part.len();
        }
        Ok(())
    }

    fn write_at(&self, _bytes: &[u8], _offset: ByteOffset) -> io::Result<()> {
        panic!("a reader does not write")
    }

    fn write_zeroes(&self, _offset: ByteOffset, _len: ByteLen) -> io::Result<()> {
        panic!("a reader does not write")
    }

    fn discard(&self, _offset: ByteOffset, _len: ByteLen) -> io::Result<()> {
        panic!("a reader does not write")
    }

    fn flush(&self) -> io::Result<()> {
        panic!("a reader does not write")
    }
}

/// The operations of several owners, one after the other, the first moment at which the volume is
/// formatted, and the stamps of all files.
fn history(dice: &mut Dice) -> (Vec<Operation>, usize, BTreeMap<InodeNumber, u64>) {
    let device = formatted();
    let formatted_at = device.operation_count();
    let (mut stamps, mut stamp) = (BTreeMap::new(), 0);
    for _ in 0..3 {
        let owner = own(device.disk()).unwrap();
        for _ in 0..12 {
            let name = NAMES[usize::try_from(dice.below(4)).unwrap()];
            if dice.below(4) == 0 {
                let _ = owner.remove(&path(name));
            } else {
                stamp += 1;
                stamps.insert(put(&owner, name, stamp, 16 + dice.below(60_000)), stamp);
            }
        }
    }
    (device.operations(), formatted_at, stamps)
}

/// Reads files of a moving volume. Returns the number of sound reads and of stale ones.
fn follow(seed: u64) -> (usize, usize) {
    let mut dice = Dice(seed);
    let (operations, formatted_at, stamps) = history(&mut dice);
    let moving = Arc::new(Moving::starting_at(formatted_at, operations, Dice(!seed)));
    let reader = reading(Arc::clone(&moving) as Arc<dyn Disk>).unwrap();
    let (mut sound, mut stale) = (0, 0);
    let mut files: Vec<Opened<Files>> = Vec::new();
    while !moving.is_over() {
        for (entry, inode) in reader.list(&path(""), None, 9).unwrap() {
            assert!(stamps.contains_key(&entry.inode) && inode.size.0 >= 16, "seed {seed}");
        }
        match reader.open_file(&path(NAMES[usize::try_from(dice.below(4)).unwrap()])) {
            Ok(file) => files.push(file),
            Err(FilesError::Refused(Refusal::NotFound(_))) => {}
            Err(error) => panic!("seed {seed}: {error}"),
        }
        for file in &files {
            match read(file) {
                Ok(bytes) => {
                    let expected = stamped(stamps[&file.number()], file.inode().size.0);
                    assert!(bytes == expected, "seed {seed}: bytes of another file");
                    sound += 1;
                }
                Err(FilesError::Stale { .. }) => stale += 1,
                Err(error) => panic!("seed {seed}: {error}"),
            }
        }
        files.retain(|_| dice.below(3) > 0);
    }
    (sound, stale)
}

#[test]
fn a_reader_gets_the_bytes_of_its_file_or_an_error_whenever_the_owner_writes() {
    let (mut sound, mut stale) = (0, 0);
    for seed in 1..=60 {
        let counted = follow(seed);
        sound += counted.0;
        stale += counted.1;
    }
    assert!(sound > 100 && stale > 100, "{sound} sound reads, {stale} stale ones");
}

/// A volume whose flushes take long, from the moment at which threads are expected.
#[derive(Debug)]
struct Slow {
    device: Arc<dyn Disk>,
    expected: AtomicUsize,
}

impl Disk for Slow {
    fn properties(&self) -> DiskProperties {
        self.device.properties()
    }

    fn read_at(&self, bytes: &mut [u8], offset: ByteOffset) -> io::Result<()> {
        self.device.read_at(bytes, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: ByteOffset) -> io::Result<()> {
        self.device.write_at(bytes, offset)
    }

    fn write_zeroes(&self, offset: ByteOffset, len: ByteLen) -> io::Result<()> {
        self.device.write_zeroes(offset, len)
    }

    fn discard(&self, offset: ByteOffset, len: ByteLen) -> io::Result<()> {
        self.device.discard(offset, len)
    }

    /// Waits until every expected thread has begun, and then lets the others run for a while.
    fn flush(&self) -> io::Result<()> {
        let mut turns = 1000;
        while turns > 0 {
            thread::yield_now();
            if self.expected.load(Ordering::SeqCst) == 0 {
                turns -= 1;
            }
        }
        self.device.flush()
    }
}

#[test]
fn the_file_for_which_a_change_is_refused_is_there_for_readers() {
    let device = formatted();
    let slow = Arc::new(Slow { device: device.disk(), expected: AtomicUsize::new(0) });
    let owner = own(Arc::clone(&slow) as Arc<dyn Disk>).unwrap();
    let reader = reading(device.disk()).unwrap();
    type Creates = fn(&Owner, &str) -> Result<(), FilesError>;
    let mkdir: Creates = |owner, name| owner.mkdir(&path(name));
    let put: Creates = |owner, name| {
        let options = UploadOptions { size: None, replace: Replace::Never };
        owner.put(&path(name), &mut &b"bytes"[..], options, &mut |_| {}).map(drop)
    };
    for (nth, create) in [mkdir, put].repeat(4).into_iter().enumerate() {
        let name = nth.to_string();
        slow.expected.store(2, Ordering::SeqCst);
        let refused = thread::scope(|scope| {
            let creating = [(); 2].map(|()| {
                scope.spawn(|| {
                    slow.expected.fetch_sub(1, Ordering::SeqCst);
                    let created = create(&owner, &name);
                    reader.stat(&path(&name)).expect("it is durable");
                    created.is_err()
                })
            });
            creating.map(|thread| thread.join().unwrap())
        });
        assert_eq!(refused.iter().filter(|is_refused| **is_refused).count(), 1);
    }
}
