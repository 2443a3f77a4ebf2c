//! The reasons why there is no floor.

use std::io;

use crate::placement::PlacementError;

/// The reason why there is no floor.
#[derive(Debug, thiserror::Error)]
pub enum FloorError {
    /// A core cannot be used.
    #[error(transparent)]
    Placement(#[from] PlacementError),
    /// The loopback connection failed.
    #[error("the floor's loopback connection failed: {0}")]
    Socket(#[from] io::Error),
    /// The other side closed the connection.
    #[error("the floor's other side closed its connection before the run ended")]
    Closed,
}
