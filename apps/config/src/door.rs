//! Doors: the listening addresses for hosts, initiators and direct clients, each with its protocol
//! and access policy.

use std::net::{IpAddr, SocketAddr};

use nearflash_session::DoorTls;

use super::{Key, Origin, ValueError};

/// A protocol that a node serves.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Protocol {
    /// NVMe/TCP.
    NvmeTcp,
    /// The direct protocol of nearflash.
    Direct,
    /// iSCSI.
    Iscsi,
}

impl Protocol {
    /// The name of the protocol's flag and configuration key.
    pub fn key(self) -> &'static str {
        match self {
            Self::NvmeTcp => "nvme-tcp",
            Self::Direct => "direct",
            Self::Iscsi => "iscsi",
        }
    }

    /// The default port of an address without one.
    pub(super) fn port(self) -> u16 {
        match self {
            Self::NvmeTcp => 4420,
            Self::Direct => 4421,
            Self::Iscsi => 3260,
        }
    }

    /// The default address, if the protocol has one: NVMe/TCP is served on the loopback address by
    /// default.
    pub(super) fn default_address(self) -> Option<&'static str> {
        (self == Self::NvmeTcp).then_some("127.0.0.1:4420")
    }
}

/// The peers that a door admits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Admits {
    /// Peers that do not authenticate, as long as there is no credential or account. Either only
    /// this machine can reach the address, or `--host` names the peers.
    Unproven,
    /// Only peers that authenticate.
    Proven,
}

/// A listening address and its protocol.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Door {
    /// The protocol.
    pub protocol: Protocol,
    /// The address to listen on.
    pub address: SocketAddr,
    /// The peers that it admits.
    pub admits: Admits,
    /// It admits only peers that authenticate, even if any address can reach it.
    pub is_strict: bool,
    /// Whether its connections use TLS, which iSCSI does not have.
    pub tls: DoorTls,
    /// The flag or key that defines it.
    pub key: Key,
}

impl Door {
    /// Whether a file defines it, and not a flag or the default.
    pub fn is_of_file(&self) -> bool {
        matches!(self.key.origin, Origin::File { .. })
    }

    /// Whether only this machine can reach it.
    pub fn is_loopback(&self) -> bool {
        self.address.ip().to_canonical().is_loopback()
    }
}

/// An address, or the address of an interface with the default port.
pub(super) fn parse_address(text: &str, port: u16) -> Result<SocketAddr, ValueError> {
    let numbered = numbered_scope(text);
    let text_of = numbered.as_deref().unwrap_or(text);
    let ip = || text_of.parse().map(|ip: IpAddr| SocketAddr::new(ip, port));
    text_of.parse().or_else(|_| ip()).map_err(|_| ValueError::Address { text: text.into(), port })
}

/// The text with the number of the interface in place of its name: `[fe80::1%eth0]:4420` is `[fe80::1%2]:4420`.
/// `None` if it names no interface of this machine.
fn numbered_scope(text: &str) -> Option<String> {
    let (before, rest) = text.split_once('%')?;
    let (name, after) = rest.split_once(']')?;
    // A name of an interface has no slash; with one, this would be another file.
    let is_name = !name.is_empty() && !name.contains('/') && name != "." && name != "..";
    let path = is_name.then(|| format!("/sys/class/net/{name}/ifindex"))?;
    let index: u32 = std::fs::read_to_string(path).ok()?.trim().parse().ok()?;
    Some(format!("{before}%{index}]{after}"))
}

/// The options behind the address of a door.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct DoorOptions {
    /// `auth=required`, of NVMe/TCP: it admits only hosts that authenticate.
    pub(super) is_strict: bool,
    /// `tls=…`.
    pub(super) tls: DoorTls,
}

/// The address of a door, and the options behind it, which iSCSI does not have.
pub(super) fn parse_door(
    text: &str,
    protocol: Protocol,
) -> Result<(SocketAddr, DoorOptions), ValueError> {
    let mut options = DoorOptions::default();
    if protocol == Protocol::Iscsi {
        return Ok((parse_address(text, protocol.port())?, options));
    }
    let mut words = text.split(',');
    let address = words.next().unwrap_or_default();
    for word in words {
        match word {
            "auth=required" if protocol == Protocol::NvmeTcp => options.is_strict = true,
            "tls=required" => options.tls = DoorTls::Required,
            "tls=allowed" => options.tls = DoorTls::Allowed,
            "tls=off" => options.tls = DoorTls::Off,
            _ => return Err(unknown_option(word, protocol)),
        }
    }
    Ok((parse_address(address, protocol.port())?, options))
}

fn unknown_option(word: &str, protocol: Protocol) -> ValueError {
    let option = word.into();
    match protocol {
        Protocol::Direct => ValueError::DirectDoorOption(option),
        Protocol::NvmeTcp | Protocol::Iscsi => ValueError::DoorOption(option),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_is_named_or_numbered() {
        let [named, numbered] =
            ["[fe80::1%lo]:4420", "[fe80::1%1]:4420"].map(|text| parse_address(text, 1));
        assert_eq!(named.unwrap(), numbered.unwrap(), "lo is the first interface of a machine");
        for wrong in ["[fe80::1%nothing]:4420", "[fe80::1%../lo]:4420", "[fe80::1%]:4420"] {
            assert!(parse_address(wrong, 1).is_err(), "{wrong}");
        }
    }
}
