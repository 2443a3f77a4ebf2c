//! The metrics of the cluster, as this node sees it. Without one, the families have no samples.

use std::fmt;

use nearflash_cluster::{Level, mirrors_by_copies};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::family::Family;
use super::label::Label;
use crate::node::Node;

const VERDICT: Family = Family::plain(
    "nearflash_cluster_verdict",
    "1 for the present verdict on the cluster, 0 for all other ones",
);
const MIRRORS: Family = Family::plain(
    "nearflash_cluster_mirrors",
    "Mirrors of volumes with two replicas, by the number of copies in sync on nodes that run",
);

const LEVELS: [Level; 4] = [Level::Ok, Level::Degraded, Level::AtRisk, Level::Unavailable];

/// The values of the label `copies`.
const COPIES: [Label; 3] = [Label::plain("0"), Label::plain("1"), Label::plain("2")];

/// A snapshot of the cluster, if there is one.
#[derive(Debug)]
pub(super) struct ClusterMetrics {
    verdicts: Vec<(Label, u32)>,
    mirrors: Vec<(Label, u64)>,
}

impl Node {
    pub(super) fn cluster_metrics(&self) -> ClusterMetrics {
        let Some(cluster) = self.cluster.get() else {
            return ClusterMetrics { verdicts: Vec::new(), mirrors: Vec::new() };
        };
        let verdict = cluster.view_of(self.catalog.node()).verdict;
        let is_present = |level: Level| u32::from(verdict == level.as_str());
        let verdicts = LEVELS.map(|level| (Label::plain(level.as_str()), is_present(level)));
        let counts = mirrors_by_copies(&cluster.state());
        let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        let mirrors = COPIES.into_iter().zip(counts.map(count)).collect();
        ClusterMetrics { verdicts: verdicts.into(), mirrors }
    }
}

impl Collector for ClusterMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let encoder = &mut encoder;
        let verdicts = self.verdicts.iter().map(|(verdict, is)| ([("verdict", verdict)], *is));
        VERDICT.gauges(encoder, verdicts)?;
        let mirrors = self.mirrors.iter().map(|(copies, count)| ([("copies", copies)], *count));
        MIRRORS.gauges(encoder, mirrors)
    }
}
