//! The studies.

mod block_size;
mod claims;
mod clients;
mod cost;
mod energy;
mod fabrics;
mod io_efficiency;
mod iscsi_tuning;
mod latency_sum;
mod lineup;
mod quicksan_bandwidth;
mod quicksan_latency;
mod sweep;
mod tenants;
mod ways;

#[cfg(test)]
mod tests;

use std::path::PathBuf;

use nearflash_bench::subject::Target;

use crate::exhibit::Exhibit;
use crate::plan::{Peer, Plan};
use crate::result::Results;

pub use cost::{CostError, Model as CostModel};
pub use energy::CORE_WATTS;

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
    /// Capacities, needs and prices for the cost model; `None` for [`CostModel::example`].
    pub costs: Option<CostModel>,
    /// Power of a busy core in watts, for machines without a counter; [`CORE_WATTS`] unless
    /// positive.
    pub core_watts: f64,
}

/// All studies, in the order in which they run.
pub fn catalogue() -> &'static [&'static dyn Study] {
    &[
        &latency_sum::LatencySum,
        &clients::IopsClients,
        &clients::BandwidthClients,
        &io_efficiency::IoEfficiency,
        &block_size::BlockSize,
        &fabrics::Jobs,
        &fabrics::IoDepth,
        &fabrics::RequestSizeCpu,
        &quicksan_latency::QuicksanLatency,
        &quicksan_bandwidth::QuicksanBandwidth,
        &tenants::Tenants,
        &iscsi_tuning::IscsiTuning,
        &cost::Cost,
        &energy::Energy,
    ]
}

/// The note of exhibits in which a node has several cores.
fn more_cores_note() -> String {
    "If the node has more than one core, the clients have fewer. A gain of the node may then be \
     lost at the clients."
        .to_owned()
}

/// The note of exhibits that compare many clients with the bare exchange, on machines where they
/// have several cores.
fn wire_note(setting: &Setting) -> Option<String> {
    (setting.core_count > 2).then(|| {
        "The wire is measured by one thread on one core. The clients of a node share more cores."
            .to_owned()
    })
}

/// A note on how clients and a node of `node_cores` cores share the machine.
fn cores_note(setting: &Setting, node_cores: usize) -> String {
    let rest = setting.core_count.saturating_sub(node_cores);
    let core =
        |count: usize| if count == 1 { "one core".to_owned() } else { format!("{count} cores") };
    let node = core(node_cores);
    match rest {
        0 => format!("The node and all clients share {}.", core(setting.core_count)),
        rest => format!("The node has {node}; all clients share {}.", core(rest)),
    }
}
