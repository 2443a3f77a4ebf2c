//! Keys of NVMe hosts, for DH-HMAC-CHAP and for TLS.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::SecretText;

/// A host with keys, without the keys.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
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
}

/// Every host of an earlier version has a key for DH-HMAC-CHAP.
fn yes() -> bool {
    true
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
    /// The only hash to select: `sha256`, `sha384` or `sha512`. By default the node selects one that the host
    /// supports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// The only Diffie-Hellman group to select: `null` or `ffdhe2048` to `ffdhe8192`. By default the node
    /// selects one that the host supports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Its PSK for TLS, as `NVMeTLSkey-1:…:`. By default it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub psk: Option<SecretText>,
    /// The derivation of TLS PSKs: `standard`, the default, or `legacy` for hosts with libnvme before 1.15.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub psk_derivation: Option<String>,
    /// Whether the host must use TLS: `required`, the default, or `allowed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<String>,
}

/// Lists all hosts with keys.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HostList {}

/// Removes the keys of a host and disconnects it.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HostRemove {
    /// The host's NQN.
    pub nqn: String,
}

/// A host whose keys were added or removed.
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
}

/// All hosts with keys.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct KeyedHosts {
    /// In the order of their NQNs.
    pub hosts: Vec<KeyedHost>,
}
