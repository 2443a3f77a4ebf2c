//! The way of a node to the cluster's store and to the other nodes, from the files of its data
//! directory.

use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use etcd_client::{Certificate, ConnectOptions, Identity, TlsOptions};
use uuid::Uuid;

use super::error::ClusterError;
use super::member::{Folder, Member};
use super::token::{PeerSecret, Token};

/// The time for which an endpoint may be silent.
pub(super) const CALL_TIMEOUT: Duration = Duration::from_secs(2);

/// The way to the cluster's store.
pub(crate) struct StoreAccess {
    member: Member,
    peer_secret: PeerSecret,
    options: ConnectOptions,
}

impl StoreAccess {
    /// That of a data directory whose machine has joined a cluster.
    ///
    /// # Errors
    /// When it has not, or its files cannot be used.
    pub(crate) fn of(data_dir: &Path) -> Result<Self, ClusterError> {
        let folder = Folder::of(data_dir);
        let member = folder.joined()?;
        let path = folder.token();
        let file = std::fs::read(&path).map_err(ClusterError::file(&path))?;
        let token = Token::decode(&file).map_err(|_| ClusterError::Damaged { path })?;
        let options = connect_options(&folder)?;
        Ok(Self { member, peer_secret: token.peer_secret, options })
    }

    /// The cluster.
    pub(crate) fn cluster(&self) -> Uuid {
        self.member.cluster
    }

    /// The address at which the other machines reach this one.
    pub(crate) fn ip(&self) -> IpAddr {
        self.member.listen.client.ip()
    }

    /// The secret of the connections between nodes.
    pub(crate) fn peer_secret(&self) -> PeerSecret {
        self.peer_secret
    }

    /// The addresses of etcd, separated by commas.
    pub(crate) fn endpoints_text(&self) -> String {
        let mut text = String::new();
        for endpoint in &self.member.endpoints {
            // Writing to a string cannot fail.
            let _ = write!(text, "{}{endpoint}", if text.is_empty() { "" } else { ", " });
        }
        text
    }

    /// The addresses of etcd.
    pub(super) fn endpoints(&self) -> Vec<SocketAddr> {
        self.member.endpoints.clone()
    }

    /// The options of a connection whose calls have deadlines of their own.
    pub(super) fn options(&self) -> ConnectOptions {
        // Without pings, a watch at a machine that has vanished would never end.
        self.options
            .clone()
            .with_keep_alive(CALL_TIMEOUT, CALL_TIMEOUT)
            .with_keep_alive_while_idle(true)
            .with_require_leader(true)
    }
}

/// The options of a connection with the machine's certificate.
pub(super) fn connect_options(folder: &Folder) -> Result<ConnectOptions, ClusterError> {
    let read = |path: PathBuf| std::fs::read(&path).map_err(ClusterError::file(&path));
    let tls = TlsOptions::new()
        .ca_certificate(Certificate::from_pem(read(folder.authority())?))
        .identity(Identity::from_pem(read(folder.certificate())?, read(folder.key())?));
    Ok(ConnectOptions::new().with_tls(tls).with_connect_timeout(CALL_TIMEOUT))
}
