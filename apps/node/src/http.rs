//! The listeners of the HTTP interface: a Unix socket in the data directory, for the node's own user, and
//! an address of the network, with TLS.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use nearflash_rest::{Certified, HttpServer, Listeners};

use crate::StartError;
use crate::doors::{Accepts, SocketFile, absolute, open_private, open_tcp};
use crate::node::Node;
use nearflash_config::{Config, HttpDoor};

/// The address of the network, bound before anything else is touched.
pub(crate) struct NetworkDoor {
    listener: TcpListener,
    tls: Certified,
}

impl NetworkDoor {
    pub(crate) fn open(config: &Config) -> Result<Option<Self>, StartError> {
        let Some(HttpDoor { address, cert, key }) = &config.http.network else { return Ok(None) };
        let tls = Certified::read(cert, key, Instant::now())?;
        let (listener, _) = open_tcp("http", *address, Accepts::Both)?;
        Ok(Some(Self { listener, tls }))
    }
}

impl NetworkDoor {
    /// The address, as bound.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.listener.local_addr().ok()
    }
}

/// The running HTTP interface of a node.
pub(crate) struct Http {
    server: HttpServer,
    /// Dropping it removes the file.
    socket: SocketFile,
}

impl Http {
    /// Starts the interface in that data directory, whose lock the caller holds; `None` if it is
    /// switched off.
    pub(crate) fn start(
        config: &Config,
        network: Option<NetworkDoor>,
        node: &Arc<Node>,
    ) -> Result<Option<Self>, StartError> {
        if !config.http.is_on {
            return Ok(None);
        }
        let (local, socket) = open_private("data-dir", &socket_path(&config.data_dir))?;
        let network = network.map(|door| (door.listener, door.tls));
        let listeners = Listeners { local: Some(local), network };
        let face = Arc::<Node>::clone(node);
        let failed = |source| StartError::System { action: "start the HTTP interface", source };
        let server = HttpServer::start(listeners, face).map_err(failed)?;
        Ok(Some(Self { server, socket }))
    }

    pub(crate) fn stop(self) {
        self.server.stop();
        drop(self.socket);
    }
}

/// The Unix socket of a data directory.
pub(crate) fn socket_path(data_dir: &Path) -> PathBuf {
    absolute(data_dir).join("http.sock")
}
