//! Where connections come in, and who is at their other end.

use std::fmt;
use std::net::SocketAddr;

/// What is spoken at a listener, and who may come in by it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Door {
    /// NVMe/TCP.
    NvmeTcp,
    /// Direct, over TCP or a Unix socket.
    Direct {
        /// As long as there is no credential, whoever comes has full access.
        anonymous: bool,
        /// A Unix socket: clients may ask for shared memory.
        local: bool,
    },
    /// iSCSI.
    Iscsi {
        /// As long as there is no CHAP account, whoever may come in need not prove who it is.
        anonymous: bool,
    },
}

/// The other end of a connection.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Peer {
    /// By the network.
    Address(SocketAddr),
    /// By a Unix socket: what the system says of who connected.
    Process {
        /// The process, as seen from here; 0 when it is in a namespace that we do not see.
        pid: u32,
        /// Its user.
        uid: u32,
    },
}

impl Peer {
    /// Its address, if it came by the network.
    pub fn address(self) -> Option<SocketAddr> {
        match self {
            Self::Address(address) => Some(address),
            Self::Process { .. } => None,
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Process { pid, uid } => write!(f, "process {pid} of user {uid}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_named_by_its_address_or_its_process() {
        let address = SocketAddr::from(([192, 0, 2, 7], 4421));
        assert_eq!(Peer::Address(address).to_string(), "192.0.2.7:4421");
        assert_eq!(Peer::Process { pid: 12, uid: 1000 }.to_string(), "process 12 of user 1000");
    }
}
