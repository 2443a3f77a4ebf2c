//! A cluster of two nodes on this machine, each with an etcd.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};

use crate::node::Node;
use crate::place::{Scratch, nearflash};

/// Two machines of a cluster, whose etcds are killed when this is dropped.
#[derive(Debug)]
pub struct Cluster {
    data_dirs: [PathBuf; 2],
}

impl Cluster {
    /// Makes a cluster of two machines, which have addresses of the loopback network of their own.
    ///
    /// # Panics
    ///
    /// When a command fails.
    #[must_use]
    pub fn new(scratch: &Scratch) -> Self {
        let cluster = Self { data_dirs: ["n1", "n2"].map(|name| scratch.path(name)) };
        let [_, _, high, low] = std::process::id().to_be_bytes();
        let address = |number: u8| format!("127.{}.{low}.{number}", high | 128);
        let token = cluster.data_dirs[0].join("etcd").join("token");
        let token = format!("@{}", token.display());
        let commands = [vec!["init", "--name", "lab"], vec!["join", &token]];
        for ((words, data_dir), number) in commands.iter().zip(&cluster.data_dirs).zip(201..) {
            let mut command = Command::new(nearflash());
            command.arg("cluster").args(words).args(["--listen", &address(number)]);
            let status = command.arg("--data-dir").arg(data_dir).status();
            let status = status.expect("nearflash is a program");
            assert!(status.success(), "'cluster {}' ended with {status}", words.join(" "));
        }
        cluster
    }

    /// Starts a node of the cluster, with a slice: the first or the second one.
    #[must_use]
    pub fn serve(&self, scratch: &Scratch, number: usize) -> Node {
        let name = ["n1", "n2"][number];
        let slice = scratch.path(&format!("slice-{name}"));
        let slice = format!("flash=file:{},size=4GiB", slice.display());
        let storage = ["--cluster", "--node", name, "--slice", &slice];
        Node::with_storage(scratch, name, storage.map(str::to_owned).to_vec())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for data_dir in &self.data_dirs {
            let text = fs::read_to_string(data_dir.join("etcd").join("pid")).unwrap_or_default();
            let pid = text.split_whitespace().next().and_then(|pid| pid.parse().ok());
            if let Some(pid) = pid.and_then(Pid::from_raw) {
                // An error means that it has already ended.
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }
}
