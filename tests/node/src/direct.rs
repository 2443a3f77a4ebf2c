//! The direct client, over both of its transports.

use nearflash::{Client, Credentials, Error};
use serde_json::Value;

use crate::node::Node;

/// A transport of the direct protocol.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Door {
    /// TCP.
    Tcp,
    /// The Unix socket, with memory shared with the node.
    Local,
}

impl Door {
    /// Both transports.
    pub const ALL: [Self; 2] = [Self::Tcp, Self::Local];

    /// The URL of this transport.
    pub fn url(self, node: &Node<'_>) -> String {
        match self {
            Self::Tcp => format!("direct://{}", node.direct_address()),
            Self::Local => format!("direct+local:{}", node.direct_socket()),
        }
    }

    /// Connects a client without a credential.
    ///
    /// # Errors
    /// When the node refuses it.
    pub fn anonymous(self, node: &Node<'_>) -> Result<Client, Error> {
        Client::connect(&self.url(node), Credentials::NONE)
    }
}

/// A credential that a node has created.
#[derive(Debug)]
pub struct Key {
    id: &'static str,
    secret: String,
}

impl Key {
    /// Creates a credential, with these further flags.
    ///
    /// # Panics
    /// When the node refuses.
    pub fn create(node: &Node<'_>, id: &'static str, flags: &[&str]) -> Self {
        let made = node.command(&[&["credential", "create", id], flags].concat());
        let secret = made["secret"].as_str().expect("a secret is text").to_owned();
        Self { id, secret }
    }

    /// The key id.
    pub const fn id(&self) -> &str {
        self.id
    }

    /// The secret, as hexadecimal digits.
    pub fn secret(&self) -> &str {
        &self.secret
    }

    /// The secret.
    ///
    /// # Panics
    /// When the node has given no hexadecimal digits.
    pub fn secret_bytes(&self) -> [u8; 32] {
        let digits = |at: usize| &self.secret[2 * at..2 * at + 2];
        let byte = |at| u8::from_str_radix(digits(at), 16).expect("a secret has digits");
        std::array::from_fn(byte)
    }

    /// The same key id with another secret.
    pub fn forged(&self) -> Self {
        Self { id: self.id, secret: "0f".repeat(32) }
    }

    /// Adds a grant. Returns its number.
    ///
    /// # Panics
    /// When the node refuses.
    pub fn grant(&self, node: &Node<'_>, volume: &str, flags: &[&str]) -> u64 {
        let added: Value = node.command(&[&["grant", "add", self.id, volume], flags].concat());
        added["grant"]["number"].as_u64().expect("a grant has a number")
    }

    /// Connects a client with this credential.
    ///
    /// # Errors
    /// When the node refuses it.
    pub fn connect(&self, node: &Node<'_>, door: Door) -> Result<Client, Error> {
        Client::connect(&door.url(node), Credentials::new(self.id, &self.secret)?)
    }

    /// The same over TCP with TLS.
    ///
    /// # Errors
    /// When the node refuses it.
    pub fn connect_with_tls(&self, node: &Node<'_>) -> Result<Client, Error> {
        let url = format!("direct+tls://{}", node.direct_address());
        Client::connect(&url, Credentials::new(self.id, &self.secret)?)
    }
}

/// Checks that a new client without a credential can open volume `data`, write and read.
///
/// # Panics
/// When it cannot.
pub fn assert_serves_direct(node: &Node<'_>) {
    for door in Door::ALL {
        let volume = door.anonymous(node).and_then(|client| client.open("data"));
        let volume = volume.expect("the volume is there");
        let (written, mut read) = ([0x5A; 100], [0; 100]);
        volume.write_at(&written, 4_050).expect("it can be written");
        volume.read_at(&mut read, 4_050).expect("it can be read");
        assert_eq!(read, written);
    }
}
