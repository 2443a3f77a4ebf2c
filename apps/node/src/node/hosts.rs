//! Keys of NVMe hosts, as the control socket changes and lists them. A change is effective when it is
//! answered: authentications use the new keys, and a host whose keys were added or removed is disconnected.

use nearflash_api::{ControllerKey, HostAdd, KeyedHost, OneKeyedHost, SecretText};
use nearflash_nvme::Nqn;
use nearflash_nvme::auth::{Hash, HostKeys, Key, Policy};
use nearflash_nvme::hosts::{HostSecrets, HostTable};
use nearflash_nvme::tls::TlsHost;

use super::Node;
use crate::config::ValueError;
use crate::error::NodeError;
use crate::runtime_face::Authentication;

/// The hash with which a generated key is transformed. The key has as many bytes as its digest.
const DRAWN_HASH: Hash = Hash::Sha256;
const DRAWN_LEN: usize = DRAWN_HASH.digest_len();

impl Node {
    /// The keys with which a host must authenticate, if it has any.
    pub(crate) fn host_keys(&self, host: &Nqn) -> Option<HostKeys> {
        self.served().recorded.hosts.get(host)?.dhchap.clone()
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
        self.change_hosts(|hosts| Ok(hosts.add(&host, secrets)?))?;
        tracing::info!(host = host.as_str(), "keys of a host added");
        Ok(OneKeyedHost { host: info, key, controller_key })
    }

    pub(super) fn host_list(&self) -> Vec<KeyedHost> {
        self.served().recorded.hosts.iter().map(|(host, keys)| keyed_host(host, keys)).collect()
    }

    pub(super) fn host_remove(&self, host: &str) -> Result<KeyedHost, NodeError> {
        let host = parse_host(host)?;
        let keys = self.change_hosts(|hosts| Ok(hosts.remove(&host)?))?;
        tracing::info!(host = host.as_str(), "keys of a host removed");
        Ok(keyed_host(&host, &keys))
    }

    /// Makes a change on a copy; if that succeeds, records it and publishes it to the cores.
    fn change_hosts<T>(
        &self,
        change: impl FnOnce(&mut HostTable) -> Result<T, NodeError>,
    ) -> Result<T, NodeError> {
        let _one = self.one_change_of_a_caller()?;
        let mut fresh = self.copy();
        let changed = change(&mut fresh.hosts)?;
        self.record(&mut fresh)?;
        let hosts = fresh.hosts.clone();
        // Before the cores ask for the keys of a new host.
        self.served().recorded = fresh;
        self.runtime.publish_keyed_hosts(&hosts);
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
    let HostSecrets { dhchap, tls } = secrets;
    let policy = dhchap.as_ref().map(|keys| keys.policy).unwrap_or_default();
    KeyedHost {
        nqn: host.to_string(),
        dhchap: dhchap.is_some(),
        mutual: dhchap.as_ref().is_some_and(|keys| keys.controller().is_some()),
        hash: policy.hash.map(|hash| hash.to_string()),
        group: policy.group.map(|group| group.to_string()),
        tls: tls.as_ref().map(|tls| tls.demand.to_string()),
        psk_derivation: tls.as_ref().map(|tls| tls.derivation.to_string()),
    }
}
