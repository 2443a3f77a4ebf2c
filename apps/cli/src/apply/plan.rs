//! The difference between a declared and a running state, as a list of steps.
//!
//! It is a pure function, [`Plan::of`]. Each kind of resource is a row of [`KINDS`]. Resources that the
//! file does not name are left alone, unless the plan prunes. Steps that destroy data are in a plan only if it may destroy;
//! otherwise they are withheld, and the command refuses the plan.
//!
//! The order of the steps: space is freed before it is used; a host, a user or a credential is added before
//! others are removed, because the last one that is removed opens addresses of this machine to everyone.

use nearflash_access::Covered;
use nearflash_api::{ChapInfo, HostVolume, KeyedHost, VolumeCreate};
use nearflash_config::{ChapSpec, CredentialSpec, GrantSpec, HostSpec};
use nearflash_units::ByteLen;

use hosts::hosts;
pub(crate) use hosts::{keyed, listed};
use volumes::{has_volume, is_there, volumes};

use super::state::{Declared, Device, Fixed, Running, Terms, Volume};

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Permission {
    /// Remove resources that the file does not name.
    pub(crate) prune: bool,
    /// Destroy data.
    pub(crate) destroy: bool,
    /// Destroy data that is in use, too.
    pub(crate) force: bool,
}

/// The difference between two states.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    /// The changes, in their order.
    pub(crate) steps: Vec<Step>,
    /// Changes that destroy data, and are not permitted.
    pub(crate) withheld: Vec<Step>,
    /// Declared volumes that a job of an earlier command makes or changes, with its number.
    pub(crate) jobs: Vec<(String, u64)>,
    /// Differences that only a restart of the node removes.
    pub(crate) restarts: Vec<String>,
    /// Differences that no change removes, with the remedy.
    pub(crate) conflicts: Vec<String>,
    /// Consequences that are easily overlooked.
    pub(crate) warnings: Vec<&'static str>,
}

/// One change. The order of the variants is the order in which they are made.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Step {
    GrantRevoke {
        number: u64,
        terms: Terms,
    },
    VolumeRemove(Volume),
    VolumeShrink {
        volume: Volume,
        to: ByteLen,
    },
    VolumeGrow {
        volume: Volume,
        to: ByteLen,
    },
    VolumeCreate(VolumeCreate),
    HostAdd(HostSpec),
    HostChange {
        spec: HostSpec,
        from: KeyedHost,
    },
    /// The host sees these volumes, and no others.
    HostVolumes {
        nqn: String,
        volumes: Vec<HostVolume>,
    },
    ChapAdd(ChapSpec),
    ChapChange {
        spec: ChapSpec,
        from: ChapInfo,
    },
    CredentialCreate(CredentialSpec),
    GrantAdd(GrantSpec),
    HostUnlist {
        nqn: String,
    },
    HostRemove {
        nqn: String,
    },
    ChapRemove {
        user: String,
    },
    CredentialRemove {
        id: String,
    },
}

/// Adds the steps of one kind of resource to a plan.
type Kind = fn(&Declared, &Running, Permission, &mut Plan);

/// The kinds of resources.
const KINDS: [Kind; 6] = [fixed, volumes, hosts, chap, credentials, grants];

impl Plan {
    /// The steps from the running to the declared state.
    pub(crate) fn of(declared: &Declared, running: &Running, may: Permission) -> Self {
        let mut plan = Self::default();
        for kind in KINDS {
            kind(declared, running, may, &mut plan);
        }
        plan.steps.sort_by_key(Step::place);
        plan.warnings = warnings(running, &plan.steps);
        if !may.destroy {
            (plan.withheld, plan.steps) = plan.steps.into_iter().partition(Step::destroys);
        }
        plan
    }

    /// Whether the states are the same.
    pub(crate) fn is_empty(&self) -> bool {
        let has_steps = !self.steps.is_empty() || !self.withheld.is_empty();
        !has_steps && self.jobs.is_empty() && self.restarts.is_empty()
    }
}

impl Step {
    /// Its place in the order of steps.
    fn place(&self) -> u8 {
        match self {
            Self::GrantRevoke { .. } => 0,
            Self::VolumeRemove(_) => 1,
            Self::VolumeShrink { .. } => 2,
            Self::VolumeGrow { .. } => 3,
            Self::VolumeCreate(_) => 4,
            Self::HostAdd(_) | Self::HostChange { .. } | Self::HostVolumes { .. } => 5,
            Self::ChapAdd(_) | Self::ChapChange { .. } => 6,
            Self::CredentialCreate(_) => 7,
            Self::GrantAdd(_) => 8,
            Self::HostUnlist { .. } | Self::HostRemove { .. } => 9,
            Self::ChapRemove { .. } => 10,
            Self::CredentialRemove { .. } => 11,
        }
    }

    /// Whether it destroys data of a volume.
    pub(crate) fn destroys(&self) -> bool {
        matches!(self, Self::VolumeRemove(_) | Self::VolumeShrink { .. })
    }
}

/// The consequences of the removal of the last key of a kind.
pub(crate) struct NoKeyLeft {
    pub(crate) protocol: &'static str,
    /// Where the protocol is open without any key.
    pub(crate) open: &'static str,
    /// Where it stays closed.
    pub(crate) closed: &'static str,
    /// Where the plan does not know which.
    planned: &'static str,
}

pub(crate) const NO_ACCOUNT: NoKeyLeft = NoKeyLeft {
    protocol: "iscsi",
    open: "there is no CHAP account: initiators log in without one, at addresses that do not require one",
    closed: "there is no CHAP account: no initiator can log in until one is added, or the node is started with \
             --anonymous iscsi",
    planned: "no CHAP account is left: no initiator can log in until one is added, unless the node was started with \
              --anonymous iscsi",
};
pub(crate) const NO_CREDENTIAL: NoKeyLeft = NoKeyLeft {
    protocol: "direct",
    open: "there is no credential: direct clients enter without one, at addresses that do not require one",
    closed: "there is no credential: no direct client can enter until one is created, or the node is started with \
             --anonymous direct",
    planned: "no credential is left: no direct client can enter until one is created, unless the node was started \
              with --anonymous direct",
};

/// The kinds of access of which the steps remove the last one, and lists that are taken away.
fn warnings(running: &Running, steps: &[Step]) -> Vec<&'static str> {
    let count = |is_such: fn(&Step) -> bool| steps.iter().filter(|step| is_such(step)).count();
    let loses_keys = |step: &Step| {
        let is_keyed = |nqn: &String| running.hosts.iter().any(|host| host.nqn == *nqn);
        matches!(step, Step::HostRemove { nqn } if is_keyed(nqn))
    };
    let loses_list = |step: &Step| {
        let is_listed = |nqn: &String| running.lists.iter().any(|list| list.host == *nqn);
        matches!(step, Step::HostUnlist { nqn } | Step::HostRemove { nqn } if is_listed(nqn))
    };
    let kinds = [
        (
            running.chap.len() + count(|step| matches!(step, Step::ChapAdd(_))),
            count(|step| matches!(step, Step::ChapRemove { .. })),
            NO_ACCOUNT.planned,
        ),
        (
            running.credentials.len() + count(|step| matches!(step, Step::CredentialCreate(_))),
            count(|step| matches!(step, Step::CredentialRemove { .. })),
            NO_CREDENTIAL.planned,
        ),
    ];
    let is_last = |(all, removed, _): &(usize, usize, _)| *removed > 0 && all == removed;
    let mut found: Vec<_> =
        kinds.into_iter().filter(is_last).map(|(.., warning)| warning).collect();
    if steps.iter().any(loses_keys) {
        found.push("a host whose keys are removed does not enter without keys any more");
    }
    if steps.iter().any(loses_list) {
        found.push(
            "a host without a list sees no volume, unless the node was started with --unlisted-hosts \
             all",
        );
    }
    found
}

fn fixed(declared: &Declared, running: &Running, _: Permission, plan: &mut Plan) {
    plan.restarts.extend(declared.fixed.iter().filter_map(|it| difference(it, running)));
}

/// The difference of a part that a node takes at its start.
fn difference(fixed: &Fixed, running: &Running) -> Option<String> {
    match fixed {
        Fixed::Device { name, kind, len } => {
            let Some(found) = running.devices.iter().find(|device| device.name == *name) else {
                return Some(format!("device '{name}' is not one of the node's"));
            };
            let len = len.unwrap_or(found.len);
            let is_same = found.kind == *kind && found.len == len;
            let Device { kind: is, len: has, .. } = found;
            let text =
                || format!("device '{name}' is {is} of {has}, and the file has {kind} of {len}");
            (!is_same).then(text)
        }
        Fixed::Remote { name } => {
            let is_served = running.foreign.contains(name);
            let text = || format!("volume '{name}' of another node is not served");
            (!is_served).then(text)
        }
        Fixed::Address { protocol, address } => {
            let is_bound = |(of, bound): &(_, std::net::SocketAddr)| {
                let is_port = address.port() == 0 || address.port() == bound.port();
                of == protocol && is_port && bound.ip() == address.ip()
            };
            let key = protocol.key();
            let text = || format!("{key} address {address} is not one of the node's");
            (!running.addresses.iter().any(is_bound)).then(text)
        }
    }
}

fn chap(declared: &Declared, running: &Running, may: Permission, plan: &mut Plan) {
    let declared = &declared.access.chap;
    for spec in declared {
        match running.chap.iter().find(|account| account.user == spec.user.as_str()) {
            None => plan.steps.push(Step::ChapAdd(spec.clone())),
            Some(found) if *found == account(spec) => {}
            Some(found) => {
                plan.steps.push(Step::ChapChange { spec: spec.clone(), from: found.clone() });
            }
        }
    }
    for account in running.chap.iter().filter(|_| may.prune) {
        if !declared.iter().any(|spec| spec.user.as_str() == account.user) {
            plan.steps.push(Step::ChapRemove { user: account.user.clone() });
        }
    }
}

/// An account as a node lists it.
pub(crate) fn account(spec: &ChapSpec) -> ChapInfo {
    let mutual_user = spec.mutual.as_ref().map(|(user, _)| user.to_string());
    let initiators = spec.initiators.iter().map(ToString::to_string).collect();
    ChapInfo { user: spec.user.to_string(), mutual_user, initiators }
}

fn credentials(declared: &Declared, running: &Running, may: Permission, plan: &mut Plan) {
    let declared = &declared.access.credentials;
    for spec in declared {
        match running.credentials.iter().find(|it| it.id == spec.id.as_str()) {
            None => plan.steps.push(Step::CredentialCreate(spec.clone())),
            Some(found) if found.expires => plan.conflicts.push(format!(
                "credential '{}' expires, and that of the file does not: remove the credential first",
                spec.id
            )),
            Some(_) => {}
        }
    }
    for credential in running.credentials.iter().filter(|_| may.prune) {
        if !declared.iter().any(|spec| spec.id.as_str() == credential.id) {
            plan.steps.push(Step::CredentialRemove { id: credential.id.clone() });
        }
    }
}

fn grants(declared: &Declared, running: &Running, may: Permission, plan: &mut Plan) {
    let specs = &declared.access.grants;
    for spec in specs {
        let Missing { volume, credential } = missing(spec, (declared, running), may);
        for (kind, name) in [("volume", volume), ("credential", credential)] {
            if let Some(name) = name {
                plan.conflicts.push(format!(
                    "the grant of credential '{}' on volume '{}' needs {kind} '{name}': add a table \
                     [[{kind}]] for it",
                    spec.credential, spec.volume
                ));
            }
        }
        let terms = terms(spec);
        if running.grants.iter().any(|grant| !grant.expires && grant.terms == terms) {
            continue;
        }
        let volume = spec.volume.as_str();
        if is_there(running, plan, volume) {
            plan.steps.push(Step::GrantAdd(spec.clone()));
        } else {
            let credential = &spec.credential;
            plan.restarts.push(format!("the grant of '{credential}' waits for volume '{volume}'"));
        }
    }
    for grant in running.grants.iter().filter(|_| may.prune) {
        let is_declared = specs.iter().any(|spec| terms(spec) == grant.terms);
        if grant.expires || !is_declared {
            let (number, terms) = (grant.number, grant.terms.clone());
            plan.steps.push(Step::GrantRevoke { number, terms });
        }
    }
}

/// The resource that a grant needs, and will not have.
struct Missing<'a> {
    volume: Option<&'a str>,
    credential: Option<&'a str>,
}

fn missing<'a>(
    spec: &'a GrantSpec,
    (declared, running): (&Declared, &Running),
    may: Permission,
) -> Missing<'a> {
    let (volume, credential) = (spec.volume.as_str(), spec.credential.as_str());
    let has_volume = has_volume((declared, running), may, volume);
    let has_credential = declared.access.credentials.iter().any(|it| it.id.as_str() == credential)
        || (!may.prune && running.credentials.iter().any(|it| it.id == credential));
    Missing {
        volume: (!has_volume).then_some(volume),
        credential: (!has_credential).then_some(credential),
    }
}

/// A grant as a node lists it.
pub(crate) fn terms(spec: &GrantSpec) -> Terms {
    Terms {
        credential: spec.credential.to_string(),
        volume: spec.volume.to_string(),
        place: match &spec.covers {
            Covered::Range(range) => range.to_string(),
            Covered::Files(path) => path.to_string(),
        },
        rights: spec.rights.to_string(),
    }
}

mod hosts;
#[cfg(test)]
mod tests;
mod volumes;
