//! The resolution of host names.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

/// The addresses of a host, given by name or as an IP address: at least one, in order of
/// preference.
///
/// # Errors
/// The resolver's error, or `NotFound` when the host has no address.
pub fn resolve(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    let addresses: Vec<SocketAddr> = (host, port).to_socket_addrs()?.collect();
    match addresses.is_empty() {
        true => Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address")),
        false => Ok(addresses),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_itself_and_a_name_that_cannot_be_has_none() {
        let address = SocketAddr::from(([192, 0, 2, 7], 4421));
        assert_eq!(resolve("192.0.2.7", 4421).unwrap(), [address]);
        assert!(resolve("no name at all", 1).is_err());
    }
}
