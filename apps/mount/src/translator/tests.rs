//! Changes are durable when a synchronous call of the kernel has returned. Each test loses the power at once, so
//! only changes that a flush of the volume has covered are there when the files are opened again. The tests run
//! on a mount that owns its volume, and on one of files that a node owns.

use std::io;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fuser::{FileHandle, OpenFlags, WriteFlags};
use nearflash_files_service::{
    Allowed, AskOwner, ConnectionId, Disk, DiskProperties, FileCalls, FileSystem, FilesServer,
    FormatOptions, Inode, InodeNumber, Kind, Name, NewInode, Permissions, RemoteFiles, format,
};
use nearflash_units::{ByteLen, ByteOffset, MIB};
use rustix::fs::OFlags;
use uuid::Uuid;

use super::opened::{Durable, handle};
use super::{Kept, Translator};
use crate::gate::Gate;
use crate::options::Cache;

const LEN: ByteLen = ByteLen(16 * MIB);
const ROOT: InodeNumber = InodeNumber::ROOT;
const DSYNC: OFlags = OFlags::from_bits_retain(0o10_000);

/// A volume in memory.
#[derive(Clone, Debug)]
struct Device(Arc<Mutex<Bytes>>);

#[derive(Debug)]
struct Bytes {
    now: Vec<u8>,
    /// As of the last flush.
    durable: Vec<u8>,
}

impl Device {
    fn formatted() -> Self {
        let zeroes = vec![0; LEN.to_usize()];
        let device = Self(Arc::new(Mutex::new(Bytes { now: zeroes.clone(), durable: zeroes })));
        format(Arc::new(device.clone()), FormatOptions::default()).unwrap();
        device
    }

    /// The volume after a loss of power.
    fn without_power(&self) -> Self {
        let durable = self.0.lock().unwrap().durable.clone();
        Self(Arc::new(Mutex::new(Bytes { now: durable.clone(), durable })))
    }
}

impl Disk for Device {
    fn properties(&self) -> DiskProperties {
        let (name, uuid) = ("data".to_owned(), Uuid::from_u128(7));
        DiskProperties { name, uuid, len: LEN, is_writable: true }
    }

    fn read_at(&self, bytes: &mut [u8], offset: ByteOffset) -> io::Result<()> {
        let start = usize::try_from(offset.0).unwrap();
        bytes.copy_from_slice(&self.0.lock().unwrap().now[start..start + bytes.len()]);
        Ok(())
    }

    fn write_at(&self, bytes: &[u8], offset: ByteOffset) -> io::Result<()> {
        let start = usize::try_from(offset.0).unwrap();
        self.0.lock().unwrap().now[start..start + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn write_zeroes(&self, offset: ByteOffset, len: ByteLen) -> io::Result<()> {
        self.write_at(&vec![0; len.to_usize()], offset)
    }

    fn discard(&self, offset: ByteOffset, len: ByteLen) -> io::Result<()> {
        self.write_zeroes(offset, len)
    }

    fn flush(&self) -> io::Result<()> {
        let mut bytes = self.0.lock().unwrap();
        bytes.durable = bytes.now.clone();
        Ok(())
    }
}

/// A connection to the owner in a node.
struct Connection(Arc<FilesServer>);

impl AskOwner for Connection {
    fn ask(&mut self, message: &[u8]) -> Result<Box<[u8]>, nearflash::Error> {
        let id = ConnectionId { core: 0, number: 1 };
        Ok(self.0.serve(id, &Allowed::all(true), message).into())
    }
}

fn own(device: &Device) -> Box<dyn FileCalls> {
    Box::new(FileSystem::open(Arc::new(device.clone())).unwrap())
}

fn of_node(device: &Device) -> Box<dyn FileCalls> {
    let files = FileSystem::open(Arc::new(device.clone())).unwrap();
    let server = Arc::new(FilesServer::new(files, 1));
    let connect = move || Ok(Box::new(Connection(Arc::clone(&server))) as Box<dyn AskOwner>);
    Box::new(RemoteFiles::over(Box::new(connect), "data", Duration::ZERO).unwrap())
}

/// Opens the files of a device, and whether the kernel caches their pages.
type Opening = (fn(&Device) -> Box<dyn FileCalls>, Cache);

/// Both kinds of mounts, with and without pages.
const KINDS: [Opening; 4] =
    [(own, Cache::None), (own, Cache::Read), (of_node, Cache::None), (of_node, Cache::Read)];

/// A mount with a new file that is open.
struct Bench {
    device: Device,
    translator: Translator,
    number: InodeNumber,
}

impl Bench {
    fn new((open, cache): Opening) -> Self {
        let device = Device::formatted();
        let gate = Arc::new(Gate::new(open(&device), channel().0));
        let kept = Kept { cache, is_shared: false, attributes_for: Duration::ZERO };
        let url = "direct://127.0.0.1:4421/data".parse().unwrap();
        let translator = Translator::new(Arc::clone(&gate), kept, &url);
        let permissions = Permissions { mode: 0o644, uid: 0, gid: 0 };
        let new = NewInode { kind: Kind::File, permissions, device: 0, target: Vec::new() };
        let name = Name::new(b"file").unwrap();
        let created = gate.call(|files| {
            let (number, _) = files.create(ROOT, &name, new)?;
            files.retain(number).map(|()| number)
        });
        Self { device, translator, number: created.unwrap() }
    }

    fn write(&self, bytes: &[u8], offset: u64, flags: OFlags) {
        let flags = OpenFlags(flags.bits().cast_signed());
        let none = WriteFlags::empty();
        self.translator.write_contents(self.number, offset, bytes, none, flags).unwrap();
    }

    /// The file as it is after a loss of power.
    fn after_power_loss(&self) -> Option<(Inode, Vec<u8>)> {
        let files = own(&self.device.without_power());
        let (number, inode) = files.lookup(ROOT, &Name::new(b"file").unwrap()).ok()?;
        files.retain(number).unwrap();
        let mut bytes = vec![0; inode.size.to_usize()];
        assert_eq!(files.read(number, &mut bytes, ByteOffset(0)).unwrap(), bytes.len());
        Some((inode, bytes))
    }
}

#[test]
fn synchronous_writes_are_durable_with_size_and_places_when_they_return() {
    for kind in KINDS {
        for flags in [OFlags::SYNC, DSYNC, OFlags::SYNC | OFlags::APPEND, DSYNC | OFlags::APPEND] {
            let bench = Bench::new(kind);
            bench.write(&[1; 5000], 0, OFlags::WRONLY);
            assert!(bench.after_power_loss().is_none(), "nobody has asked for it yet");
            bench.write(&[2; 3000], 5000, OFlags::WRONLY | flags);
            let expected = [vec![1; 5000], vec![2; 3000]].concat();
            assert!(bench.after_power_loss().unwrap().1 == expected, "{flags:?}");
            // In the places that it has, and over holes.
            bench.write(&[3; 100], 50, OFlags::RDWR | (flags - OFlags::APPEND));
            bench.write(&[4; 10], 20_000, OFlags::RDWR | (flags - OFlags::APPEND));
            let (_, found) = bench.after_power_loss().unwrap();
            assert!(found[50..150] == [3; 100] && found[20_000..] == [4; 10], "{flags:?}");
        }
    }
}

#[test]
fn a_synchronous_write_with_o_sync_makes_the_time_durable() {
    for kind in KINDS {
        let bench = Bench::new(kind);
        bench.write(&[1; 4096], 0, OFlags::WRONLY | OFlags::SYNC);
        let (first, _) = bench.after_power_loss().unwrap();
        // The clock of the owner has gone on.
        bench.write(&[2; 4096], 0, OFlags::WRONLY | OFlags::SYNC);
        let (second, found) = bench.after_power_loss().unwrap();
        assert!(second.modified_at > first.modified_at && found == [2; 4096]);
    }
}

#[test]
fn space_and_lengths_are_durable_when_calls_on_synchronous_descriptors_return() {
    for kind in KINDS {
        for flags in [OFlags::SYNC, DSYNC] {
            let bench = Bench::new(kind);
            let opened = handle((OFlags::RDWR | flags).bits().cast_signed());
            bench.translator.allocate((bench.number, opened), (0, 9000), 0).unwrap();
            assert!(bench.after_power_loss().unwrap().1 == [0; 9000], "{flags:?}");
            let plain = handle(OFlags::RDWR.bits().cast_signed());
            bench.translator.allocate((bench.number, plain), (0, 10_000), 0).unwrap();
            assert!(bench.after_power_loss().unwrap().1 == [0; 9000], "nobody has asked");
        }
    }
}

#[test]
fn calls_on_other_descriptors_make_nothing_durable() {
    let plain = OFlags::RDWR | OFlags::APPEND | OFlags::DIRECT | OFlags::NOATIME;
    assert_eq!(Durable::of(plain), Durable::Nothing);
    assert_eq!(Durable::through(FileHandle(u64::MAX)), Durable::Nothing);
}
