//! A node started for a comparison, and its resource usage.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use nearflash::direct;
use nearflash_api::Ready;
use nearflash_api::process::{self, StartError};
use nearflash_units::{ByteLen, KIB};

use crate::cpu;
use crate::recorder::CpuTime;
use crate::subject::{IscsiTarget, NvmeTcpTarget, Target};

/// How long a node may take to open its devices and become ready.
const START_SPAN_MAX: Duration = Duration::from_secs(60);
/// The time that a node may take to drain after a request to stop.
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
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum NodeError {
    /// The program is missing or cannot be started.
    #[error(
        "cannot start {binary}: {source}; build it with `cargo build --release`, \
         or name it in NEARFLASH_BIN"
    )]
    Start { binary: PathBuf, source: io::Error },
    /// The node's first line is not its ready message.
    #[error(transparent)]
    NotReady(StartError),
    /// A command to the node failed.
    #[error("nearflash {command}: {said}")]
    Refused { command: String, said: String },
    /// The process has ended.
    #[error("the node is gone: {0}")]
    Gone(#[from] io::Error),
}

/// A running node; stopped on drop.
#[derive(Debug)]
pub struct Node {
    child: Child,
    ready: Ready,
    spec: NodeSpec,
}

impl Node {
    /// Starts a node on free ports and waits until it is ready.
    ///
    /// # Errors
    /// When it does not start.
    pub fn start(spec: &NodeSpec) -> Result<Self, NodeError> {
        let mut command = Command::new(&spec.binary);
        command.arg("serve").args(&spec.args);
        command.args(["--nvme-tcp", "127.0.0.1:0", "--log", "warn", "--data-dir"]);
        match process::start(command.arg(&spec.data_dir), START_SPAN_MAX) {
            Ok((child, ready)) => Ok(Self { child, ready, spec: spec.clone() }),
            Err(StartError::Spawn(source)) => {
                Err(NodeError::Start { binary: spec.binary.clone(), source })
            }
            Err(error @ StartError::NotReady { .. }) => Err(NodeError::NotReady(error)),
        }
    }

    /// The URL of the node's door for NVMe/TCP.
    pub fn nvme_tcp_url(&self) -> String {
        format!("nvme-tcp://{}", self.ready.nvme_tcp[0])
    }

    /// The URL of the node's door for iSCSI, if it has one.
    pub fn iscsi_url(&self) -> Option<String> {
        self.ready.iscsi.first().map(|address| format!("iscsi://{address}"))
    }

    /// The URL of the node's door for direct clients on the network, if it has one.
    pub fn direct_url(&self) -> Option<String> {
        self.ready.direct.first().map(|address| format!("direct://{address}"))
    }

    /// The URL of the node's door for direct clients on this machine, if it has one.
    pub fn direct_local_url(&self) -> Option<String> {
        let socket = self.ready.direct_local.clone();
        socket.map(|socket| direct::Place::Local(socket).to_string())
    }

    /// A volume over NVMe/TCP.
    pub fn nvme_tcp_target(&self, volume: &str) -> NvmeTcpTarget {
        match format!("{}/{volume}", self.nvme_tcp_url()).parse() {
            Ok(Target::NvmeTcp(target)) => target,
            other => unreachable!("a URL of this form is no other target: {other:?}"),
        }
    }

    /// A volume over iSCSI.
    ///
    /// # Panics
    /// When the node has no door for iSCSI.
    pub fn iscsi_target(&self, volume: &str) -> IscsiTarget {
        let url = self.iscsi_url().expect("the node has a door for iSCSI");
        match format!("{url}/{volume}").parse() {
            Ok(Target::Iscsi(target)) => target,
            other => unreachable!("a URL of this form is no other target: {other:?}"),
        }
    }

    /// Runs a `nearflash` command on the node; `words` are its arguments. Returns its output.
    ///
    /// # Errors
    /// When the command fails, with its error message.
    pub fn tell(&self, words: &[&str]) -> Result<String, NodeError> {
        let NodeSpec { binary, data_dir, .. } = &self.spec;
        let said = Command::new(binary).args(words).arg("--data-dir").arg(data_dir).output()?;
        if said.status.success() {
            return Ok(String::from_utf8_lossy(&said.stdout).trim().to_owned());
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
        let line = r#"{"schema":1,"event":"ready","nvme_tcp":["[::1]:1"],
                       "direct":["[::1]:2","[::1]:3"],"direct_local":"/a b.sock","iscsi":["[::1]:4"],
                       "control":"/c","volumes":[],"pid":7}"#;
        let mut node = node(line);
        assert_eq!(node.nvme_tcp_url(), "nvme-tcp://[::1]:1");
        assert_eq!(node.nvme_tcp_target("data").host, "::1");
        assert_eq!(node.direct_url().as_deref(), Some("direct://[::1]:2"));
        assert_eq!(node.direct_local_url().as_deref(), Some("direct+local:/a%20b.sock"));
        assert_eq!(node.iscsi_url().as_deref(), Some("iscsi://[::1]:4"));
        assert_eq!(node.iscsi_target("data").port, 4);
        node.ready =
            Ready { direct: vec![], direct_local: None, iscsi: vec![], ..node.ready.clone() };
        let others = [node.direct_url(), node.direct_local_url(), node.iscsi_url()];
        assert_eq!(others, [None, None, None]);
    }

    fn node(line: &str) -> Node {
        let (child, ready) = (Command::new("true").spawn(), process::parse_ready(line));
        let spec =
            NodeSpec { binary: "true".into(), args: Vec::new(), data_dir: "/nowhere".into() };
        Node { child: child.unwrap(), ready: ready.unwrap(), spec }
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
