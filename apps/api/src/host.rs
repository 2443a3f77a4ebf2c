//! Hosts: the keys of NVMe hosts, for DH-HMAC-CHAP and for TLS, and the volumes that NVMe hosts and iSCSI
//! initiators use.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::SecretText;

/// A host with keys, without the keys.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct KeyedHost {
    /// The host's NQN.
    pub nqn: String,
    /// It has a key for DH-HMAC-CHAP, and must authenticate.
    #[serde(default = "yes")]
    pub dhchap: bool,
    /// The controller has a key, too, so that the host can ask it to authenticate.
    pub mutual: bool,
    /// The only hash that the node selects. Absent if it selects any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// The only Diffie-Hellman group that the node selects. Absent if it selects any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Whether the host must use TLS: `required` or `allowed`. Absent if it has no PSK.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<String>,
    /// The derivation of its TLS PSKs: `standard` or `legacy`. Absent if it has no PSK.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub psk_derivation: Option<String>,
    /// The time until which the key for DH-HMAC-CHAP that the present one has replaced is valid, in seconds since
    /// 1970. Absent if no replaced key is valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_key_until: Option<u64>,
    /// The time until which a replaced PSK is valid, in seconds since 1970. Absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_psk_until: Option<u64>,
}

/// Every host of an earlier version has a key for DH-HMAC-CHAP.
fn yes() -> bool {
    true
}

/// A volume in the list of a host.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HostVolume {
    /// The volume.
    pub volume: String,
    /// `r`: the volume is write protected for the host; or `rw`, the default.
    #[serde(default = "read_write")]
    #[schema(pattern = "^rw?$")]
    pub rights: String,
}

fn read_write() -> String {
    "rw".to_owned()
}

/// The list of a host: it sees these volumes, and no others.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct VolumesOfHost {
    /// The host's NQN, or the initiator's iSCSI name in lower case.
    pub host: String,
    /// In the order of their names.
    pub volumes: Vec<HostVolume>,
}

/// The controller's key for authentication in both directions.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ControllerKey {
    /// The key, as `DHHC-1:…:`. By default the node generates one and returns it once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<SecretText>,
}

/// Adds the keys of a host. With a key for DH-HMAC-CHAP, it must authenticate from then on. With a PSK, it must use TLS by
/// default.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HostAdd {
    /// The host's NQN.
    pub nqn: String,
    /// Its key, as `DHHC-1:…:`. By default the node generates one and returns it once. With a PSK, the host has no
    /// such key by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<SecretText>,
    /// The controller's key. Without it, only the host authenticates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller: Option<ControllerKey>,
    /// The volumes that it sees, and no others. By default its list, if it has one, stays as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volumes: Option<Vec<HostVolume>>,
    /// The only hash to select: `sha256`, `sha384` or `sha512`. By default the node selects one that the host
    /// supports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^sha(256|384|512)$")]
    pub hash: Option<String>,
    /// The only Diffie-Hellman group to select: `null` or `ffdhe2048` to `ffdhe8192`. By default the node
    /// selects one that the host supports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^(null|ffdhe(2048|3072|4096|6144|8192))$")]
    pub group: Option<String>,
    /// Its PSK for TLS, as `NVMeTLSkey-1:…:`. By default it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub psk: Option<SecretText>,
    /// The derivation of TLS PSKs: `standard`, the default, or `legacy` for hosts with libnvme before 1.15.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^(standard|legacy)$")]
    pub psk_derivation: Option<String>,
    /// Whether the host must use TLS: `required`, the default, or `allowed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^(required|allowed)$")]
    pub tls: Option<String>,
    /// Whether these keys replace those that the host has. By default the node refuses a host with keys.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replace: bool,
}

/// Replaces the key for DH-HMAC-CHAP of a host, its PSK, or both. The host stays connected. Everything else about the
/// host stays as it is.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HostRotate {
    /// The host's NQN.
    pub nqn: String,
    /// Its new key for DH-HMAC-CHAP, as `DHHC-1:…:`. By default the node generates one and returns it once. With a PSK,
    /// the host keeps its key by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<SecretText>,
    /// Its new PSK for TLS, as `NVMeTLSkey-1:…:`. By default the host keeps its PSK.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub psk: Option<SecretText>,
    /// The time until which the replaced keys are valid, too, in seconds since 1970. By default they are not valid
    /// any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_until: Option<u64>,
}

/// Gives a host rights on volumes. It sees the volumes of its list from then on, and no others.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HostAllow {
    /// The host's NQN, or the initiator's iSCSI name.
    pub host: String,
    /// The volumes to add to its list. A volume that is in the list gets these rights.
    pub volumes: Vec<HostVolume>,
    /// These volumes are the whole list from now on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub only: bool,
}

/// Takes volumes out of the list of a host. A host without a list gets an empty one.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HostDeny {
    /// The host's NQN, or the initiator's iSCSI name.
    pub host: String,
    /// The volumes; none means all volumes, so that the host sees none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<String>,
}

/// Takes the list of a host away. The host sees what every host without a list sees.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HostUnlist {
    /// The host's NQN, or the initiator's iSCSI name.
    pub host: String,
}

/// The list of a host that was changed, or taken away.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct OneVolumeList {
    /// The list; the last one, if it was taken away.
    pub list: VolumesOfHost,
    /// The nodes of the cluster that may not serve by the change yet: see `unconfirmed` in the documentation of
    /// access. Absent if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unconfirmed: Vec<String>,
}

/// Lists all hosts with keys, or with a list of volumes.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HostList {}

/// Removes a host: its list of volumes and, if it has keys, these. A host with keys is disconnected.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HostRemove {
    /// The host's NQN, or the initiator's iSCSI name.
    pub nqn: String,
    /// Whether the node forgets that the host had keys. By default, a host that had keys does not enter without
    /// keys, even where hosts without keys do.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub forget: bool,
}

/// A host whose keys were added, replaced or removed.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct OneKeyedHost {
    /// The host.
    pub host: KeyedHost,
    /// The key that the node generated for the host. It is not shown again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<SecretText>,
    /// The key that the node generated for the controller. It is not shown again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller_key: Option<SecretText>,
    /// The nodes of the cluster that may not serve by the change yet: see `unconfirmed` in the documentation of
    /// access. Absent if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unconfirmed: Vec<String>,
}

/// All hosts with keys, and all lists of volumes.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct KeyedHosts {
    /// In the order of their NQNs.
    pub hosts: Vec<KeyedHost>,
    /// The lists of volumes, in the order of the hosts' names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lists: Vec<VolumesOfHost>,
    /// The NQNs of the hosts whose keys were removed. They do not enter without keys. Absent if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removed: Vec<String>,
    /// The volumes that hosts without a list see: `all` or `none`.
    #[serde(default)]
    #[schema(required = true, pattern = "^(all|none)$")]
    pub unlisted: String,
}
