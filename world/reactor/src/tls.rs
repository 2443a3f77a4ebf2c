//! The part of TLS that all cores share: the keys of hosts and clients, and the connections that move between cores.
//!
//! Each protocol with TLS has an [`Acceptor`], so that an identity of one protocol opens no connection of another.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::SystemTime;

use nearflash_direct::serving::{Exports, TlsKeyRefused as ClientRefused};
use nearflash_direct::wire::{PROOF_LEN, SALT_LEN};
use nearflash_direct::{Secret, TlsIdentity as ClientIdentity, TlsKey as ClientKey};
use nearflash_nvme::Nqn;
use nearflash_nvme::tls::{KeyRefused, PskIdentity, Suite as PskSuite, TlsHosts, TlsKey};
use nearflash_shard::{Door, Protocol, TlsFault, TlsIdentity, TlsKeyRefused};
use nearflash_tls::{KeySource, PskKey, StartError, Suite};
use nearflash_units::UnixTime;
use rustix::rand::{GetRandomFlags, getrandom};

use crate::acceptor::{Acceptor, Identities, Records};
use crate::secured::Secured;

/// TLS for the connections of NVMe/TCP hosts and of direct clients.
///
/// Its locks are taken during handshakes, and when a connection moves to another core. No request waits for them.
#[derive(Debug)]
pub struct Tls {
    hosts: Arc<Hosts>,
    clients: Arc<Clients>,
    of_hosts: Arc<Acceptor>,
    of_clients: Arc<Acceptor>,
    /// Connections that one core has detached and no other one has attached yet, by socket.
    moving: Mutex<HashMap<u32, Box<Secured>>>,
}

/// NVMe/TCP hosts.
#[derive(Debug)]
struct Hosts(RwLock<TlsHosts>);

impl Hosts {
    fn find(&self, identity: &[u8]) -> Result<(PskIdentity, TlsKey), KeyRefused> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).key(identity, now())
    }
}

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

impl Identities for Hosts {
    fn protocol(&self) -> Protocol {
        Protocol::NvmeTcp
    }

    fn read(&self, offered: &[u8]) -> Option<TlsIdentity> {
        PskIdentity::parse(offered).ok().map(TlsIdentity::Nvme)
    }

    fn refusal(&self, offered: &[u8]) -> Option<TlsKeyRefused> {
        self.find(offered).err().map(Into::into)
    }

    fn wrong_key(&self) -> TlsFault {
        TlsFault::WrongPsk
    }

    fn host_of_previous(&self, identity: &TlsIdentity) -> Option<Nqn> {
        let TlsIdentity::Nvme(identity) = identity else { return None };
        let hosts = self.0.read().unwrap_or_else(PoisonError::into_inner);
        hosts.is_previous(identity, now()).then(|| identity.host.clone())
    }
}

/// Direct clients.
struct Clients {
    exports: RwLock<Arc<Exports>>,
    /// The salt of seal keys.
    salt: [u8; SALT_LEN],
    /// A secret that nobody knows.
    nobody: Secret,
}

impl Clients {
    fn find(&self, identity: &[u8]) -> Result<ClientKey, ClientRefused> {
        let exports = Arc::clone(&self.exports.read().unwrap_or_else(PoisonError::into_inner));
        exports.tls_key(identity, self.salt)
    }
}

impl fmt::Debug for Clients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clients")
    }
}

impl KeySource for Clients {
    /// An identity without a key has one that nobody knows. Its handshake fails like that of a wrong secret, so
    /// that nobody learns which keys exist.
    fn key(&self, identity: &[u8]) -> Option<PskKey> {
        let key = match self.find(identity) {
            Ok(key) => key,
            Err(ClientRefused::Identity(_)) => return None,
            Err(ClientRefused::Unknown | ClientRefused::Expired | ClientRefused::Anonymous) => {
                ClientIdentity::parse(identity).ok()?.tls_key(&self.nobody)
            }
        };
        Some(PskKey::new(Suite::Aes128Sha256, key.bytes()))
    }
}

impl Identities for Clients {
    fn protocol(&self) -> Protocol {
        Protocol::Direct
    }

    fn read(&self, offered: &[u8]) -> Option<TlsIdentity> {
        ClientIdentity::parse(offered).ok().map(TlsIdentity::Direct)
    }

    fn refusal(&self, offered: &[u8]) -> Option<TlsKeyRefused> {
        self.find(offered).err().map(Into::into)
    }

    fn wrong_key(&self) -> TlsFault {
        TlsFault::WrongSecret
    }
}

/// The time of day, until which previous PSKs are valid. A clock before 1970 counts as 1970.
fn now() -> UnixTime {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    UnixTime(since.map_or(0, |since| since.as_secs()))
}

impl Tls {
    /// TLS for these hosts, and for the clients of these exports. `salt` is that of the node's seal keys.
    ///
    /// # Errors
    /// If the program has no TLS, or OpenSSL cannot be used.
    pub fn new(
        hosts: TlsHosts,
        exports: Arc<Exports>,
        salt: [u8; SALT_LEN],
        records: Records,
    ) -> Result<Self, StartError> {
        let hosts = Arc::new(Hosts(RwLock::new(hosts)));
        let (exports, nobody) = (RwLock::new(exports), random_secret());
        let clients = Arc::new(Clients { exports, salt, nobody });
        Ok(Self {
            of_hosts: Arc::new(Acceptor::new(Arc::<Hosts>::clone(&hosts), records)?),
            of_clients: Arc::new(Acceptor::new(Arc::<Clients>::clone(&clients), records)?),
            hosts,
            clients,
            moving: Mutex::default(),
        })
    }

    /// Replaces the hosts that have keys. Handshakes that begin later use the new keys.
    pub fn set_hosts(&self, hosts: TlsHosts) {
        *self.hosts.0.write().unwrap_or_else(PoisonError::into_inner) = hosts;
    }

    /// Replaces the exports, and so the credentials. Handshakes that begin later use the new ones.
    pub fn set_exports(&self, exports: Arc<Exports>) {
        *self.clients.exports.write().unwrap_or_else(PoisonError::into_inner) = exports;
    }

    /// The acceptor for the connections of a listener; `None` if its protocol has no TLS.
    pub(crate) fn acceptor(&self, door: Door) -> Option<&Arc<Acceptor>> {
        match door {
            Door::NvmeTcp { .. } => Some(&self.of_hosts),
            Door::Direct { .. } => Some(&self.of_clients),
            Door::Iscsi { .. } => None,
        }
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

fn random_secret() -> Secret {
    let mut bytes = [0; PROOF_LEN];
    let mut filled = 0;
    while filled < bytes.len() {
        // This fails only when interrupted: every kernel with io_uring has the call.
        filled += getrandom(&mut bytes[filled..], GetRandomFlags::empty()).unwrap_or_default();
    }
    Secret::new(bytes)
}
