//! Results of measurements, stored point by point, so that an interrupted run can resume.

use std::collections::BTreeMap;
use std::time::Duration;

use nearflash_bench::compare::Verdict;
use nearflash_bench::placement::Place;
use nearflash_bench::stats::Quartiles;
use nearflash_flash::ftl::ConfigError;
use nearflash_units::Nanos;

use crate::plan::PointId;
use crate::simulation::Simulation;

/// The outcome of a point.
#[derive(Clone, Debug, PartialEq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The point was measured.
    Measured(Measurement),
    /// The point was computed from a model.
    Simulated(Simulation),
    /// The point could not be measured; the reason in one line.
    Failed(String),
}

impl Outcome {
    /// Adds the runs of a later measurement. Runs are never dropped.
    pub fn and(self, more: Self) -> Self {
        match (self, more) {
            (Self::Measured(mut measurement), Self::Measured(more)) => {
                for (runs, more) in measurement.tenants.iter_mut().zip(more.tenants) {
                    runs.extend(more);
                }
                Self::Measured(measurement)
            }
            // A model gives the same numbers again.
            (_, simulated @ Self::Simulated(_)) => simulated,
            (known @ (Self::Measured(_) | Self::Simulated(_)), _) => known,
            (Self::Failed(_), other) => other,
        }
    }
}

impl From<Result<Simulation, ConfigError>> for Outcome {
    fn from(simulation: Result<Simulation, ConfigError>) -> Self {
        simulation.map_or_else(|error| Self::Failed(error.to_string()), Self::Simulated)
    }
}

/// The runs of one point.
#[derive(Clone, Debug, PartialEq, serde::Deserialize, serde::Serialize)]
pub struct Measurement {
    /// The runs of each load, in the order of the point's loads.
    pub tenants: Vec<Vec<Run>>,
    /// An equivalent command line, if there is one.
    pub command: Option<String>,
}

/// One run of one load.
#[derive(Clone, Debug, PartialEq, serde::Deserialize, serde::Serialize)]
pub struct Run {
    /// Operations counted.
    pub ops: u64,
    /// Time counted, in seconds.
    pub seconds: f64,
    /// Warm-up before it, in seconds.
    pub warm_up_seconds: f64,
    /// Operations per second.
    pub iops: f64,
    /// Payload per second, in bytes.
    pub bytes_per_second: f64,
    /// Latency from the intended start to completion.
    pub latency: Latency,
    /// Processor time per operation.
    pub cpu: Cpu,
    /// Energy that the machine's processors used in the counted time, in joules, for all loads of
    /// the point together; `None` without a counter.
    #[serde(default)]
    pub joules: Option<f64>,
    /// Latency of an exchange between the first two usable cores in nanoseconds, before and after
    /// the run.
    pub core_to_core: [f64; 2],
    /// The fraction of the time that the measuring side ran on its cores, up to 1. It is lower if
    /// the side slept or waited in the kernel for the device.
    pub core_share: f64,
    /// Whether the run is comparable with others.
    pub comparable: Comparable,
}

/// Latency in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Deserialize, serde::Serialize)]
pub struct Latency {
    /// The mean.
    pub mean: f64,
    /// The median.
    pub p50: f64,
    /// The 95th percentile.
    pub p95: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The 99.9th percentile.
    pub p999: f64,
    /// The maximum.
    pub max: f64,
}

/// Processor time per operation, in microseconds. For other programs it is the system's accounting.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Deserialize, serde::Serialize)]
pub struct Cpu {
    /// The client in user mode.
    pub client_user: f64,
    /// The client in the kernel.
    pub client_system: f64,
    /// The node or peer in user mode.
    pub node_user: f64,
    /// The node or peer in the kernel.
    pub node_system: f64,
}

impl Cpu {
    /// The sum of both sides.
    pub fn total(self) -> f64 {
        self.client_user + self.client_system + self.node_user + self.node_system
    }
}

/// Whether a run is comparable with others.
#[derive(Clone, Copy, Debug, Eq, PartialEq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Comparable {
    /// Nothing interfered.
    Sound,
    /// The cores' place changed during the run.
    Moved,
    /// Another program ran on its cores.
    Disturbed,
}

impl Run {
    /// How far apart its cores were.
    fn place(&self) -> Place {
        let distance = Duration::try_from_secs_f64(self.core_to_core[1] / 1e9).unwrap_or_default();
        Place::of(Nanos(u64::try_from(distance.as_nanos()).unwrap_or(u64::MAX)))
    }
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

/// A point and its outcome.
#[derive(Clone, Debug, PartialEq, serde::Deserialize, serde::Serialize)]
pub struct PointEnd {
    /// The point's name.
    pub id: PointId,
    /// Its outcome.
    pub outcome: Outcome,
}

/// All outcomes so far, by point.
#[derive(Clone, Debug, Default)]
pub struct Results {
    /// The outcomes.
    pub outcomes: BTreeMap<PointId, Outcome>,
    /// The most frequent place of the cores over the sound runs. Runs at other places are not
    /// comparable with these: an exchange between cores of one complex is up to twice as fast as
    /// one across complexes.
    home: Option<Place>,
}

impl Results {
    /// Results with the home that they imply.
    pub fn new(outcomes: BTreeMap<PointId, Outcome>) -> Self {
        let home = home(&outcomes);
        Self { outcomes, home }
    }

    /// A subset of results, with the home of the whole set.
    pub fn at(home: Option<Place>, outcomes: BTreeMap<PointId, Outcome>) -> Self {
        Self { outcomes, home }
    }

    /// The most frequent place of the cores over the sound runs.
    pub fn home(&self) -> Option<Place> {
        self.home
    }

    /// Sets the outcome of a point, replacing an earlier one.
    pub fn insert(&mut self, id: PointId, outcome: Outcome) {
        self.outcomes.insert(id, outcome);
        self.home = home(&self.outcomes);
    }

    fn is_home(&self, run: &Run) -> bool {
        run.comparable == Comparable::Sound && Some(run.place()) == self.home
    }

    /// Quartiles of one figure over the comparable runs of a point; over its sound runs if none is
    /// comparable, and over all runs if none is sound. `None` if the point was not measured.
    /// `tenant` is the index of the load, from 0.
    pub fn spread(
        &self,
        id: &PointId,
        tenant: usize,
        figure: impl Fn(&Run) -> f64,
    ) -> Option<Quartiles> {
        let Outcome::Measured(measurement) = self.outcomes.get(id)? else { return None };
        let runs = measurement.tenants.get(tenant)?;
        let is_home = |run: &&Run| self.is_home(run);
        let is_sound = |run: &&Run| run.comparable == Comparable::Sound;
        let chosen = [&is_home as &dyn Fn(&&Run) -> bool, &is_sound, &|_| true];
        let of = |is_chosen: &dyn Fn(&&Run) -> bool| {
            runs.iter().filter(is_chosen).map(&figure).collect::<Vec<f64>>()
        };
        let values = chosen.into_iter().map(of).find(|values| !values.is_empty())?;
        Quartiles::of(values)
    }

    /// The numbers of a model; `None` if the point was not computed.
    pub fn simulation(&self, id: &PointId) -> Option<&Simulation> {
        match self.outcomes.get(id)? {
            Outcome::Simulated(simulation) => Some(simulation),
            Outcome::Measured(_) | Outcome::Failed(_) => None,
        }
    }

    /// Whether no run of the point is comparable: each was disturbed, or had its cores at another
    /// place.
    pub fn is_doubtful(&self, id: &PointId) -> bool {
        let Some(Outcome::Measured(measurement)) = self.outcomes.get(id) else { return false };
        !measurement.tenants.iter().flatten().any(|run| self.is_home(run))
    }
}

fn home(outcomes: &BTreeMap<PointId, Outcome>) -> Option<Place> {
    let measured = outcomes.values().filter_map(|outcome| match outcome {
        Outcome::Measured(measurement) => Some(measurement),
        Outcome::Simulated(_) | Outcome::Failed(_) => None,
    });
    let runs = measured.flat_map(|measurement| measurement.tenants.iter().flatten());
    let mut counts = PLACES.map(|place| (0_u32, place));
    for run in runs.filter(|run| run.comparable == Comparable::Sound) {
        let there = counts.iter_mut().find(|(_, place)| *place == run.place());
        there.expect("all places are counted").0 += 1;
    }
    // On a tie the nearest place wins, which is first.
    let most = counts.into_iter().rev().max_by_key(|(count, _)| *count);
    most.filter(|(count, _)| *count > 0).map(|(_, place)| place)
}

/// From nearest to farthest.
const PLACES: [Place; 3] = [Place::SameCore, Place::Near, Place::Far];

#[cfg(test)]
mod tests {
    use super::{Comparable, Cpu, Latency, Measurement, Outcome, Quartiles, Results, Run};
    use crate::plan::PointId;

    fn run(iops: f64, nanos: f64, comparable: Comparable) -> Run {
        Run {
            ops: 1,
            seconds: 1.0,
            warm_up_seconds: 0.0,
            iops,
            bytes_per_second: 0.0,
            latency: Latency::default(),
            cpu: Cpu::default(),
            joules: None,
            core_to_core: [nanos; 2],
            core_share: 1.0,
            comparable,
        }
    }

    fn measured(runs: Vec<Run>) -> Outcome {
        Outcome::Measured(Measurement { tenants: vec![runs], command: None })
    }

    #[test]
    fn runs_of_another_place_stand_only_where_there_are_no_others() {
        use Comparable::{Moved, Sound};
        let id = |name: &str| PointId(name.to_owned());
        let mut results = Results::default();
        results.insert(id("near"), measured(vec![run(10.0, 30.0, Sound), run(10.0, 31.0, Sound)]));
        let both = vec![run(4.0, 160.0, Sound), run(9.0, 35.0, Sound), run(7.0, 33.0, Moved)];
        results.insert(id("both"), measured(both));
        results.insert(id("far"), measured(vec![run(5.0, 150.0, Sound), run(1.0, 30.0, Moved)]));
        results.insert(id("moved"), measured(vec![run(2.0, 30.0, Moved)]));
        let median = |name| results.spread(&id(name), 0, |run| run.iops).unwrap().median;
        assert_eq!(
            [median("near"), median("both"), median("far"), median("moved")],
            [10.0, 9.0, 5.0, 2.0]
        );
        let doubtful = ["near", "both", "far", "moved"].map(|name| results.is_doubtful(&id(name)));
        assert_eq!(doubtful, [false, false, true, true]);
    }

    #[test]
    fn what_is_measured_again_stands_beside_what_was_measured_before() {
        let first = measured(vec![run(1.0, 30.0, Comparable::Moved)]);
        let again = measured(vec![run(2.0, 30.0, Comparable::Sound)]);
        let Outcome::Measured(both) = first.clone().and(again) else { panic!("it was measured") };
        assert_eq!(both.tenants[0].len(), 2);
        let failed = || Outcome::Failed("gone".to_owned());
        assert_eq!(first.clone().and(failed()), first);
        assert_eq!(failed().and(first.clone()), first);
    }

    fn spread(rates: &[f64]) -> Option<Quartiles> {
        let id = PointId("study/point".to_owned());
        let outcome =
            measured(rates.iter().map(|iops| run(*iops, 0.0, Comparable::Sound)).collect());
        let results = Results::new([(id.clone(), outcome)].into());
        results.spread(&id, 0, |run| run.iops)
    }

    #[test]
    fn the_middle_half_of_five_runs_leaves_out_the_best_and_the_worst() {
        let found = spread(&[50.0, 10.0, 30.0, 20.0, 40.0]);
        assert_eq!(found, Some(Quartiles { median: 30.0, low: 20.0, high: 40.0 }));
    }

    #[test]
    fn the_spread_of_two_runs_is_the_middle_half_between_them() {
        assert_eq!(spread(&[30.0, 10.0]), Some(Quartiles { median: 20.0, low: 15.0, high: 25.0 }));
    }

    #[test]
    fn one_run_is_its_own_spread_and_none_has_none() {
        assert_eq!(spread(&[7.0]), Some(Quartiles { median: 7.0, low: 7.0, high: 7.0 }));
        assert_eq!(spread(&[]), None);
    }
}
