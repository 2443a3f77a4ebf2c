//! A `nearflash serve` process.

use std::fs::{self, File, OpenOptions};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;

use nearflash_api::{Ready, process};
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};
use serde_json::Value;
use tempfile::TempDir;

use crate::held::Held;
use crate::process::Usage;
use crate::{PATIENCE, eventually, nearflash};

/// The number of lines of a log that a failed test shows.
const TAIL_LINES: usize = 40;

/// A test's directory: a node's data directory, its devices, its log. It outlives the nodes in it.
#[derive(Debug)]
pub struct Place(TempDir);

impl Place {
    /// Creates a new, empty directory.
    #[allow(clippy::new_without_default, reason = "it makes a folder")]
    pub fn new() -> Self {
        Self(TempDir::with_prefix("nearflash-").expect("the system has room for a folder"))
    }

    /// A path in the directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// [`Self::path`] as text, for flags.
    pub fn text(&self, name: &str) -> String {
        self.path(name).to_str().expect("temporary folders have plain names").to_owned()
    }

    /// The node's data directory.
    pub fn data_dir(&self) -> String {
        self.text("data")
    }

    /// The flag value for the file device `flash` with this size.
    pub fn flash(&self, size: &str) -> String {
        format!("flash=file:{},size={size}", self.text("flash.img"))
    }

    /// The log of all nodes that ran in this directory.
    pub fn log(&self) -> String {
        fs::read_to_string(self.path("node.log")).unwrap_or_default()
    }

    /// The message with `DIR` for this directory's name.
    pub fn anonymous(&self, message: &str) -> String {
        message.replace(&self.0.path().to_string_lossy().into_owned(), "DIR")
    }
}

/// These arguments, with a block size for each volume that has none.
fn in_blocks(arguments: &[&str]) -> Vec<String> {
    let mut all: Vec<String> = arguments.iter().map(|&argument| argument.to_owned()).collect();
    for index in 1..all.len() {
        let is_new =
            all[index - 1] == "--volume" || all[..index].ends_with(&NEW_VOLUME.map(String::from));
        // A volume of a cluster has no device, and always has such blocks.
        if is_new && all[index].contains('=') && !all[index].contains("block-size=") {
            all[index].push_str(",block-size=4096");
        }
    }
    all
}

/// The words before a volume on the command line of `nearflash volume create`.
const NEW_VOLUME: [&str; 2] = ["volume", "create"];

/// A port of its own for NVMe/TCP.
const ANY_NVME_TCP: [&str; 2] = ["--nvme-tcp", "127.0.0.1:0"];

/// A running node, killed when dropped.
#[derive(Debug)]
pub struct Node<'a> {
    place: &'a Place,
    process: Child,
    ready: Ready,
}

impl<'a> Node<'a> {
    /// Starts a node with these flags, on a port of its own, and waits until it is ready. Volumes
    /// have blocks of 4096 bytes, which the tests assume, unless the flags specify a size.
    ///
    /// # Panics
    /// When it does not start.
    pub fn start(place: &'a Place, flags: &[&str]) -> Self {
        Self::start_by(Command::new(nearflash()), place, &[&ANY_NVME_TCP, flags].concat())
    }

    /// The same with a command that runs the program, and with these flags alone.
    ///
    /// # Panics
    /// When it does not start.
    pub fn start_by(mut command: Command, place: &'a Place, flags: &[&str]) -> Self {
        command
            .args(["serve", "--data-dir", &place.data_dir()])
            .args(in_blocks(flags))
            .stderr(append_to(&place.path("node.log")));
        let (process, ready) = process::start(&mut command, PATIENCE)
            .unwrap_or_else(|error| panic!("{error}: {}", place.log()));
        Self { place, process, ready }
    }

    /// A node with one volume, `data`, of 8 MiB in memory, on one core.
    pub fn in_memory(place: &'a Place) -> Self {
        Self::start(place, &["--device", "r=ram:16MiB", "--volume", "data=8MiB@r"])
    }

    /// A node that also listens for direct clients: on a port of its own, and in the test's
    /// directory.
    pub fn with_direct(place: &'a Place, flags: &[&str]) -> Self {
        let socket = place.text("direct.sock");
        let doors = ["--direct", "127.0.0.1:0", "--direct-local", &socket];
        Self::start(place, &[&doors[..], flags].concat())
    }

    /// A node that also listens for initiators, on a port of its own.
    pub fn with_iscsi(place: &'a Place, flags: &[&str]) -> Self {
        Self::start(place, &[&["--iscsi", "127.0.0.1:0"][..], flags].concat())
    }

    /// The address for initiators.
    ///
    /// # Panics
    /// When the ready line has no such address.
    pub fn iscsi_address(&self) -> SocketAddr {
        *self.ready.iscsi.first().expect("the ready line names an address for initiators")
    }

    /// The ready line.
    pub fn ready(&self) -> &Ready {
        &self.ready
    }

    /// The address for NVMe/TCP hosts.
    ///
    /// # Panics
    /// When the ready line has no address.
    pub fn address(&self) -> SocketAddr {
        *self.ready.nvme_tcp.first().expect("the ready line names an address")
    }

    /// The address for direct clients on the network.
    ///
    /// # Panics
    /// When the ready line has no such address.
    pub fn direct_address(&self) -> SocketAddr {
        *self.ready.direct.first().expect("the ready line names an address for direct clients")
    }

    /// The socket for direct clients on this machine.
    ///
    /// # Panics
    /// When the ready line has no socket.
    pub fn direct_socket(&self) -> &str {
        let socket = self.ready.direct_local.as_ref().and_then(|path| path.to_str());
        socket.expect("the ready line names a socket")
    }

    /// The current resource usage of the process.
    pub fn usage(&self) -> Usage {
        Usage::of(self.process.id())
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Runs a `nearflash` command against the node. Returns its JSON output.
    ///
    /// # Panics
    /// When the command fails.
    pub fn command(&self, arguments: &[&str]) -> Value {
        let output = Command::new(nearflash())
            .args(in_blocks(arguments))
            .args(["--json", "--data-dir", &self.place.data_dir()])
            .stdin(Stdio::null())
            .output()
            .expect("nearflash is a program");
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        serde_json::from_slice(&output.stdout).expect("--json prints JSON")
    }

    /// The sum of a counter over the node's cores.
    pub fn counted(&self, counter: &str) -> u64 {
        let status = self.command(&["status"]);
        let cores = status["cores"].as_array().expect("a status has cores");
        cores.iter().map(|core| core[counter].as_u64().expect("a counter is a number")).sum()
    }

    /// Sets a resource limit of the process.
    ///
    /// # Panics
    /// When the system refuses.
    pub fn limit(&self, resource: Resource, bound: u64) {
        let old = prlimit(
            Some(Pid::from_child(&self.process)),
            resource,
            Rlimit { current: Some(bound), maximum: None },
        );
        let old = old.or_else(|_| {
            // A process without root's rights cannot raise the hard limit, and must pass it
            // unchanged.
            let maximum = rustix::process::getrlimit(resource).maximum;
            let limit = Rlimit { current: Some(bound), maximum };
            prlimit(Some(Pid::from_child(&self.process)), resource, limit)
        });
        old.expect("a child's limits are ours to set");
    }

    /// Holds up the threads whose names begin so, such as those of the owner of files, until the result is
    /// dropped.
    ///
    /// # Panics
    /// When there are none, or this is not root.
    pub fn hold(&self, threads: &str) -> Held {
        Held::new(self.pid(), threads)
    }

    /// Sends a signal to the process.
    ///
    /// # Panics
    /// When it has ended.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).expect("the process is ours");
    }

    /// Stops the node, and waits until no thread of it runs any more: the signal does not wait for them.
    ///
    /// # Panics
    /// When it has ended.
    pub fn freeze(&self) {
        crate::process::freeze(Pid::from_child(&self.process));
    }

    /// Kills the node at any moment of its work.
    ///
    /// # Panics
    /// When the node has ended by itself.
    pub fn crash(mut self) {
        assert_eq!(self.ended(), None, "the node ended by itself: {}", self.place.log());
        self.process.kill().expect("a running process can be killed");
        self.process.wait().expect("a killed process is waited for");
    }

    /// Terminates the node, which must end in order.
    ///
    /// # Panics
    /// When it does not, or has ended before.
    pub fn terminate(self) {
        self.signal(Signal::TERM);
        self.await_end();
    }

    /// Waits for the end of the node, which must be in order.
    ///
    /// # Panics
    /// When it is not.
    pub fn await_end(self) {
        let place = self.place;
        assert_eq!(self.end(), Some(0), "{}", place.log());
    }

    /// Waits for the end of the node. Returns its exit code; `None` when a signal ended it.
    ///
    /// # Panics
    /// When it does not end.
    pub fn end(mut self) -> Option<i32> {
        let mut ended = None;
        eventually("the node ends", || {
            ended = self.ended();
            ended.is_some()
        });
        ended.and_then(|status| status.code())
    }

    fn ended(&mut self) -> Option<ExitStatus> {
        self.process.try_wait().expect("the process is ours")
    }
}

impl Drop for Node<'_> {
    fn drop(&mut self) {
        // An error means that the process has already ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
        if thread::panicking() {
            let log = self.place.log();
            let lines: Vec<&str> = log.lines().collect();
            let tail = &lines[lines.len().saturating_sub(TAIL_LINES)..];
            println!("the node's log:\n{}", tail.join("\n"));
        }
    }
}

fn append_to(path: &Path) -> File {
    let file = OpenOptions::new().create(true).append(true).open(path);
    file.expect("a test's folder is writable")
}
