//! Events: the last lines of the node's log, with their fields.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Lists the last events.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EventList {
    /// Leaves out the events up to this number; by default none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
}

/// The last events.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct Events {
    /// The events that the node still has, the oldest first.
    pub events: Vec<EventInfo>,
}

/// An event.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct EventInfo {
    /// Its number. Later events have higher numbers, also after a restart of the node.
    pub number: u64,
    /// Its time, in milliseconds since 1970.
    pub at_ms: u64,
    /// Its level.
    pub level: EventLevel,
    /// The text, in one line.
    pub text: String,
    /// The fields: for example the host that connected, or who made a change.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub fields: BTreeMap<String, String>,
}

/// The level of an event.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EventLevel {
    /// The node works as it should.
    Info,
    /// Something was refused or failed, and the node goes on.
    Warning,
    /// Something needs the operator.
    Error,
}

impl EventLevel {
    /// The level's name in documents.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}
