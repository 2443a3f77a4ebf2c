//! Errors of changing and of restoring volumes.

use nearflash_units::{BlockSize, ByteLen};

use crate::{MapError, Name, SpaceError};

/// Error: a volume cannot be created, changed or removed as requested.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum VolumeError {
    /// A volume with this name exists.
    #[error("volume '{0}' exists already: choose another name, or resize or remove it")]
    Exists(Name),
    /// There is no such volume.
    #[error("no volume '{0}': 'nearflash volume list' lists them")]
    NotFound(Name),
    /// There is no such device.
    #[error("volume '{volume}': no device '{device}', known are {known}")]
    NoDevice {
        /// The volume asked for.
        volume: Name,
        /// The device asked for.
        device: Name,
        /// The names of all devices.
        known: NameList,
    },
    /// The size is not a whole number of blocks.
    #[error("volume '{name}': {len} is not a whole number of {block_size}-byte blocks")]
    Size {
        /// The volume's name.
        name: Name,
        /// The requested size.
        len: ByteLen,
        /// The size of its blocks.
        block_size: BlockSize,
    },
    /// The device has too little free space.
    #[error("volume '{name}': device '{device}' is full: {source}")]
    NoSpace {
        /// The volume's name.
        name: Name,
        /// The device.
        device: Name,
        /// The failed allocation.
        source: SpaceError,
    },
    /// The new size is smaller, and the request does not allow shrinking.
    #[error(
        "volume '{name}' has {from} and would lose the data beyond {to}: \
         add --shrink if that is meant"
    )]
    WouldShrink {
        /// The volume's name.
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
        /// The volume's name.
        name: Name,
        /// The job's number.
        job: u64,
    },
    /// A limit is reached.
    #[error("volume '{name}': {bound}")]
    TooMany {
        /// The volume's name.
        name: Name,
        /// The limit, and what to do.
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

/// Error: recorded volumes do not fit the devices: the record is damaged, or of another node.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum RestoreError {
    /// An extent is taken twice or lies outside the device.
    #[error("volume '{volume}' on device '{device}': {source}")]
    Extent {
        /// The volume's name.
        volume: Name,
        /// The device's name.
        device: Name,
        /// The failed reservation of the extent.
        source: SpaceError,
    },
    /// The extents do not form a valid map.
    #[error("volume '{volume}': {source}")]
    Map {
        /// The volume's name.
        volume: Name,
        /// The map's error.
        source: MapError,
    },
    /// Two volumes have one name, id or namespace.
    #[error("volume '{0}' is recorded twice, by name or by namespace")]
    Twice(Name),
    /// A field has a value that no version writes.
    #[error("volume '{volume}': {field} is invalid")]
    Field {
        /// The volume's name.
        volume: Name,
        /// The field's name.
        field: &'static str,
    },
}
