//! The studies.

mod block_size;
mod clients;
mod cost;
mod energy;
mod fabrics;
mod io_efficiency;
mod iscsi_tuning;
mod latency_sum;
mod quicksan_bandwidth;
mod quicksan_latency;
mod say;
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
pub(crate) use say::in_times;

/// One question, asked by measuring.
pub trait Study: Sync {
    /// As on the command line.
    fn name(&self) -> &'static str;

    /// The question, in one line.
    fn question(&self) -> &'static str;

    /// The paper and its figures or tables.
    fn source(&self) -> &'static str;

    /// What is measured on this machine, with these wishes.
    fn plan(&self, setting: &Setting) -> Plan;

    /// What was found. Called with any part of the plan measured, or none.
    fn exhibits(&self, setting: &Setting, results: &Results) -> Vec<Exhibit>;
}

/// What the user wants and the machine has.
#[derive(Clone, Debug, Default)]
pub struct Setting {
    /// Fewer points, so that all studies end within minutes.
    pub is_quick: bool,
    /// Remote volumes of the user, measured beside our own node.
    pub targets: Vec<Target>,
    /// A file or device of the user; scratch files otherwise.
    pub local: Option<PathBuf>,
    /// Peers that are installed and wanted.
    pub peers: Vec<Peer>,
    /// Cores that may be used.
    pub core_count: usize,
    /// Whether the machine tells the energy that it uses (RAPL).
    pub has_energy_counter: bool,
    /// Capacities, needs and prices for the cost model; [`CostModel::example`] without.
    pub costs: Option<CostModel>,
    /// Watts of a busy core, where the machine does not tell; [`CORE_WATTS`] unless above zero.
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

/// Of an exhibit in which some nodes have more cores than one.
fn more_cores_note() -> String {
    "Where the node has more cores than one, clients have the fewer: what it gains by its own it may \
     lose by theirs."
        .to_owned()
}

/// Of an exhibit in which many clients stand beside the bare exchange, on a machine where it matters.
fn wire_note(setting: &Setting) -> Option<String> {
    (setting.core_count > 2).then(|| {
        "Who asks over the wire is one thread on one core; the clients of a node share more."
            .to_owned()
    })
}

/// How clients and a node of so many cores share the machine.
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
