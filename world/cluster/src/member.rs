//! The folder `etcd` of the data directory: this machine's part in the cluster.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use nearflash_data_dir::{make_private_dir, sync_dir};
use nearflash_records::Endpoint;
use nearflash_records::token::{External, Keyed, Token};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use uuid::Uuid;
use zeroize::Zeroizing;

use super::error::ClusterError;
use super::listen::Listen;

const SCHEMA: u32 = 1;

/// The role of a machine in the cluster's etcd.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// A node that runs etcd.
    Member,
    /// A machine that runs etcd and no node.
    Witness,
    /// A node that uses the etcd of others.
    Client,
}

/// The command that made the record.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Origin {
    Init,
    Join,
}

/// This machine's part in the cluster.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Member {
    pub(super) schema: u32,
    pub(super) cluster: Uuid,
    /// The cluster's name.
    pub(super) name: String,
    /// The machine's name in etcd.
    pub(super) machine: String,
    pub(super) role: Role,
    pub(super) origin: Origin,
    /// Whether the command that made the record was finished.
    pub(super) is_ready: bool,
    pub(super) listen: Listen,
    /// The members at the start, as etcd's flag has them.
    pub(super) initial_cluster: String,
    /// The addresses of etcd that were last seen.
    pub(super) endpoints: Vec<Endpoint>,
    /// Set if nearflash does not run the cluster's etcd.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) external: Option<External>,
}

impl Member {
    pub(super) fn new(
        (cluster, name): (Uuid, &str),
        (role, origin): (Role, Origin),
        listen: Listen,
    ) -> Self {
        let machine = machine_name(listen);
        let initial_cluster = format!("{machine}=https://{}", listen.peer());
        Self {
            schema: SCHEMA,
            cluster,
            name: name.to_owned(),
            machine,
            role,
            origin,
            is_ready: false,
            listen,
            initial_cluster,
            endpoints: vec![listen.client.into()],
            external: None,
        }
    }

    /// A machine of a cluster whose etcd is external.
    pub(super) fn of_external(
        (cluster, name): (Uuid, &str),
        origin: Origin,
        listen: Listen,
        (endpoints, external): (&[Endpoint], External),
    ) -> Self {
        let machine = Self::new((cluster, name), (Role::Client, origin), listen);
        let endpoints = endpoints.to_vec();
        Self { initial_cluster: String::new(), endpoints, external: Some(external), ..machine }
    }

    pub(super) fn runs_etcd(&self) -> bool {
        self.role != Role::Client
    }
}

/// A name for etcd: that of the system, and the address, which distinguishes machines of one name.
fn machine_name(listen: Listen) -> String {
    let system = rustix::system::uname();
    let host = system.nodename().to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    let host: String = host.chars().filter(|&c| plain(c)).take(63).collect();
    format!("{host}@{}", listen.client)
}

/// The folder, and the names of the files in it.
#[derive(Clone, Debug)]
pub(super) struct Folder {
    path: PathBuf,
    data_dir: PathBuf,
}

/// A held lock of the folder.
#[derive(Debug)]
pub(super) struct FolderLock(#[allow(dead_code, reason = "the lock lasts as long as it")] File);

impl Folder {
    pub(super) fn of(data_dir: &Path) -> Self {
        // etcd runs in another directory.
        let data_dir = std::path::absolute(data_dir).unwrap_or_else(|_| data_dir.to_owned());
        Self { path: data_dir.join("etcd"), data_dir }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    /// etcd's own directory.
    pub(super) fn data(&self) -> PathBuf {
        self.path.join("data")
    }

    pub(super) fn token(&self) -> PathBuf {
        self.path.join("token")
    }

    pub(super) fn authority(&self) -> PathBuf {
        self.path.join("ca.pem")
    }

    pub(super) fn authority_key(&self) -> PathBuf {
        self.path.join("ca.key")
    }

    pub(super) fn certificate(&self) -> PathBuf {
        self.path.join("machine.pem")
    }

    pub(super) fn key(&self) -> PathBuf {
        self.path.join("machine.key")
    }

    pub(super) fn log(&self) -> PathBuf {
        self.path.join("log")
    }

    pub(super) fn pid(&self) -> PathBuf {
        self.path.join("pid")
    }

    fn record(&self) -> PathBuf {
        self.path.join("member.json")
    }

    /// Creates the folder, for its owner alone.
    pub(super) fn create(&self) -> Result<(), ClusterError> {
        make_private_dir(&self.path).map_err(ClusterError::file(&self.path))
    }

    /// Takes a lock of the folder; `None` while another process holds it.
    pub(super) fn try_lock(&self, name: &str) -> Result<Option<FolderLock>, ClusterError> {
        let path = self.path.join(name);
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(&path).map_err(ClusterError::file(&path))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(FolderLock(file))),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(errno) => Err(ClusterError::File { path, source: errno.into() }),
        }
    }

    /// Takes the lock of commands that change the folder.
    pub(super) fn lock(&self) -> Result<FolderLock, ClusterError> {
        let busy = || ClusterError::Busy { path: self.path.clone() };
        self.try_lock("change.lock")?.ok_or_else(busy)
    }

    /// The record of this machine, if there is one.
    pub(super) fn member(&self) -> Result<Option<Member>, ClusterError> {
        let path = self.record();
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(ClusterError::File { path, source }),
        };
        let member: Option<Member> = serde_json::from_slice(&bytes).ok();
        match member.filter(|member| member.schema == SCHEMA) {
            Some(member) => Ok(Some(member)),
            None => Err(ClusterError::Damaged { path }),
        }
    }

    /// The record of this machine, which has joined.
    pub(super) fn joined(&self) -> Result<Member, ClusterError> {
        let absent = || ClusterError::NoCluster { path: self.data_dir.clone() };
        self.member()?.filter(|member| member.is_ready).ok_or_else(absent)
    }

    /// The token that this machine has kept.
    pub(super) fn own_token(&self) -> Result<Token, ClusterError> {
        let path = self.token();
        let file = Zeroizing::new(std::fs::read(&path).map_err(ClusterError::file(&path))?);
        Token::decode(&file).map_err(|_| ClusterError::Damaged { path })
    }

    pub(super) fn keep_member(&self, member: &Member) -> Result<(), ClusterError> {
        let json = serde_json::to_vec_pretty(member).unwrap_or_default();
        self.keep(&self.record(), &json)
    }

    /// Keeps the certificate of this machine, and the authority's.
    pub(super) fn keep_machine(&self, authority: &str, own: &Keyed) -> Result<(), ClusterError> {
        self.keep(&self.authority(), authority.as_bytes())?;
        self.keep(&self.key(), own.key.as_bytes())?;
        self.keep(&self.certificate(), own.certificate.as_bytes())
    }

    /// Replaces a file durably; only its owner can read it.
    pub(super) fn keep(&self, path: &Path, bytes: &[u8]) -> Result<(), ClusterError> {
        let part = path.with_extension("part");
        let keep = || {
            let mut options = OpenOptions::new();
            options.write(true).create(true).truncate(true).mode(0o600);
            let mut file = options.open(&part)?;
            file.write_all(bytes)?;
            file.sync_all()?;
            std::fs::rename(&part, path)?;
            sync_dir(&self.path)
        };
        keep().map_err(ClusterError::file(path))
    }
}
