//! A node started for a comparison, and what the system says of its process.

use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use nearflash_units::{ByteLen, KIB};

use crate::cpu::{self, ThreadTime};
use crate::recorder::CpuTime;

/// A node that was told to end has this long to drain.
const END_SPAN_MAX: Duration = Duration::from_secs(5);

/// What to start.
#[derive(Clone, Debug)]
pub struct NodeSpec {
    /// The `nearflash` program.
    pub binary: PathBuf,
    /// Everything behind `serve`, but for address and data folder.
    pub args: Vec<String>,
    /// Its data folder.
    pub data_dir: PathBuf,
}

/// Why a node is not there.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// No program, or it cannot be started.
    #[error(
        "cannot start {binary}: {source}; build it with `cargo build --release`, \
         or name it in NEARFLASH_BIN"
    )]
    Start {
        /// Which.
        binary: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It ended, or said something else.
    #[error("the node did not announce that it is ready, it said '{said}'")]
    NotReady {
        /// Its first line.
        said: String,
    },
    /// It does not do what it is told.
    #[error("nearflash {command}: {said}")]
    Refused {
        /// What it was told.
        command: String,
        /// What it said.
        said: String,
    },
    /// The process is gone.
    #[error("the node is gone: {0}")]
    Gone(#[from] io::Error),
}

/// A running node; ends with its value.
#[derive(Debug)]
pub struct Node {
    child: Child,
    /// Its address for NVMe/TCP hosts.
    pub address: String,
    /// Its first address for direct clients, if it has one.
    pub direct: Option<String>,
    /// Its first address for iSCSI initiators, if it has one.
    pub iscsi: Option<String>,
    spec: NodeSpec,
    /// Kept open, or the node could not write there.
    _stdout: BufReader<ChildStdout>,
}

impl Node {
    /// Starts a node on a free port and waits until it is ready.
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

    /// Tells it something: the words behind `nearflash`.
    ///
    /// # Errors
    /// When the node refuses, with what it says.
    pub fn tell(&self, words: &[&str]) -> Result<(), NodeError> {
        let NodeSpec { binary, data_dir, .. } = &self.spec;
        let said = Command::new(binary).args(words).arg("--data-dir").arg(data_dir).output()?;
        if said.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&said.stderr).trim().to_owned();
        Err(NodeError::Refused { command: words.join(" "), said })
    }

    /// Memory that it has in use.
    ///
    /// # Errors
    /// When it is gone.
    pub fn resident_len(&self) -> Result<ByteLen, NodeError> {
        let status = std::fs::read_to_string(self.proc("status"))?;
        resident(&status).ok_or_else(|| NodeError::Gone(io::ErrorKind::InvalidData.into()))
    }

    /// Processor time that it has used, in its own code and in the kernel.
    ///
    /// # Errors
    /// When it is gone.
    pub fn cpu_time(&self) -> Result<CpuTime, NodeError> {
        Ok(cpu::of_process(self.process_id())?.cpu)
    }

    /// The same by threads: its cores are `core-0` and so on.
    ///
    /// # Errors
    /// When it is gone.
    pub fn thread_times(&self) -> Result<Vec<ThreadTime>, NodeError> {
        Ok(cpu::of_threads(self.process_id())?)
    }

    /// The system's number for it.
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

/// The first address of each door.
#[derive(Debug, Eq, PartialEq)]
struct Addresses {
    nvme_tcp: String,
    direct: Option<String>,
    iscsi: Option<String>,
}

/// What a ready line says.
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
