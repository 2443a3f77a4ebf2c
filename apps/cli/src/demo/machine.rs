//! A machine of the demonstration's cluster: a folder, an address of the loopback network, an etcd, and a
//! node. Both processes end with it.

use std::fs::{self, File};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nearflash_api::client::ask;
use nearflash_api::{Call, process};
use nearflash_cluster_store::{
    ClusterError, ClusterStatus, InitOptions, JoinOptions, Listen, init, join, kill_etcd,
    read_token,
};
use nearflash_records::token::Token;

use super::{DemoError, own_program};
use crate::cluster::cluster_status;

/// The time that a node may take to start.
const START_SPAN_MAX: Duration = Duration::from_secs(60);

/// The time for which the cluster's token is valid.
const TOKEN_SPAN: Duration = Duration::from_secs(3600);

/// The port of NVMe/TCP hosts.
const NVME_TCP_PORT: u16 = 4420;

/// The port of direct clients.
const DIRECT_PORT: u16 = 4421;

#[derive(Debug)]
pub(super) struct Machine {
    number: u8,
    folder: PathBuf,
    address: IpAddr,
    node: Option<Child>,
}

impl Machine {
    pub(super) fn new(folder: &Path, number: u8) -> Result<Self, DemoError> {
        let folder = folder.join(format!("n{number}"));
        fs::create_dir(&folder)
            .map_err(|source| DemoError::File { path: folder.clone(), source })?;
        // 127.0.0.0/8 is this machine: two bytes of the process make addresses that nobody else uses.
        let [_, _, high, low] = std::process::id().to_be_bytes();
        let address = Ipv4Addr::new(127, high | 128, low, number + 1).into();
        Ok(Self { number, folder, address, node: None })
    }

    /// The name of its node.
    pub(super) fn name(&self) -> String {
        format!("n{}", self.number)
    }

    /// The address of its node for direct clients.
    pub(super) fn direct_address(&self) -> SocketAddr {
        SocketAddr::new(self.address, DIRECT_PORT)
    }

    pub(super) fn slice(&self) -> PathBuf {
        self.folder.join("slice.img")
    }

    /// Whether its node has been started, and not killed.
    pub(super) fn has_node(&self) -> bool {
        self.node.is_some()
    }

    fn data_dir(&self) -> PathBuf {
        self.folder.join("state")
    }

    fn listen(&self) -> Option<Listen> {
        self.address.to_string().parse().ok()
    }

    /// Makes a cluster, and returns its token.
    pub(super) fn init(&self) -> Result<Token, DemoError> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let expires_at = (now + TOKEN_SPAN).as_secs();
        let (data_dir, listen) = (self.data_dir(), self.listen());
        let options = InitOptions { data_dir, name: None, listen, etcd: None, expires_at };
        let made = init(&options, &mut |_| {})?;
        let named = format!("@{}", made.token.display());
        Ok(read_token(&named).map_err(ClusterError::from)?)
    }

    /// Joins the cluster of a token.
    pub(super) fn join(&self, token: &Token) -> Result<(), DemoError> {
        let (data_dir, listen) = (self.data_dir(), self.listen());
        join(token, &JoinOptions { data_dir, is_witness: false, listen }, &mut |_| {})?;
        Ok(())
    }

    /// Starts the node, with a slice of 512 MiB in a file.
    pub(super) fn serve(&mut self) -> Result<(), DemoError> {
        let path = self.folder.join("node.log");
        let log = File::options().create(true).append(true).open(&path);
        let log = log.map_err(|source| DemoError::File { path: path.clone(), source })?;
        let hosts = SocketAddr::new(self.address, NVME_TCP_PORT);
        let mut command = Command::new(own_program());
        command.args(["serve", "--cluster", "--host", "any", "--node", &self.name()]);
        command.args(["--nvme-tcp", &hosts.to_string()]);
        command.args(["--direct", &self.direct_address().to_string()]);
        command.arg(format!("--slice=flash=file:{},size=512MiB", self.slice().display()));
        command.arg("--data-dir").arg(self.data_dir()).stderr(log);
        let started = process::start(&mut command, START_SPAN_MAX);
        let (node, _) = started.map_err(|source| {
            let log = fs::read_to_string(&path).unwrap_or_default();
            let said = log.lines().last().unwrap_or_default().to_owned();
            DemoError::Start { node: self.name(), source, said }
        })?;
        self.node = Some(node);
        Ok(())
    }

    /// Kills the node with SIGKILL.
    pub(super) fn kill(&mut self) {
        if let Some(mut node) = self.node.take() {
            // Errors mean that it has ended by itself.
            let _ = node.kill();
            let _ = node.wait();
        }
    }

    /// Sends a call to the node.
    pub(super) fn ask<C: Call>(&self, call: C) -> Result<C::Answer, DemoError> {
        Ok(ask(&self.data_dir(), call)?)
    }

    /// The state of the cluster, as this machine sees it.
    pub(super) fn status(&self) -> Result<ClusterStatus, DemoError> {
        Ok(cluster_status(&self.data_dir())?)
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.kill();
        kill_etcd(&self.data_dir());
    }
}
