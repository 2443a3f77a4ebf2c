//! The doors of the HTTP interface.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::door::parse_address;
use super::merge::Merge;
use super::{ConfigError, ValueError};

/// The default port of an address without one.
const PORT: u16 = 4423;

/// The HTTP interface.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HttpConfig {
    /// Whether it is on: the Unix socket in the data directory, and the address of the network.
    pub is_on: bool,
    /// The address of the network.
    pub network: Option<HttpDoor>,
}

/// An address of the network, which has TLS.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HttpDoor {
    /// The address to listen on.
    pub address: SocketAddr,
    /// The certificate, with those of its issuers, in PEM.
    pub cert: PathBuf,
    /// Its key, in PEM.
    pub key: PathBuf,
}

/// The HTTP interface of the file and the flags.
pub(super) fn merge_http(
    merge: &Merge<'_>,
    listen: Option<String>,
    (cert, key): (Option<PathBuf>, Option<PathBuf>),
) -> HttpConfig {
    let parse = |text: &str| match text {
        "none" => Ok(None),
        address => parse_address(address, PORT).map(Some),
    };
    let refused = |text: &str| parse(text).map_err(|_| ValueError::Http(text.into()));
    let listen = merge.one("http", listen, refused);
    let (cert, key) = (merge.path("http-cert", cert), merge.path("http-key", key));
    let off = HttpConfig { is_on: listen != Some(None), network: None };
    match (listen.flatten(), cert, key) {
        (Some(address), Some(cert), Some(key)) => {
            HttpConfig { is_on: true, network: Some(HttpDoor { address, cert, key }) }
        }
        (Some(address), ..) => {
            merge.refuse(ConfigError::HttpWithoutTls { address });
            off
        }
        (None, None, None) => off,
        (None, ..) => {
            merge.refuse(ConfigError::TlsWithoutHttp);
            off
        }
    }
}
