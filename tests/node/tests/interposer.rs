//! Programs under `nearflash run`: calls have the effect that they have without it, whatever other programs
//! do to the files, and to the mount and the node meanwhile.
#![allow(clippy::unwrap_used)] // a failed test says where

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::FileExt as _;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use nearflash::direct::{HANDOVER_LEN, Handover, SEAL_IOCTL, SEAL_WITHOUT_PAGES_IOCTL, Status};
use nearflash::{Buffer, Client, Credentials, Error, QueueOptions};
use nearflash_node_tests::{Door, MountBench, Place, eventually, nearflash};
use rustix::process::{Signal, kill_process};

const MIB: usize = 1 << 20;

fn bytes(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|at| u8::try_from((at / 4096 * 7 + at + seed) % 251).unwrap()).collect()
}

/// Evaluates each line of its input, and prints the value.
const AGENT: &str = "import os, sys, mmap, fcntl, hashlib\n\
    def crc(data): return hashlib.sha256(data).hexdigest()\n\
    for line in sys.stdin:\n\
    \x20   try: value = eval(line)\n\
    \x20   except OSError as error: value = f'errno {error.errno}'\n\
    \x20   print(value, flush=True)\n";

/// A Python program under `nearflash run` that does what it is told. It has one file open as `fd`.
struct Agent {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Agent {
    fn new(bench: &MountBench<'_>, name: &str) -> Self {
        let mut command = Command::new(nearflash());
        command.args(["run", "--report", "--", "python3", "-c", AGENT]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut agent = Self { child, input, output: BufReader::new(output) };
        let path = bench.at(name);
        let path = path.to_str().unwrap();
        agent.tell(&format!("globals().update(path='{path}')"));
        agent.tell("globals().update(fd=os.open(path, os.O_RDWR))");
        agent
    }

    fn tell(&mut self, line: &str) -> String {
        writeln!(self.input, "{line}").unwrap();
        let mut answer = String::new();
        self.output.read_line(&mut answer).unwrap();
        assert!(!answer.is_empty(), "{line}: the program has ended");
        answer.trim_end().to_owned()
    }

    /// Reads, and compares.
    fn reads(&mut self, len: usize, offset: usize, expected: &[u8]) {
        let answer = self.tell(&format!("crc(os.pread(fd, {len}, {offset}))"));
        assert_eq!(answer, digest(expected), "{len} bytes at {offset}");
    }

    fn writes(&mut self, byte: u8, len: usize, offset: usize) -> String {
        self.tell(&format!("os.pwrite(fd, bytes([{byte}]) * {len}, {offset})"))
    }

    /// The number of calls to the node, and the line of the report.
    fn end(self) -> (u64, String) {
        drop(self.input);
        let output = self.child.wait_with_output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{text}");
        // Its children have ended earlier.
        let line = text.lines().rfind(|line| line.contains("calls one-sided"));
        let line = line.unwrap_or_else(|| panic!("a report: {text}")).to_owned();
        let number = line.split(": ").nth(2).and_then(|rest| rest.split(' ').next());
        (number.unwrap().parse().unwrap(), line)
    }
}

fn digest(bytes: &[u8]) -> String {
    let mut command = Command::new("sha256sum");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(bytes).unwrap();
    let output = child.wait_with_output().unwrap();
    String::from_utf8(output.stdout).unwrap()[..64].to_owned()
}

/// Mounts that have their volume for themselves, and mounts of files that the node owns.
const BENCHES: [(Bench, Door); 4] =
    [(OWN, Door::Local), (OWN, Door::Tcp), (SHARED, Door::Local), (SHARED, Door::Tcp)];

const OWN: Bench = |place, door| MountBench::new(place, door);
const SHARED: Bench = |place, door| MountBench::shared(place, door);

type Bench = for<'a> fn(&'a Place, Door) -> MountBench<'a>;

/// A mounted file, and a program that has it open.
fn begun<'a>(bench: &MountBench<'a>, content: &[u8]) -> Agent {
    fs::write(bench.at("file"), content).unwrap();
    File::open(bench.at("file")).unwrap().sync_all().unwrap();
    Agent::new(bench, "file")
}

#[test]
#[ignore = "needs root and /dev/fuse: run by make test"]
fn a_program_reads_and_writes_the_bytes_that_others_find_in_the_mount() {
    for (new, door) in BENCHES {
        let place = Place::new();
        let bench = new(&place, door);
        let mount = bench.mount(&[]);
        let mut expected = bytes(3 * MIB + 17, 0);
        let mut agent = begun(&bench, &expected);
        for (len, offset) in [(4096, 0), (1, 4095), (2 * MIB, 300_001), (4096, 3 * MIB - 4096)] {
            agent.reads(len, offset, &expected[offset..offset + len]);
        }
        // Beyond the last whole block, and the end.
        agent.reads(5000, 3 * MIB - 100, &expected[3 * MIB - 100..]);
        for (at, (len, offset)) in
            [(4096, 8192), (1, 12_287), (MIB + 3, 999_999), (4096, 3 * MIB), (10, 4 * MIB)]
                .into_iter()
                .enumerate()
        {
            let byte = u8::try_from(at + 1).unwrap();
            assert_eq!(agent.writes(byte, len, offset), len.to_string());
            expected.resize(expected.len().max(offset + len), 0);
            expected[offset..offset + len].fill(byte);
        }
        assert!(fs::read(bench.at("file")).unwrap() == expected, "as another program reads it");
        // The bytes that another program writes are read at once.
        let file = OpenOptions::new().write(true).open(bench.at("file")).unwrap();
        file.write_all_at(b"others", 500_000).unwrap();
        expected[500_000..500_006].copy_from_slice(b"others");
        agent.reads(MIB, 400_000, &expected[400_000..400_000 + MIB]);
        agent.reads(4 * MIB, 0, &expected[..4 * MIB]);
        assert_eq!(agent.tell("os.fsync(fd)"), "None");
        assert!(bench.direct("file") == expected, "as another client reads it");
        let (one_sided, line) = agent.end();
        drop(file);
        assert!(one_sided >= 8 && line.contains("beyond the seal"), "{line}");
        mount.unmount();
        bench.check();
        bench.terminate();
    }
}

#[test]
#[ignore = "needs root and /dev/fuse: run by make test"]
fn a_program_without_the_credential_of_the_mount_enters_with_a_bearer() {
    for (new, door) in BENCHES {
        let place = Place::new();
        let bench = new(&place, door).with_credential();
        let mount = bench.mount(&[]);
        let mut expected = bytes(MIB, 0);
        let mut agent = begun(&bench, &expected);
        agent.reads(4096, 8192, &expected[8192..8192 + 4096]);
        assert_eq!(agent.writes(7, 4096, 4096), "4096");
        expected[4096..8192].fill(7);
        agent.reads(MIB, 0, &expected);
        let (one_sided, line) = agent.end();
        assert!(one_sided == 3 && !line.contains("refused"), "{line}");
        assert!(fs::read(bench.at("file")).unwrap() == expected);
        mount.unmount();
        bench.terminate();
    }
}

#[test]
#[ignore = "needs root and /dev/fuse: run by make test"]
fn files_that_others_cut_or_replace_are_read_as_they_are() {
    for new in [OWN, SHARED] {
        let place = Place::new();
        let bench = new(&place, Door::Local);
        let mount = bench.mount(&[]);
        let first = bytes(MIB, 0);
        let mut agent = begun(&bench, &first);
        for round in 1..5 {
            agent.reads(4096, 0, &bytes(MIB, round - 1)[..4096]);
            let file = OpenOptions::new().write(true).open(bench.at("file")).unwrap();
            file.set_len(5000).unwrap();
            assert_eq!(
                agent.tell("len(os.pread(fd, 4096, 2048)), len(os.pread(fd, 9, 8192))"),
                "(2952, 0)"
            );
            file.write_all_at(&bytes(MIB, round), 0).unwrap();
            agent.reads(MIB, 0, &bytes(MIB, round));
        }
        // A file without a name keeps its bytes, and another one does not get them.
        fs::remove_file(bench.at("file")).unwrap();
        fs::write(bench.at("file"), bytes(64 * MIB, 9)).unwrap();
        agent.reads(MIB, 0, &bytes(MIB, 4));
        assert_eq!(agent.writes(1, 8192, 4096), "8192");
        assert!(fs::read(bench.at("file")).unwrap() == bytes(64 * MIB, 9));
        let (one_sided, line) = agent.end();
        assert!(one_sided >= 5 && line.contains("revoked"), "{line}");
        mount.unmount();
        bench.check();
        bench.terminate();
    }
}

/// Asks for a seal as the library does; returns reads of the first block through it.
fn sealed_reads(agent: &mut Agent, command: u32) -> impl FnMut() -> Result<Vec<u8>, Error> + use<> {
    let ask =
        format!("(b := bytearray({HANDOVER_LEN})) and (fcntl.ioctl(fd, {command}, b), b.hex())[1]");
    let hex = agent.tell(&ask);
    let answer: Vec<u8> = (0..hex.len() / 2)
        .map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap())
        .collect();
    let handover = Handover::decode(answer.as_slice().try_into().unwrap()).unwrap();
    let place_of_node = handover.place.place.to_string();
    let client = Client::connect(&place_of_node, Credentials::NONE).unwrap();
    let mut pair = client.sealed_queue_pair(&handover.seal, QueueOptions::default()).unwrap();
    move || {
        pair.post_read_at(Buffer::new(4096), 0)?;
        let mut done = Vec::new();
        while pair.in_flight() > 0 {
            pair.poll(&mut done)?;
        }
        let done = done.pop().unwrap();
        done.result.map(|_| done.buffer.unwrap().to_vec())
    }
}

#[test]
#[ignore = "needs root and /dev/fuse: run by make test"]
fn a_seal_without_pages_is_void_when_a_mapping_gets_its_first_page() {
    let place = Place::new();
    let bench = MountBench::new(&place, Door::Local);
    let mount = bench.mount(&[]);
    let content = bytes(MIB, 0);
    let mut agent = begun(&bench, &content);
    let mut with_pages = sealed_reads(&mut agent, SEAL_IOCTL);
    assert!(with_pages().unwrap() == content[..4096]);
    let mut without_pages = sealed_reads(&mut agent, SEAL_WITHOUT_PAGES_IOCTL);
    assert!(without_pages().unwrap() == content[..4096]);
    // Reads of programs through the mount leave no page.
    assert!(fs::read(bench.at("file")).unwrap() == content);
    assert!(without_pages().unwrap() == content[..4096]);
    agent.tell("globals().update(m=mmap.mmap(fd, 0))");
    assert!(without_pages().is_ok(), "a mapping alone has no page");
    assert_eq!(agent.tell("m[500_000]"), content[500_000].to_string());
    let status = |read: Result<Vec<u8>, Error>| read.unwrap_err().status();
    assert_eq!(status(without_pages()), Some(Status::STALE_EPOCH));
    assert_eq!(status(with_pages()), Some(Status::STALE_EPOCH), "it is asked for again");
    // From then on, the kernel's pages and the volume agree for every caller.
    agent.tell("m.__setitem__(slice(500_000, 500_005), b'store')");
    assert_eq!(agent.tell("os.pread(fd, 5, 500_000)"), "b'store'");
    assert_eq!(agent.writes(9, 4096, 499_712), "4096");
    assert_eq!(agent.tell("m[499_712:503_808] == bytes([9]) * 4096"), "True");
    agent.end();
    mount.unmount();
    bench.check();
    bench.terminate();
}

#[test]
#[ignore = "needs root and /dev/fuse: run by make test"]
fn a_seal_is_void_when_its_file_is_removed_and_its_blocks_are_used_again() {
    for new in [OWN, SHARED] {
        let place = Place::new();
        let bench = new(&place, Door::Local);
        let mount = bench.mount(&[]);
        let mut agent = begun(&bench, &bytes(8 * MIB, 0));
        agent.reads(4096, 0, &bytes(4096, 0));
        let mut read = sealed_reads(&mut agent, SEAL_IOCTL);
        assert!(read().unwrap() == bytes(4096, 0));
        fs::remove_file(bench.at("file")).unwrap();
        agent.end();
        eventually("the seal is void", || {
            read().is_err_and(|it| it.status() == Some(Status::STALE_EPOCH))
        });
        mount.unmount();
        bench.terminate();
    }
}

#[test]
#[ignore = "needs root and /dev/fuse: run by make test"]
fn children_and_programs_that_close_all_descriptors_get_connections_of_their_own() {
    let place = Place::new();
    let bench = MountBench::new(&place, Door::Local);
    let mount = bench.mount(&[]);
    let content = bytes(MIB, 0);
    let mut agent = begun(&bench, &content);
    let same = digest(&content[..8192]);
    let read = "crc(os.pread(fd, 8192, 0))";
    assert_eq!(agent.tell(read), same);
    // A child, and the parent after it.
    let forked = format!(
        "os.waitpid(pid, 0)[1] if (pid := os.fork()) else os._exit({read} != '{same}' or \
         os.pwrite(fd, b'child', 100_000) != 5)"
    );
    assert_eq!(agent.tell(&forked), "0");
    assert_eq!(agent.tell("os.pread(fd, 5, 100_000)"), "b'child'");
    // Another program with the same descriptor.
    let spawned = "__import__('subprocess').run(['python3', '-c', \
        'import os, sys; sys.exit(os.pread(0, 5, 100_000) != b\"child\")'], stdin=fd).returncode";
    assert_eq!(agent.tell(spawned), "0");
    // Files of the program take the numbers of the descriptors that it has closed.
    fs::write(bench.at("other"), bytes(9000, 3)).unwrap();
    let reopened = "[os.closerange(3, 5000), globals().update(fd=os.open(path, os.O_RDWR), \
        others=[os.open(path.replace('file', 'other'), os.O_RDWR) for _ in range(40)]), \
        [os.dup2(others[0], number) for number in range(4030, 4096)]][0]";
    assert_eq!(agent.tell("__import__('resource').setrlimit(7, (5000, 5000))"), "None");
    assert_eq!(agent.tell(reopened), "None");
    for _ in 0..20 {
        assert_eq!(agent.tell(read), same);
    }
    assert_eq!(agent.tell("[os.fstat(other).st_size for other in others] == [9000] * 40"), "True");
    assert_eq!(agent.tell("os.fstat(4095).st_size"), "9000");
    let (_, line) = agent.end();
    assert!(line.contains("lost"), "{line}");
    assert!(fs::read(bench.at("other")).unwrap() == bytes(9000, 3));
    mount.unmount();
    bench.check();
    bench.terminate();
}

#[test]
#[ignore = "needs root and /dev/fuse: run by make test"]
fn pages_that_the_kernel_keeps_have_the_bytes_that_programs_wrote_and_read() {
    let place = Place::new();
    let bench = MountBench::new(&place, Door::Local);
    let mount = bench.mount(&[]);
    let content = bytes(MIB, 0);
    let mut agent = begun(&bench, &content);
    agent.reads(4096, 0, &content[..4096]);
    agent.tell("globals().update(m=mmap.mmap(fd, 0))");
    assert_eq!(agent.tell("m[0:4096] == os.pread(fd, 4096, 0)"), "True");
    assert_eq!(agent.writes(200, 8192, 2048), "8192");
    assert_eq!(agent.tell("m[2048:10240] == bytes([200]) * 8192"), "True");
    agent.tell("m.__setitem__(slice(5000, 5005), b'store')");
    assert_eq!(agent.tell("os.pread(fd, 5, 5000)"), "b'store'");
    agent.tell("m.flush()");
    // A page that another program has mapped is noticed, too.
    let mapping = Command::new("python3")
        .args([
            "-c",
            "import mmap, sys; m = mmap.mmap(0, 0, access=mmap.ACCESS_READ); m[0]; \
            print(m[600_000], flush=True); __import__('signal').pause()",
        ])
        .stdin(File::open(bench.at("file")).unwrap())
        .stdout(Stdio::piped())
        .spawn();
    let mut mapping = mapping.unwrap();
    let mut first = String::new();
    BufReader::new(mapping.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert_eq!(agent.writes(201, 1, 600_000), "1");
    mapping.kill().unwrap();
    mapping.wait().unwrap();
    // Copied by the kernel, from the pages that it keeps.
    agent.tell("globals().update(out=os.open(path + '2', os.O_RDWR | os.O_CREAT))");
    for byte in [77, 78] {
        assert_eq!(agent.writes(byte, 5000, 700_000), "5000");
        assert_eq!(agent.tell("os.copy_file_range(fd, out, 5000, 700_000, 0)"), "5000");
        assert_eq!(agent.tell("set(os.pread(out, 5000, 0))"), format!("{{{byte}}}"));
    }
    let (_, line) = agent.end();
    assert!(line.contains("cached by the kernel"), "{line}");
    mount.unmount();
    bench.check();
    bench.terminate();
}

#[test]
#[ignore = "needs root and /dev/fuse: run by make test"]
fn a_program_goes_on_reading_while_its_mount_is_stopped_and_after_it_was_killed() {
    let place = Place::new();
    let bench = MountBench::new(&place, Door::Local);
    let mount = bench.mount(&[]);
    let content = bytes(MIB, 0);
    let mut agent = begun(&bench, &content);
    agent.reads(4096, 0, &content[..4096]);
    let pid = mount.pid();
    kill_process(pid, Signal::STOP).unwrap();
    for offset in (0..MIB).step_by(65_536) {
        agent.reads(4096, offset, &content[offset..offset + 4096]);
    }
    kill_process(pid, Signal::CONT).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    eventually("the mount has lost its process", || fs::metadata(bench.dir()).is_err());
    agent.reads(4096, 8192, &content[8192..12_288]);
    // The next owner voids the seals of the last one, before it changes anything.
    drop(mount);
    let mount = bench.mount(&["--take-over"]);
    assert_eq!(agent.tell("os.pread(fd, 4096, 8192)"), "errno 107");
    agent.end();
    mount.unmount();
    bench.check();
    bench.terminate();
}

#[test]
#[ignore = "needs root and /dev/fuse: run by make test"]
fn a_program_goes_on_while_the_owner_in_the_node_is_held_up_and_its_mount_is_stopped() {
    for door in [Door::Local, Door::Tcp] {
        let place = Place::new();
        let bench = MountBench::shared(&place, door).with_credential();
        let mount = bench.mount(&[]);
        let mut expected = bytes(MIB, 0);
        let mut agent = begun(&bench, &expected);
        agent.reads(4096, 0, &expected[..4096]);
        assert_eq!(agent.writes(3, 4096, 0), "4096");
        expected[..4096].fill(3);
        let pid = mount.pid();
        let held = bench.node().hold("files-");
        kill_process(pid, Signal::STOP).unwrap();
        for offset in (0..MIB).step_by(65_536) {
            agent.reads(4096, offset, &expected[offset..offset + 4096]);
        }
        kill_process(pid, Signal::CONT).unwrap();
        for offset in (0..MIB).step_by(65_536) {
            assert_eq!(agent.writes(4, 5000, offset), "5000");
            expected[offset..offset + 5000].fill(4);
        }
        drop(held);
        assert_eq!(agent.tell("os.fsync(fd)"), "None");
        assert!(bench.direct("file") == expected);
        let (one_sided, line) = agent.end();
        assert_eq!(one_sided, 34, "{line}");
        mount.unmount();
        bench.check();
        bench.terminate();
    }
}

#[test]
#[ignore = "needs root and /dev/fuse: run by make test"]
fn a_program_outlasts_a_restart_of_the_node_and_lost_writes_are_reported() {
    for new in [OWN, SHARED] {
        let place = Place::new();
        let mut bench = new(&place, Door::Local);
        let mount = bench.mount(&[]);
        let content = bytes(MIB, 0);
        let mut agent = begun(&bench, &content);
        agent.reads(4096, 0, &content[..4096]);
        assert_eq!(agent.writes(5, 4096, 0), "4096");
        bench = bench.restart_node();
        agent.reads(8192, 4096, &content[4096..12_288]);
        // The node may have lost the write.
        assert_eq!(agent.tell("os.fsync(fd)"), "errno 5");
        agent.end();
        drop(mount);
        bench.terminate();
    }
}

/// Calls fdatasync(2) as often as it takes until the library knows that the size is durable.
fn settle(agent: &mut Agent) {
    for _ in 0..3 {
        assert_eq!(agent.tell("os.fdatasync(fd)"), "None");
    }
}

#[test]
#[ignore = "needs root and /dev/fuse: run by make test"]
fn the_node_alone_makes_bytes_durable_once_the_size_of_their_file_is() {
    let place = Place::new();
    let bench = MountBench::new(&place, Door::Local);
    let mount = bench.mount(&[]);
    let mut expected = bytes(MIB, 0);
    let mut agent = begun(&bench, &expected);
    assert_eq!(agent.writes(5, 4096, 8192), "4096");
    expected[8192..12_288].fill(5);
    settle(&mut agent);
    let pid = mount.pid();
    let while_stopped = |agent: &mut Agent| {
        kill_process(pid, Signal::STOP).unwrap();
        let done = agent.tell("os.fdatasync(fd)");
        kill_process(pid, Signal::CONT).unwrap();
        done
    };
    assert_eq!(while_stopped(&mut agent), "None", "the mount has no part in it");

    // A file that has grown, and one that was cut and has its former size again.
    assert_eq!(agent.writes(6, 4096, MIB), "4096");
    expected.resize(MIB + 4096, 6);
    settle(&mut agent);
    assert_eq!(while_stopped(&mut agent), "None");
    let file = OpenOptions::new().write(true).open(bench.at("file")).unwrap();
    file.set_len(4096).unwrap();
    file.write_all_at(&expected, 0).unwrap();
    drop(file);
    assert_eq!(agent.tell("os.fdatasync(fd)"), "None");
    agent.reads(4096, 8192, &expected[8192..12_288]);
    settle(&mut agent);
    assert_eq!(while_stopped(&mut agent), "None");

    // Bytes in pages of the kernel are not at the node, so the mount is needed.
    agent.tell("globals().update(m=mmap.mmap(fd, 0))");
    agent.tell("m.__setitem__(slice(5000, 5005), b'store')");
    expected[5000..5005].copy_from_slice(b"store");
    assert_eq!(agent.tell("os.fdatasync(fd)"), "None");
    assert!(bench.direct("file") == expected, "as another client reads it");

    let (one_sided, line) = agent.end();
    assert!(one_sided >= 8 && line.contains("size not durable"), "{line}");
    kill_process(pid, Signal::KILL).unwrap();
    drop(mount);
    assert!(bench.direct("file") == expected, "no unmount was needed");
    bench.check();
    bench.terminate();
}

#[test]
#[ignore = "needs root and /dev/fuse: run by make test"]
fn writes_with_o_dsync_are_durable_when_they_return_and_soon_need_no_mount() {
    for (new, is_shared) in [(OWN, false), (SHARED, true)] {
        let place = Place::new();
        let bench = new(&place, Door::Local);
        let mount = bench.mount(&[]);
        let mut expected = bytes(MIB, 0);
        let mut agent = begun(&bench, &expected);
        // A size that nobody has synchronised, and a seal up to it.
        agent.reads(4096, 0, &expected[..4096]);
        assert_eq!(agent.writes(1, MIB, MIB), MIB.to_string());
        expected.resize(2 * MIB, 1);
        for _ in 0..5 {
            agent.reads(4096, MIB, &expected[MIB..MIB + 4096]);
        }
        agent.tell("globals().update(fd=os.open(path, os.O_RDWR | os.O_DSYNC))");
        for at in 0..8 {
            let offset = MIB + at * 65_536;
            assert_eq!(agent.writes(2, 4096, offset), "4096");
            expected[offset..offset + 4096].fill(2);
        }
        kill_process(mount.pid(), Signal::KILL).unwrap();
        let bench = bench.restart_node();
        assert!(bench.direct("file") == expected, "as another client reads it");
        let (one_sided, line) = agent.end();
        assert!(line.contains("size not durable"), "{line}");
        // The node that owns the files says nothing about what is durable: all go through the mount.
        assert_eq!(one_sided >= 9, !is_shared, "{line}");
        mount.abandon();
        bench.check();
        bench.terminate();
    }
}

#[test]
#[ignore = "needs root and /dev/fuse: run by make test"]
fn a_page_that_the_kernel_could_not_write_fails_the_next_flush() {
    let place = Place::new();
    let bench = MountBench::new(&place, Door::Local);
    let mount = bench.mount(&[]);
    let mut agent = begun(&bench, &bytes(MIB, 0));
    agent.tell("globals().update(m=mmap.mmap(fd, 0))");
    agent.tell("m[0]");
    // This seal does not depend on pages.
    assert_eq!(agent.writes(5, 4096, 524_288), "4096");
    settle(&mut agent);
    agent.tell("m.__setitem__(slice(10, 15), b'store')");
    kill_process(mount.pid(), Signal::KILL).unwrap();
    eventually("the mount has lost its process", || fs::metadata(bench.dir()).is_err());
    // The kernel writes the page, and fails. It is clean then.
    let write = "__import__('ctypes').CDLL(None).sync_file_range(fd, *map(__import__('ctypes').c_int64, (0, 4096)), 7)";
    agent.tell(write);
    assert_eq!(agent.tell("os.fdatasync(fd)"), "errno 107");
    agent.end();
    drop(mount);
    bench.terminate();
}

#[test]
#[ignore = "needs root and /dev/fuse: run by make test"]
fn a_flush_after_a_restart_of_the_node_reports_the_writes_before_it() {
    let place = Place::new();
    let mut bench = MountBench::new(&place, Door::Local);
    let mount = bench.mount(&[]);
    let mut agent = begun(&bench, &bytes(MIB, 0));
    assert_eq!(agent.writes(5, 4096, 0), "4096");
    settle(&mut agent);
    assert_eq!(agent.writes(6, 4096, 0), "4096");
    bench = bench.restart_node();
    // The node may have lost the second write.
    assert_eq!(agent.tell("os.fdatasync(fd)"), "errno 5");
    assert_eq!(agent.tell("os.fdatasync(fd)"), "None", "it is reported once");
    agent.end();
    drop(mount);
    bench.terminate();
}

#[test]
#[ignore = "needs root, /dev/fuse and sqlite3: run by make test"]
fn sqlite_under_the_library_keeps_its_databases_sound() {
    let place = Place::new();
    let bench = MountBench::new(&place, Door::Local);
    let mount = bench.mount(&[]);
    for mode in ["delete", "wal"] {
        let database = bench.at(&format!("{mode}.db"));
        let sqlite = |statements: &str| {
            let mut command = Command::new(nearflash());
            command.args(["run", "--report", "--", "sqlite3", "-bail"]).arg(&database);
            let output = command.arg(statements).output().unwrap();
            let errors = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{errors}");
            (String::from_utf8(output.stdout).unwrap(), errors)
        };
        sqlite(&format!(
            "PRAGMA journal_mode={mode}; CREATE TABLE t(id INTEGER PRIMARY KEY, value BLOB);
             CREATE INDEX i ON t(value);
             WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 2000)
             INSERT INTO t SELECT x, randomblob(200) FROM n;"
        ));
        let updates =
            (0..20).map(|id| format!("UPDATE t SET value = randomblob(300) WHERE id % 20 = {id};"));
        let (_, report) = sqlite(&updates.collect::<String>());
        assert!(!report.contains(" 0 calls one-sided"), "{report}");
        let plain = Command::new("sqlite3")
            .arg(&database)
            .arg("PRAGMA integrity_check; SELECT count(*) FROM t;")
            .output()
            .unwrap();
        assert_eq!(String::from_utf8(plain.stdout).unwrap(), "ok\n2000\n");
    }
    mount.unmount();
    bench.check();
    bench.terminate();
}
