//! The parameters of a stand.

use std::path::PathBuf;

use crate::local::Disk;
use crate::plan::Medium;
use crate::timing::Timing;

/// The parameters of a stand.
#[derive(Debug)]
pub struct StandSpec {
    /// Duration and number of runs.
    pub timing: Timing,
    /// The disk of volumes and scratch files.
    pub(crate) disk: Disk,
    /// Every medium that a node serves in this run.
    pub media: Vec<Medium>,
    /// The node's program; `None` if no point needs a node.
    pub node: Option<PathBuf>,
}
