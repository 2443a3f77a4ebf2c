//! The part of TLS that all cores share: the keys of hosts, and the connections that move between cores.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::SystemTime;

use nearflash_nvme::tls::{KeyRefused, PskIdentity, Suite as PskSuite, TlsHosts};
use nearflash_tls::{KeySource, PskKey, Server, StartError, Stream, Suite};
use nearflash_units::UnixTime;

use crate::secured::Secured;

/// TLS for the connections of NVMe/TCP hosts.
///
/// Its locks are taken during handshakes, and when a connection moves to another core. No request waits for them.
#[derive(Debug)]
pub struct Tls {
    server: Server,
    hosts: Arc<Hosts>,
    /// Connections that one core has detached and no other one has attached yet, by socket.
    moving: Mutex<HashMap<u32, Box<Secured>>>,
}

#[derive(Debug)]
struct Hosts(RwLock<TlsHosts>);

impl KeySource for Hosts {
    fn key(&self, identity: &[u8]) -> Option<PskKey> {
        let (identity, key) = self.find(identity).ok()?;
        let suite = match identity.suite {
            PskSuite::Aes128Sha256 => Suite::Aes128Sha256,
            PskSuite::Aes256Sha384 => Suite::Aes256Sha384,
        };
        Some(PskKey::new(suite, key.bytes()))
    }
}

impl Hosts {
    fn find(
        &self,
        identity: &[u8],
    ) -> Result<(PskIdentity, nearflash_nvme::tls::TlsKey), KeyRefused> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).key(identity, now())
    }

    fn is_previous(&self, identity: &PskIdentity) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).is_previous(identity, now())
    }
}

/// The time of day, until which previous PSKs are valid. A clock before 1970 counts as 1970.
fn now() -> UnixTime {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    UnixTime(since.map_or(0, |since| since.as_secs()))
}

impl Tls {
    /// TLS for these hosts.
    ///
    /// # Errors
    /// If the program has no TLS, or OpenSSL cannot be used.
    pub fn new(hosts: TlsHosts) -> Result<Self, StartError> {
        let hosts = Arc::new(Hosts(RwLock::new(hosts)));
        let source: Arc<dyn KeySource> = Arc::<Hosts>::clone(&hosts);
        Ok(Self { server: Server::new(source)?, hosts, moving: Mutex::default() })
    }

    /// Replaces the hosts that have keys. Handshakes that begin later use the new keys.
    pub fn set_hosts(&self, hosts: TlsHosts) {
        *self.hosts.0.write().unwrap_or_else(PoisonError::into_inner) = hosts;
    }

    pub(crate) fn accept(&self) -> Result<Stream, StartError> {
        self.server.accept()
    }

    /// Why an identity has no key; `None` if it has one.
    pub(crate) fn refusal(&self, identity: &[u8]) -> Option<KeyRefused> {
        self.hosts.find(identity).err()
    }

    /// Whether the key of an identity comes from a PSK that a new one has replaced.
    pub(crate) fn is_previous(&self, identity: &PskIdentity) -> bool {
        self.hosts.is_previous(identity)
    }

    /// A core gives up a connection.
    pub(crate) fn give(&self, socket: u32, connection: Box<Secured>) {
        self.moving.lock().unwrap_or_else(PoisonError::into_inner).insert(socket, connection);
    }

    /// Another core takes it over.
    pub(crate) fn take(&self, socket: u32) -> Option<Box<Secured>> {
        self.moving.lock().unwrap_or_else(PoisonError::into_inner).remove(&socket)
    }
}
