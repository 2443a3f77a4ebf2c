//! The identity of a mirror: of a device that is made of equal extents on several nodes.

use std::fmt;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The identity of a mirror on all nodes, in the cluster's store and on its replicas.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(deny_unknown_fields)]
pub struct MirrorKey {
    /// The volume for which it was created. Encoded as its 16 bytes.
    #[serde(with = "uuid::serde::compact")]
    pub volume: Uuid,
    /// Its number in that volume, counted through the rows: `row * width + column`.
    pub number: u32,
}

/// As the cluster's store writes it in a key.
impl fmt::Display for MirrorKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.volume, self.number)
    }
}
