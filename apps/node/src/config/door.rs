//! Doors: where hosts, initiators and direct clients come in.

use std::net::SocketAddr;

use super::Key;

/// A protocol that a node serves.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Protocol {
    /// NVMe/TCP.
    NvmeTcp,
    /// nearflash's own.
    Direct,
    /// iSCSI.
    Iscsi,
}

impl Protocol {
    /// The name of its flag and key.
    pub fn key(self) -> &'static str {
        match self {
            Self::NvmeTcp => "nvme-tcp",
            Self::Direct => "direct",
            Self::Iscsi => "iscsi",
        }
    }

    /// Its port where an address names none.
    pub(super) fn port(self) -> u16 {
        match self {
            Self::NvmeTcp => 4420,
            Self::Direct => 4421,
            Self::Iscsi => 3260,
        }
    }

    /// Its address where none is given: NVMe/TCP is served on this machine by default.
    pub(super) fn default_address(self) -> Option<&'static str> {
        (self == Self::NvmeTcp).then_some("127.0.0.1:4420")
    }
}

/// Whom a door admits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Admits {
    /// Peers without proof of who they are, until there is a credential or an account: only this
    /// machine reaches the door, or `--host` says who may connect.
    Unproven,
    /// Only peers that prove who they are.
    Proven,
}

/// A door.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Door {
    /// What is spoken there.
    pub protocol: Protocol,
    /// Where it is.
    pub address: SocketAddr,
    /// Whom it admits.
    pub admits: Admits,
    /// Where it was written.
    pub key: Key,
}

impl Door {
    /// Whether only this machine reaches it.
    pub(super) fn is_loopback(&self) -> bool {
        self.address.ip().to_canonical().is_loopback()
    }
}
