//! Refused logins: why a peer was not let in, and how many there are.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Why a peer was not let in, as a label of few values. The log has the words.
#[derive(
    Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, ToSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum RefusalReason {
    /// It gave its name, and went away before it proved it.
    Abandoned,
    /// Its credential, key or token has expired.
    Expired,
    /// Its bytes do not follow the protocol.
    Invalid,
    /// All places are taken.
    Limit,
    /// It may not come in here, or not to what it asks for.
    NotAdmitted,
    /// It asks for a resource that does not exist.
    NotFound,
    /// It did not prove that it is who it says.
    NotProved,
    /// Its token does not permit the call.
    Scope,
    /// It did not log in in time.
    TimedOut,
    /// TLS failed.
    Tls,
}

impl RefusalReason {
    /// The reason's name in documents and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Abandoned => "abandoned",
            Self::Expired => "expired",
            Self::Invalid => "invalid",
            Self::Limit => "limit",
            Self::NotAdmitted => "not-admitted",
            Self::NotFound => "not-found",
            Self::NotProved => "not-proved",
            Self::Scope => "scope",
            Self::TimedOut => "timed-out",
            Self::Tls => "tls",
        }
    }
}

/// The logins that the node has refused lately.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct RefusedLogins {
    /// Those of the last ten minutes.
    pub last_10_minutes: u64,
    /// The address or the user of the last one.
    pub last_from: String,
}

impl RefusedLogins {
    /// So many in ten minutes are no mistake of a person.
    pub const MANY: u64 = 100;

    /// The finding and its remedy, for people; `None` if they are few.
    pub fn sentence(&self) -> Option<String> {
        let Self { last_10_minutes, last_from } = self;
        (*last_10_minutes >= Self::MANY).then(|| {
            format!(
                "{last_10_minutes} logins were refused in ten minutes, the last one from {last_from}: see \
                 'nearflash events --warnings', and correct the peer or keep it away by a firewall"
            )
        })
    }
}
