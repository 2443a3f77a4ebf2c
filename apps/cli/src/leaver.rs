//! The argument of `nearflash cluster remove`.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use nearflash_space::Name;

/// The part of a cluster that is removed from it.
#[derive(Clone, Debug)]
pub(crate) enum Leaver {
    Node(Name),
    /// A machine without a node, by the address of its etcd for clients.
    Machine(SocketAddr),
}

impl FromStr for Leaver {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(address) = text.parse() {
            return Ok(Self::Machine(address));
        }
        if let Ok(ip) = text.parse::<IpAddr>() {
            return Ok(Self::Machine(SocketAddr::new(ip, nearflash_records::CLIENT_PORT)));
        }
        text.parse().map(Self::Node).map_err(|error: <Name as FromStr>::Err| error.to_string())
    }
}
