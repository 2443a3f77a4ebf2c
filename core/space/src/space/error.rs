//! Why volumes cannot be changed, or not be restored.

use nearflash_units::{BlockSize, ByteLen};

use crate::{MapError, Name, SpaceError};

/// Why a volume cannot be made, changed or removed: the configuration's fault.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum VolumeError {
    /// The name is taken.
    #[error("volume '{name}' exists already: choose another name, or resize or remove it")]
    Exists {
        /// Which.
        name: Name,
    },
    /// There is no such volume.
    #[error("no volume '{name}': 'nearflash volume list' names all")]
    NotFound {
        /// Which.
        name: Name,
    },
    /// There is no such device.
    #[error("volume '{volume}': no device '{device}', known are {known}")]
    NoDevice {
        /// The volume asked for.
        volume: Name,
        /// The device asked for.
        device: Name,
        /// All there are.
        known: NameList,
    },
    /// The size is no number of blocks.
    #[error("volume '{name}': {len} is not a whole number of {block_size}-byte blocks")]
    Size {
        /// Which.
        name: Name,
        /// What was asked for.
        len: ByteLen,
        /// The size of its blocks.
        block_size: BlockSize,
    },
    /// The device has not enough left.
    #[error("volume '{name}': device '{device}' is full: {source}")]
    NoSpace {
        /// Which.
        name: Name,
        /// On which device.
        device: Name,
        /// How full.
        source: SpaceError,
    },
    /// The new size is smaller and nobody said that the rest may go.
    #[error(
        "volume '{name}' is {from} and would lose what lies behind {to}: \
         add --shrink if that is meant"
    )]
    WouldShrink {
        /// Which.
        name: Name,
        /// Its size.
        from: ByteLen,
        /// The size asked for.
        to: ByteLen,
    },
    /// A job is preparing blocks of it.
    #[error(
        "volume '{name}' is being prepared by job {job}: wait until that is done, or cancel it"
    )]
    Preparing {
        /// Which.
        name: Name,
        /// The job's number.
        job: u64,
    },
    /// A bound is reached.
    #[error("volume '{name}': {bound}")]
    TooMany {
        /// Which.
        name: Name,
        /// Which bound, and what to do.
        bound: &'static str,
    },
}

/// Names, with commas between.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NameList(pub Vec<Name>);

impl std::fmt::Display for NameList {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.is_empty() {
            return f.write_str("none");
        }
        for (index, name) in self.0.iter().enumerate() {
            write!(f, "{}{name}", if index == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

/// Why recorded volumes do not fit the devices: the record is damaged or another's.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum RestoreError {
    /// An extent is taken twice or outside the device.
    #[error("volume '{volume}' on device '{device}': {source}")]
    Extent {
        /// Whose.
        volume: Name,
        /// Where.
        device: Name,
        /// What is wrong with it.
        source: SpaceError,
    },
    /// The extents make no map.
    #[error("volume '{volume}': {source}")]
    Map {
        /// Whose.
        volume: Name,
        /// What is wrong with them.
        source: MapError,
    },
    /// Two volumes have one name, id or namespace.
    #[error("volume '{volume}' is recorded twice, by name or by namespace")]
    Twice {
        /// Which.
        volume: Name,
    },
    /// A field that no version of ours writes.
    #[error("volume '{volume}': {field} is invalid")]
    Field {
        /// Whose.
        volume: Name,
        /// Which.
        field: &'static str,
    },
}
