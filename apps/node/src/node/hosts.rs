//! Keys of NVMe hosts, as the control socket changes and lists them. A change is effective when it is
//! answered: authentications use the new keys, and a host whose keys were added or removed is disconnected. A host
//! whose keys are replaced stays connected, and the old ones can be valid for a while.
//! `host_volumes.rs` changes the volumes that hosts use.

use std::sync::Arc;

use nearflash_access::HostName;
use nearflash_api::{
    ControllerKey, HostAdd, HostRemove, HostRotate, KeyedHost, KeyedHosts, OneKeyedHost, SecretText,
};
use nearflash_nvme::Nqn;
use nearflash_nvme::auth::{Hash, HostKeys, Key, Policy};
use nearflash_nvme::hosts::{HostSecrets, NewKeys};
use nearflash_nvme::tls::TlsHost;
use nearflash_units::UnixTime;

use super::host_volumes::{unlisted, volumes_of_host};
use super::{Node, now};
use crate::Update;
use crate::error::NodeError;
use crate::exports::{host_rights, published};
use crate::records::Records;
use crate::runtime_face::Authentication;
use nearflash_config::ValueError;

/// The hash with which a generated key is transformed. The key has as many bytes as its digest.
const DRAWN_HASH: Hash = Hash::Sha256;
const DRAWN_LEN: usize = DRAWN_HASH.digest_len();

impl Node {
    /// The keys with which a host must authenticate now, if it has any.
    pub(crate) fn host_keys(&self, host: &Nqn) -> Option<HostKeys> {
        Some(self.served().recorded.hosts.get(host)?.dhchap.clone()?.valid_at(now()))
    }

    /// Removes the replaced keys that are not valid any more. No host can use them meanwhile.
    pub(super) fn forget_previous_keys(&self) {
        let next = self.served().recorded.hosts.next_expiry();
        if next.is_none_or(|next| next > now()) {
            return;
        }
        match self.change_hosts(|fresh| Ok(fresh.hosts.forget_expired(now()))) {
            Ok(hosts) => {
                for host in hosts {
                    tracing::info!(host = host.as_str(), "a replaced key of a host has expired");
                }
            }
            Err(error) => tracing::warn!("cannot remove the replaced keys of hosts: {error}"),
        }
    }

    /// Returns a message of an authentication to its session.
    pub(crate) fn answer_authentication(&self, asked: Authentication) {
        self.runtime.answer_authentication(asked);
    }

    pub(super) fn host_add(&self, call: &HostAdd) -> Result<OneKeyedHost, NodeError> {
        let host = parse_host(&call.nqn)?;
        let tls = tls_host(call)?;
        // A host with a PSK needs no other key.
        let authenticates = call.key.is_some() || tls.is_none();
        let (dhchap, key, controller_key) = match authenticates {
            true => dhchap_keys(call)?,
            false => check_no_dhchap(call).map(|()| (None, None, None))?,
        };
        let secrets = HostSecrets { dhchap, tls };
        let info = keyed_host(&host, &secrets);
        self.change_hosts(|fresh| {
            if call.replace {
                fresh.hosts.forget(&host);
            }
            fresh.hosts.add(&host, secrets)?;
            match &call.volumes {
                Some(volumes) => fresh.set_volumes(&host, volumes),
                None => Ok(()),
            }
        })?;
        tracing::debug!(host = host.as_str(), "keys of a host added");
        Ok(OneKeyedHost { host: info, key, controller_key })
    }

    /// Gives a host new keys. It stays connected, and authenticates with the new ones from now on.
    pub(super) fn host_rotate(&self, call: &HostRotate) -> Result<OneKeyedHost, NodeError> {
        let host = parse_host(&call.nqn)?;
        let psk = call.psk.as_ref().map(|psk| psk.0.trim().parse()).transpose();
        let psk = psk.map_err(ValueError::from)?;
        let (dhchap, drawn) = match (&call.key, &psk) {
            (None, Some(_)) => (None, None),
            (given, _) => given_or_drawn(given.as_ref()).map(|(key, drawn)| (Some(key), drawn))?,
        };
        let (new, until) = (NewKeys { dhchap, psk }, call.previous_until.map(UnixTime));
        let info = self.change_hosts(|fresh| {
            fresh.hosts.rotate(&host, new, until, now())?;
            Ok(keyed_host(&host, fresh.hosts.get(&host).expect("it has got new keys")))
        })?;
        tracing::debug!(host = host.as_str(), "keys of a host replaced");
        Ok(OneKeyedHost { host: info, key: drawn, controller_key: None })
    }

    pub(super) fn host_list(&self) -> KeyedHosts {
        let records = &self.served().recorded;
        let Records { space, hosts, host_volumes, .. } = records;
        let hosts = hosts.iter().map(|(host, keys)| keyed_host(host, keys)).collect();
        let lists = host_volumes.iter().map(|(host, list)| volumes_of_host(host, list, space));
        KeyedHosts {
            hosts,
            lists: lists.collect(),
            removed: records.hosts.removed().map(ToString::to_string).collect(),
            unlisted: unlisted(records),
        }
    }

    /// Removes a host. One that has had keys does not enter without keys from then on, unless it is forgotten.
    pub(super) fn host_remove(&self, call: &HostRemove) -> Result<KeyedHost, NodeError> {
        let name: HostName = call.nqn.parse().map_err(ValueError::from)?;
        let keyed = Nqn::new(name.as_str()).ok();
        let keys = self.change_hosts(|fresh| {
            let list = fresh.host_volumes.unlist(&name);
            let (keys, was_removed) = match &keyed {
                Some(host) if call.forget => fresh.hosts.forget(host),
                Some(host) if fresh.hosts.get(host).is_some() => {
                    (Some(fresh.hosts.remove(host)?), false)
                }
                _ => (None, false),
            };
            match (&list, &keys, was_removed) {
                (None, None, false) => Err(NodeError::NoHost(name.clone())),
                _ => Ok(keys),
            }
        })?;
        tracing::debug!(host = name.as_str(), is_forgotten = call.forget, "host removed");
        let without_keys = || KeyedHost { nqn: name.to_string(), ..KeyedHost::default() };
        let keyed = keyed.zip(keys).map(|(host, keys)| keyed_host(&host, &keys));
        Ok(keyed.unwrap_or_else(without_keys))
    }

    /// Makes a change on a copy; if that succeeds, records it and publishes it to the cores. It is effective
    /// when this returns: no request is under way that it forbids.
    pub(super) fn change_hosts<T>(
        &self,
        change: impl FnOnce(&mut Records) -> Result<T, NodeError>,
    ) -> Result<T, NodeError> {
        let one = self.one_change_of_a_caller()?;
        let mut fresh = self.copy();
        let changed = change(&mut fresh)?;
        self.check_first_list(&fresh)?;
        self.record(&mut fresh)?;
        let hosts = fresh.hosts.clone();
        let (direct, before) = {
            let served = self.served();
            (Arc::clone(&served.direct), host_rights(&served.recorded))
        };
        let after = host_rights(&fresh);
        let shown = (after != before).then(|| published(&fresh, &self.devices(), direct));
        let served = fresh.space.served().map(|volume| volume.id).collect::<Vec<_>>();
        let quiesce = after.reduced_since(&before, served).to_vec();
        // Before the cores ask for the keys of a new host.
        self.adopt(fresh);
        let shown = shown.map(Update::from).unwrap_or_default();
        let ticket = self.runtime.serve(Update { keyed_hosts: Some(hosts), quiesce, ..shown });
        drop(one);
        self.wait_for(&ticket)?;
        Ok(changed)
    }
}

/// Keys for DH-HMAC-CHAP, and the texts of those that were generated for the host and the controller.
type DhchapKeys = (Option<HostKeys>, Option<SecretText>, Option<SecretText>);

fn dhchap_keys(call: &HostAdd) -> Result<DhchapKeys, NodeError> {
    let policy = Policy {
        hash: call.hash.as_deref().map(str::parse).transpose().map_err(ValueError::from)?,
        group: call.group.as_deref().map(str::parse).transpose().map_err(ValueError::from)?,
    };
    let (key, drawn) = given_or_drawn(call.key.as_ref())?;
    let controller = call.controller.as_ref();
    let controller = controller.map(|it: &ControllerKey| given_or_drawn(it.key.as_ref()));
    let (controller, controller_drawn) = controller.transpose()?.unzip();
    let keys = HostKeys::new(key, controller, policy).map_err(ValueError::from)?;
    Ok((Some(keys), drawn, controller_drawn.flatten()))
}

/// Refuses options for keys that the host does not have.
fn check_no_dhchap(call: &HostAdd) -> Result<(), ValueError> {
    let given = [
        ("controller", call.controller.is_some()),
        ("hash", call.hash.is_some()),
        ("group", call.group.is_some()),
    ];
    match given.iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) => Err(ValueError::NeedsDhchapKey(option)),
        None => Ok(()),
    }
}

/// The PSK of the host, if it has one.
fn tls_host(call: &HostAdd) -> Result<Option<TlsHost>, ValueError> {
    let Some(psk) = &call.psk else {
        let given =
            [("psk_derivation", call.psk_derivation.is_some()), ("tls", call.tls.is_some())];
        return match given.iter().find(|(_, is_given)| *is_given) {
            Some((option, _)) => Err(ValueError::NeedsPsk(option)),
            None => Ok(None),
        };
    };
    Ok(Some(TlsHost {
        psk: psk.0.trim().parse()?,
        previous: None,
        derivation: call.psk_derivation.as_deref().map(str::parse).transpose()?.unwrap_or_default(),
        demand: call.tls.as_deref().map(str::parse).transpose()?.unwrap_or_default(),
    }))
}

fn parse_host(text: &str) -> Result<Nqn, ValueError> {
    let refused = |source| ValueError::HostNqn { text: text.into(), source };
    Nqn::new(text).map_err(refused)
}

/// The given key, or a generated one together with its text, which the answer must show.
fn given_or_drawn(given: Option<&SecretText>) -> Result<(Key, Option<SecretText>), NodeError> {
    if let Some(given) = given {
        return Ok((given.0.trim().parse().map_err(ValueError::from)?, None));
    }
    let mut bytes = zeroize::Zeroizing::new([0; DRAWN_LEN]);
    super::access::fill_random(bytes.as_mut_slice())?;
    let key = Key::new(Some(DRAWN_HASH), bytes.as_slice()).expect("as long as the digest");
    let text = SecretText(key.to_text().as_str().to_owned());
    Ok((key, Some(text)))
}

fn keyed_host(host: &Nqn, secrets: &HostSecrets) -> KeyedHost {
    let HostSecrets { dhchap, tls } = secrets.clone().valid_at(now());
    let policy = dhchap.as_ref().map(|keys| keys.policy).unwrap_or_default();
    KeyedHost {
        nqn: host.to_string(),
        dhchap: dhchap.is_some(),
        mutual: dhchap.as_ref().is_some_and(|keys| keys.controller().is_some()),
        hash: policy.hash.map(|hash| hash.to_string()),
        group: policy.group.map(|group| group.to_string()),
        tls: tls.as_ref().map(|tls| tls.demand.to_string()),
        psk_derivation: tls.as_ref().map(|tls| tls.derivation.to_string()),
        previous_key_until: dhchap.as_ref().and_then(HostKeys::previous).map(|it| it.until.0),
        previous_psk_until: tls.as_ref().and_then(|tls| Some(tls.previous.as_ref()?.until.0)),
    }
}
