//! The studies.

mod block_size;
mod chart;
mod claims;
mod clients;
mod cost;
mod direction;
mod energy;
mod fabrics;
mod file_access;
mod flash_lifetime;
mod io_efficiency;
mod iscsi_tuning;
mod latency_sum;
mod lineup;
mod notes;
mod quicksan_bandwidth;
mod quicksan_distributed;
mod quicksan_latency;
mod study;
mod sweep;
mod tenants;
mod ways;
mod wear_levelling;

#[cfg(test)]
mod tests;

pub use cost::{CostError, Model as CostModel};
pub use energy::CORE_WATTS;
pub use study::{Setting, Study};

use notes::{cores_note, more_cores_note, wire_note};

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
        &file_access::FileAccess,
        &tenants::Tenants,
        &iscsi_tuning::IscsiTuning,
        &cost::Cost,
        &energy::Energy,
        &flash_lifetime::FlashLifetime,
        &wear_levelling::WearLevelling,
    ]
}
