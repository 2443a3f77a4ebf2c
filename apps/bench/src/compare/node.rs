//! A node started for a comparison, and its resource usage.

use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use nearflash_units::{ByteLen, KIB};

use crate::cpu::{self, ThreadTime};
use crate::recorder::CpuTime;

/// How long a node that is asked to stop may take to drain.
const END_SPAN_MAX: Duration = Duration::from_secs(5);

/// The parameters of a node.
#[derive(Clone, Debug)]
pub struct NodeSpec {
    /// The `nearflash` program.
    pub binary: PathBuf,
    /// Arguments of `serve`, except for the address and the data folder.
    pub args: Vec<String>,
    /// Its data folder.
    pub data_dir: PathBuf,
}

/// Errors of a node.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// The program is missing or cannot be started.
    #[error(
        "cannot start {binary}: {source}; build it with `cargo build --release`, \
         or name it in NEARFLASH_BIN"
    )]
    Start {
        /// The program.
        binary: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The node's first line is not its ready message.
    #[error("the node did not report that it is ready; its first line is '{said}'")]
    NotReady {
        /// Its first line.
        said: String,
    },
    /// A command to the node failed.
    #[error("nearflash {command}: {said}")]
    Refused {
        /// The command.
        command: String,
        /// Its error message.
        said: String,
    },
    /// The process has ended.
    #[error("the node is gone: {0}")]
    Gone(#[from] io::Error),
}

/// A running node; stopped on drop.
#[derive(Debug)]
pub struct Node {
    child: Child,
    /// Its NVMe/TCP address.
    pub address: String,
    /// Its first address of the direct protocol, if it has one.
    pub direct: Option<String>,
    /// Its first iSCSI address, if it has one.
    pub iscsi: Option<String>,
    spec: NodeSpec,
    /// Kept open, since the node's writes to a closed pipe would fail.
    _stdout: BufReader<ChildStdout>,
}

impl Node {
    /// Starts a node on free ports and waits until it is ready.
    ///
    /// # Errors
    /// When it does not start.
    pub fn start(spec: &NodeSpec) -> Result<Self, NodeError> {
        let started = Command::new(&spec.binary)
            .arg("serve")
            .args(&spec.args)
            .args(["--nvme-tcp", "127.0.0.1:0", "--log", "warn", "--data-dir"])
            .arg(&spec.data_dir)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn();
        let mut child =
            started.map_err(|source| NodeError::Start { binary: spec.binary.clone(), source })?;
        let mut stdout = BufReader::new(child.stdout.take().expect("it was asked for"));
        let mut line = String::new();
        stdout.read_line(&mut line)?;
        match addresses_of(&line) {
            Some(Addresses { nvme_tcp: address, direct, iscsi }) => {
                Ok(Self { child, address, direct, iscsi, spec: spec.clone(), _stdout: stdout })
            }
            None => {
                let _ = child.kill();
                let _ = child.wait();
                Err(NodeError::NotReady { said: line.trim().to_owned() })
            }
        }
    }

    /// Runs a `nearflash` command on the node; `words` are its arguments.
    ///
    /// # Errors
    /// When the command fails, with its error message.
    pub fn tell(&self, words: &[&str]) -> Result<(), NodeError> {
        let NodeSpec { binary, data_dir, .. } = &self.spec;
        let said = Command::new(binary).args(words).arg("--data-dir").arg(data_dir).output()?;
        if said.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&said.stderr).trim().to_owned();
        Err(NodeError::Refused { command: words.join(" "), said })
    }

    /// Resident memory of the node.
    ///
    /// # Errors
    /// When the process has ended.
    pub fn resident_len(&self) -> Result<ByteLen, NodeError> {
        let status = std::fs::read_to_string(self.proc("status"))?;
        resident(&status).ok_or_else(|| NodeError::Gone(io::ErrorKind::InvalidData.into()))
    }

    /// Processor time of the node, in user mode and in the kernel.
    ///
    /// # Errors
    /// When the process has ended.
    pub fn cpu_time(&self) -> Result<CpuTime, NodeError> {
        Ok(cpu::of_process(self.process_id())?.cpu)
    }

    /// Processor time by threads. The node's cores are named `core-0` and so on.
    ///
    /// # Errors
    /// When the process has ended.
    pub fn thread_times(&self) -> Result<Vec<ThreadTime>, NodeError> {
        Ok(cpu::of_threads(self.process_id())?)
    }

    /// Its process ID.
    pub fn process_id(&self) -> u32 {
        self.child.id()
    }

    fn proc(&self, file: &str) -> PathBuf {
        Path::new("/proc").join(self.process_id().to_string()).join(file)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let pid = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let end = Instant::now() + END_SPAN_MAX;
        while Instant::now() < end {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The first address of each protocol.
#[derive(Debug, Eq, PartialEq)]
struct Addresses {
    nvme_tcp: String,
    direct: Option<String>,
    iscsi: Option<String>,
}

/// Parses a ready line.
fn addresses_of(line: &str) -> Option<Addresses> {
    let ready: serde_json::Value = serde_json::from_str(line).ok()?;
    if ready["event"] != "ready" {
        return None;
    }
    let first = |door: &str| ready[door][0].as_str().map(str::to_owned);
    Some(Addresses { nvme_tcp: first("nvme_tcp")?, direct: first("direct"), iscsi: first("iscsi") })
}

/// VmRSS of /proc/PID/status.
fn resident(status: &str) -> Option<ByteLen> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(ByteLen(kib * KIB))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ready_line_gives_the_addresses() {
        let line = r#"{"schema":1,"event":"ready","nvme_tcp":["127.0.0.1:4420"],"pid":7}"#;
        let nvme_tcp = "127.0.0.1:4420".to_owned();
        assert_eq!(addresses_of(line), Some(Addresses { nvme_tcp, direct: None, iscsi: None }));
        let line = r#"{"event":"ready","nvme_tcp":["[::1]:1"],"direct":["[::1]:2","[::1]:3"],
                       "iscsi":["[::1]:4"]}"#;
        let addresses = addresses_of(line).unwrap();
        assert_eq!(addresses.nvme_tcp, "[::1]:1");
        assert_eq!(addresses.direct.as_deref(), Some("[::1]:2"));
        assert_eq!(addresses.iscsi.as_deref(), Some("[::1]:4"));
        assert_eq!(addresses_of("{}"), None);
        assert_eq!(addresses_of("error"), None);
    }

    #[test]
    fn resident_memory_is_read_in_kibibytes() {
        let status = "Name:\tx\nVmHWM:\t  9 kB\nVmRSS:\t    2048 kB\n";
        assert_eq!(resident(status), Some(ByteLen(2 << 20)));
        assert_eq!(resident("Name:\tx\n"), None);
    }

    #[test]
    fn a_program_that_is_not_there_is_named_with_the_remedy() {
        let spec = NodeSpec {
            binary: "/nowhere/nearflash".into(),
            args: Vec::new(),
            data_dir: "/nowhere".into(),
        };
        let message = Node::start(&spec).unwrap_err().to_string();
        assert!(message.contains("/nowhere/nearflash") && message.contains("NEARFLASH_BIN"));
    }
}
