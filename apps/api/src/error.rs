//! Errors: a stable code for programs, with a message, a subject and a remedy for people.

use std::fmt;

use nearflash_units::OneLine;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

/// The reason why a call was not executed.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct ApiError {
    /// The kind of error.
    pub code: ErrorCode,
    /// The failure and its cause, in one line that names the resource and the remedy.
    pub message: String,
    /// The affected resource, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<Subject>,
    /// The general remedy for errors of this code.
    pub remedy: String,
}

/// A resource.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct Subject {
    /// `volume`, `device`, `credential`, `grant`, `chap-account`, `token`, `host` or `job`.
    pub kind: String,
    /// Its name or number.
    pub name: String,
}

impl Subject {
    /// The resource of this kind and name.
    pub fn new(kind: &str, name: impl fmt::Display) -> Self {
        Self { kind: kind.to_owned(), name: name.to_string() }
    }
}

impl ApiError {
    /// An error without a subject, with its code's remedy. Control characters of the message are
    /// escaped: it can quote a name that a peer sent.
    pub fn new(code: ErrorCode, message: impl fmt::Display) -> Self {
        let message = OneLine(message).to_string();
        Self { code, message, subject: None, remedy: code.remedy().to_owned() }
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ApiError {}

/// The kind of an error. Codes are never removed or changed.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[allow(missing_docs)] // the table explains each
pub enum ErrorCode {
    InvalidRequest,
    UnknownSchema,
    InvalidValue,
    Busy,
    VolumeExists,
    VolumeNotFound,
    VolumeInUse,
    VolumeDiffers,
    VolumeRemote,
    WouldShrink,
    WouldDestroy,
    DeviceNotFound,
    DeviceUnusable,
    DeviceFailed,
    NoSpace,
    CredentialExists,
    CredentialNotFound,
    GrantNotFound,
    ChapAccountExists,
    ChapAccountNotFound,
    HostKeysExist,
    HostKeysNotFound,
    TokenExists,
    TokenNotFound,
    JobNotFound,
    JobOver,
    LimitReached,
    GenerationDiffers,
    TokenRefused,
    ScopeMissing,
    CoreSilent,
    NotQuiesced,
    Configuration,
    Catalog,
    Address,
    System,
    NotDrained,
    NoCluster,
    ClusterUnreachable,
    ClusterRefused,
    Unknown,
}

impl ErrorCode {
    /// Every code with its text and its remedy.
    pub const TABLE: [(Self, &str, &str); 41] = [
        (Self::InvalidRequest, "invalid-request", "send one of the documented requests"),
        (Self::UnknownSchema, "unknown-schema", "use the same version of nearflash as the node"),
        (Self::InvalidValue, "invalid-value", "correct the value that the message names"),
        (Self::Busy, "busy", "try again"),
        (
            Self::VolumeExists,
            "volume-exists",
            "choose another name, or resize or remove the volume",
        ),
        (Self::VolumeNotFound, "volume-not-found", "list the volumes"),
        (Self::VolumeInUse, "volume-in-use", "disconnect its users, or force the change"),
        (Self::VolumeDiffers, "volume-differs", "correct the configuration of the volume"),
        (Self::VolumeRemote, "volume-remote", "change the volume on its own node"),
        (Self::WouldShrink, "would-shrink", "allow the volume to shrink if its end may be lost"),
        (Self::WouldDestroy, "would-destroy", "keep the data, or follow the remedy in the message"),
        (Self::DeviceNotFound, "device-not-found", "name one of the node's devices"),
        (Self::DeviceUnusable, "device-unusable", "follow the remedy in the message"),
        (Self::DeviceFailed, "device-failed", "check the device; see 'dmesg'"),
        (Self::NoSpace, "no-space", "free space on the device, or use another"),
        (Self::CredentialExists, "credential-exists", "choose another key id, or remove it first"),
        (Self::CredentialNotFound, "credential-not-found", "list the credentials"),
        (Self::GrantNotFound, "grant-not-found", "list the grants"),
        (Self::ChapAccountExists, "chap-account-exists", "choose another user, or remove it first"),
        (Self::ChapAccountNotFound, "chap-account-not-found", "list the CHAP accounts"),
        (Self::TokenExists, "token-exists", "choose another name, or remove it first"),
        (Self::TokenNotFound, "token-not-found", "list the tokens"),
        (Self::HostKeysExist, "host-keys-exist", "remove the keys of the host first"),
        (Self::HostKeysNotFound, "host-keys-not-found", "list the hosts"),
        (Self::JobNotFound, "job-not-found", "list the jobs"),
        (Self::JobOver, "job-over", "nothing is left to cancel"),
        (Self::LimitReached, "limit-reached", "remove what is no longer needed"),
        (
            Self::GenerationDiffers,
            "generation-differs",
            "read the resource again, and decide again",
        ),
        (Self::TokenRefused, "token-refused", "send a token that 'nearflash token create' printed"),
        (Self::ScopeMissing, "scope-missing", "use a token with a wider scope"),
        (Self::CoreSilent, "core-silent", "check the log for a device that hangs; try again"),
        (Self::NotQuiesced, "not-quiesced", "look for a device or a host that does not answer"),
        (Self::Configuration, "configuration", "correct the flag or key that the message names"),
        (
            Self::Catalog,
            "catalog",
            "follow the remedy in the message, or restore a backup of the catalog",
        ),
        (
            Self::Address,
            "address",
            "choose another address or path, or stop the program that uses it",
        ),
        (Self::System, "system", "see the system's error in the message"),
        (Self::NotDrained, "not-drained", "check the log for a device that hangs"),
        (Self::NoCluster, "no-cluster", "start the node with --cluster"),
        (Self::ClusterUnreachable, "cluster-unreachable", "see 'nearflash cluster status'"),
        (Self::ClusterRefused, "cluster-refused", "follow the remedy in the message"),
        (Self::Unknown, "unknown", "use the same version of nearflash as the node"),
    ];

    fn row(self) -> &'static (Self, &'static str, &'static str) {
        let row = Self::TABLE.iter().find(|(code, ..)| *code == self);
        row.expect("a test finds each code in the table")
    }

    /// Its stable text in documents.
    pub fn as_str(self) -> &'static str {
        self.row().1
    }

    /// The remedy.
    pub fn remedy(self) -> &'static str {
        self.row().2
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for ErrorCode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// Codes of later versions become [`ErrorCode::Unknown`].
impl<'de> Deserialize<'de> for ErrorCode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let row = Self::TABLE.iter().find(|(_, name, _)| *name == text);
        Ok(row.map_or(Self::Unknown, |(code, ..)| *code))
    }
}

/// The codes of this version. Later versions may have more.
impl PartialSchema for ErrorCode {
    fn schema() -> RefOr<Schema> {
        let codes = Self::TABLE.map(|(_, text, _)| format!("`{text}`")).join(", ");
        ObjectBuilder::new()
            .schema_type(Type::String)
            .description(Some(format!(
                "The kind of an error: {codes}. Later versions may have more."
            )))
            .into()
    }
}

impl ToSchema for ErrorCode {}
