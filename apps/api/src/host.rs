//! Keys with which NVMe hosts authenticate.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::SecretText;

/// A host with keys, without the keys.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct KeyedHost {
    /// The host's NQN.
    pub nqn: String,
    /// The controller has a key, too, so that the host can ask it to authenticate.
    pub mutual: bool,
    /// The only hash that the node selects. Absent if it selects any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// The only Diffie-Hellman group that the node selects. Absent if it selects any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
}

/// The controller's key for authentication in both directions.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ControllerKey {
    /// The key, as `DHHC-1:…:`. By default the node generates one and returns it once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<SecretText>,
}

/// Adds the keys of a host, which must authenticate from then on.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HostAdd {
    /// The host's NQN.
    pub nqn: String,
    /// Its key, as `DHHC-1:…:`. By default the node generates one and returns it once.
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
    /// Whether these keys replace those that the host has. By default the node refuses a host with keys.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replace: bool,
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
