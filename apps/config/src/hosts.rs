//! The peers that `--host` admits: NVMe/TCP hosts by NQN, iSCSI initiators by name, or any peer.
//!
//! The two kinds are independent: a named initiator does not restrict NVMe/TCP hosts.

use std::sync::Arc;

use nearflash_access::InitiatorName;
use nearflash_nvme::Nqn;

use super::ValueError;
use super::door::{Admits, Door, Protocol};

/// The hosts that are admitted.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum HostAccess {
    /// Every host.
    Any,
    /// The hosts with these NQNs.
    Only(Arc<[Nqn]>),
}

impl HostAccess {
    /// Whether a host with this NQN is admitted.
    pub fn admits(&self, host: &Nqn) -> bool {
        match self {
            Self::Any => true,
            Self::Only(hosts) => hosts.contains(host),
        }
    }
}

/// The initiators that are admitted.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum InitiatorAccess {
    /// Every initiator.
    Any,
    /// The initiators with these names.
    Only(Arc<[InitiatorName]>),
}

/// One value of `--host`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Host {
    Any,
    NvmeTcp(Nqn),
    Initiator(InitiatorName),
}

/// All values of `--host`.
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
    /// Opens the doors that need no authentication: those that only this machine can reach, and
    /// those of a protocol whose peers are named. An NVMe/TCP door can require it nevertheless.
    pub(super) fn open(&self, doors: &mut [Door]) {
        let is_any = self.0.contains(&Host::Any);
        for door in doors.iter_mut().filter(|door| !door.is_strict) {
            let is_named = match door.protocol {
                Protocol::NvmeTcp => self.nvme_tcp() != HostAccess::Any,
                Protocol::Iscsi => self.initiators() != InitiatorAccess::Any,
                Protocol::Direct => false,
            };
            if is_any || is_named || door.is_loopback() {
                door.admits = Admits::Unproven;
            }
        }
    }

    /// The hosts that NVMe/TCP admits.
    pub(super) fn nvme_tcp(&self) -> HostAccess {
        let nqn = |host: &Host| match host {
            Host::NvmeTcp(nqn) => Some(nqn.clone()),
            Host::Initiator(_) | Host::Any => None,
        };
        let named: Vec<Nqn> = self.0.iter().filter_map(nqn).collect();
        match named.is_empty() {
            true => HostAccess::Any,
            false => HostAccess::Only(named.into()),
        }
    }

    /// The initiators that iSCSI admits.
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
