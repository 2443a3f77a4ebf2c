//! The values of the store's keys: JSON objects with `"schema": 1`.
//!
//! Names and meanings of the fields are permanent; a field that a later version adds has a default,
//! and a change that older programs would misread raises the schema. A decoded record has been
//! checked: its names are names, its numbers in range.

mod job;
mod node;
mod slice;
mod volume;

pub use job::{JOB_ERROR_LEN_MAX, JobKind, JobRecord, JobState, MovesRecord, Worker};
pub use node::{
    ACCESS_LEVEL, ADDRESSES_MAX, AddressTls, AliveRecord, ClusterRecord, Door, FEATURE_LEVEL,
    HistoryRecord, JOBS_LEVEL, MOVES_LEVEL, NodeRecord, RemovedRecord, SeenRecord, UsersRecord,
    level_of, version_with_level,
};
pub use slice::{
    DATA_START, MIRROR_LEN_MAX, MIRRORS_PER_SLICE_MAX, RoomRecord, RoomState, SliceRecord,
    TRACT_LEN,
};
pub use volume::{
    InSyncRecord, MirrorRecord, MovingRecord, Placement, ReplicaRecord, ReplicasRecord,
    VolumeRecord, VolumeState, WIDTH_MAX, is_stripe_unit,
};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Longest value of a key.
pub const VALUE_LEN_MAX: usize = 64 * 1024;

/// The schema that this program reads and writes.
const SCHEMA: u32 = 1;

/// Error: a value is not the record that its key promises.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum RecordError {
    /// The value is longer than any record.
    #[error("has {0} bytes, and a record has at most {VALUE_LEN_MAX}")]
    TooLong(usize),
    /// A later version wrote it.
    #[error("has schema {0}, which this program does not read: install a newer version")]
    TooNew(u32),
    /// It is not JSON, or lacks a field, or has one that is unknown or of another type.
    #[error("is damaged: {0}")]
    Damaged(Box<str>),
    /// Its seal does not open.
    #[error(
        "does not open: another cluster's token has sealed it, or it was moved: write the record anew, or \
         restore it from a snapshot of this cluster"
    )]
    Sealed,
    /// A field is out of its range.
    #[error("is damaged: {0}")]
    Range(&'static str),
}

/// The field `schema`, which is always 1.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct Schema;

impl TryFrom<u32> for Schema {
    type Error = &'static str;

    fn try_from(schema: u32) -> Result<Self, &'static str> {
        (schema == SCHEMA).then_some(Self).ok_or("unknown schema")
    }
}

impl From<Schema> for u32 {
    fn from(_: Schema) -> Self {
        SCHEMA
    }
}

/// A value that a key may have.
pub trait Record: Serialize + DeserializeOwned {
    /// The newest schema of the record that this program reads.
    const SCHEMA: u32 = SCHEMA;

    /// The longest value.
    const LEN_MAX: usize = VALUE_LEN_MAX;

    /// Checks the ranges that the types of the fields do not.
    ///
    /// # Errors
    /// The rule that a field breaks.
    fn check(&self) -> Result<(), &'static str> {
        Ok(())
    }

    /// The record as a value of the store, if every node can read it again.
    ///
    /// # Errors
    /// The limit that it exceeds.
    fn encode_readable(&self) -> Result<Vec<u8>, RecordError> {
        self.check().map_err(RecordError::Range)?;
        let value = self.encode();
        match value.len() > Self::LEN_MAX {
            true => Err(RecordError::TooLong(value.len())),
            false => Ok(value),
        }
    }

    /// The record as a value of the store.
    fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("records have no maps with other keys than texts")
    }

    /// The record that a value holds.
    ///
    /// # Errors
    /// When the value is not such a record.
    fn decode(value: &[u8]) -> Result<Self, RecordError> {
        #[derive(Deserialize)]
        struct Head {
            schema: u32,
        }
        if value.len() > Self::LEN_MAX {
            return Err(RecordError::TooLong(value.len()));
        }
        let damaged = |e: serde_json::Error| RecordError::Damaged(e.to_string().into());
        let head: Head = serde_json::from_slice(value).map_err(damaged)?;
        if head.schema > Self::SCHEMA {
            return Err(RecordError::TooNew(head.schema));
        }
        let record: Self = serde_json::from_slice(value).map_err(damaged)?;
        record.check().map_err(RecordError::Range)?;
        Ok(record)
    }
}

/// The value of a key that reserves a name, an ordinal or a namespace number for one node or volume.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct OwnerRecord {
    /// The schema.
    pub schema: Schema,
    /// The node or the volume.
    pub owner: Uuid,
}

impl Record for OwnerRecord {}

/// The highest number that was given out.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct LastRecord {
    /// The schema.
    pub schema: Schema,
    /// The number.
    pub number: u64,
}

impl Record for LastRecord {}

/// A fact: the key says it.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FactRecord {
    /// The schema.
    pub schema: Schema,
}

impl Record for FactRecord {}

/// A field whose text is that of `Display` and `FromStr`.
pub(crate) mod as_text {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<T: Display, S: Serializer>(
        value: &T,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    pub(crate) fn deserialize<'de, T: FromStr<Err: Display>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<T, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// Lengths and offsets as numbers of bytes.
mod as_bytes {
    use nearflash_units::{ByteLen, ByteOffset};
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) trait Bytes: Copy {
        fn of(bytes: u64) -> Self;
        fn bytes(self) -> u64;
    }

    impl Bytes for ByteLen {
        fn of(bytes: u64) -> Self {
            Self(bytes)
        }
        fn bytes(self) -> u64 {
            self.0
        }
    }

    impl Bytes for ByteOffset {
        fn of(bytes: u64) -> Self {
            Self(bytes)
        }
        fn bytes(self) -> u64 {
            self.0
        }
    }

    pub(super) fn serialize<T: Bytes, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(value.bytes())
    }

    pub(super) fn deserialize<'de, T: Bytes, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
        u64::deserialize(from).map(T::of)
    }
}

#[cfg(test)]
mod tests;
