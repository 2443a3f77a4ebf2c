//! A `nearflash serve` process with volumes on a file device.
//!
//! The node listens on loopback ports that the system chooses, and keeps them over restarts, so
//! that a host finds it again.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

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

/// The addresses of a node.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Doors {
    nvme_tcp: SocketAddr,
    iscsi: SocketAddr,
    direct: SocketAddr,
}

/// A running node, killed when dropped.
#[derive(Debug)]
pub struct Node {
    process: Child,
    doors: Doors,
    volumes: Vec<String>,
    data_dir: PathBuf,
    device: PathBuf,
    log: PathBuf,
}

impl Node {
    /// Starts a node with the volumes `data` and `files` on a new device, and waits until it is
    /// ready.
    #[must_use]
    pub fn start(scratch: &Scratch) -> Self {
        Self::with_volumes(scratch, VOLUMES)
    }

    /// Starts a node with other volumes.
    #[must_use]
    pub fn with_volumes(scratch: &Scratch, volumes: &[&str]) -> Self {
        let (data_dir, device) = (scratch.path("data"), scratch.path("device"));
        let log = scratch.path("node.log");
        let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
        let doors = Doors { nvme_tcp: any_port, iscsi: any_port, direct: any_port };
        let volumes: Vec<_> = volumes.iter().map(|&volume| volume.to_owned()).collect();
        let mut process = serve(&data_dir, &device, doors, &volumes, &log);
        let doors = await_ready(&mut process, &log);
        Self { process, doors, volumes, data_dir, device, log }
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
        self.process = serve(&self.data_dir, &self.device, self.doors, &self.volumes, &self.log);
        let doors = await_ready(&mut self.process, &self.log);
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

fn serve(data_dir: &Path, device: &Path, doors: Doors, volumes: &[String], log: &Path) -> Child {
    // The kernel kills the node when this test ends in any way.
    Command::new("setpriv")
        .args(["--pdeathsig", "KILL", "--"])
        .arg(nearflash())
        .args(["serve", "--device", &format!("flash=file:{},size=16GiB", device.display())])
        .args(volumes.iter().flat_map(|volume| ["--volume", volume]))
        .args(["--nvme-tcp", &doors.nvme_tcp.to_string()])
        .args(["--iscsi", &doors.iscsi.to_string()])
        .args(["--direct", &doors.direct.to_string()])
        .args(["--advertise", GUEST_SIDE, "--cores", "0"])
        .arg("--data-dir")
        .arg(data_dir)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(append_to(log))
        .spawn()
        .expect("setpriv is a program of util-linux")
}

fn append_to(log: &Path) -> File {
    OpenOptions::new().create(true).append(true).open(log).expect("a test's folder is writable")
}

/// Waits for the ready line, and returns the addresses in it.
fn await_ready(process: &mut Child, log: &Path) -> Doors {
    let stdout = process.stdout.take().expect("standard output is a pipe");
    let line = first_line(stdout);
    let doors = line.as_deref().and_then(ready_doors);
    doors.unwrap_or_else(|| {
        let _ = process.kill();
        panic!("the node said {line:?} instead of being ready: {}", log.display())
    })
}

/// The first line of a pipe. The pipe is read to its end, so that the node can write further lines.
fn first_line(stdout: ChildStdout) -> Option<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            // Only the first line has a receiver.
            let _ = sender.send(line);
        }
    });
    receiver.recv_timeout(PATIENCE).ok()
}

fn ready_doors(line: &str) -> Option<Doors> {
    let ready: serde_json::Value = serde_json::from_str(line).ok()?;
    (ready["schema"] == 1 && ready["event"] == "ready").then_some(())?;
    let door = |name| ready[name][0].as_str()?.parse().ok();
    Some(Doors { nvme_tcp: door("nvme_tcp")?, iscsi: door("iscsi")?, direct: door("direct")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_line_names_the_addresses() {
        let line = r#"{"schema":1,"event":"ready","nvme_tcp":["127.0.0.1:4420"],
            "iscsi":["127.0.0.1:3260"],"direct":["127.0.0.1:4421"],"pid":7}"#;
        let doors = ready_doors(line).unwrap();
        assert_eq!(doors.nvme_tcp, "127.0.0.1:4420".parse().unwrap());
        assert_eq!(doors.iscsi, "127.0.0.1:3260".parse().unwrap());
        let other = r#"{"schema":2,"event":"ready","nvme_tcp":["[::1]:1"],"iscsi":["[::1]:2"],
            "direct":["[::1]:3"]}"#;
        assert_eq!(ready_doors(other), None);
        assert_eq!(ready_doors("starting"), None);
    }
}
