//! The transport address of a subsystem, and its form in the discovery log.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use crate::Ascii;
use crate::log::{AddressFamily, TransportType};

/// An address of a transport: TRTYPE, ADRFAM, TRADDR and TRSVCID. NVMe Base 2.0, 5.16.1.23.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct TransportAddress {
    socket: SocketAddr,
}

impl TransportAddress {
    /// An NVMe/TCP address. An IPv4-mapped IPv6 address becomes the IPv4 address.
    pub fn tcp(socket: SocketAddr) -> Self {
        Self { socket: SocketAddr::new(socket.ip().to_canonical(), socket.port()) }
    }

    /// TRTYPE.
    pub fn transport(&self) -> TransportType {
        TransportType::TCP
    }

    /// ADRFAM.
    pub fn family(&self) -> AddressFamily {
        match self.socket.ip() {
            IpAddr::V4(_) => AddressFamily::IPV4,
            IpAddr::V6(_) => AddressFamily::IPV6,
        }
    }

    /// TRADDR.
    pub fn address(&self) -> Ascii<256> {
        Ascii::new(&self.socket.ip().to_string())
    }

    /// TRSVCID.
    pub fn service(&self) -> Ascii<32> {
        Ascii::new(&self.socket.port().to_string())
    }

    /// The socket address.
    pub fn socket(&self) -> SocketAddr {
        self.socket
    }

    /// Whether this is the wildcard address, to which no host can connect.
    pub fn is_unspecified(&self) -> bool {
        self.socket.ip().is_unspecified()
    }
}

impl fmt::Display for TransportAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.socket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_from_the_discovery_log_as_it_was_written() {
        for text in ["192.0.2.1:4420", "[2001:db8::1]:8009"] {
            let address = TransportAddress::tcp(text.parse().unwrap());
            let (host, service) = (address.address().text(), address.service().text());
            let read = TransportAddress::from_discovery(address.transport(), &host, &service);
            assert_eq!(read, Some(address));
            assert_eq!(address.to_string(), text);
        }
    }

    #[test]
    fn what_is_no_address_of_tcp_is_none() {
        let read = TransportAddress::from_discovery;
        assert_eq!(read(TransportType::RDMA, "192.0.2.1", "4420"), None);
        assert_eq!(read(TransportType::TCP, "example.org", "4420"), None);
        assert_eq!(read(TransportType::TCP, "192.0.2.1", "none"), None);
        assert_eq!(read(TransportType::TCP, "192.0.2.1", "70000"), None);
    }
}
