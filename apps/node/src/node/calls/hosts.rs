//! Keys of NVMe hosts, and the volumes that hosts use. A host whose keys are replaced stays connected, and the old
//! ones can be valid for a while.

use nearflash_access::{HostName, VolumeList};
use nearflash_api::{
    ApiError, ControllerKey, HostAdd, HostAllow, HostDeny, HostList, HostRemove, HostRotate,
    HostUnlist, HostVolume, KeyedHost, KeyedHosts, OneKeyedHost, OneVolumeList, SecretText, Serve,
    VolumesOfHost,
};
use nearflash_config::ValueError;
use nearflash_nvme::Nqn;
use nearflash_nvme::auth::{Hash, HostKeys, Key, Policy};
use nearflash_nvme::hosts::{HostSecrets, NewKeys};
use nearflash_nvme::tls::TlsHost;
use nearflash_planner::access::{Hosts, Listed};
use nearflash_publish::Records;
use nearflash_request::UnlistedHosts;
use nearflash_shard::Message;
use nearflash_space::{Name, Space};
use nearflash_units::UnixTime;

use super::{drawn, parsed, parsed_or};
use crate::error::NodeError;
use crate::node::{Node, now};
use crate::runtime::Authentication;

/// The hash with which a generated key is transformed. The key has as many bytes as its digest.
const DRAWN_HASH: Hash = Hash::Sha256;
const DRAWN_LEN: usize = DRAWN_HASH.digest_len();

impl Serve<HostAdd> for Node {
    fn serve(&self, call: HostAdd) -> Result<OneKeyedHost, ApiError> {
        let host = parse_host(&call.nqn)?;
        let tls = tls_host(&call)?;
        // A host with a PSK needs no other key.
        let authenticates = call.key.is_some() || tls.is_none();
        let (dhchap, key, controller_key) = match authenticates {
            true => dhchap_keys(&call)?,
            false => check_no_dhchap(&call).map(|()| (None, None, None))?,
        };
        let list =
            call.volumes.as_ref().map(|volumes| listed(host.as_str(), volumes)).transpose()?;
        let secrets = HostSecrets { dhchap, tls };
        let info = keyed_host(&host, &secrets);
        let ((), unconfirmed) = self.change_access(|fresh| {
            let list = list.as_ref().map(|(name, volumes)| (name, &volumes[..]));
            rules(fresh).add(&host, secrets.clone(), call.replace, list)
        })?;
        tracing::debug!(host = host.as_str(), "keys of a host added");
        Ok(OneKeyedHost { host: info, key, controller_key, unconfirmed })
    }
}

impl Serve<HostRotate> for Node {
    /// The host stays connected, and authenticates with the new keys from now on.
    fn serve(&self, call: HostRotate) -> Result<OneKeyedHost, ApiError> {
        let host = parse_host(&call.nqn)?;
        let psk = call.psk.as_ref().map(|psk| parsed(psk.0.trim())).transpose()?;
        let (dhchap, drawn) = match (&call.key, &psk) {
            (None, Some(_)) => (None, None),
            (given, _) => given_or_drawn(given.as_ref()).map(|(key, drawn)| (Some(key), drawn))?,
        };
        let (new, until) = (NewKeys { dhchap, psk }, call.previous_until.map(UnixTime));
        let (info, unconfirmed) = self.change_access(|fresh| {
            fresh.hosts.rotate(&host, new.clone(), until, now())?;
            Ok(keyed_host(&host, fresh.hosts.get(&host).expect("it has got new keys")))
        })?;
        tracing::debug!(host = host.as_str(), "keys of a host replaced");
        Ok(OneKeyedHost { host: info, key: drawn, controller_key: None, unconfirmed })
    }
}

impl Serve<HostList> for Node {
    fn serve(&self, _: HostList) -> Result<KeyedHosts, ApiError> {
        let records = &self.served().recorded;
        let Records { space, hosts, host_volumes, .. } = records;
        let lists = host_volumes.iter().map(|(host, list)| volumes_of_host(host, list, space));
        let unlisted = match records.unlisted() {
            UnlistedHosts::All => "all".to_owned(),
            UnlistedHosts::None => "none".to_owned(),
        };
        Ok(KeyedHosts {
            hosts: hosts.iter().map(|(host, keys)| keyed_host(host, keys)).collect(),
            lists: lists.collect(),
            removed: hosts.removed().map(ToString::to_string).collect(),
            unlisted,
        })
    }
}

impl Serve<HostRemove> for Node {
    fn serve(&self, call: HostRemove) -> Result<OneKeyedHost, ApiError> {
        let name: HostName = parsed(&call.nqn)?;
        let (keys, unconfirmed) =
            self.change_access(|fresh| rules(fresh).remove(&name, call.forget))?;
        tracing::debug!(host = name.as_str(), is_forgotten = call.forget, "host removed");
        let without_keys = || KeyedHost { nqn: name.to_string(), ..KeyedHost::default() };
        let keyed = Nqn::new(name.as_str()).ok().zip(keys);
        let keyed = keyed.map(|(host, keys)| keyed_host(&host, &keys));
        let host = keyed.unwrap_or_else(without_keys);
        Ok(OneKeyedHost { host, key: None, controller_key: None, unconfirmed })
    }
}

impl Serve<HostAllow> for Node {
    fn serve(&self, call: HostAllow) -> Result<OneVolumeList, ApiError> {
        let (host, volumes) = listed(&call.host, &call.volumes)?;
        let (list, unconfirmed) = self.change_access(|fresh| {
            rules(fresh).allow(&host, &volumes, call.only)?;
            Ok(shown(&host, fresh))
        })?;
        tracing::debug!(host = host.as_str(), volumes = list.volumes.len(), "host has volumes");
        Ok(OneVolumeList { list, unconfirmed })
    }
}

impl Serve<HostDeny> for Node {
    fn serve(&self, call: HostDeny) -> Result<OneVolumeList, ApiError> {
        let host: HostName = parsed(&call.host)?;
        let volumes = call.volumes.iter().map(|name| parsed(name));
        let volumes: Vec<Name> = volumes.collect::<Result<_, _>>()?;
        let (list, unconfirmed) = self.change_access(|fresh| {
            rules(fresh).deny(&host, &volumes)?;
            Ok(shown(&host, fresh))
        })?;
        tracing::debug!(host = host.as_str(), volumes = list.volumes.len(), "host lost volumes");
        Ok(OneVolumeList { list, unconfirmed })
    }
}

impl Serve<HostUnlist> for Node {
    fn serve(&self, call: HostUnlist) -> Result<OneVolumeList, ApiError> {
        let host: HostName = parsed(&call.host)?;
        let (list, unconfirmed) = self.change_access(|fresh| {
            let list = fresh.host_volumes.unlist(&host).unwrap_or_default();
            Ok(volumes_of_host(&host, &list, &fresh.space))
        })?;
        tracing::debug!(host = host.as_str(), "host has no list of volumes any more");
        Ok(OneVolumeList { list, unconfirmed })
    }
}

impl Node {
    /// The keys with which a host must authenticate now, if it has any.
    pub(crate) fn host_keys(&self, host: &Nqn) -> Option<HostKeys> {
        Some(self.served().recorded.hosts.get(host)?.dhchap.clone()?.valid_at(now()))
    }

    /// Returns a message of an authentication to its session.
    pub(crate) fn answer_authentication(&self, asked: Authentication) {
        let Authentication { core, owner, step, .. } = asked;
        self.cores.tell(core, Message::Authenticated(owner, step));
    }

    /// Removes the replaced keys that are not valid any more. No host can use them meanwhile.
    pub(in crate::node) fn forget_previous_keys(&self) {
        let next = self.served().recorded.hosts.next_expiry();
        if next.is_none_or(|next| next > now()) {
            return;
        }
        match self.change_access(|fresh| Ok(fresh.hosts.forget_expired(now()))) {
            Ok((hosts, _)) => {
                for host in hosts {
                    tracing::info!(host = host.as_str(), "a replaced key of a host has expired");
                }
            }
            Err(error) => tracing::warn!("cannot remove the replaced keys of hosts: {error}"),
        }
    }
}

/// The rules for the hosts of these records.
fn rules(records: &mut Records) -> Hosts<'_> {
    let Records { space, hosts: keys, host_volumes: lists, unlisted_hosts, .. } = records;
    Hosts { keys, lists, space, unlisted: *unlisted_hosts }
}

/// Keys for DH-HMAC-CHAP, and the texts of those that were generated for the host and the controller.
type DhchapKeys = (Option<HostKeys>, Option<SecretText>, Option<SecretText>);

fn dhchap_keys(call: &HostAdd) -> Result<DhchapKeys, NodeError> {
    let policy = Policy {
        hash: call.hash.as_deref().map(parsed).transpose()?,
        group: call.group.as_deref().map(parsed).transpose()?,
    };
    let (key, drawn) = given_or_drawn(call.key.as_ref())?;
    let controller = call.controller.as_ref();
    let controller = controller.map(|it: &ControllerKey| given_or_drawn(it.key.as_ref()));
    let (controller, controller_drawn) = controller.transpose()?.unzip();
    let keys = HostKeys::new(key, controller, policy).map_err(ValueError::from)?;
    Ok((Some(keys), drawn, controller_drawn.flatten()))
}

/// Refuses options for keys that the host does not have.
fn check_no_dhchap(call: &HostAdd) -> Result<(), NodeError> {
    let given = [
        ("controller", call.controller.is_some()),
        ("hash", call.hash.is_some()),
        ("group", call.group.is_some()),
    ];
    match given.iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) => Err(ValueError::NeedsDhchapKey(option).into()),
        None => Ok(()),
    }
}

/// The PSK of the host, if it has one.
fn tls_host(call: &HostAdd) -> Result<Option<TlsHost>, NodeError> {
    let Some(psk) = &call.psk else {
        let given =
            [("psk_derivation", call.psk_derivation.is_some()), ("tls", call.tls.is_some())];
        return match given.iter().find(|(_, is_given)| *is_given) {
            Some((option, _)) => Err(ValueError::NeedsPsk(option).into()),
            None => Ok(None),
        };
    };
    Ok(Some(TlsHost {
        psk: parsed(psk.0.trim())?,
        previous: None,
        derivation: parsed_or(call.psk_derivation.as_deref())?,
        demand: parsed_or(call.tls.as_deref())?,
    }))
}

fn parse_host(text: &str) -> Result<Nqn, NodeError> {
    let refused = |source| ValueError::HostNqn { text: text.into(), source };
    Ok(Nqn::new(text).map_err(refused)?)
}

/// A host, and the volumes of a call with the rights on them.
fn listed(host: &str, volumes: &[HostVolume]) -> Result<(HostName, Vec<Listed>), NodeError> {
    let volume = |it: &HostVolume| {
        let rights = parsed(&it.rights)?;
        Ok((parsed(&it.volume)?, rights))
    };
    Ok((parsed(host)?, volumes.iter().map(volume).collect::<Result<_, NodeError>>()?))
}

/// The given key, or a generated one together with its text, which the answer must show.
fn given_or_drawn(given: Option<&SecretText>) -> Result<(Key, Option<SecretText>), NodeError> {
    if let Some(given) = given {
        return Ok((parsed(given.0.trim())?, None));
    }
    let bytes = drawn::<DRAWN_LEN>()?;
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

/// The list of a host after a change.
fn shown(host: &HostName, fresh: &Records) -> VolumesOfHost {
    let list = fresh.host_volumes.get(host).cloned().unwrap_or_default();
    volumes_of_host(host, &list, &fresh.space)
}

/// A list in the form of a document. A volume of the cluster that is not known here has no name yet.
fn volumes_of_host(host: &HostName, list: &VolumeList, space: &Space) -> VolumesOfHost {
    let mut volumes: Vec<HostVolume> = Vec::new();
    for volume in space.volumes().filter(|volume| volume.home.is_public()) {
        if let Some(rights) = list.get(&volume.uuid) {
            let (volume, rights) = (volume.name.to_string(), rights.to_string());
            volumes.push(HostVolume { volume, rights });
        }
    }
    volumes.sort_by(|a, b| a.volume.cmp(&b.volume));
    VolumesOfHost { host: host.to_string(), volumes }
}
