//! The state of the node as metrics, in the text format of OpenMetrics 1.0.
//!
//! Nothing is kept between two scrapes: each one takes a snapshot of counters that any thread may
//! read, and writes it. No core is asked, so a core that hangs delays no scrape. Names and units
//! follow the conventions of Prometheus: `nearflash_`, the object, the unit, and `_total` for
//! counters.
//!
//! The text grows with the volumes and with the pairs of a host and a volume, whose number the cores
//! bound (`PAIRS_MAX`). A pair has sums of its times and no histogram: 40 lines for each of
//! thousands of hosts would make the text useless. A volume has the histogram of all its hosts.

mod cluster;
mod cores;
mod devices;
mod family;
mod histogram;
mod jobs;
mod label;
mod logins;
mod process;
mod slices;
#[cfg(test)]
mod tests;
mod volumes;

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

use super::Node;

impl Node {
    /// The metrics of the node.
    pub(crate) fn metrics(&self) -> String {
        // The order of the text.
        text([
            Box::new(self.process_metrics()),
            Box::new(self.cluster_metrics()),
            Box::new(self.volume_metrics()),
            Box::new(self.slice_metrics()),
            Box::new(self.device_metrics()),
            Box::new(self.core_metrics()),
            Box::new(self.job_metrics()),
            Box::new(logins::LoginMetrics::now()),
        ])
    }
}

fn text<const N: usize>(snapshots: [Box<dyn Collector>; N]) -> String {
    let mut registry = Registry::default();
    snapshots.into_iter().for_each(|snapshot| registry.register_collector(snapshot));
    let mut text = String::with_capacity(1 << 16);
    let written: fmt::Result = encode(&mut text, &registry);
    written.expect("a string takes all text");
    text
}
