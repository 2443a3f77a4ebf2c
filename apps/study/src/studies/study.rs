//! A study, and the arguments of a run.

use std::path::PathBuf;

use nearflash_bench::subject::Target;

use super::cost::Model;
use crate::exhibit::Exhibit;
use crate::plan::{Peer, Plan};
use crate::result::Results;

/// A question that is answered by measurements.
pub trait Study: Sync {
    /// The name on the command line.
    fn name(&self) -> &'static str;

    /// The question, in one line.
    fn question(&self) -> &'static str;

    /// The paper and its figures or tables.
    fn source(&self) -> &'static str;

    /// The points to measure on this machine with these arguments.
    fn plan(&self, setting: &Setting) -> Plan;

    /// The exhibits, for any subset of the plan's points, also an empty one.
    fn exhibits(&self, setting: &Setting, results: &Results) -> Vec<Exhibit>;
}

/// The arguments of a run and the properties of the machine.
#[derive(Clone, Debug, Default)]
pub struct Setting {
    /// Whether `--quick` is given: fewer points, so that all studies end within minutes.
    pub is_quick: bool,
    /// The user's remote volumes, which are compared with our node.
    pub targets: Vec<Target>,
    /// The user's file or device; `None` for scratch files.
    pub local: Option<PathBuf>,
    /// Peers that are requested and installed.
    pub peers: Vec<Peer>,
    /// The number of usable cores.
    pub core_count: usize,
    /// Whether the machine has a readable energy counter (RAPL).
    pub has_energy_counter: bool,
    /// Whether volumes of files can be mounted: FUSE is there.
    pub has_fuse: bool,
    /// Whether etcd is installed, which a space of several nodes needs.
    pub has_etcd: bool,
    /// Capacities, needs and prices for the cost model; `None` for [`Model::example`].
    pub costs: Option<Model>,
    /// Power of a busy core in watts, for machines without a counter; [`CORE_WATTS`](super::CORE_WATTS) unless
    /// positive.
    pub core_watts: f64,
}
