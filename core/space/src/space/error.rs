//! Errors of changing and of restoring volumes.

use nearflash_units::{BlockSize, ByteLen};

use crate::{MapError, Name, SpaceError};

/// Error: a volume cannot be created, changed or removed as requested.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum VolumeError {
    /// A volume with this name exists.
    #[error("volume '{0}' exists already: choose another name, or resize or remove it")]
    Exists(Name),
    /// There is no such volume.
    #[error("no volume '{0}': 'nearflash volume list' lists them")]
    NotFound(Name),
    /// There is no such device.
    #[error("volume '{volume}': no device '{device}': {known}")]
    NoDevice { volume: Name, device: Name, known: NameList },
    /// The size is not a whole number of blocks.
    #[error("volume '{name}': {len} is not a whole number of {block_size}-byte blocks")]
    Size { name: Name, len: ByteLen, block_size: BlockSize },
    /// The device has too little free space.
    #[error("volume '{name}': device '{device}' is full: {source}")]
    NoSpace { name: Name, device: Name, source: SpaceError },
    /// The new size is smaller, and the request does not allow shrinking.
    #[error(
        "volume '{name}' has {from}, and shrinking it loses the data beyond {to}: add --shrink to \
         confirm"
    )]
    WouldShrink { name: Name, from: ByteLen, to: ByteLen },
    /// A job is preparing blocks of it.
    #[error("volume '{name}' is being prepared by job {job}: wait for the job, or cancel it")]
    Preparing { name: Name, job: u64 },
    /// Another node has the volume.
    #[error("volume '{0}' is on another node: change it there")]
    Remote(Name),
    /// The volume is the cluster's.
    #[error("volume '{0}' belongs to the cluster, which does not support this operation yet")]
    OfCluster(Name),
    /// A limit is reached.
    #[error("volume '{name}': {bound}")]
    TooMany { name: Name, bound: &'static str },
}

/// The devices that hold volumes of the node alone.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NameList(pub Vec<Name>);

impl std::fmt::Display for NameList {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.is_empty() {
            return f.write_str(
                "the node has no device for volumes of its own; without a device, a volume lies in the space of its cluster",
            );
        }
        f.write_str("choose one of: ")?;
        for (index, name) in self.0.iter().enumerate() {
            write!(f, "{}{name}", if index == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

/// Error: recorded volumes do not fit the devices: the record is damaged, or of another node.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum RestoreError {
    /// An extent is taken twice or lies outside the device.
    #[error("volume '{volume}' on device '{device}': {source}")]
    Extent { volume: Name, device: Name, source: SpaceError },
    /// The extents do not form a valid map.
    #[error("volume '{volume}': {source}")]
    Map { volume: Name, source: MapError },
    /// Two volumes have one name, id or namespace.
    #[error("volume '{0}' is recorded twice, by name or by namespace")]
    Twice(Name),
    /// This node cannot serve more volumes.
    #[error("volume '{0}': the node serves 4096 volumes already, the maximum, or has served 65536")]
    TooMany(Name),
    /// A field has a value that no version writes.
    #[error("volume '{volume}': {field} is invalid")]
    Field { volume: Name, field: &'static str },
}
