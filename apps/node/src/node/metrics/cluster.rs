//! The metrics of the cluster, as this node sees it. Without one, the families have no samples.

use std::fmt;

use nearflash_api::ClusterNodeInfo;
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

const DATA: Family = Family::bytes(
    "nearflash_cluster_data",
    "Bytes of the node's slices for volumes, used and free",
);
const FREE: Family = Family::bytes(
    "nearflash_cluster_free",
    "Bytes of the node's slices that new volumes can use. Two replicas take twice the volume's size",
);
const NODES: Family = Family::plain(
    "nearflash_cluster_node_running",
    "1 if the node of the cluster counts as running",
);

const LEVELS: [Level; 4] = [Level::Ok, Level::Degraded, Level::AtRisk, Level::Unavailable];

/// The values of the label `copies`.
const COPIES: [Label; 3] = [Label::plain("0"), Label::plain("1"), Label::plain("2")];

/// A snapshot of the cluster, if there is one.
#[derive(Debug, Default)]
pub(super) struct ClusterMetrics {
    verdicts: Vec<(Label, u32)>,
    mirrors: Vec<(Label, u64)>,
    nodes: Vec<NodeSpace>,
}

/// A node, and the space of its slices.
#[derive(Debug)]
struct NodeSpace {
    node: Label,
    is_running: bool,
    data: u64,
    free: u64,
}

impl Node {
    pub(super) fn cluster_metrics(&self) -> ClusterMetrics {
        let Some(cluster) = self.cluster.get() else {
            return ClusterMetrics::default();
        };
        let view = cluster.view_of(self.catalog.node());
        let is_present = |level: Level| u32::from(view.verdict == level.as_str());
        let verdicts = LEVELS.map(|level| (Label::plain(level.as_str()), is_present(level)));
        let counts = mirrors_by_copies(&cluster.state());
        let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        let mirrors = COPIES.into_iter().zip(counts.map(count)).collect();
        let node = |it: ClusterNodeInfo| NodeSpace {
            node: Label::of(&it.name),
            is_running: it.is_running,
            data: it.data_bytes,
            free: it.free_bytes,
        };
        let nodes = view.nodes.into_iter().map(node).collect();
        ClusterMetrics { verdicts: verdicts.into(), mirrors, nodes }
    }
}

impl Collector for ClusterMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let encoder = &mut encoder;
        let verdicts = self.verdicts.iter().map(|(verdict, is)| ([("verdict", verdict)], *is));
        VERDICT.gauges(encoder, verdicts)?;
        let mirrors = self.mirrors.iter().map(|(copies, count)| ([("copies", copies)], *count));
        MIRRORS.gauges(encoder, mirrors)?;
        let runs = self.nodes.iter().map(|it| ([("node", &it.node)], u32::from(it.is_running)));
        NODES.gauges(encoder, runs)?;
        let of = |of: fn(&NodeSpace) -> u64| {
            self.nodes.iter().map(move |it| ([("node", &it.node)], of(it)))
        };
        DATA.gauges(encoder, of(|it| it.data))?;
        FREE.gauges(encoder, of(|it| it.free))
    }
}
