//! The records of volumes and of their mirrors.

use std::fmt;
use std::str::FromStr;

use nearflash_space::{NAMESPACES_PER_SUBSYSTEM_MAX, Name, Provisioning};
use nearflash_units::{BlockSize, ByteLen, ByteOffset, KIB, MIB};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{DATA_START, MIRROR_LEN_MAX, Record, Schema, TRACT_LEN, as_bytes, as_text};

/// Most mirrors of a row. A row of them with two replicas each fits in one transaction.
pub const WIDTH_MAX: u32 = 16;

/// The maximum number of replicas. More than two exist only while data moves.
const REPLICAS_MAX: usize = 4;

/// A volume. Its layout is arithmetic over `rows` rows of `width` mirrors each.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct VolumeRecord {
    /// The schema.
    pub schema: Schema,
    /// Its name, unique in the cluster.
    #[serde(with = "as_text")]
    pub name: Name,
    /// Its block size, in bytes.
    pub block_size: u32,
    /// Its length in blocks.
    pub blocks: u64,
    /// The length of a stripe's piece on one mirror.
    #[serde(with = "as_bytes")]
    pub stripe_unit: ByteLen,
    /// The mirrors of a row.
    pub width: u32,
    /// The rows that have mirrors.
    pub rows: u32,
    /// The rows whose mirrors have been zeroed. Blocks of the others are not used yet.
    pub zeroed_rows: u32,
    /// The replicas of each mirror.
    pub replicas: u8,
    /// Where its mirrors are placed.
    #[serde(with = "as_text")]
    pub placement: Placement,
    /// The subsystem that has its namespace.
    #[serde(with = "as_text")]
    pub subsystem: Name,
    /// The namespace id.
    pub nsid: u32,
    /// Thin or thick.
    #[serde(with = "as_text")]
    pub provisioning: Provisioning,
    /// The number of its layout.
    pub epoch: u64,
    /// Whether it can be used.
    pub state: VolumeState,
    /// Its length in blocks once its job has ended; absent if the job does not change it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planned: Option<u64>,
    /// The one job that changes its rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<u64>,
}

/// Whether a volume can be used.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum VolumeState {
    /// Not yet: rows are missing, or have not been zeroed.
    Making,
    /// Yes.
    Ready,
    /// No longer: its mirrors are being released.
    Removing,
}

/// Where a volume's mirrors are placed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Placement {
    /// Dealt round over the nodes.
    Spread,
    /// The primaries on this node.
    Local(Uuid),
    /// Everything on this node.
    Central(Uuid),
}

/// The state of a mirror, which only its replicas in sync change.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct MirrorRecord {
    /// The schema.
    pub schema: Schema,
    /// The length of each replica.
    #[serde(with = "as_bytes")]
    pub len: ByteLen,
    /// Grows with each change of membership.
    pub term: u32,
    /// The ordinal of the primary replica.
    pub primary: u32,
    /// The replicas that have everything that was acknowledged.
    pub in_sync: Vec<InSyncRecord>,
    /// The term since which no answered write was lost; 0 if none ever was.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub kept_since: u32,
    /// A random number that names their contents as of the last addition to `in_sync`, which their slices
    /// have, too. 0 if there was none.
    #[serde(default, skip_serializing_if = "has_no_token")]
    pub token: u64,
}

/// A replica that is in sync.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct InSyncRecord {
    /// The replica's ordinal in the mirror.
    pub replica: u32,
    /// The incarnation of its slice in which it is in sync.
    pub incarnation: u64,
}

/// The places of a mirror's replicas.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ReplicasRecord {
    /// The schema.
    pub schema: Schema,
    /// The replicas.
    pub replicas: Vec<ReplicaRecord>,
    /// No replica has ever had this ordinal or a higher one. 0 if none was replaced yet: then the highest
    /// one is in the list.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub next_ordinal: u32,
    /// A replica moves: the last of three replicas takes the place of another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moving: Option<MovingRecord>,
}

/// A replica that moves.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct MovingRecord {
    /// The job that moves it.
    pub job: u64,
    /// The ordinal of the replica that is to leave.
    pub leaves: u32,
}

/// The highest ordinal of a replica.
const ORDINAL_MAX: u32 = u32::MAX - 1;

fn has_no_token(token: &u64) -> bool {
    *token == 0
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl ReplicasRecord {
    /// The lowest ordinal above all that were ever given; `None` when they are used up. One replacement a
    /// second uses them up in 136 years.
    fn fresh_ordinal(&self) -> Option<u32> {
        let next = self.replicas.iter().map(|it| it.ordinal.saturating_add(1)).max();
        Some(self.next_ordinal.max(next.unwrap_or(0))).filter(|ordinal| *ordinal <= ORDINAL_MAX)
    }

    /// The record with only the replicas that stay, and with a new one if there is a place for it. The
    /// ordinals of those that are gone are not given again.
    pub fn replaced(
        &self,
        stays: impl Fn(&ReplicaRecord) -> bool,
        place: Option<(Uuid, ByteOffset)>,
    ) -> Self {
        let mut replicas: Vec<ReplicaRecord> =
            self.replicas.iter().copied().filter(|it| stays(it)).collect();
        let fresh = self.fresh_ordinal();
        let added = fresh.zip(place).map(|(ordinal, (slice, start))| {
            replicas.push(ReplicaRecord { ordinal, slice, start });
            ordinal.saturating_add(1)
        });
        let next_ordinal = added.or(fresh).unwrap_or(u32::MAX);
        Self { schema: Schema, replicas, next_ordinal, moving: None }
    }
}

/// The place of a replica.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ReplicaRecord {
    /// Its number in the mirror, which is never given to another one.
    pub ordinal: u32,
    /// The slice.
    pub slice: Uuid,
    /// The offset on the slice's device.
    #[serde(with = "as_bytes")]
    pub start: ByteOffset,
}

/// Error: a text is not a placement.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("'{0}' is not a placement: use spread, local:NODE or central:NODE")]
pub struct ParsePlacementError(Box<str>);

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Spread => f.write_str("spread"),
            Self::Local(node) => write!(f, "local:{node}"),
            Self::Central(node) => write!(f, "central:{node}"),
        }
    }
}

impl FromStr for Placement {
    type Err = ParsePlacementError;

    fn from_str(text: &str) -> Result<Self, ParsePlacementError> {
        let refused = |_| ParsePlacementError(text.into());
        match text.split_once(':') {
            None if text == "spread" => Ok(Self::Spread),
            Some(("local", node)) => node.parse().map(Self::Local).map_err(refused),
            Some(("central", node)) => node.parse().map(Self::Central).map_err(refused),
            _ => Err(ParsePlacementError(text.into())),
        }
    }
}

impl Placement {
    /// The node that it names.
    pub fn node(self) -> Option<Uuid> {
        match self {
            Self::Spread => None,
            Self::Local(node) | Self::Central(node) => Some(node),
        }
    }
}

impl VolumeRecord {
    fn has_len(&self, blocks: u64) -> bool {
        blocks.checked_mul(u64::from(self.block_size)).is_some()
    }

    /// Its length in bytes; `check` makes it representable.
    pub fn len(&self) -> ByteLen {
        ByteLen(self.blocks.saturating_mul(u64::from(self.block_size)))
    }
}

/// Whether this is a stripe unit: a power of two from 4 KiB to 1 MiB.
pub fn is_stripe_unit(len: ByteLen) -> bool {
    len.0.is_power_of_two() && (4 * KIB..=MIB).contains(&len.0)
}

impl Record for VolumeRecord {
    fn check(&self) -> Result<(), &'static str> {
        match self {
            _ if BlockSize::from_bytes(self.block_size).is_none() => Err("block_size is unknown"),
            _ if self.blocks == 0 => Err("blocks is 0"),
            _ if !self.has_len(self.blocks) => Err("blocks are more than 2^64 bytes"),
            _ if !is_stripe_unit(self.stripe_unit) => {
                Err("stripe_unit is not a power of two from 4 KiB to 1 MiB")
            }
            _ if self.width == 0 || self.width > WIDTH_MAX => Err("width is not 1 to 16"),
            _ if self.rows.checked_mul(self.width).is_none() => Err("rows are too many"),
            _ if self.zeroed_rows > self.rows => Err("zeroed_rows are more than rows"),
            _ if self.replicas == 0 => Err("replicas is 0"),
            _ if self.planned.is_some() && self.job.is_none() => Err("planned needs a job"),
            _ if self.planned.is_some_and(|it| !self.has_len(it)) => {
                Err("planned is more than 2^64 bytes")
            }
            _ if self.nsid == 0 || self.nsid > NAMESPACES_PER_SUBSYSTEM_MAX => {
                Err("nsid is out of range")
            }
            _ => Ok(()),
        }
    }
}

impl Record for MirrorRecord {
    fn check(&self) -> Result<(), &'static str> {
        let len = self.len.0;
        match self {
            _ if len == 0 || len > MIRROR_LEN_MAX.0 || !len.is_multiple_of(TRACT_LEN.0) => {
                Err("len is not a multiple of 16 MiB up to 64 GiB")
            }
            _ if self.in_sync.len() > REPLICAS_MAX => Err("in_sync has more than 4 replicas"),
            _ if !self.in_sync.iter().any(|it| it.replica == self.primary) => {
                Err("the primary is not in_sync")
            }
            _ => Ok(()),
        }
    }
}

/// Whether a replica of this list can leave: the last of three takes its place.
fn may_leave(list: &[ReplicaRecord], leaves: u32) -> bool {
    matches!(list, [one, other, _] if [one.ordinal, other.ordinal].contains(&leaves))
}

impl Record for ReplicasRecord {
    fn check(&self) -> Result<(), &'static str> {
        let starts_on_tract = |it: &ReplicaRecord| {
            let offset = it.start.0.checked_sub(DATA_START.0);
            offset.is_some_and(|offset| offset.is_multiple_of(TRACT_LEN.0))
        };
        match &self.replicas[..] {
            [] => Err("replicas are empty"),
            list if list.len() > REPLICAS_MAX => Err("replicas are more than 4"),
            list if self.moving.is_some_and(|it| !may_leave(list, it.leaves)) => {
                Err("moving needs three replicas, and leaves is one of the first two")
            }
            list if !list.iter().all(starts_on_tract) => Err("start is not that of a tract"),
            _ => Ok(()),
        }
    }
}
