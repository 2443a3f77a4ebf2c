//! The URL of a seal that the node has minted.

use std::net::SocketAddr;

use nearflash::direct::{Place, Url, UrlError};
use nearflash_api::{GrantInfo, NewSeal, SecretText, Status};
use serde::Serialize;

use crate::failure::Failure;

/// The part of the URL that names the node: by TCP if it listens there.
///
/// # Errors
/// When the node has no door for direct clients.
pub(crate) fn place_of(status: &Status) -> Result<String, Failure> {
    if let Some(address) = status.direct.first() {
        let scheme = if status.direct_tls.contains(address) { "direct+tls" } else { "direct" };
        return Ok(format!("{scheme}://{}", reachable(*address)));
    }
    let socket = status.direct_local.as_ref().ok_or(Failure::NoDirectDoor)?;
    Ok(Place::Local(socket.clone()).to_string())
}

/// The place for the address of a flag, which may have a scheme.
///
/// # Errors
/// When clients cannot use the address.
pub(crate) fn place_at(address: &str) -> Result<String, UrlError> {
    let place =
        if address.contains("://") { address.to_owned() } else { format!("direct://{address}") };
    let Url { place, .. } = place.parse()?;
    Ok(place.to_string())
}

/// The address, with the name of this machine in place of "every address".
fn reachable(address: SocketAddr) -> String {
    if !address.ip().is_unspecified() {
        return address.to_string();
    }
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    format!("{host}:{}", address.port())
}

#[derive(Serialize)]
pub(crate) struct Minted {
    grant: GrantInfo,
    token: SecretText,
    url: SecretText,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unconfirmed: Vec<String>,
}

impl Minted {
    /// The seal for a volume of the node at `place`.
    pub(crate) fn at(place: &str, volume: &str, minted: NewSeal) -> Self {
        let NewSeal { grant, token, unconfirmed } = minted;
        let url = SecretText(format!("{place}/{volume}?seal={}", token.0));
        Self { grant, token, url, unconfirmed }
    }

    /// The URL on one line.
    pub(crate) fn text(&self) -> String {
        format!("{}\n", self.url.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seal_is_printed_as_a_url_that_another_machine_can_use() {
        assert_eq!(reachable("192.0.2.1:4421".parse().unwrap()), "192.0.2.1:4421");
        assert_eq!(reachable("[::1]:4421".parse().unwrap()), "[::1]:4421");
        assert_eq!(place_at("192.0.2.1:4421").unwrap(), "direct://192.0.2.1:4421");
        let place = "direct+tls://192.0.2.1:4421";
        assert_eq!(place_at(place).unwrap(), place);
        assert!(place_at("http://192.0.2.1").is_err(), "no client has this scheme");
        let named = reachable("0.0.0.0:4421".parse().unwrap());
        assert!(named.ends_with(":4421") && !named.starts_with("0.0.0.0"), "{named}");
    }
}
