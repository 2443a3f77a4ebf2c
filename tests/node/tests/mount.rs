//! Files of a volume through a mount: programs read and write them with the calls of the kernel; what
//! they synchronised outlives the process of the mount; wrong inputs are refused on one line.
#![allow(clippy::unwrap_used)] // a failed test says where

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Seek as _, SeekFrom, Write as _};
use std::mem::MaybeUninit;
use std::os::unix::fs::{FileExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use nearflash_node_tests::{Door, MountBench, Place, done, eventually, refused_command as refused};
use rustix::fs::{AtFlags, CWD, FallocateFlags, FileType, Mode, RawDir, RenameFlags, XattrFlags};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};

/// Whether the process has ended. Its number is not in use again yet.
fn has_ended(pid: Pid) -> bool {
    rustix::process::test_kill_process(pid) == Err(Errno::SRCH)
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|at| u8::try_from((at / 4096 + at) % 251).unwrap()).collect()
}

/// Everything that programs do with contents.
fn use_contents(bench: &MountBench<'_>) {
    let long = bytes(5 * 1024 * 1024 + 17);
    fs::write(bench.at("long"), &long).unwrap();
    assert!(fs::read(bench.at("long")).unwrap() == long);

    let mut file = File::create_new(bench.at("file")).unwrap();
    file.write_all(b"0123456789").unwrap();
    file.write_all_at(b"ab", 3).unwrap();
    file.set_len(12).unwrap();
    file.seek(SeekFrom::Start(0)).unwrap();
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    assert_eq!(text, "012ab56789\0\0");
    file.set_len(4).unwrap();
    file.sync_data().unwrap();
    assert_eq!(bench.direct("file"), b"012a", "a synchronised file is read without the mount");

    let append = || OpenOptions::new().append(true).create(true).open(bench.at("log")).unwrap();
    let (mut one, mut two) = (append(), append());
    for at in 0..100 {
        writeln!(one, "one {at}").unwrap();
        writeln!(two, "two {at}").unwrap();
    }
    let expected: String = (0..100).map(|at| format!("one {at}\ntwo {at}\n")).collect();
    assert_eq!(fs::read_to_string(bench.at("log")).unwrap(), expected);

    let hidden = File::create_new(bench.at("hidden")).unwrap();
    hidden.write_all_at(b"still here", 0).unwrap();
    fs::remove_file(bench.at("hidden")).unwrap();
    let mut read = [0; 10];
    hidden.read_exact_at(&mut read, 0).unwrap();
    assert_eq!((&read, hidden.metadata().unwrap().nlink()), (b"still here", 0));

    rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, 1 << 20).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 1 << 20);
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(&file, punch, 1, 2).unwrap();
    assert_eq!(&fs::read(bench.at("file")).unwrap()[..5], b"0\0\0a\0");
    let direct = OpenOptions::new()
        .read(true)
        .custom_flags(rustix::fs::OFlags::DIRECT.bits().cast_signed())
        .open(bench.at("long"))
        .unwrap();
    let mut block = vec![0; 8192];
    direct.read_exact_at(&mut block, 4096).unwrap();
    assert!(block == long[4096..12288]);
}

/// Everything that programs do with names.
fn use_names(bench: &MountBench<'_>) {
    let at = |name: &str| bench.at(name);
    fs::create_dir_all(at("a/b")).unwrap();
    fs::write(at("a/b/file"), "contents").unwrap();
    fs::hard_link(at("a/b/file"), at("a/second")).unwrap();
    assert_eq!(fs::metadata(at("a/second")).unwrap().nlink(), 2);
    std::os::unix::fs::symlink("b/file", at("a/link")).unwrap();
    assert_eq!(fs::read_to_string(at("a/link")).unwrap(), "contents");
    rustix::fs::mknodat(CWD, at("a/fifo"), FileType::Fifo, Mode::from(0o600), 0).unwrap();
    assert!(fs::metadata(at("a/fifo")).unwrap().file_type().is_fifo());

    fs::rename(at("a/b/file"), at("renamed")).unwrap();
    let exchange = RenameFlags::EXCHANGE;
    rustix::fs::renameat_with(CWD, at("renamed"), CWD, at("a/link"), exchange).unwrap();
    assert_eq!(fs::read_link(at("renamed")).unwrap(), Path::new("b/file"));
    let kept = RenameFlags::NOREPLACE;
    let error = rustix::fs::renameat_with(CWD, at("a/link"), CWD, at("a/second"), kept);
    assert_eq!(error, Err(Errno::EXIST));
    assert_eq!(fs::remove_dir(at("a")).unwrap_err().kind(), ErrorKind::DirectoryNotEmpty);

    rustix::fs::setxattr(at("a"), "user.note", b"value", XattrFlags::CREATE).unwrap();
    let again = rustix::fs::setxattr(at("a"), "user.note", b"value", XattrFlags::CREATE);
    assert_eq!(again, Err(Errno::EXIST));
    let own = rustix::fs::setxattr(at("a"), "user.nearflash.runs", b"9", XattrFlags::empty());
    assert_eq!(own, Err(Errno::PERM));
    let mut runs = [0; 8];
    let len = rustix::fs::getxattr(at("long"), "user.nearflash.runs", &mut runs).unwrap();
    assert_eq!(&runs[..len], b"1");

    rustix::fs::chmodat(CWD, at("a/b"), Mode::from(0o2775), AtFlags::empty()).unwrap();
    std::os::unix::fs::chown(at("a/b"), Some(7), Some(8)).unwrap();
    fs::create_dir(at("a/b/child")).unwrap();
    let child = fs::metadata(at("a/b/child")).unwrap();
    assert_eq!((child.gid(), child.mode() & 0o2000), (8, 0o2000), "the group is passed on");
    let space = rustix::fs::statvfs(bench.dir()).unwrap();
    assert!(space.f_bavail < space.f_blocks && space.f_namemax == 255);
}

#[test]
#[ignore = "needs root and /dev/fuse: run by make test"]
fn programs_use_files_through_a_mount_and_find_them_in_the_next_one() {
    for (door, cache) in [(Door::Local, "none"), (Door::Tcp, "read")] {
        let place = Place::new();
        let bench = MountBench::new(&place, door);
        let mount = bench.mount(&["--cache", cache]);
        use_contents(&bench);
        use_names(&bench);
        mount.unmount();
        bench.check();

        let mount = bench.mount(&["--cache", cache]);
        assert!(fs::read(bench.at("long")).unwrap() == bytes(5 * 1024 * 1024 + 17));
        assert_eq!(fs::read_to_string(bench.at("a/second")).unwrap(), "contents");
        let mut value = [0; 8];
        let len = rustix::fs::getxattr(bench.at("a"), "user.note", &mut value).unwrap();
        assert_eq!(&value[..len], b"value");
        let directory = fs::metadata(bench.at("a/b")).unwrap();
        assert_eq!((directory.uid(), directory.mode() & 0o7777), (7, 0o2775));
        let names: BTreeSet<_> =
            fs::read_dir(bench.dir()).unwrap().map(|it| it.unwrap().file_name()).collect();
        assert_eq!(names, ["a", "file", "log", "long", "renamed"].map(Into::into).into());
        mount.unmount();
        bench.terminate();
    }
}

#[test]
#[ignore = "needs root and /dev/fuse: run by make test"]
fn bytes_that_a_program_wrote_through_a_mapping_are_read_without_the_mount() {
    let place = Place::new();
    let bench = MountBench::new(&place, Door::Local);
    let mount = bench.mount(&[]);
    let program = "import mmap, os, sys\n\
        fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)\n\
        os.ftruncate(fd, 10000)\n\
        with mmap.mmap(fd, 10000) as mapping:\n\
        \x20   mapping[4090:4100] = b'0123456789'\n\
        \x20   mapping.flush()\n\
        \x20   assert os.pread(fd, 10, 4090) == b'0123456789'\n\
        \x20   os.pwrite(fd, b'ab', 4092)\n\
        \x20   assert mapping[4090:4096] == b'01ab45'\n\
        os.fsync(fd)\n";
    let status = Command::new("python3").args(["-c", program]).arg(bench.at("mapped")).status();
    assert!(status.unwrap().success());
    let found = bench.direct("mapped");
    assert_eq!((found.len(), &found[4088..4101]), (10000, &b"\0\x0001ab456789\0"[..]));
    mount.unmount();
    bench.terminate();
}

#[test]
#[ignore = "needs root and /dev/fuse: run by make test"]
fn a_directory_of_ten_thousand_files_is_listed_and_emptied_while_it_is_read() {
    let place = Place::new();
    let bench = MountBench::new(&place, Door::Local);
    let mount = bench.mount(&[]);
    let many = bench.at("many");
    fs::create_dir(&many).unwrap();
    for at in 0..10_000 {
        File::create(many.join(format!("file {at}"))).unwrap();
    }
    let listed: BTreeSet<_> =
        fs::read_dir(&many).unwrap().map(|it| it.unwrap().file_name()).collect();
    assert_eq!(listed.len(), 10_000);
    let mut removed = 0;
    for entry in fs::read_dir(&many).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
        removed += 1;
    }
    assert_eq!((removed, fs::read_dir(&many).unwrap().count()), (10_000, 0));
    fs::remove_dir(&many).unwrap();
    mount.unmount();
    bench.check();
    bench.terminate();
}

/// Both kinds of volume: the mount owns it, or the node does.
const BENCHES: [for<'a> fn(&'a Place, Door) -> MountBench<'a>; 2] =
    [|place, door| MountBench::new(place, door), |place, door| MountBench::shared(place, door)];

/// The names that getdents64(2) returns next, each with the place behind it (telldir(3)).
fn names_from(directory: &File, place: u64) -> Vec<(Vec<u8>, u64)> {
    let mut buffer = [MaybeUninit::uninit(); 1024];
    rustix::fs::seek(directory, rustix::fs::SeekFrom::Start(place)).unwrap();
    let mut listing = RawDir::new(directory, &mut buffer);
    let mut names = Vec::new();
    while let Some(entry) = listing.next() {
        let entry = entry.unwrap();
        names.push((entry.file_name().to_bytes().to_vec(), entry.next_entry_cookie()));
        if listing.is_buffer_empty() {
            break;
        }
    }
    names
}

#[test]
#[ignore = "needs root and /dev/fuse: run by make test"]
fn seekdir_finds_every_place_that_telldir_gave_in_any_order() {
    for new in BENCHES {
        let place = Place::new();
        let bench = new(&place, Door::Local);
        let mount = bench.mount(&[]);
        (0..150).for_each(|at| drop(File::create(bench.at(&format!("file {at}"))).unwrap()));
        let directory = File::open(bench.dir()).unwrap();
        let (mut all, mut places) = (Vec::new(), vec![0]);
        loop {
            let found = names_from(&directory, *places.last().unwrap());
            if found.is_empty() {
                break;
            }
            places.extend(found.iter().map(|(_, next)| *next));
            all.extend(found.into_iter().map(|(name, _)| name));
        }
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 152);
        for at in (0..all.len()).map(|at| at * 71 % all.len()) {
            assert_eq!(names_from(&directory, places[at])[0].0, all[at], "place {at}");
        }
        drop(directory);
        mount.unmount();
        bench.terminate();
    }
}

#[test]
#[ignore = "needs root and /dev/fuse: run by make test"]
fn a_mount_sees_that_its_volume_has_grown() {
    for new in BENCHES {
        let place = Place::new();
        let bench = new(&place, Door::Local);
        let mount = bench.mount(&[]);
        let size = || {
            let space = rustix::fs::statvfs(bench.dir()).unwrap();
            space.f_blocks * space.f_frsize
        };
        assert!(size() < 128 << 20);
        bench.node().command(&["volume", "resize", "data", "256MiB"]);
        eventually("the mount has more space", || size() > 200 << 20);
        fs::write(bench.at("long"), bytes(150 << 20)).unwrap();
        mount.unmount();
        bench.check();
        bench.terminate();
    }
}

#[test]
#[ignore = "needs root and /dev/fuse: run by make test"]
fn overlayfs_has_its_upper_layer_on_a_mount() {
    let known = fs::read_to_string("/proc/filesystems").unwrap();
    for new in BENCHES {
        let place = Place::new();
        let bench = new(&place, Door::Local);
        let mount = bench.mount(&[]);
        fs::write(bench.at("old"), "moved").unwrap();
        rustix::fs::renameat_with(
            CWD,
            bench.at("old"),
            CWD,
            bench.at("new"),
            RenameFlags::WHITEOUT,
        )
        .unwrap();
        let whiteout = fs::metadata(bench.at("old")).unwrap();
        assert!(whiteout.file_type().is_char_device() && whiteout.rdev() == 0);
        assert_eq!(fs::read_to_string(bench.at("new")).unwrap(), "moved");
        if known.contains("overlay") {
            for name in ["lower", "upper", "work", "merged"] {
                fs::create_dir(bench.at(name)).unwrap();
            }
            fs::write(bench.at("lower/hidden"), "x").unwrap();
            fs::write(bench.at("lower/kept"), "below").unwrap();
            let dir = bench.dir_text();
            let layers = format!("lowerdir={dir}/lower,upperdir={dir}/upper,workdir={dir}/work");
            let merged = bench.at("merged");
            let overlay = Command::new("mount")
                .args(["-t", "overlay", "overlay", "-o", &layers])
                .arg(&merged)
                .status();
            assert!(overlay.unwrap().success());
            fs::remove_file(merged.join("hidden")).unwrap();
            fs::rename(merged.join("kept"), merged.join("renamed")).unwrap();
            let names: BTreeSet<_> =
                fs::read_dir(&merged).unwrap().map(|it| it.unwrap().file_name()).collect();
            assert_eq!(names, ["renamed"].map(Into::into).into());
            assert_eq!(fs::read_to_string(merged.join("renamed")).unwrap(), "below");
            assert!(Command::new("umount").arg(&merged).status().unwrap().success());
            assert!(fs::metadata(bench.at("upper/hidden")).unwrap().file_type().is_char_device());
        }
        mount.unmount();
        bench.check();
        bench.terminate();
    }
}

#[test]
#[ignore = "needs root and /dev/fuse: run by make test"]
fn synchronised_files_are_whole_after_the_process_of_the_mount_was_killed() {
    let place = Place::new();
    let bench = MountBench::new(&place, Door::Local);
    let dir = bench.dir_text();
    for round in 0..3 {
        let mount = bench.mount(if round == 0 { &[] } else { &["--take-over"] });
        for before in 0..round {
            assert!(fs::read(bench.at(&format!("kept {before}"))).unwrap() == bytes(300_000));
        }
        let mut file = File::create(bench.at(&format!("kept {round}"))).unwrap();
        file.write_all(&bytes(300_000)).unwrap();
        file.sync_all().unwrap();
        File::open(bench.dir()).unwrap().sync_all().unwrap();
        let mut lost = File::create(bench.at("lost")).unwrap();
        lost.write_all(b"not synchronised").unwrap();
        let pid = mount.pid();
        kill_process(pid, Signal::KILL).unwrap();
        eventually("the process is gone", || has_ended(pid));
        let error = fs::metadata(bench.dir()).unwrap_err();
        assert_eq!(Errno::from_io_error(&error), Some(Errno::NOTCONN));
        refused(&["mount", bench.url(), dir], 1, &["lost its process", "nearflash umount"]);
        drop((file, lost));
        mount.unmount();
        bench.check();
    }
    bench.terminate();
}

/// Writes files in all ways in which a program can ask that a call is durable when it returns. Each file is
/// `len` bytes of its letter; those that got space alone are zeroes.
const SYNCHRONOUS: &str = r"
import ctypes, mmap, os, struct, sys
os.chdir(sys.argv[1])
libc = ctypes.CDLL(None, use_errno=True)
new = os.O_RDWR | os.O_CREAT
page = mmap.mmap(-1, 4096)
def plain(letter, len):
    fd = os.open('plain ' + letter, new)
    os.pwrite(fd, letter.encode() * len, 0)
    return fd
def sync(fd): os.pwrite(fd, b'a' * 300000, 0)
def dsync(fd): os.pwrite(fd, b'b' * 300000, 0)
def grown(fd):
    with open('grown', 'wb', 0) as other: other.write(b'c' * 250000)
    os.pwrite(fd, b'c' * 50000, 250000)
def append(fd): [os.write(fd, b'd' * 100000) for _ in range(3)]
def rwf_sync(fd): os.pwritev(fd, [b'e' * 200000, b'e' * 100000], 0, os.RWF_SYNC)
def rwf_dsync(fd): os.pwritev(fd, [b'f' * 300000], 0, os.RWF_DSYNC)
def sendfile(fd): os.sendfile(fd, plain('g', 300000), 0, 300000)
def splice(fd):
    source, (read, write), left = plain('h', 300000), os.pipe(), 300000
    while left:
        moved = os.splice(source, write, left)
        while moved:
            done = os.splice(read, fd, moved)
            moved, left = moved - done, left - done
def copy_file_range(fd):
    source, at = plain('i', 300000), 0
    while at < 300000: at += os.copy_file_range(source, fd, 300000 - at, at, at)
def direct(fd):
    page[:] = b'j' * 4096
    for at in range(0, 73): os.pwritev(fd, [page], at * 4096)
    os.ftruncate(fd, 299008)
def asynchronous(fd):
    page[:] = b'k' * 4096
    setup, submit, getevents = (206, 209, 208) if os.uname().machine == 'x86_64' else (0, 2, 4)
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    context, event = ctypes.c_ulong(0), ctypes.create_string_buffer(32)
    assert libc.syscall(setup, 1, ctypes.byref(context)) == 0
    block = ctypes.create_string_buffer(struct.pack('=QIiHhIQQqQII', 0, 0, 2, 1, 0, fd, address, 4096, 0, 0, 0, 0))
    pointer = ctypes.c_void_p(ctypes.addressof(block))
    assert libc.syscall(submit, context, ctypes.c_long(1), ctypes.byref(pointer)) == 1
    assert libc.syscall(getevents, context, ctypes.c_long(1), ctypes.c_long(1), event, None) == 1
    assert struct.unpack('=QQqq', event.raw)[2] == 4096
def mapped(fd):
    os.ftruncate(fd, 300000)
    with mmap.mmap(fd, 300000) as pages:
        pages[:] = b'l' * 300000
        pages.flush()
def fallocate(fd): os.posix_fallocate(fd, 0, 300000)
def ftruncate(fd): os.ftruncate(fd, 300000)
for name, flags in [
    ('sync', os.O_SYNC), ('dsync', os.O_DSYNC), ('grown', os.O_DSYNC), ('append', os.O_DSYNC | os.O_APPEND),
    ('rwf_sync', 0), ('rwf_dsync', 0), ('sendfile', os.O_SYNC), ('splice', os.O_DSYNC),
    ('copy_file_range', os.O_DSYNC), ('direct', os.O_DSYNC | os.O_DIRECT),
    ('asynchronous', os.O_DIRECT), ('mapped', 0), ('fallocate', os.O_SYNC), ('ftruncate', os.O_DSYNC),
]:
    globals()[name](os.open(name, new | flags))
# Whoever kills everything now finds the others durable, and not this one.
with open('plain', 'wb', 0) as file: file.write(b'plain')
print('durable', flush=True)
sys.stdin.read()
";

#[test]
#[ignore = "needs root and /dev/fuse: run by make test"]
fn what_a_program_wrote_synchronously_is_whole_after_mount_and_node_were_killed() {
    for (new, cache) in BENCHES.iter().flat_map(|new| [(new, "none"), (new, "read")]) {
        let place = Place::new();
        let bench = new(&place, Door::Local);
        let mount = bench.mount(&["--cache", cache]);
        let mut program = Command::new("python3")
            .args(["-c", SYNCHRONOUS, bench.dir_text()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = String::new();
        BufReader::new(program.stdout.take().unwrap()).read_line(&mut said).unwrap();
        assert_eq!(said, "durable\n");
        kill_process(mount.pid(), Signal::KILL).unwrap();
        let bench = bench.restart_node();
        program.kill().unwrap();
        program.wait().unwrap();
        for (letter, name) in
            ('a'..).zip("sync dsync grown append rwf_sync rwf_dsync sendfile splice".split(' '))
        {
            let expected = letter.to_string().repeat(300_000);
            assert!(bench.direct(name) == expected.as_bytes(), "{name}, --cache {cache}");
        }
        let others = [
            ("copy_file_range", 'i', 300_000),
            ("direct", 'j', 299_008),
            ("asynchronous", 'k', 4096),
            ("mapped", 'l', 300_000),
            ("fallocate", '\0', 300_000),
            ("ftruncate", '\0', 300_000),
        ];
        for (name, letter, len) in others {
            let expected = letter.to_string().repeat(len);
            assert!(bench.direct(name) == expected.as_bytes(), "{name}, --cache {cache}");
        }
        mount.abandon();
        bench.check();
        bench.terminate();
    }
}

#[test]
#[ignore = "needs root and /dev/fuse: run by make test"]
fn wrong_inputs_of_mount_and_umount_are_refused_by_name() {
    let place = Place::new();
    let bench = MountBench::new(&place, Door::Tcp);
    let dir = bench.dir_text();
    let (file, missing) = (place.text("file"), place.text("missing"));
    fs::write(&file, "").unwrap();
    refused(&["mount", "/dev/sdb", dir], 2, &["direct://HOST:PORT/VOLUME"]);
    refused(&["mount", bench.url(), &missing], 1, &["missing", "create the directory"]);
    refused(&["mount", bench.url(), &file], 1, &["file: it is not a directory"]);
    refused(&["mount", bench.url(), "/proc"], 1, &["/proc", "'proc' is mounted there"]);
    refused(&["mount", bench.url(), dir, "--log", "/no/log"], 1, &["cannot write the log /no/log"]);
    let none = format!("{}/none", Door::Tcp.url(bench.node()));
    refused(&["mount", &none, dir], 1, &["'none'"]);
    bench.node().command(&["volume", "create", "raw=16MiB@flash"]);
    let raw = format!("{}/raw", Door::Tcp.url(bench.node()));
    refused(&["mount", &raw, dir], 1, &["'raw' is not formatted", "nearflash files format"]);
    refused(&["umount", dir], 1, &["is not a mount of nearflash"]);
    refused(&["umount", &missing], 1, &["is not a mount of nearflash"]);

    let mount = bench.mount(&[]);
    refused(&["mount", bench.url(), dir], 1, &["is mounted there", "unmount it"]);
    let other = place.text("other");
    fs::create_dir(&other).unwrap();
    refused(
        &["mount", bench.url(), &other],
        1,
        &["has an owner: nearflash mount at", "--take-over"],
    );
    let format = ["files", "format", bench.url(), "--force"];
    refused(&format, 1, &["has an owner", "--take-over"]);
    let busy = File::create(bench.at("busy")).unwrap();
    refused(&["umount", dir], 1, &["it is in use", "fuser -vm"]);
    drop(busy);
    mount.unmount();
    bench.terminate();
}

#[test]
#[ignore = "needs root and /dev/fuse: run by make test"]
fn sigterm_unmounts_and_everything_is_durable() {
    let place = Place::new();
    let bench = MountBench::new(&place, Door::Local);
    let mount = bench.mount(&[]);
    fs::write(bench.at("file"), bytes(100_000)).unwrap();
    let pid = mount.pid();
    kill_process(pid, Signal::TERM).unwrap();
    eventually("the process ends", || has_ended(pid));
    assert!(mount.log().contains("is unmounted from"), "{}", mount.log());
    assert!(bench.direct("file") == bytes(100_000));

    drop(mount);

    // A file that is open is no reason to stay: its later calls fail.
    let mount = bench.mount(&[]);
    let open = File::options().write(true).open(bench.at("file")).unwrap();
    let pid = mount.pid();
    kill_process(pid, Signal::TERM).unwrap();
    eventually("the process ends", || has_ended(pid));
    open.write_all_at(b"late", 0).unwrap_err();
    drop(open);
    assert!(bench.direct("file") == bytes(100_000));
    assert!(mount.log().contains("is in use"), "{}", mount.log());
    drop(mount);
    bench.terminate();
}

/// A node that does not answer until this is dropped.
struct Silent(Pid);

impl Silent {
    fn new(bench: &MountBench<'_>) -> Self {
        let pid = bench.node().pid().to_string().parse().ok().and_then(Pid::from_raw).unwrap();
        kill_process(pid, Signal::STOP).unwrap();
        Self(pid)
    }
}

impl Drop for Silent {
    fn drop(&mut self) {
        kill_process(self.0, Signal::CONT).unwrap();
    }
}

#[test]
#[ignore = "needs root and /dev/fuse: run by make test"]
fn umount_says_for_which_node_it_waits_and_can_be_told_not_to_wait() {
    for new in BENCHES {
        let place = Place::new();
        let bench = new(&place, Door::Local);
        let dir = bench.dir_text();
        let mount = bench.mount(&[]);
        fs::write(bench.at("file"), bytes(10_000)).unwrap();
        let silent = Silent::new(&bench);
        let mut command = Command::new(nearflash_node_tests::nearflash());
        let mut umount = command.args(["umount", dir]).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        BufReader::new(umount.stderr.take().unwrap()).read_line(&mut said).unwrap();
        assert!(said.contains(bench.url()) && said.contains("--force"), "{said}");
        drop(silent);
        assert!(umount.wait().unwrap().success());
        drop(mount);
        assert!(bench.direct("file") == bytes(10_000));

        // Nobody answers.
        let mount = bench.mount(&[]);
        fs::write(bench.at("lost"), "lost").unwrap();
        let pid = mount.pid();
        let silent = Silent::new(&bench);
        let given_up = ["does not answer", "may be lost", "waiting for the node"];
        let umount = Command::new(nearflash_node_tests::nearflash())
            .args(["umount", "--force", dir])
            .output()
            .unwrap();
        let said = String::from_utf8(umount.stderr).unwrap();
        assert_eq!(umount.status.code(), Some(1), "{said}");
        assert!(given_up.iter().all(|part| said.contains(part)), "{said}");
        eventually("the process ends", || has_ended(pid));
        assert_eq!(fs::read_dir(bench.dir()).unwrap().count(), 0, "the folder below");
        drop((silent, mount));

        // A second signal does not wait either.
        let mount = bench.mount(&["--take-over"]);
        fs::write(bench.at("lost"), "lost").unwrap();
        let pid = mount.pid();
        let silent = Silent::new(&bench);
        kill_process(pid, Signal::TERM).unwrap();
        // A call on the directory would wait for the node.
        let is_mounted = || fs::read_to_string("/proc/self/mountinfo").unwrap().contains(dir);
        eventually("it is unmounted", || !is_mounted());
        kill_process(pid, Signal::TERM).unwrap();
        eventually("the process ends", || has_ended(pid));
        drop((silent, mount));

        // A node that answers gets everything, also from a mount that is in use.
        let mount = bench.mount(&["--take-over"]);
        let open = File::create(bench.at("open")).unwrap();
        open.write_all_at(b"written", 0).unwrap();
        done(&["umount", "--force", dir]);
        open.write_all_at(b"late", 0).unwrap_err();
        drop((open, mount));
        assert_eq!(bench.direct("open"), b"written");
        bench.check();
        bench.terminate();
    }
}

#[test]
#[ignore = "needs root and /dev/fuse: run by make test"]
fn a_mount_whose_volume_was_formatted_ends_and_leaves_nothing_in_it() {
    let place = Place::new();
    let bench = MountBench::new(&place, Door::Local);
    let mount = bench.mount(&[]);
    fs::write(bench.at("file"), bytes(100_000)).unwrap();
    let pid = mount.pid();
    done(&["files", "format", bench.url(), "--force", "--take-over"]);
    fs::write(bench.at("later"), "later").unwrap_err();
    eventually("the process ends", || has_ended(pid));
    drop(mount);
    bench.check();
    let mount = bench.mount(&[]);
    assert_eq!(fs::read_dir(bench.dir()).unwrap().count(), 0);
    mount.unmount();
    bench.terminate();
}

#[test]
#[ignore = "needs root and /dev/fuse: run by make test"]
fn a_mount_whose_volume_was_taken_over_ends_and_writes_nothing() {
    let place = Place::new();
    let bench = MountBench::new(&place, Door::Local);
    let mount = bench.mount(&[]);
    fs::write(bench.at("file"), "first").unwrap();
    let open = File::options().write(true).open(bench.at("file")).unwrap();
    open.sync_all().unwrap();
    let pid = mount.pid();
    done(&["files", "mkdir", &format!("{}/taken", bench.url()), "--take-over"]);
    let written = open.write_all_at(b"second", 0).and_then(|()| open.sync_all());
    written.unwrap_err();
    eventually("the process ends", || has_ended(pid));
    assert!(mount.log().contains("has another owner"), "{}", mount.log());
    drop(open);
    // Programs do not write to the directory below by mistake.
    let error = File::create(bench.at("astray")).unwrap_err();
    assert_eq!(Errno::from_io_error(&error), Some(Errno::NOTCONN));
    mount.unmount();
    bench.check();
    assert_eq!(bench.direct("file"), b"first");
    bench.terminate();
}

#[test]
#[ignore = "needs root and /dev/fuse: run by make test"]
fn a_mount_outlasts_restarts_of_the_node_and_reports_lost_writes_once() {
    let place = Place::new();
    let mut bench = MountBench::new(&place, Door::Local);
    let mount = bench.mount(&[]);
    fs::write(bench.at("kept"), bytes(300_000)).unwrap();
    let kept = File::options().write(true).open(bench.at("kept")).unwrap();
    kept.sync_all().unwrap();
    let fresh = File::create_new(bench.at("fresh")).unwrap();
    let is_lost = |synced: std::io::Result<()>| match synced {
        Ok(()) => false,
        Err(error) => {
            assert_eq!(Errno::from_io_error(&error), Some(Errno::IO));
            true
        }
    };
    // The node may have lost its power, and with it the writes that were not synchronised. The mount
    // may have synchronised them by itself just before the restart.
    for file in [&kept, &fresh] {
        loop {
            file.write_all_at(&bytes(5000), 0).unwrap();
            bench = bench.restart_node();
            assert!(fs::read(bench.at("kept")).unwrap() == bytes(300_000));
            if is_lost(file.sync_all()) {
                break;
            }
        }
        file.sync_all().unwrap();
        file.write_all_at(&bytes(5000), 0).unwrap();
        file.sync_all().unwrap();
    }
    // Names that were not synchronised are changes in the memory of the mount.
    fs::create_dir(bench.at("directory")).unwrap();
    bench = bench.restart_node();
    fs::rename(bench.at("directory"), bench.at("renamed")).unwrap();
    File::open(bench.dir()).unwrap().sync_all().unwrap();
    drop((kept, fresh));
    mount.unmount();
    assert!(bench.direct("fresh") == bytes(5000));
    assert!(bench.direct("kept") == bytes(300_000));

    let mount = bench.mount(&[]);
    assert!(fs::metadata(bench.at("renamed")).unwrap().is_dir());
    // Nobody has written: nobody learns of the loss.
    bench = bench.restart_node();
    File::open(bench.at("kept")).unwrap().sync_all().unwrap();
    mount.unmount();
    bench.check();
    bench.terminate();
}

/// Writes the file and synchronises it, again and again, until `stop` is set. Returns the number of rounds.
fn write_until(stop: &AtomicBool, file: &File) -> u64 {
    let mut rounds = 0;
    while !stop.load(Ordering::Relaxed) {
        file.write_all_at(&bytes(20_000), 0).unwrap();
        file.sync_all().unwrap();
        rounds += 1;
    }
    rounds
}

#[test]
#[ignore = "needs root and /dev/fuse: run by make test"]
fn a_mount_reports_no_loss_when_its_node_stood_still_or_was_killed_and_nothing_is_lost() {
    let place = Place::new();
    let mut bench = MountBench::lasting(&place, Door::Local);
    let mount = bench.mount(&[]);
    let file = File::create_new(bench.at("file")).unwrap();
    let busy = File::create_new(bench.at("busy")).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let (is_over, rounds_of) = (Arc::clone(&stop), busy.try_clone().unwrap());
    let rounds = thread::spawn(move || write_until(&is_over, &rounds_of));
    file.write_all_at(&bytes(50_000), 0).unwrap();
    // After two seconds, the mount asks for a sign of life, and takes the connection for lost after two more.
    bench.node().freeze();
    thread::sleep(Duration::from_secs(5));
    bench.node().signal(Signal::CONT);
    file.sync_all().unwrap();
    file.write_all_at(&bytes(70_000), 0).unwrap();
    bench = bench.restart_node();
    file.sync_all().unwrap();
    stop.store(true, Ordering::Relaxed);
    assert!(rounds.join().unwrap() > 0);
    drop((file, busy));
    mount.unmount();
    assert!(bench.direct("file") == bytes(70_000));
    assert!(bench.direct("busy") == bytes(20_000));
    bench.check();
    bench.terminate();
}
