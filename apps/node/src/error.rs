//! The errors of a running node: it does not carry out a call.

use std::io;

use nearflash_config::ValueError;
use nearflash_planner::Refusal;
use nearflash_space::{Name, VolumeError};

use crate::CatalogError;
use crate::cluster::ChangeError;

/// A call fails: a value of it is not valid, the change is refused, or something that it needs fails.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NodeError {
    /// A change is refused.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A value of a request is not valid.
    #[error(transparent)]
    Value(#[from] ValueError),
    /// The catalog cannot be used.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// A change of the cluster was not made.
    #[error(transparent)]
    Change(#[from] ChangeError),
    /// A change is in force, while requests that began before it are still under way.
    #[error(
        "the change is recorded and applies to all new requests, but earlier requests are still \
         under way: a device or a host does not answer"
    )]
    NotQuiesced,
    /// A volume that is to shrink cannot be read, so that nobody knows what it holds.
    #[error(
        "volume '{name}': cannot read what it holds: {source}: check its device, or add --force"
    )]
    Unreadable {
        /// The volume.
        name: Name,
        /// The system's error.
        source: io::Error,
    },
    /// A device could not zero blocks, which must happen before a volume can use them.
    #[error(transparent)]
    Zero(#[from] ZeroError),
    /// A volume was created, and this node does not serve it yet.
    #[error(
        "volume '{name}' is complete, but this node does not serve it yet: check the node's log, and \
         'nearflash volume list'"
    )]
    NotServedYet {
        /// The volume.
        name: Name,
    },
    /// Signals cannot be received, or the ready line cannot be written.
    #[error("cannot {action}: {source}")]
    System {
        /// The action that failed.
        action: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

impl From<VolumeError> for NodeError {
    fn from(error: VolumeError) -> Self {
        Refusal::Volume(error).into()
    }
}

/// A device could not zero blocks.
#[derive(Debug, thiserror::Error)]
#[error("device '{device}': cannot zero a volume's blocks: {source}")]
pub struct ZeroError {
    /// The device.
    pub device: Name,
    /// The system's error.
    pub source: io::Error,
}
