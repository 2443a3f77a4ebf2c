//! Where the time of a remote operation went: on this side, in the node, and between.
//!
//! This side measures each operation. The node traces some of them, and tells their stages over its control socket,
//! because no protocol has a place for them. The two clocks are never compared: the time between is the round trip
//! less the time in the node.

use std::fmt;

use nearflash_api::{StageSummary, StageTimes, TracedRequest};

use super::micros;
use crate::recorder::Record;

/// The parts of the mean latency.
#[derive(Clone, Debug)]
pub struct Breakdown {
    /// The mean latency, in nanoseconds.
    mean_ns: f64,
    submission_ns: f64,
    round_trip_ns: f64,
    completion_ns: f64,
    node: Result<NodeStages, NodeUnknown>,
}

/// The mean time of each stage in the node.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeStages {
    /// In nanoseconds, in the order of [`StageTimes::NAMES`].
    mean_ns: [f64; 6],
    requests: usize,
    every: u32,
}

/// The reason why the stages in the node are not known.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum NodeUnknown {
    /// The control socket did not answer.
    #[error("{0}")]
    Control(String),
    /// The node has seen no such request.
    #[error(
        "the node of that data directory answered no such request while it traced: give the target's --data-dir, or \
         a longer --runtime"
    )]
    NoRequests,
}

impl NodeStages {
    /// The stages of these requests, which were one in so many.
    ///
    /// # Errors
    /// When there are none.
    pub fn of(requests: &[TracedRequest], every: u32) -> Result<Self, NodeUnknown> {
        if requests.is_empty() {
            return Err(NodeUnknown::NoRequests);
        }
        let mean_ns = StageSummary::of_stages(requests).map(|stage| stage.mean_ns);
        Ok(Self { mean_ns, requests: requests.len(), every })
    }

    /// The number of requests.
    pub fn requests(&self) -> usize {
        self.requests
    }

    fn whole_ns(&self) -> f64 {
        self.mean_ns.iter().sum()
    }
}

impl Breakdown {
    /// The parts of the mean latency of a record whose sides were measured.
    pub fn of(record: &Record, node: Result<NodeStages, NodeUnknown>) -> Self {
        let sides = &record.sides;
        let mean = |sum: nearflash_units::Nanos| sum.0 as f64 / sides.ops.max(1) as f64;
        Self {
            mean_ns: record.mean_latency_nanos(),
            submission_ns: mean(sides.submission),
            round_trip_ns: mean(sides.round_trip),
            completion_ns: mean(sides.completion),
            node,
        }
    }

    /// The names and mean times of the parts in the order of an operation's way, in nanoseconds. Their sum is
    /// [`Self::mean_ns()`].
    pub fn parts(&self) -> Vec<(&'static str, f64)> {
        let mut parts = vec![("client: submission", self.submission_ns)];
        match &self.node {
            Ok(node) => {
                let between = (self.round_trip_ns - node.whole_ns()).max(0.0);
                parts.push(("network and wake-ups, both ways", between));
                parts.extend(NODE_PARTS.into_iter().zip(node.mean_ns));
            }
            Err(_) => parts.push(("network, wake-ups and node", self.round_trip_ns)),
        }
        parts.push(("client: completion", self.completion_ns));
        let sum: f64 = parts.iter().map(|(_, nanos)| nanos).sum();
        parts.push(("not explained", self.mean_ns - sum));
        parts
    }

    /// The mean latency, in nanoseconds.
    pub fn mean_ns(&self) -> f64 {
        self.mean_ns
    }

    /// The requests that the node has traced, or the reason why there are none.
    pub fn node(&self) -> Result<&NodeStages, &NodeUnknown> {
        self.node.as_ref()
    }
}

/// The parts in the node, in the order of [`StageTimes::NAMES`].
const NODE_PARTS: [&str; 6] = [
    "node: decode",
    "node: admission queue",
    "node: submission to the device",
    "node: device",
    "node: answer",
    "node: sending",
];
const _: () = assert!(NODE_PARTS.len() == StageTimes::NAMES.len());

impl fmt::Display for Breakdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  breakdown of the mean latency, {}", micros(self.mean_ns))?;
        for (name, nanos) in self.parts() {
            let share = 100.0 * nanos / self.mean_ns.max(1.0);
            // No "-0.0".
            let share = if share.abs() < 0.05 { 0.0 } else { share };
            // No "-0 ns".
            let sign = if nanos <= -0.5 { "-" } else { "" };
            let time = format!("{sign}{}", micros(nanos.abs()));
            writeln!(f, "        {name:<31} {time:>10} {share:>6.1} %")?;
        }
        match &self.node {
            Ok(NodeStages { requests, every, .. }) => {
                writeln!(f, "        node: means of {requests} requests, one in {every}")
            }
            Err(unknown) => writeln!(f, "        the stages in the node are unknown: {unknown}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::SideTimes;
    use crate::workload::Direction;
    use nearflash_units::{ByteLen, Nanos};

    fn record() -> Record {
        let mut record = Record::default();
        for _ in 0..4 {
            record.completed(Direction::Read, ByteLen(4096), Nanos(30_000));
        }
        record.sides = SideTimes {
            ops: 4,
            submission: Nanos(4 * 2000),
            round_trip: Nanos(4 * 26_000),
            completion: Nanos(4 * 1500),
        };
        record
    }

    fn traced(stages: [u64; 6]) -> TracedRequest {
        TracedRequest { stages: StageTimes::of(stages), ..TracedRequest::default() }
    }

    fn sum(breakdown: &Breakdown) -> f64 {
        breakdown.parts().iter().map(|(_, nanos)| nanos).sum()
    }

    fn part(breakdown: &Breakdown, name: &str) -> f64 {
        let parts = breakdown.parts();
        parts.iter().find(|(of, _)| *of == name).unwrap_or_else(|| panic!("{name}")).1
    }

    #[test]
    fn the_parts_add_up_to_the_measured_mean_and_the_rest_is_shown() {
        let requests =
            [traced([500, 0, 500, 9000, 500, 1500]), traced([500, 0, 500, 11_000, 500, 1500])];
        let breakdown = Breakdown::of(&record(), NodeStages::of(&requests, 17));
        assert!((sum(&breakdown) - breakdown.mean_ns()).abs() < 1e-6);
        assert!((part(&breakdown, "node: device") - 10_000.0).abs() < 1e-6);
        let between = part(&breakdown, "network and wake-ups, both ways");
        assert!((between - 13_000.0).abs() < 1e-6, "{between}");
        // The histogram of latencies has three digits.
        let rest = part(&breakdown, "not explained");
        assert!((rest - (breakdown.mean_ns() - 29_500.0)).abs() < 1e-6);
        let text = breakdown.to_string();
        assert!(text.contains("network and wake-ups, both ways   13.00 us   43.3 %"), "{text}");
        assert_eq!(text.lines().count(), 12, "{text}");
        assert!(text.ends_with("node: means of 2 requests, one in 17\n"), "{text}");
    }

    #[test]
    fn a_node_that_measured_more_than_the_round_trip_leaves_a_negative_rest() {
        let breakdown =
            Breakdown::of(&record(), NodeStages::of(&[traced([0, 0, 0, 40_000, 0, 0])], 1));
        assert!(part(&breakdown, "network and wake-ups, both ways").abs() < 1e-9);
        assert!(part(&breakdown, "not explained") < -10_000.0);
        assert!((sum(&breakdown) - breakdown.mean_ns()).abs() < 1e-6);
        assert!(breakdown.to_string().contains(" -13."), "{breakdown}");
        // A rest that rounds to zero has no sign.
        let explained = breakdown.mean_ns() - part(&breakdown, "not explained");
        let whole = Breakdown { mean_ns: explained - 0.2, ..breakdown };
        assert!(!whole.to_string().contains("-0"), "{whole}");
    }

    #[test]
    fn without_the_nodes_stages_the_round_trip_is_one_part_and_the_reason_is_told() {
        let unknown = NodeUnknown::Control("no node is running".to_owned());
        let breakdown = Breakdown::of(&record(), Err(unknown));
        assert!((part(&breakdown, "network, wake-ups and node") - 26_000.0).abs() < 1e-6);
        assert!((sum(&breakdown) - breakdown.mean_ns()).abs() < 1e-6);
        let text = breakdown.to_string();
        assert!(text.contains("unknown: no node is running"), "{text}");
        assert_eq!(NodeStages::of(&[], 1), Err(NodeUnknown::NoRequests));
    }
}
