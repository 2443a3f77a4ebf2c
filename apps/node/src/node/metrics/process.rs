//! The metrics of the process: its build, its node and its start.
//!
//! Facts are gauges instead of OpenMetrics' type `info`, which the older text format and so the
//! collector of text files do not know. The start has a name of our own, because in such a file
//! `process_start_time_seconds` is the collector's.

use std::fmt;

use nearflash_api::{COMMIT, VERSION};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::family::Family;
use super::label::Label;
use crate::node::Node;

const BUILD: Family =
    Family::plain("nearflash_build_info", "Version and commit of the program; always 1");
const NODE: Family = Family::plain("nearflash_node_info", "UUID of the node; always 1");
const START: Family =
    Family::seconds("nearflash_start_time", "Time at which the node was ready, since 1970");

/// A snapshot of the process.
#[derive(Debug)]
pub(super) struct ProcessMetrics {
    version: Label,
    commit: Label,
    node: Label,
    /// In seconds since 1970.
    start: u64,
}

impl Node {
    pub(super) fn process_metrics(&self) -> ProcessMetrics {
        ProcessMetrics {
            version: Label::of(VERSION),
            commit: Label::of(COMMIT.unwrap_or_default()),
            node: Label::of(&self.catalog.node().to_string()),
            start: self.ready_at.0,
        }
    }
}

impl Collector for ProcessMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let encoder = &mut encoder;
        let build = [("version", &self.version), ("commit", &self.commit)];
        BUILD.gauges(encoder, [(build, 1)].into_iter())?;
        NODE.gauges(encoder, [([("node", &self.node)], 1)].into_iter())?;
        START.gauge(encoder, self.start)
    }
}
