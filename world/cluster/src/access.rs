//! The way of a node to the cluster's store and to the other nodes, from the files of its data
//! directory.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use etcd_client::{Certificate, ConnectOptions, Identity, TlsOptions};
use nearflash_records::token::{External, PeerSecret, Tls};
use nearflash_records::{Endpoint, Key, listed};
use uuid::Uuid;

use super::error::ClusterError;
use super::member::{Folder, Member};
use super::seal::Seal;

/// The time for which an endpoint may be silent.
pub(super) const CALL_TIMEOUT: Duration = Duration::from_secs(2);

/// The way to the cluster's store.
pub struct StoreAccess {
    member: Member,
    peer_secret: PeerSecret,
    way: Way,
}

impl StoreAccess {
    /// That of a data directory whose machine has joined a cluster.
    ///
    /// # Errors
    /// When it has not, or its files cannot be used.
    pub fn of(data_dir: &Path) -> Result<Self, ClusterError> {
        let folder = Folder::of(data_dir);
        let member = folder.joined()?;
        // Its lifetime concerns only machines that join.
        let token = folder.own_token()?;
        let way = Way::of(&folder, member.external.as_ref())?;
        Ok(Self { member, peer_secret: token.peer_secret, way })
    }

    /// The cluster.
    pub fn cluster(&self) -> Uuid {
        self.member.cluster
    }

    /// The address at which the other machines reach this one.
    pub fn ip(&self) -> IpAddr {
        self.member.listen.client.ip()
    }

    /// The secret of the connections between nodes.
    pub fn peer_secret(&self) -> PeerSecret {
        self.peer_secret
    }

    /// The name of this machine as a member of etcd; empty for a machine that is not a member.
    pub fn machine(&self) -> String {
        if self.member.runs_etcd() { self.member.machine.clone() } else { String::new() }
    }

    /// The addresses of etcd, separated by commas.
    pub fn endpoints_text(&self) -> String {
        listed(&self.member.endpoints)
    }

    /// The addresses of etcd.
    pub fn endpoints(&self) -> Vec<Endpoint> {
        self.member.endpoints.clone()
    }

    /// The way to etcd, for calls that have deadlines of their own.
    pub(super) fn way(&self) -> Way {
        // Without pings, a watch at a machine that has vanished would never end.
        let options = self.way.options.clone();
        let options = options
            .with_keep_alive(CALL_TIMEOUT, CALL_TIMEOUT)
            .with_keep_alive_while_idle(true)
            .with_require_leader(true);
        Way { options, ..self.way.clone() }
    }
}

/// The way to etcd: the certificates, and for an external etcd the place of the keys.
#[derive(Clone)]
pub(super) struct Way {
    pub(super) options: ConnectOptions,
    external: Option<External>,
    /// That of a machine that has a token.
    seal: Option<Seal>,
}

impl Way {
    /// With the certificates of the folder.
    pub(super) fn of(folder: &Folder, external: Option<&External>) -> Result<Self, ClusterError> {
        let read = |path: PathBuf| std::fs::read(&path).map_err(ClusterError::file(&path));
        let options = ConnectOptions::new().with_connect_timeout(CALL_TIMEOUT);
        let tls = external.map_or(Tls::Mutual, |it| it.tls);
        let external = external.cloned();
        let token = folder.own_token().ok();
        let seal = token.map(|token| Seal::new(&token.peer_secret, token.cluster));
        if tls == Tls::None {
            return Ok(Self { options, external, seal });
        }
        let mut certificates =
            TlsOptions::new().ca_certificate(Certificate::from_pem(read(folder.authority())?));
        if tls == Tls::Mutual {
            let own = Identity::from_pem(read(folder.certificate())?, read(folder.key())?);
            certificates = certificates.identity(own);
        }
        Ok(Self { options: options.with_tls(certificates), external, seal })
    }

    /// Whether nearflash does not run that etcd.
    pub(super) fn is_external(&self) -> bool {
        self.external.is_some()
    }

    /// The thing to check about the protection of the connections to an external etcd.
    pub(super) fn external_tls(&self) -> Option<&'static str> {
        self.external.as_ref().map(|it| match it.tls {
            Tls::None => "that it uses no TLS (ca=FILE makes the connections TLS)",
            Tls::Server => {
                "that it uses TLS and asks for no certificate (cert=FILE and key=FILE name one)"
            }
            Tls::Mutual => "that it accepts the certificate of cert=FILE and key=FILE",
        })
    }

    /// The scheme of etcd's URLs.
    pub(super) fn scheme(&self) -> &'static str {
        match &self.external {
            Some(External { tls: Tls::None, .. }) => "http",
            _ => "https",
        }
    }

    /// The URL of an address.
    pub(super) fn url(&self, endpoint: &Endpoint) -> String {
        format!("{}://{endpoint}", self.scheme())
    }

    /// The name that a key of the cluster has in etcd.
    pub(super) fn name(&self, key: &str) -> String {
        format!("{}{key}", self.prefix())
    }

    /// The key of the cluster with that name in etcd.
    pub(super) fn key<'a>(&self, name: &'a str) -> &'a str {
        name.strip_prefix(self.prefix()).unwrap_or(name)
    }

    /// The value of a key of the cluster as etcd gets it. A secret that cannot be sealed becomes an empty value.
    pub(super) fn sealed(&self, key: &Key, path: &str, value: &[u8]) -> Vec<u8> {
        match &self.seal {
            _ if !key.is_secret() => value.to_vec(),
            Some(seal) => seal.seal(path, value).unwrap_or_default(),
            None => Vec::new(),
        }
    }

    /// The value of a key of the cluster as etcd has it, opened. One that does not open stays sealed, and so is no
    /// record.
    pub(super) fn opened(&self, path: &str, value: &[u8]) -> Vec<u8> {
        let seal = self.seal.as_ref().filter(|seal| seal.is_for(path));
        let opened = seal.and_then(|seal| seal.open(path, value));
        opened.map_or_else(|| value.to_vec(), |opened| opened.to_vec())
    }

    /// The text before each key.
    pub(super) fn prefix(&self) -> &str {
        self.external.as_ref().map_or("", |it| it.prefix.as_str())
    }
}
