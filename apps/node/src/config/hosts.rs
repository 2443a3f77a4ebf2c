//! Who may connect, as `--host` says it: NVMe/TCP hosts by their NQNs and iSCSI initiators by their
//! names, or any.
//!
//! Each kind is for itself: naming an initiator says nothing of NVMe/TCP hosts.

use std::net::SocketAddr;

use nearflash_nvme::Nqn;

use super::merge::{Written, only_loopback};
use super::{ConfigError, ValueError};
use crate::{HostAccess, InitiatorAccess, InitiatorName};

/// One value of `--host`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Host {
    Any,
    NvmeTcp(Nqn),
    Initiator(InitiatorName),
}

/// All of them.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Hosts(pub(super) Vec<Host>);

pub(super) fn parse_host(text: &str) -> Result<Host, ValueError> {
    if text == "any" {
        return Ok(Host::Any);
    }
    if text.starts_with("nqn.") {
        let refused = |source| ValueError::Host { text: text.into(), source };
        return Nqn::new(text).map(Host::NvmeTcp).map_err(refused);
    }
    match text.parse() {
        Ok(name) => Ok(Host::Initiator(name)),
        Err(_) => Err(ValueError::Initiator { text: text.into() }),
    }
}

impl Hosts {
    /// Which hosts NVMe/TCP lets in. When nobody says, every host of this machine, and no door may
    /// lead outside.
    pub(super) fn nvme_tcp(
        &self,
        doors: &[Written<SocketAddr>],
    ) -> Result<HostAccess, ConfigError> {
        if self.0.contains(&Host::Any) {
            return Ok(HostAccess::Any);
        }
        let nqn = |host: &Host| match host {
            Host::NvmeTcp(nqn) => Some(nqn.clone()),
            Host::Initiator(_) | Host::Any => None,
        };
        let named: Vec<Nqn> = self.0.iter().filter_map(nqn).collect();
        match named.is_empty() {
            true => only_loopback(doors),
            false => Ok(HostAccess::Only(named.into())),
        }
    }

    /// Which initiators iSCSI lets in.
    pub(super) fn initiators(&self) -> InitiatorAccess {
        let name = |host: &Host| match host {
            Host::Initiator(name) => Some(name.clone()),
            Host::NvmeTcp(_) | Host::Any => None,
        };
        let named: Vec<InitiatorName> = self.0.iter().filter_map(name).collect();
        match named.is_empty() {
            true => InitiatorAccess::Any,
            false => InitiatorAccess::Only(named.into()),
        }
    }
}
