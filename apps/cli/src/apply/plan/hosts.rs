//! The steps of NVMe hosts: their keys, and their lists of volumes.
//!
//! The keys for DH-HMAC-CHAP, the PSK and the list are three parts of a host. A part that the file does not have is
//! left alone, unless the plan prunes. The node does not show keys, so their other properties are compared.

use nearflash_access::Rights;
use nearflash_api::{HostVolume, KeyedHost, VolumesOfHost};
use nearflash_config::HostSpec;
use nearflash_space::Name;

use super::{Declared, Permission, Plan, Running, Step, has_volume, is_there};

pub(super) fn hosts(declared: &Declared, running: &Running, may: Permission, plan: &mut Plan) {
    let specs = &declared.access.hosts;
    for spec in specs {
        let volumes = || spec.volumes.iter().flatten().map(|(name, _)| name.as_str());
        let is_known = |volume: &&str| has_volume((declared, running), may, volume);
        let absent: Vec<&str> = volumes().filter(|volume| !is_known(volume)).collect();
        let waits = |volume: &&str| is_known(volume) && !is_there(running, plan, volume);
        let waiting: Vec<&str> = volumes().filter(waits).collect();
        for volume in &absent {
            plan.conflicts.push(format!(
                "the list of host '{}' needs volume '{volume}': add a table [[volume]] for it",
                spec.nqn
            ));
        }
        for volume in &waiting {
            plan.restarts.push(format!("host '{}' waits for volume '{volume}'", spec.nqn));
        }
        // Without its list, the host would see other volumes.
        if absent.is_empty() && waiting.is_empty() {
            change_host(spec, running, may, plan);
        }
    }
    if may.prune {
        prune(specs, running, plan);
    }
}

/// Removes the hosts that the file does not have.
fn prune(specs: &[HostSpec], running: &Running, plan: &mut Plan) {
    let keyed = running.hosts.iter().map(|host| &host.nqn);
    let listed = running.lists.iter().map(|list| &list.host);
    let is_new = |nqn: &&String| !running.hosts.iter().any(|host| host.nqn == **nqn);
    for nqn in keyed.chain(listed.filter(is_new)) {
        if !specs.iter().any(|spec| spec.nqn.as_str() == nqn) {
            plan.steps.push(Step::HostRemove { nqn: nqn.clone() });
        }
    }
}

fn change_host(spec: &HostSpec, running: &Running, may: Permission, plan: &mut Plan) {
    let nqn = spec.nqn.as_str();
    let has_keys = spec.dhchap.is_some() || spec.psk.is_some();
    let found = running.hosts.iter().find(|host| host.nqn == nqn);
    match found {
        None if has_keys => plan.steps.push(Step::HostAdd(spec.clone())),
        Some(found) => change_keys(spec, found, may, plan),
        None => {}
    }
    let list = running.lists.iter().find(|list| list.host == nqn);
    let list = list.map(|list| without_removed(list, plan));
    match (listed(spec), list) {
        // The keys come together with the list.
        (Some(_), _) if found.is_none() && has_keys => {}
        (Some(wanted), list) if list.as_ref() != Some(&wanted) => {
            plan.steps.push(Step::HostVolumes { nqn: nqn.to_owned(), volumes: wanted });
        }
        (None, Some(_)) if may.prune => plan.steps.push(Step::HostUnlist { nqn: nqn.to_owned() }),
        _ => {}
    }
}

/// The list of a host once the plan has removed volumes.
fn without_removed(list: &VolumesOfHost, plan: &Plan) -> Vec<HostVolume> {
    let is_removed = |it: &&HostVolume| {
        let is_it =
            |step: &Step| matches!(step, Step::VolumeRemove(gone) if gone.name == it.volume);
        plan.steps.iter().any(is_it)
    };
    list.volumes.iter().filter(|it| !is_removed(it)).cloned().collect()
}

/// Replaces the keys of a host if a part that the file has differs, or if the plan prunes one that it does not have.
fn change_keys(spec: &HostSpec, found: &KeyedHost, may: Permission, plan: &mut Plan) {
    let wanted = keyed(spec);
    let parts = [
        ("a key for DH-HMAC-CHAP", "dhchap-key", spec.dhchap.is_none() && found.dhchap),
        ("a PSK for TLS", "psk-file", spec.psk.is_none() && found.tls.is_some()),
    ];
    let extra = parts.iter().find(|(.., is_extra)| *is_extra);
    let is_same = spec.dhchap.is_none() || without_psk(found) == without_psk(&wanted);
    let is_same = is_same && (spec.psk.is_none() || psk_of(found) == psk_of(&wanted));
    let (nqn, has_keys) = (&found.nqn, wanted.dhchap || wanted.tls.is_some());
    match extra {
        None if is_same => {}
        None => plan.steps.push(Step::HostChange { spec: spec.clone(), from: found.clone() }),
        Some(_) if is_same && !may.prune => {}
        Some(_) if may.prune && has_keys => {
            plan.steps.push(Step::HostChange { spec: spec.clone(), from: found.clone() });
        }
        Some((part, key, _)) => plan.conflicts.push(format!(
            "host '{nqn}' has {part}, which the file does not declare: add {key} to the table of the host, or remove \
             the host first with 'nearflash host remove'"
        )),
    }
}

fn without_psk(host: &KeyedHost) -> KeyedHost {
    KeyedHost { tls: None, psk_derivation: None, ..host.clone() }
}

fn psk_of(host: &KeyedHost) -> (Option<&str>, Option<&str>) {
    (host.tls.as_deref(), host.psk_derivation.as_deref())
}

/// The keys of a host as a node lists them.
pub(crate) fn keyed(spec: &HostSpec) -> KeyedHost {
    let HostSpec { nqn, dhchap, psk, .. } = spec;
    let keys = dhchap.as_ref();
    KeyedHost {
        nqn: nqn.to_string(),
        dhchap: keys.is_some(),
        mutual: keys.is_some_and(|keys| keys.controller_key_file.is_some()),
        hash: keys.and_then(|keys| keys.hash).map(|hash| hash.to_string()),
        group: keys.and_then(|keys| keys.group).map(|group| group.to_string()),
        tls: psk.as_ref().map(|psk| psk.demand.to_string()),
        psk_derivation: psk.as_ref().map(|psk| psk.derivation.to_string()),
        ..KeyedHost::default()
    }
}

/// The list of a host as a node lists it.
pub(crate) fn listed(spec: &HostSpec) -> Option<Vec<HostVolume>> {
    let volume = |(name, rights): &(Name, Rights)| HostVolume {
        volume: name.to_string(),
        rights: rights.to_string(),
    };
    Some(spec.volumes.as_ref()?.iter().map(volume).collect())
}
