//! The records of slices.

use nearflash_space::Name;
use nearflash_units::{ByteLen, MIB};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{Record, Schema, as_bytes, as_text};

/// The unit of write intent: mirrors are multiples of it.
pub const TRACT_LEN: ByteLen = ByteLen(16 * MIB);

/// Longest mirror.
pub const MIRROR_LEN_MAX: ByteLen = ByteLen(64 * 1024 * MIB);

/// The most mirrors with a replica on a slice: it keeps a note of each.
pub const MIRRORS_PER_SLICE_MAX: u64 = 8064;

const _: () = assert!(NOTE_PAGES * NOTES_PER_PAGE == 8064);

pub use nearflash_space::slice::DATA_START;
use nearflash_space::slice::{NOTE_PAGES, NOTES_PER_PAGE};

/// A slice: a device's contribution to the cluster.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SliceRecord {
    /// The schema.
    pub schema: Schema,
    /// The node that has the device.
    pub node: Uuid,
    /// Its name at the node, for people.
    #[serde(with = "as_text")]
    pub name: Name,
    /// Its length, label and metadata included.
    #[serde(with = "as_bytes")]
    pub len: ByteLen,
    /// How often it was opened for data.
    pub incarnation: u64,
}

/// The room on a slice. Every allocation changes it, so that no two take the same space.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RoomRecord {
    /// The schema.
    pub schema: Schema,
    /// Whether new mirrors may be placed on it.
    pub state: RoomState,
    /// The number of allocations and releases.
    pub version: u64,
}

/// Whether a slice takes new mirrors.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RoomState {
    /// It does.
    In,
    /// Its mirrors are being moved away.
    Draining,
    /// It has left the cluster.
    Gone,
}

impl SliceRecord {
    /// The length of the data area, in whole tracts.
    pub fn data_len(&self) -> ByteLen {
        let len = self.len.0.saturating_sub(DATA_START.0);
        ByteLen(len - len % TRACT_LEN.0)
    }
}

impl Record for SliceRecord {}

impl Record for RoomRecord {}
