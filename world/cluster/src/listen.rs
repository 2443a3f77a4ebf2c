//! The addresses of a member.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, ToSocketAddrs as _, UdpSocket};
use std::str::FromStr;

use nearflash_records::{CLIENT_PORT, Endpoint};
use serde::{Deserialize, Serialize};

use super::error::ClusterError;

/// An address for documents (RFC 5737), which the default route reaches.
const ELSEWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 9);

/// The addresses of a member: one port for clients, and the next one for the other members.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Listen {
    /// For clients.
    pub client: SocketAddr,
}

/// The text is not an address.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "write IP or IP:PORT, for example 192.0.2.1 or [2001:db8::1]:2379; etcd takes PORT for clients and PORT + 1 for its members"
)]
pub struct ParseListenError;

impl FromStr for Listen {
    type Err = ParseListenError;

    fn from_str(text: &str) -> Result<Self, ParseListenError> {
        let bare = text.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(text);
        let client = match bare.parse::<IpAddr>() {
            Ok(ip) => SocketAddr::new(ip, CLIENT_PORT),
            Err(_) => text.parse().map_err(|_| ParseListenError)?,
        };
        match client.port() {
            0 | u16::MAX => Err(ParseListenError),
            _ => Ok(Self { client }),
        }
    }
}

impl Listen {
    /// For the other members.
    pub fn peer(self) -> SocketAddr {
        SocketAddr::new(self.client.ip(), self.client.port().saturating_add(1))
    }

    /// The address from which this machine would reach `peer`, or any other machine.
    pub(super) fn towards(peer: Option<SocketAddr>) -> Result<Self, ClusterError> {
        let target = peer.unwrap_or(ELSEWHERE);
        let any: IpAddr = match target {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
        };
        // Connecting a datagram socket sends nothing; the system chooses the source address.
        let chosen = UdpSocket::bind((any, 0))
            .and_then(|socket| socket.connect(target).and_then(|()| socket.local_addr()));
        let ip = chosen.map_err(|_| ClusterError::NoAddress)?.ip();
        if ip.is_loopback() && !target.ip().is_loopback() {
            return Err(ClusterError::NoAddress);
        }
        Ok(Self { client: SocketAddr::new(ip, CLIENT_PORT) })
    }

    /// The address of a machine that runs no etcd. An etcd at a loopback address says nothing about it.
    pub(super) fn of_client(etcd: &Endpoint) -> Result<Self, ClusterError> {
        let peer = resolve(etcd);
        match Self::towards(peer.filter(|peer| !peer.ip().is_loopback())) {
            Err(ClusterError::NoAddress) => Self::towards(peer),
            found => found,
        }
    }

    /// Checks that the address can be that of a machine.
    pub(super) fn check_ip(self) -> Result<(), ClusterError> {
        let ip = self.client.ip();
        if ip.is_unspecified() || ip.is_multicast() {
            return Err(ClusterError::Address { address: ip });
        }
        Ok(())
    }

    /// Checks that both ports are free, before anything is made.
    pub(super) fn check(self) -> Result<(), ClusterError> {
        self.check_ip()?;
        for address in [self.client, self.peer()] {
            TcpListener::bind(address).map_err(|source| ClusterError::Bind { address, source })?;
        }
        Ok(())
    }
}

/// The address of an etcd that a system call takes; the name of a machine is looked up.
pub(super) fn resolve(endpoint: &Endpoint) -> Option<SocketAddr> {
    endpoint.to_string().to_socket_addrs().ok()?.next()
}
