//! The listeners that accept connections, and their peers.

use std::fmt;
use std::net::SocketAddr;

use nearflash_session::Origin;

/// The protocol of a listener, and its access policy.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Door {
    /// NVMe/TCP.
    NvmeTcp {
        /// Hosts without keys connect without authentication.
        anonymous: bool,
    },
    /// Direct, over TCP or a Unix socket.
    Direct {
        /// While no credential exists, every client has full access.
        anonymous: bool,
        /// A Unix socket: clients may request shared memory.
        local: bool,
    },
    /// iSCSI.
    Iscsi {
        /// While no CHAP account exists, initiators log in without authentication.
        anonymous: bool,
    },
}

/// The other end of a connection.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Peer {
    /// A peer on the network.
    Address(SocketAddr),
    /// A peer on a Unix socket: the credentials that the system reports.
    Process {
        /// The process ID in our PID namespace; 0 if the process is not visible in it.
        pid: u32,
        /// Its user.
        uid: u32,
    },
}

impl Peer {
    /// Where it comes from, as long as it has proved nothing else.
    pub fn origin(self) -> Origin {
        match self {
            Self::Address(address) => Origin::of(address.ip()),
            Self::Process { uid, .. } => Origin::User(uid),
        }
    }

    /// Its network address; `None` for a Unix socket.
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
