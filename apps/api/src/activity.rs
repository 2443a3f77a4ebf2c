//! The requests of the last seconds, in intervals of about a second.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{HostIo, Io, VolumeIo};

/// Shows the requests of the last seconds. The node measures an interval when it is asked, so that a
/// node that nobody watches does nothing: the first call has no interval, and further calls, each a
/// second later, have one more each.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ActivityShow {
    /// Leaves out the intervals up to this number; by default none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<u64>,
}

/// The requests of the last seconds.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct Activity {
    /// The intervals that the node still has, two minutes at most; the oldest first.
    pub intervals: Vec<Interval>,
    /// The volumes with requests in the last interval, those with the most requests first, 256 at most.
    /// `hosts` is empty.
    pub volumes: Vec<VolumeIo>,
    /// The hosts with requests in the last interval, over all volumes, in the same order, 256 at most.
    pub hosts: Vec<HostIo>,
}

/// An interval.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct Interval {
    /// Its number. The next interval has the next number.
    pub number: u64,
    /// The time of its end, in milliseconds since 1970.
    pub ended_at_ms: u64,
    /// Its length in milliseconds.
    pub millis: u64,
    /// The requests of all volumes that ended in it. `in_flight` and `waiting` are those of its end.
    #[serde(flatten)]
    pub io: Io,
}
