//! Keys of NVMe hosts, as the control socket changes and lists them. A change is effective when it is
//! answered: authentications use the new keys, and a host whose keys were added or removed is disconnected.

use std::collections::BTreeSet;
use std::sync::Arc;

use nearflash_api::{ControllerKey, HostAdd, KeyedHost, OneKeyedHost, SecretText};
use nearflash_nvme::Nqn;
use nearflash_nvme::auth::{Hash, HostKeys, HostTable, Key, Policy};

use super::Node;
use crate::config::ValueError;
use crate::error::NodeError;
use crate::runtime_face::Authentication;

/// The hash with which a generated key is transformed. The key has as many bytes as its digest.
const DRAWN_HASH: Hash = Hash::Sha256;
const DRAWN_LEN: usize = DRAWN_HASH.digest_len();

impl Node {
    /// The keys of a host, if it has any.
    pub(crate) fn host_keys(&self, host: &Nqn) -> Option<HostKeys> {
        self.served().recorded.hosts.get(host).cloned()
    }

    /// Returns a message of an authentication to its session.
    pub(crate) fn answer_authentication(&self, asked: Authentication) {
        self.runtime.answer_authentication(asked);
    }

    pub(super) fn host_add(&self, call: &HostAdd) -> Result<OneKeyedHost, NodeError> {
        let host = parse_host(&call.nqn)?;
        let policy = Policy {
            hash: call.hash.as_deref().map(str::parse).transpose().map_err(ValueError::from)?,
            group: call.group.as_deref().map(str::parse).transpose().map_err(ValueError::from)?,
        };
        let (key, drawn) = given_or_drawn(call.key.as_ref())?;
        let controller = call.controller.as_ref();
        let controller = controller.map(|it: &ControllerKey| given_or_drawn(it.key.as_ref()));
        let (controller, controller_drawn) = controller.transpose()?.unzip();
        let keys = HostKeys::new(key, controller, policy).map_err(ValueError::from)?;
        let info = keyed_host(&host, &keys);
        self.change_hosts(|hosts| {
            if call.replace && hosts.get(&host).is_some() {
                hosts.remove(&host)?;
            }
            Ok(hosts.add(&host, keys)?)
        })?;
        tracing::info!(host = host.as_str(), "keys of a host added");
        Ok(OneKeyedHost { host: info, key: drawn, controller_key: controller_drawn.flatten() })
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
        let keyed = Arc::new(keyed_hosts(&fresh.hosts));
        // Before the cores ask for the keys of a new host.
        self.served().recorded = fresh;
        self.runtime.publish_keyed_hosts(keyed);
        Ok(changed)
    }
}

/// The hosts that must authenticate.
pub(crate) fn keyed_hosts(hosts: &HostTable) -> BTreeSet<Nqn> {
    hosts.iter().map(|(host, _)| host.clone()).collect()
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

fn keyed_host(host: &Nqn, keys: &HostKeys) -> KeyedHost {
    KeyedHost {
        nqn: host.to_string(),
        mutual: keys.controller().is_some(),
        hash: keys.policy.hash.map(|hash| hash.to_string()),
        group: keys.policy.group.map(|group| group.to_string()),
    }
}
