//! Files that a node owns: several mounts and commands use them at the same time.
#![allow(clippy::unwrap_used)] // a failed test says where

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, UNIX_EPOCH};

use nearflash_node_tests::{
    Door, Key, MountBench, Place, done, eventually, refused_command as refused,
};
use rustix::fs::XattrFlags;
use rustix::io::Errno;
use rustix::process::{Signal, kill_process};

const MIB: usize = 1 << 20;

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|at| u8::try_from((at / 4096 + at) % 251).unwrap()).collect()
}

#[test]
#[ignore = "needs root and /dev/fuse: run by make test"]
fn each_mount_sees_what_the_other_did() {
    for (door, cache) in [(Door::Local, "none"), (Door::Tcp, "read")] {
        let place = Place::new();
        let bench = MountBench::shared(&place, door);
        let (one, two) =
            (bench.mount(&["--cache", cache]), bench.mount_second(&["--cache", cache]));
        let long = bytes(3 * 1024 * 1024 + 17);
        assert_eq!(fs::metadata(bench.at_second("file")).unwrap_err().kind(), ErrorKind::NotFound);
        fs::write(bench.at("file"), &long).unwrap();
        assert!(fs::read(bench.at_second("file")).unwrap() == long);
        assert_eq!(bench.direct("file").len(), long.len(), "a command, too");

        let file = OpenOptions::new().write(true).open(bench.at_second("file")).unwrap();
        file.write_all_at(b"changed", 70_000).unwrap();
        file.set_len(80_000).unwrap();
        let seen = fs::read(bench.at("file")).unwrap();
        assert_eq!((seen.len(), &seen[70_000..70_007]), (80_000, &b"changed"[..]));

        drop(file);
        fs::create_dir(bench.at("d")).unwrap();
        fs::rename(bench.at_second("file"), bench.at_second("d/moved")).unwrap();
        fs::hard_link(bench.at("d/moved"), bench.at("again")).unwrap();
        assert_eq!(fs::metadata(bench.at_second("again")).unwrap().nlink(), 2);
        std::os::unix::fs::symlink("d/moved", bench.at_second("link")).unwrap();
        assert_eq!(fs::read(bench.at("link")).unwrap().len(), 80_000);
        let value = vec![7; 40_000];
        let set = rustix::fs::setxattr(bench.at("again"), "user.v", &value, XattrFlags::empty());
        set.unwrap();
        let mut got = vec![0; 65_536];
        let len = rustix::fs::getxattr(bench.at_second("again"), "user.v", &mut got).unwrap();
        assert!(got[..len] == value);
        (0..600).for_each(|at| drop(File::create_new(bench.at(&format!("d/{at}"))).unwrap()));
        let names: BTreeSet<_> =
            fs::read_dir(bench.at_second("d")).unwrap().map(|it| it.unwrap().file_name()).collect();
        assert_eq!(names.len(), 601);
        fs::remove_dir_all(bench.at_second("d")).unwrap();
        assert_eq!(fs::metadata(bench.at("d")).unwrap_err().kind(), ErrorKind::NotFound);
        one.unmount();
        two.unmount();
        bench.check();
        bench.terminate();
    }
}

#[test]
#[ignore = "needs root and /dev/fuse: run by make test"]
fn what_several_mounts_append_does_not_overlap() {
    const LINES: usize = 200;
    let place = Place::new();
    let bench = MountBench::shared(&place, Door::Local);
    let (one, two) = (bench.mount(&[]), bench.mount_second(&[]));
    let append = |path, line: Vec<u8>| {
        let mut file = OpenOptions::new().append(true).create(true).open(path).unwrap();
        move || (0..LINES).for_each(|_| file.write_all(&line).unwrap())
    };
    let line = |byte, len: usize| [vec![byte; len - 1], vec![b'\n']].concat();
    let writers = [
        append(bench.at("log"), line(b'a', 100)),
        append(bench.at_second("log"), line(b'b', 33)),
        // More than one message.
        append(bench.at_second("log"), line(b'c', 100_000)),
    ];
    for writer in writers.map(thread::spawn) {
        writer.join().unwrap();
    }
    let log = fs::read(bench.at("log")).unwrap();
    let mut count = std::collections::BTreeMap::new();
    for line in log.split_inclusive(|byte| *byte == b'\n') {
        assert!(line[..line.len() - 1].iter().all(|byte| *byte == line[0]), "one writer's");
        *count.entry((line[0], line.len())).or_insert(0) += 1;
    }
    let expected = [((b'a', 100), LINES), ((b'b', 33), LINES), ((b'c', 100_000), LINES)];
    assert_eq!(count, expected.into());
    one.unmount();
    two.unmount();
    bench.check();
}

#[test]
#[ignore = "needs root and /dev/fuse: run by make test"]
fn a_file_without_a_name_goes_when_the_last_process_that_has_it_open_is_killed() {
    let place = Place::new();
    let bench = MountBench::shared(&place, Door::Local);
    let (one, two) = (bench.mount(&[]), bench.mount_second(&[]));
    let free = || rustix::fs::statvfs(bench.dir()).unwrap().f_bfree;
    let before = free();
    fs::write(bench.at("hidden"), bytes(8 << 20)).unwrap();
    let held = File::open(bench.at_second("hidden")).unwrap();
    fs::remove_file(bench.at("hidden")).unwrap();
    let mut read = [0; 100];
    held.read_exact_at(&mut read, 1 << 20).unwrap();
    assert_eq!(read[..], bytes(2 << 20)[1 << 20..][..100], "the other mount has it open");
    assert!(free() < before);
    let pid = two.pid();
    kill_process(pid, Signal::KILL).unwrap();
    drop(held);
    eventually("its space is free", || free() == before);
    two.abandon();
    one.unmount();
    bench.check();
}

#[test]
#[ignore = "needs root and /dev/fuse: run by make test"]
fn mounts_go_on_after_the_node_was_killed_and_report_what_may_be_lost() {
    let place = Place::new();
    let bench = MountBench::shared(&place, Door::Local);
    let (one, two) = (bench.mount(&[]), bench.mount_second(&[]));
    let kept = File::create_new(bench.at("kept")).unwrap();
    kept.write_all_at(&bytes(1 << 20), 0).unwrap();
    kept.sync_all().unwrap();
    let lost = OpenOptions::new().read(true).write(true).create_new(true).open(bench.at("lost"));
    let lost = lost.unwrap();
    lost.write_all_at(b"never synchronised", 0).unwrap();
    let bench = bench.restart_node();
    assert!(fs::read(bench.at("kept")).unwrap() == bytes(1 << 20));
    assert!(fs::read(bench.at_second("kept")).unwrap() == bytes(1 << 20));
    kept.write_all_at(b"still open", 5).unwrap();
    kept.sync_all().unwrap();
    lost.sync_all().unwrap_err();
    fs::write(bench.at_second("new"), "after").unwrap();
    assert_eq!(fs::read_to_string(bench.at("new")).unwrap(), "after");
    assert_eq!(&fs::read(bench.at_second("kept")).unwrap()[5..15], b"still open");
    drop((kept, lost));
    // Unmounting reports again what nobody has asked about.
    drop((one, two));
    bench.check();
}

/// A file of a shared mount, and calls on it that make the mount ask for its seals.
fn sealed(path: &Path, content: &[u8]) -> File {
    fs::write(path, content).unwrap();
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut read = [0; 100];
    for _ in 0..4 {
        file.read_exact_at(&mut read, 0).unwrap();
        file.write_all_at(&content[..100], 0).unwrap();
    }
    file.sync_all().unwrap();
    file
}

/// Makes this file and all changes before durable.
fn durable(path: &Path) {
    File::open(path).unwrap().sync_all().unwrap();
}

fn read(file: &File, len: usize, offset: usize) -> Vec<u8> {
    let mut read = vec![0; len];
    file.read_exact_at(&mut read, u64::try_from(offset).unwrap()).unwrap();
    read
}

fn write(file: &File, expected: &mut [u8], byte: u8, len: usize, offset: usize) {
    expected[offset..offset + len].fill(byte);
    file.write_all_at(&vec![byte; len], u64::try_from(offset).unwrap()).unwrap();
}

#[test]
#[ignore = "needs root and /dev/fuse: run by make test"]
fn open_files_are_read_and_written_while_the_owner_in_the_node_is_held_up() {
    for door in [Door::Local, Door::Tcp] {
        let place = Place::new();
        let bench = MountBench::shared(&place, door).with_credential();
        let (one, two) = (bench.mount(&[]), bench.mount_second(&[]));
        let mut expected = bytes(3 * MIB + 17);
        let file = sealed(&bench.at("file"), &expected);
        let held = bench.node().hold("files-");
        for at in 0..100 {
            let offset = at * 30_011;
            write(&file, &mut expected, u8::try_from(at).unwrap(), 5000, offset);
            assert!(read(&file, 7000, offset) == expected[offset..offset + 7000]);
        }
        write(&file, &mut expected, 200, 2 * MIB, 1001);
        assert!(read(&file, 3 * MIB, 0) == expected[..3 * MIB]);
        drop(held);
        assert!(fs::read(bench.at_second("file")).unwrap() == expected);
        file.sync_all().unwrap();
        assert!(bench.direct("file") == expected);
        drop(file);
        one.unmount();
        two.unmount();
        bench.check();
        bench.terminate();
    }
}

#[test]
#[ignore = "needs root and /dev/fuse: run by make test"]
fn a_file_that_another_mount_cuts_or_removes_keeps_its_own_bytes_and_zeroes_behind_the_cut() {
    let place = Place::new();
    let mut bench = MountBench::shared(&place, Door::Local);
    let (one, two) = (bench.mount(&[]), bench.mount_second(&[]));
    let len = 8 * MIB;
    let mut expected = bytes(len);
    let mut file = sealed(&bench.at("file"), &expected);
    for round in 0..4 {
        let other = OpenOptions::new().write(true).open(bench.at_second("file")).unwrap();
        other.set_len(10_000).unwrap();
        assert_eq!(file.read_at(&mut [0; 4096], 20_000).unwrap(), 0, "round {round}");
        // Another file gets the blocks behind the cut.
        let new = bench.at_second(&format!("new-{round}"));
        fs::write(&new, vec![0xee; len]).unwrap();
        durable(&new);
        other.set_len(u64::try_from(len).unwrap()).unwrap();
        expected[10_000..].fill(0);
        assert!(read(&file, len, 0) == expected);
        write(&file, &mut expected, round + 1, 3 * MIB, 5_001);
        assert!(read(&file, len, 0) == expected);
        assert!(fs::read(bench.at("file")).unwrap() == expected);
        assert!(fs::read(&new).unwrap().iter().all(|byte| *byte == 0xee));
        fs::remove_file(&new).unwrap();
    }
    // Removed, and replaced by another one.
    for round in 0..4 {
        let new = vec![0xdd - round; len];
        match round {
            0 | 1 => fs::remove_file(bench.at_second("file")).unwrap(),
            _ => {
                fs::write(bench.at_second("other"), &new).unwrap();
                fs::rename(bench.at_second("other"), bench.at_second("file")).unwrap();
            }
        }
        fs::write(bench.at_second("file"), &new).unwrap();
        durable(&bench.at_second("file"));
        assert!(read(&file, len, 0) == expected);
        write(&file, &mut expected, round, 2 * MIB, 777);
        assert!(read(&file, len, 0) == expected);
        assert!(fs::read(bench.at("file")).unwrap() == new);
        expected = new;
        file = sealed(&bench.at("file"), &expected);
    }
    // Without the node, a file without a name is lost.
    fs::remove_file(bench.at_second("file")).unwrap();
    fs::write(bench.at_second("more"), "").unwrap();
    durable(&bench.at_second("more"));
    bench = bench.restart_node();
    fs::write(bench.at_second("file"), vec![0xcc; len]).unwrap();
    fs::write(bench.at_second("again"), vec![0xcc; len]).unwrap();
    let error = file.read_at(&mut [0; 4096], 0).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(Errno::STALE.raw_os_error()));
    file.write_at(&[0; 4096], 0).unwrap_err();
    for name in ["file", "again"] {
        assert!(fs::read(bench.at(name)).unwrap().iter().all(|byte| *byte == 0xcc));
    }
    drop((file, one, two));
    bench.check();
}

#[test]
#[ignore = "needs root and /dev/fuse: run by make test"]
fn writes_that_pass_the_owner_change_the_time_and_may_be_lost_with_the_node() {
    let place = Place::new();
    let mut bench = MountBench::shared(&place, Door::Local);
    let (one, two) = (bench.mount(&[]), bench.mount_second(&[]));
    let mut expected = bytes(MIB);
    let file = sealed(&bench.at("file"), &expected);
    let [old, older] =
        [1_000_000, 2_000_000].map(|seconds| UNIX_EPOCH + Duration::from_secs(seconds));
    let modified = |path: PathBuf| fs::metadata(path).unwrap().modified().unwrap();
    file.set_modified(old).unwrap();
    write(&file, &mut expected, 1, 4096, 0);
    let changed = modified(bench.at("file"));
    assert!(changed > old, "this mount sees the time of its own write");
    assert_eq!((modified(bench.at_second("file")), modified(bench.at("file"))), (changed, changed));
    write(&file, &mut expected, 2, 4096, 8192);
    eventually("the other mount sees it, too", || modified(bench.at_second("file")) > changed);
    write(&file, &mut expected, 3, 4096, 8192);
    file.set_modified(older).unwrap();
    assert_eq!(modified(bench.at("file")), older, "a time that is set after a write stays");
    assert_eq!(modified(bench.at_second("file")), older);

    file.sync_all().unwrap();
    let kept = sealed(&bench.at("kept"), &bytes(MIB));
    write(&file, &mut expected, 4, 4096, 8192);
    bench = bench.restart_node();
    assert!(fs::read(bench.at("kept")).unwrap() == bytes(MIB));
    let lost = file.sync_all().unwrap_err();
    assert_eq!(lost.raw_os_error(), Some(Errno::IO.raw_os_error()));
    file.sync_all().unwrap();
    kept.sync_all().unwrap();
    write(&file, &mut expected, 4, 4096, 8192);
    assert!(fs::read(bench.at_second("file")).unwrap() == expected);
    file.sync_all().unwrap();
    drop((file, kept));
    // Unmounting reports again what nobody has asked about.
    drop((one, two));
    bench.check();
    bench.terminate();
}

#[test]
fn commands_use_the_files_of_a_node_without_taking_the_volume() {
    let place = Place::new();
    let bench = MountBench::shared(&place, Door::Tcp);
    let url = bench.url();
    let at = |path: &str| format!("{url}/{path}");
    let local = place.text("local");
    fs::write(&local, bytes(2_500_000)).unwrap();
    done(&["files", "mkdir", &at("d")]);
    done(&["files", "put", &local, &at("d/")]);
    refused(&["files", "put", &local, &at("d/")], 1, &["/d/local", "--replace"]);
    done(&["files", "put", &local, &at("d/local"), "--replace"]);
    assert!(bench.direct("d/local") == bytes(2_500_000));
    done(&["files", "mv", &at("d/local"), "/moved"]);
    done(&["files", "ls", url]);
    done(&["files", "stat", &at("moved")]);
    refused(&["files", "stat", &at("d/local")], 1, &["/d/local", "no such file"]);
    refused(&["files", "rm", &at("none")], 1, &["/none", "no such file"]);
    done(&["files", "rm", &at("moved")]);
    done(&["files", "rm", &at("d")]);
    refused(&["files", "format", url], 1, &["--force"]);
    done(&["files", "format", url, "--force"]);
    done(&["files", "mkdir", &at("again")]);
    bench.check();
    bench.terminate();
}

#[test]
fn the_rights_on_the_whole_volume_decide_about_files() {
    let place = Place::new();
    let bench = MountBench::shared(&place, Door::Tcp);
    done(&["files", "mkdir", &format!("{}/d", bench.url())]);
    let [reader, writer, part] =
        ["reader", "writer", "part"].map(|id| Key::create(bench.node(), id, &[]));
    reader.grant(bench.node(), "data", &["--rights", "r"]);
    writer.grant(bench.node(), "data", &["--rights", "rw"]);
    part.grant(bench.node(), "data", &["--rights", "rw", "--range", "0..1MiB"]);
    let url = |key: &Key, id: &str, path: &str| {
        let secret = place.text(&format!("secret-{path}"));
        fs::write(&secret, key.secret()).unwrap();
        format!("{}/{path}?key={}&secret-file={secret}", bench.url(), id)
    };
    done(&["files", "stat", &url(&reader, "reader", "d")]);
    refused(&["files", "mkdir", &url(&reader, "reader", "e")], 1, &["--rights rw"]);
    done(&["files", "mkdir", &url(&writer, "writer", "f")]);
    refused(&["files", "stat", &url(&part, "part", "f")], 1, &["does not grant"]);
    let client = writer.connect(bench.node(), Door::Tcp).unwrap();
    let volume = client.open("data").unwrap();
    assert!(!volume.info().is_writable, "only the node writes the blocks");
    volume.write_at(b"x", 0).unwrap_err();
}
