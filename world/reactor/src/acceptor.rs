//! The handshakes of one protocol: who may connect, with which key, and where the records are handled.

use std::sync::Arc;

use nearflash_nvme::Nqn;
use nearflash_shard::{Protocol, TlsFault, TlsIdentity, TlsKeyRefused};
use nearflash_tls::{KeySource, Server, StartError, Stream};

use crate::kernel_tls;

/// Where the records behind a handshake are encrypted and decrypted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Records {
    /// In the kernel; in user space, if the kernel cannot.
    Kernel,
    /// In user space.
    UserSpace,
}

impl Records {
    /// Where they are, as far as this kernel can handle them.
    #[must_use]
    pub fn where_possible(self) -> Self {
        if self == Self::Kernel && kernel_tls::is_available() { self } else { Self::UserSpace }
    }
}

/// The identities of a protocol, and their keys.
pub(crate) trait Identities: KeySource {
    fn protocol(&self) -> Protocol;
    /// The identity that a peer has sent.
    fn read(&self, offered: &[u8]) -> Option<TlsIdentity>;
    /// Why an identity has no key; `None` if it has one.
    fn refusal(&self, offered: &[u8]) -> Option<TlsKeyRefused>;
    /// The fault of a peer whose key differs.
    fn wrong_key(&self) -> TlsFault;
    /// The host whose key comes from a PSK that a new one has replaced, if it is one.
    fn host_of_previous(&self, _identity: &TlsIdentity) -> Option<Nqn> {
        None
    }
}

/// Accepts the connections of one protocol.
#[derive(Debug)]
pub(crate) struct Acceptor {
    server: Server,
    identities: Arc<dyn Identities>,
}

impl Acceptor {
    pub(crate) fn new(
        identities: Arc<dyn Identities>,
        records: Records,
    ) -> Result<Self, StartError> {
        let source: Arc<dyn KeySource> = Arc::<dyn Identities>::clone(&identities);
        let server = Server::new(source)?;
        let server = match records {
            Records::Kernel => server.exporting_keys(),
            Records::UserSpace => server,
        };
        Ok(Self { server, identities })
    }

    pub(crate) fn accept(&self) -> Result<Stream, StartError> {
        self.server.accept()
    }

    pub(crate) fn identities(&self) -> &dyn Identities {
        &*self.identities
    }
}
