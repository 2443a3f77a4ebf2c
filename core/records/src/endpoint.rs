//! An address of etcd for clients.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// etcd's registered port for clients.
pub const CLIENT_PORT: u16 = 2379;

/// The maximum length of the name of a machine in DNS.
const NAME_LEN_MAX: usize = 253;

/// An address of etcd for clients: `IP:PORT`, `[IPv6]:PORT` or `NAME:PORT`.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct Endpoint(Arc<str>);

/// The text is not the address of an etcd.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("'{0}' is not the address of an etcd: write HOST or HOST:PORT, for example 192.0.2.1:2379")]
pub struct ParseEndpointError(Box<str>);

impl Endpoint {
    /// The address in a URL of that scheme.
    pub fn of_url(url: &str, scheme: &str) -> Option<Self> {
        url.strip_prefix(scheme)?.strip_prefix("://")?.parse().ok()
    }

    /// Whether only this machine reaches it.
    pub fn is_loopback(&self) -> bool {
        match self.0.parse::<SocketAddr>() {
            Ok(address) => address.ip().is_loopback(),
            Err(_) => self.0.rsplit_once(':').is_some_and(|(name, _)| name == "localhost"),
        }
    }
}

impl FromStr for Endpoint {
    type Err = ParseEndpointError;

    fn from_str(text: &str) -> Result<Self, ParseEndpointError> {
        let refused = || ParseEndpointError(text.into());
        let bare = text.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(text);
        if let Ok(ip) = bare.parse::<IpAddr>() {
            return Ok(SocketAddr::new(ip, CLIENT_PORT).into());
        }
        if let Ok(address) = text.parse::<SocketAddr>() {
            return if address.port() == 0 { Err(refused()) } else { Ok(address.into()) };
        }
        let (name, port) = match text.split_once(':') {
            Some((name, port)) => (name, port.parse().map_err(|_| refused())?),
            None => (text, CLIENT_PORT),
        };
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
        let is_name = (1..=NAME_LEN_MAX).contains(&name.len()) && name.chars().all(is_part);
        if !is_name || port == 0 {
            return Err(refused());
        }
        Ok(Self(format!("{name}:{port}").into()))
    }
}

impl From<SocketAddr> for Endpoint {
    fn from(address: SocketAddr) -> Self {
        Self(address.to_string().into())
    }
}

impl TryFrom<String> for Endpoint {
    type Error = ParseEndpointError;

    fn try_from(text: String) -> Result<Self, ParseEndpointError> {
        text.parse()
    }
}

impl From<Endpoint> for String {
    fn from(endpoint: Endpoint) -> Self {
        endpoint.0.as_ref().to_owned()
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// The addresses, separated by commas.
pub fn listed(endpoints: &[Endpoint]) -> String {
    endpoints.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_name_or_a_number_and_a_port() {
        for (text, whole) in [
            ("192.0.2.1", "192.0.2.1:2379"),
            ("192.0.2.1:3000", "192.0.2.1:3000"),
            ("2001:db8::1", "[2001:db8::1]:2379"),
            ("[2001:db8::1]:3000", "[2001:db8::1]:3000"),
            ("etcd-1.example.net", "etcd-1.example.net:2379"),
            ("localhost:3000", "localhost:3000"),
        ] {
            assert_eq!(text.parse::<Endpoint>().unwrap().to_string(), whole);
        }
        for wrong in ["", ":2379", "a:", "a:0", "192.0.2.1:0", "a/b", "a:2379/", "[::1", "a:b:2"] {
            assert!(wrong.parse::<Endpoint>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_loopback_network_is_known() {
        let is_loopback = |text: &str| text.parse::<Endpoint>().unwrap().is_loopback();
        assert!(
            ["127.0.0.1", "127.3.2.1:99", "[::1]:2379", "localhost"].map(is_loopback) == [true; 4]
        );
        assert!(["192.0.2.1", "localhost.example.net"].map(is_loopback) == [false; 2]);
    }

    #[test]
    fn a_url_of_another_scheme_has_no_address() {
        let of = |url| Endpoint::of_url(url, "https").map(|it| it.to_string());
        assert_eq!(of("https://192.0.2.1:2379"), Some("192.0.2.1:2379".to_owned()));
        assert_eq!(of("http://192.0.2.1:2379"), None);
        assert_eq!(of("unix://etcd"), None);
    }
}
