//! What was measured: kept point by point, so that an interrupted run goes on where it was.

use std::collections::BTreeMap;

use nearflash_bench::compare::Verdict;

use crate::plan::PointId;

/// The end of a point.
#[derive(Clone, Debug, PartialEq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It was measured.
    Measured(Measurement),
    /// It could not be, and why, in one line.
    Failed(String),
}

/// The runs of one point.
#[derive(Clone, Debug, PartialEq, serde::Deserialize, serde::Serialize)]
pub struct Measurement {
    /// One per load, in the point's order; each with as many runs as were repeated.
    pub tenants: Vec<Vec<Run>>,
    /// The command line that does the same by hand, if there is one.
    pub command: Option<String>,
}

/// One run of one load.
#[derive(Clone, Debug, PartialEq, serde::Deserialize, serde::Serialize)]
pub struct Run {
    /// Operations counted.
    pub ops: u64,
    /// Over this long, in seconds.
    pub seconds: f64,
    /// Not counted before it, in seconds.
    pub warm_up_seconds: f64,
    /// Operations per second.
    pub iops: f64,
    /// Payload per second, in bytes.
    pub bytes_per_second: f64,
    /// From the intended start to completion.
    pub latency: Latency,
    /// Processor time of one operation.
    pub cpu: Cpu,
    /// What the processors of the machine used in the counted time, in joules, where it counts that;
    /// all loads of a point together.
    #[serde(default)]
    pub joules: Option<f64>,
    /// Core to core in nanoseconds, before and after.
    pub core_to_core: [f64; 2],
    /// The part of the time that the measuring side had its cores, up to 1.
    pub core_share: f64,
    /// Whether it can stand beside other runs.
    pub comparable: Comparable,
}

/// Latency in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Deserialize, serde::Serialize)]
pub struct Latency {
    /// Mean.
    pub mean: f64,
    /// Half are below.
    pub p50: f64,
    /// 95 % are below.
    pub p95: f64,
    /// 99 % are below.
    pub p99: f64,
    /// 99.9 % are below.
    pub p999: f64,
    /// The longest.
    pub max: f64,
}

/// Processor time of one operation, in microseconds; of sides that are in other programs, as the
/// system counts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Deserialize, serde::Serialize)]
pub struct Cpu {
    /// The asking side in its own code.
    pub client_user: f64,
    /// The asking side in the kernel.
    pub client_system: f64,
    /// The node, or the peer, in its own code.
    pub node_user: f64,
    /// The node, or the peer, in the kernel.
    pub node_system: f64,
}

impl Cpu {
    /// Both sides.
    pub fn total(self) -> f64 {
        self.client_user + self.client_system + self.node_user + self.node_system
    }
}

/// Whether a run can stand beside others.
#[derive(Clone, Copy, Debug, Eq, PartialEq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Comparable {
    /// It can.
    Sound,
    /// The cores moved while it ran.
    Moved,
    /// Something else ran on its cores.
    Disturbed,
}

impl From<Verdict> for Comparable {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Sound => Self::Sound,
            Verdict::Moved => Self::Moved,
            Verdict::Disturbed => Self::Disturbed,
        }
    }
}

/// The middle of several runs, and what half of them lie between.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Spread {
    /// The middle one.
    pub median: f64,
    /// A quarter is below.
    pub low: f64,
    /// A quarter is above.
    pub high: f64,
}

/// Everything measured so far, by point.
#[derive(Clone, Debug, Default)]
pub struct Results {
    /// The points' ends.
    pub outcomes: BTreeMap<PointId, Outcome>,
}

impl Results {
    /// The spread of one figure over the runs of a point that can stand beside others (over all, when
    /// none can); `None` for a point that was not measured. `tenant` counts the point's loads from 0.
    pub fn spread(
        &self,
        id: &PointId,
        tenant: usize,
        figure: impl Fn(&Run) -> f64,
    ) -> Option<Spread> {
        let Outcome::Measured(measurement) = self.outcomes.get(id)? else { return None };
        let runs = measurement.tenants.get(tenant)?;
        let is_sound = |run: &&Run| run.comparable == Comparable::Sound;
        let is_doubtful = !runs.iter().any(|run| is_sound(&run));
        let mut values: Vec<f64> =
            runs.iter().filter(|run| is_doubtful || is_sound(run)).map(figure).collect();
        values.sort_by(f64::total_cmp);
        let last = values.len().checked_sub(1)?;
        let at = |index: usize| values.get(index).copied();
        // Of two runs the middle lies between them, and their spread reaches from one to the other.
        let median = f64::midpoint(at(last / 2)?, at(last.div_ceil(2))?);
        Some(Spread { median, low: at(last / 4)?, high: at((last * 3).div_ceil(4))? })
    }

    /// Whether no run of the point can stand beside others.
    pub fn is_doubtful(&self, id: &PointId) -> bool {
        match self.outcomes.get(id) {
            Some(Outcome::Measured(measurement)) => {
                let mut runs = measurement.tenants.iter().flatten();
                !runs.any(|run| run.comparable == Comparable::Sound)
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Comparable, Cpu, Latency, Measurement, Outcome, Results, Run, Spread};
    use crate::plan::PointId;

    fn spread(rates: &[f64]) -> Option<Spread> {
        let run = |iops: &f64| Run {
            ops: 1,
            seconds: 1.0,
            warm_up_seconds: 0.0,
            iops: *iops,
            bytes_per_second: 0.0,
            latency: Latency::default(),
            cpu: Cpu::default(),
            joules: None,
            core_to_core: [0.0; 2],
            core_share: 1.0,
            comparable: Comparable::Sound,
        };
        let id = PointId("study/point".to_owned());
        let tenants = vec![rates.iter().map(run).collect()];
        let outcome = Outcome::Measured(Measurement { tenants, command: None });
        let results = Results { outcomes: [(id.clone(), outcome)].into() };
        results.spread(&id, 0, |run| run.iops)
    }

    #[test]
    fn the_middle_half_of_five_runs_leaves_out_the_best_and_the_worst() {
        let found = spread(&[50.0, 10.0, 30.0, 20.0, 40.0]);
        assert_eq!(found, Some(Spread { median: 30.0, low: 20.0, high: 40.0 }));
    }

    #[test]
    fn two_runs_are_a_spread_with_their_middle() {
        assert_eq!(spread(&[30.0, 10.0]), Some(Spread { median: 20.0, low: 10.0, high: 30.0 }));
    }

    #[test]
    fn one_run_is_its_own_spread_and_none_has_none() {
        assert_eq!(spread(&[7.0]), Some(Spread { median: 7.0, low: 7.0, high: 7.0 }));
        assert_eq!(spread(&[]), None);
    }
}
