//! A `nearflash serve` process with two volumes, `data` and `files`, on a file device.
//!
//! It listens on a loopback port of the system's choice and keeps that port over restarts, so that
//! a host finds it again.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::place::{Scratch, nearflash, tail_of};

/// How long a node may take to be ready, or to drain and end.
const PATIENCE: Duration = Duration::from_secs(30);

/// The address at which guests reach this machine's loopback.
const GUEST_SIDE: &str = "10.0.2.2";

/// A running node. Dropping it ends it.
#[derive(Debug)]
pub struct Node {
    process: Child,
    address: SocketAddr,
    data_dir: PathBuf,
    device: PathBuf,
    log: PathBuf,
}

impl Node {
    /// Starts a node on a new device and waits until it is ready.
    #[must_use]
    pub fn start(scratch: &Scratch) -> Self {
        let (data_dir, device) = (scratch.path("data"), scratch.path("device"));
        let log = scratch.path("node.log");
        let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut process = serve(&data_dir, &device, any_port, &log);
        let address = await_ready(&mut process, &log);
        Self { process, address, data_dir, device, log }
    }

    /// Its address, as guests see it: host and port.
    #[must_use]
    pub fn guest_side(&self) -> (&'static str, String) {
        (GUEST_SIDE, self.address.port().to_string())
    }

    /// Ends it as a crash does, in the middle of whatever it does, and starts it again.
    pub fn crash_and_restart(&mut self) {
        self.expect_running();
        self.process.kill().expect("a running process can be killed");
        self.process.wait().expect("a killed process is waited for");
        self.start_again();
    }

    /// Asks it to end, which it must do in order, and starts it again.
    pub fn terminate_and_restart(&mut self) {
        self.terminate();
        self.start_again();
    }

    /// Asks it to end.
    ///
    /// # Panics
    ///
    /// When it had ended before, does not end, or ends with an error.
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

    /// Gives a volume another size.
    ///
    /// # Panics
    ///
    /// When the node refuses.
    pub fn resize(&self, volume: &str, size: &str) {
        let status = Command::new(nearflash())
            .args(["volume", "resize", volume, size, "--data-dir"])
            .arg(&self.data_dir)
            .status()
            .expect("nearflash is a program");
        assert!(status.success(), "volume resize ended with {status}");
    }

    fn start_again(&mut self) {
        self.process = serve(&self.data_dir, &self.device, self.address, &self.log);
        let address = await_ready(&mut self.process, &self.log);
        assert_eq!(address, self.address, "the node listens elsewhere after a restart");
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
        // An error here means that it has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
        if thread::panicking() {
            println!("the node's log:\n{}", tail_of(&self.log));
        }
    }
}

fn serve(data_dir: &Path, device: &Path, address: SocketAddr, log: &Path) -> Child {
    // The node ends when this test does, however that ends.
    Command::new("setpriv")
        .args(["--pdeathsig", "KILL", "--"])
        .arg(nearflash())
        .args(["serve", "--device", &format!("flash=file:{},size=16GiB", device.display())])
        .args(["--volume", "data=8GiB@flash,block-size=512"])
        .args(["--volume", "files=1GiB@flash,block-size=4096"])
        .args(["--nvme-tcp", &address.to_string(), "--advertise", GUEST_SIDE])
        .args(["--cores", "0"])
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

/// Waits for the ready line, and returns the address in it.
fn await_ready(process: &mut Child, log: &Path) -> SocketAddr {
    let stdout = process.stdout.take().expect("standard output is a pipe");
    let line = first_line(stdout);
    let address = line.as_deref().and_then(ready_address);
    address.unwrap_or_else(|| {
        let _ = process.kill();
        panic!("the node said {line:?} instead of being ready: {}", log.display())
    })
}

/// The first line of a pipe, which is read to its end, so that the node's later lines have room.
fn first_line(stdout: ChildStdout) -> Option<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            // Only the first is waited for.
            let _ = sender.send(line);
        }
    });
    receiver.recv_timeout(PATIENCE).ok()
}

fn ready_address(line: &str) -> Option<SocketAddr> {
    let ready: serde_json::Value = serde_json::from_str(line).ok()?;
    (ready["schema"] == 1 && ready["event"] == "ready").then_some(())?;
    ready["nvme_tcp"][0].as_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_line_names_the_address() {
        let line = r#"{"schema":1,"event":"ready","nvme_tcp":["127.0.0.1:4420"],"pid":7}"#;
        assert_eq!(ready_address(line), Some("127.0.0.1:4420".parse().unwrap()));
        assert_eq!(ready_address(r#"{"schema":2,"event":"ready","nvme_tcp":["[::1]:1"]}"#), None);
        assert_eq!(ready_address("starting"), None);
    }
}
