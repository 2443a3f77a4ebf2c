//! A `nearflash serve` process with volumes on a file device.
//!
//! The node listens on loopback ports that the system chooses, and keeps them over restarts, so
//! that a host finds it again.

use std::fs::{self, File, OpenOptions};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use nearflash_api::{Ready, process};
use rustix::process::{Pid, Signal, kill_process};

use crate::place::{Scratch, nearflash, tail_of};

/// The time for a node to become ready, or to drain and end.
const PATIENCE: Duration = Duration::from_secs(30);

/// The address at which guests reach this machine's loopback.
const GUEST_SIDE: &str = "10.0.2.2";

/// The default volumes of a node.
const VOLUMES: &[&str] = &["data=8GiB@flash,block-size=512", "files=1GiB@flash,block-size=4096"];

/// A CHAP account: the initiator's name and secret, and for mutual CHAP the node's own.
#[derive(Clone, Copy, Debug)]
pub struct Account<'a> {
    /// The initiator's name and secret.
    pub user: (&'a str, &'a str),
    /// The node's name and secret, for mutual CHAP.
    pub node: Option<(&'a str, &'a str)>,
}

/// The keys of a host, and the hash and group that the node selects for it.
#[derive(Clone, Copy, Debug)]
pub struct HostKeys<'a> {
    /// The host's NQN.
    pub nqn: &'a str,
    /// Its key.
    pub key: &'a str,
    /// The controller's key, for authentication in both directions.
    pub controller_key: Option<&'a str>,
    /// The only hash and the only group; `None` for the node's default.
    pub only: Option<(&'a str, &'a str)>,
}

/// The addresses of a node.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Doors {
    nvme_tcp: SocketAddr,
    iscsi: SocketAddr,
    direct: SocketAddr,
    /// Whether connections of NVMe/TCP use TLS.
    tls: &'static str,
}

impl Doors {
    fn of(ready: &Ready, tls: &'static str) -> Self {
        let first = |door: &[SocketAddr]| *door.first().expect("the node was given all doors");
        Self {
            nvme_tcp: first(&ready.nvme_tcp),
            iscsi: first(&ready.iscsi),
            direct: first(&ready.direct),
            tls,
        }
    }
}

/// A running node, killed when dropped.
#[derive(Debug)]
pub struct Node {
    process: Child,
    doors: Doors,
    /// The flags that name its devices and volumes.
    storage: Vec<String>,
    data_dir: PathBuf,
    log: PathBuf,
}

impl Node {
    /// Starts a node with the volumes `data` and `files` on a new device, and waits until it is
    /// ready.
    #[must_use]
    pub fn start(scratch: &Scratch) -> Self {
        Self::with_volumes(scratch, VOLUMES)
    }

    /// Starts a node with the volume `data`, whose hosts must use TLS.
    #[must_use]
    pub fn secured(scratch: &Scratch) -> Self {
        let device = format!("flash=file:{},size=16GiB", scratch.path("device").display());
        let storage = ["--device", &device, "--volume", "data=8GiB@flash"].map(str::to_owned);
        Self::with_tls(scratch, "data", storage.into(), "required")
    }

    /// Starts a node with other volumes.
    #[must_use]
    pub fn with_volumes(scratch: &Scratch, volumes: &[&str]) -> Self {
        let device = format!("flash=file:{},size=16GiB", scratch.path("device").display());
        let volumes = volumes.iter().flat_map(|&volume| ["--volume", volume]);
        let storage = ["--device", &device].into_iter().chain(volumes);
        Self::with_storage(scratch, "data", storage.map(str::to_owned).collect())
    }

    /// Starts a node without devices, which serves the volume `files` of another node.
    #[must_use]
    pub fn in_front_of(scratch: &Scratch, owner: &Self) -> Self {
        let remote = format!("files={}/files", owner.direct_url());
        Self::with_storage(scratch, "front", vec!["--remote".to_owned(), remote])
    }

    pub(crate) fn with_storage(scratch: &Scratch, name: &str, storage: Vec<String>) -> Self {
        Self::with_tls(scratch, name, storage, "off")
    }

    /// The same with TLS for NVMe/TCP: `required`, `allowed` or `off`.
    fn with_tls(scratch: &Scratch, name: &str, storage: Vec<String>, tls: &'static str) -> Self {
        let (data_dir, log) = (scratch.path(name), scratch.path("node.log"));
        let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
        let doors = Doors { nvme_tcp: any_port, iscsi: any_port, direct: any_port, tls };
        let (process, doors) = serve(&data_dir, doors, &storage, &log);
        Self { process, doors, storage, data_dir, log }
    }

    /// The node's NVMe/TCP address for guests: host and port.
    #[must_use]
    pub fn guest_side(&self) -> (&'static str, String) {
        (GUEST_SIDE, self.doors.nvme_tcp.port().to_string())
    }

    /// The node's iSCSI address for guests: host and port.
    #[must_use]
    pub fn iscsi_guest_side(&self) -> (&'static str, String) {
        (GUEST_SIDE, self.doors.iscsi.port().to_string())
    }

    /// The URL of a volume for iSCSI programs on this machine.
    #[must_use]
    pub fn iscsi_url(&self, volume: &str) -> String {
        format!("iscsi://{}/iqn.2026-11.io.nearflash:{volume}/0", self.doors.iscsi)
    }

    /// The URL of the node for direct clients.
    #[must_use]
    pub fn direct_url(&self) -> String {
        format!("direct://{}", self.doors.direct)
    }

    /// Kills the node at any moment of its work, and starts it again.
    pub fn crash_and_restart(&mut self) {
        self.expect_running();
        self.process.kill().expect("a running process can be killed");
        self.process.wait().expect("a killed process is waited for");
        self.start_again();
    }

    /// Terminates the node, which must end in order, and starts it again.
    pub fn terminate_and_restart(&mut self) {
        self.terminate();
        self.start_again();
    }

    /// Terminates the node.
    ///
    /// # Panics
    ///
    /// When the node has ended before, does not end, or ends with an error.
    pub fn terminate(&mut self) {
        self.expect_running();
        kill_process(Pid::from_child(&self.process), Signal::TERM).expect("the process is ours");
        let deadline = Instant::now() + PATIENCE;
        while self.ended().is_none() {
            assert!(Instant::now() < deadline, "the node does not end at SIGTERM");
            thread::sleep(Duration::from_millis(10));
        }
        let status = self.process.wait().expect("an ended process is waited for");
        assert!(
            status.success(),
            "at SIGTERM the node ended with {status}: {}",
            self.log.display()
        );
    }

    /// Kills the node.
    pub fn kill(&mut self) {
        self.expect_running();
        self.process.kill().expect("a running process can be killed");
        self.process.wait().expect("a killed process is waited for");
    }

    /// Stops the node, as a paused machine or one that swaps stands still.
    pub fn freeze(&mut self) {
        self.signal(Signal::STOP);
    }

    /// Lets a stopped node go on.
    pub fn thaw(&mut self) {
        self.signal(Signal::CONT);
    }

    fn signal(&mut self, signal: Signal) {
        self.expect_running();
        let pid = Pid::from_child(&self.process);
        kill_process(pid, signal).expect("a running process takes signals");
    }

    /// Creates the volume `data` of the cluster, with a replica on each of two nodes.
    pub fn create_mirrored(&self) {
        self.order(&["volume", "create", "data", "--size", "256MiB", "--replicas", "2"]);
    }

    /// Creates the volume `data` of the cluster, with all its blocks on the node of this name.
    pub fn create_in_cluster(&self, node: &str) {
        let placement = format!("central:{node}");
        self.order(&[
            "volume",
            "create",
            "data",
            "--size",
            "2GiB",
            "--replicas",
            "1",
            "--placement",
            &placement,
        ]);
    }

    /// Resizes a volume.
    pub fn resize(&self, volume: &str, size: &str) {
        self.order(&["volume", "resize", volume, size]);
    }

    /// Adds an account, so that initiators must authenticate with this or another account.
    pub fn add_account(&self, account: &Account<'_>) {
        let secret = self.secret_file("secret", account.user.1);
        let mut words = vec!["chap", "add", account.user.0, "--secret-file", &secret];
        let mutual = account.node.map(|(_, secret)| self.secret_file("node-secret", secret));
        if let (Some((name, _)), Some(mutual)) = (account.node, &mutual) {
            words.extend(["--mutual-user", name, "--mutual-secret-file", mutual]);
        }
        self.order(&words);
    }

    /// Removes an account.
    pub fn remove_account(&self, user: &str) {
        self.order(&["chap", "remove", user]);
    }

    /// Adds the keys of a host, which must authenticate from then on.
    pub fn add_host(&self, keys: &HostKeys<'_>) {
        let key = self.secret_file("host-key", keys.key);
        let mut words = vec!["host", "add", keys.nqn, "--dhchap-key", &key];
        let controller = keys.controller_key.map(|key| self.secret_file("controller-key", key));
        if let Some(controller) = &controller {
            words.extend(["--dhchap-ctrl-key", controller]);
        }
        if let Some((hash, group)) = keys.only {
            words.extend(["--hash", hash, "--group", group]);
        }
        self.order(&words);
    }

    /// Replaces the key of a host. The old one stays valid for the time of `overlap`.
    pub fn rotate_key(&self, nqn: &str, key: &str, overlap: Option<&str>) {
        let key = self.secret_file("new-key", key);
        let mut words = vec!["host", "rotate", nqn, "--dhchap-key", &key];
        words.extend(overlap.iter().flat_map(|time| ["--overlap", *time]));
        self.order(&words);
    }

    /// Adds the PSK of a host with libnvme before 1.15.
    pub fn add_psk(&self, nqn: &str, psk: &str) {
        let psk = self.secret_file("psk", psk);
        self.order(&["host", "add", nqn, "--psk-file", &psk, "--psk-derivation", "legacy"]);
    }

    /// Removes the keys of a host.
    pub fn remove_host(&self, nqn: &str) {
        self.order(&["host", "remove", nqn]);
    }

    fn secret_file(&self, name: &str, secret: &str) -> String {
        let path = self.data_dir.with_file_name(name);
        fs::write(&path, secret).expect("a test's folder is writable");
        path.to_str().expect("the build folder has a plain name").to_owned()
    }

    /// Runs a command on the node.
    ///
    /// # Panics
    ///
    /// When the node refuses the command.
    fn order(&self, words: &[&str]) {
        let mut command = Command::new(nearflash());
        let status = command.args(words).arg("--data-dir").arg(&self.data_dir).status();
        let status = status.expect("nearflash is a program");
        assert!(status.success(), "'{}' ended with {status}", words.join(" "));
    }

    fn start_again(&mut self) {
        let doors;
        (self.process, doors) = serve(&self.data_dir, self.doors, &self.storage, &self.log);
        assert_eq!(doors, self.doors, "the node listens elsewhere after a restart");
    }

    fn expect_running(&mut self) {
        if let Some(status) = self.ended() {
            panic!("the node ended by itself with {status}: {}", self.log.display());
        }
    }

    fn ended(&mut self) -> Option<ExitStatus> {
        self.process.try_wait().expect("the process is ours")
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // An error means that the process has already ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
        if thread::panicking() {
            println!("the node's log:\n{}", tail_of(&self.log));
        }
    }
}

/// A copy of the program without its symbols, which a guest runs.
///
/// # Panics
///
/// When it cannot be made.
#[must_use]
pub fn stripped_program(scratch: &Scratch) -> PathBuf {
    let copy = scratch.path("nearflash");
    let status = Command::new("strip").arg("-o").arg(&copy).arg(nearflash()).status();
    let status = status.expect("strip is a program of binutils, which gcc needs");
    assert!(status.success(), "'strip' ended with {status}");
    copy
}

/// Starts a node, and waits for the addresses in its ready line.
fn serve(data_dir: &Path, doors: Doors, storage: &[String], log: &Path) -> (Child, Doors) {
    // The kernel kills the node when this test ends in any way. setpriv is a program of util-linux.
    let mut command = Command::new("setpriv");
    command
        .args(["--pdeathsig", "KILL", "--"])
        .arg(nearflash())
        .arg("serve")
        .args(storage)
        .args(["--nvme-tcp", &format!("{},tls={}", doors.nvme_tcp, doors.tls)])
        .args(["--iscsi", &doors.iscsi.to_string()])
        .args(["--direct", &doors.direct.to_string()])
        .args(["--advertise", GUEST_SIDE, "--cores", "0"])
        .arg("--data-dir")
        .arg(data_dir)
        .stderr(append_to(log));
    let (process, ready) = process::start(&mut command, PATIENCE)
        .unwrap_or_else(|error| panic!("{error}: {}", log.display()));
    (process, Doors::of(&ready, doors.tls))
}

fn append_to(log: &Path) -> File {
    OpenOptions::new().create(true).append(true).open(log).expect("a test's folder is writable")
}
