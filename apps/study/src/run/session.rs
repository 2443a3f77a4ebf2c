//! Measures the points that have not been measured yet, one after another, and stores each.

use std::sync::atomic::{AtomicBool, Ordering};

use super::progress::Progress;
use super::stand::Stand;
use crate::error::StudyError;
use crate::plan::{Point, PointId};
use crate::result::Outcome;
use crate::store::Store;
use crate::timing::Timing;

/// Expected overhead per run in milliseconds: starting engines and probing cores.
const EXTRA_MS: u64 = 60;

/// The points of a run.
pub struct Session<'a> {
    /// The points of all studies, in order; those already measured are skipped.
    pub points: Vec<&'a Point>,
    /// Duration and number of runs.
    pub timing: Timing,
    /// Maximum number of extra passes over points that were disturbed or had their cores at another
    /// place.
    pub extra_passes_max: u32,
    /// Set when the run shall end.
    pub interrupted: &'a AtomicBool,
}

/// The result of a session.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Ended {
    /// Points measured by this session.
    pub measured: usize,
    /// Points that could not be measured.
    pub failed: usize,
    /// Whether it was interrupted before all points were measured.
    pub is_interrupted: bool,
}

impl Session<'_> {
    /// Measures the points. `stand` is only called when there is something to measure. Points of
    /// which no run is comparable are measured again at the end, since the disturbance may have
    /// passed.
    ///
    /// # Errors
    /// When results cannot be stored.
    pub fn run(
        &self,
        stand: impl FnOnce() -> Result<Stand, StudyError>,
        store: &mut Store,
    ) -> Result<Ended, StudyError> {
        let left = self.points_where(|id| !store.has(id));
        let goes_again = self.extra_passes_max > 0 && !self.doubtful(store).is_empty();
        if left.is_empty() && !goes_again {
            return Ok(Ended::default());
        }
        let mut stand = stand()?;
        let mut ended = self.pass(&left, &mut stand, store)?;
        for _ in 0..self.extra_passes_max {
            let doubtful = self.doubtful(store);
            if ended.is_interrupted || doubtful.is_empty() {
                break;
            }
            eprintln!("points that are not comparable, measured again: {}", doubtful.len());
            ended.is_interrupted = self.pass(&doubtful, &mut stand, store)?.is_interrupted;
        }
        Ok(ended)
    }

    fn doubtful(&self, store: &Store) -> Vec<&Point> {
        self.points_where(|id| store.results.is_doubtful(id))
    }

    fn points_where(&self, is_wanted: impl Fn(&PointId) -> bool) -> Vec<&Point> {
        self.points.iter().copied().filter(|point| is_wanted(&point.id)).collect()
    }

    /// Measures some points, one after another.
    fn pass(
        &self,
        points: &[&Point],
        stand: &mut Stand,
        store: &mut Store,
    ) -> Result<Ended, StudyError> {
        let mut ended = Ended::default();
        let total = u64::try_from(points.len()).expect("usize is at most 64 bits wide");
        let extra = std::time::Duration::from_millis(EXTRA_MS * u64::from(self.timing.repeats));
        let mut progress = Progress::new(total, self.timing.of_a_point().to_duration() + extra);
        for point in points {
            progress.show(&point.id.0);
            let outcome = stand.measure(point);
            // The interruption may have caused a failure, so the outcome is dropped.
            if self.interrupted.load(Ordering::Relaxed) {
                ended.is_interrupted = true;
                break;
            }
            match &outcome {
                Outcome::Measured(_) | Outcome::Simulated(_) => ended.measured += 1,
                Outcome::Failed(why) => {
                    ended.failed += 1;
                    progress.say(&format!("{}: {why}", point.id.0));
                }
            }
            store.keep(point.id.clone(), outcome)?;
            progress.advance();
        }
        progress.end();
        Ok(ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Medium, Subject};
    use crate::result::{Comparable, Cpu, Latency, Measurement, Run};
    use crate::store::RunKey;
    use nearflash_units::Nanos;

    fn moved_run() -> Run {
        Run {
            ops: 1,
            seconds: 1.0,
            warm_up_seconds: 0.0,
            iops: 1.0,
            bytes_per_second: 1.0,
            latency: Latency::default(),
            cpu: Cpu::default(),
            joules: None,
            core_to_core: [30.0, 300.0],
            core_share: 1.0,
            comparable: Comparable::Moved,
        }
    }

    #[test]
    fn a_stand_is_made_only_when_there_is_something_to_measure() {
        let dir = tempfile::tempdir().unwrap();
        let key = RunKey {
            program: None,
            version: "1".into(),
            machine: "m".into(),
            timing: Timing::QUICK,
            local: None,
            targets: Vec::new(),
        };
        let mut store = Store::open(dir.path(), &key, false).unwrap();
        let medium = Medium::Null { read_delay: Nanos(0), write_delay: Nanos(0) };
        let id = PointId("study/doubtful".into());
        let point = Point { id: id.clone(), subject: Subject::Local(medium), loads: Vec::new() };
        let measured = Measurement { tenants: vec![vec![moved_run()]], command: None };
        store.keep(id, Outcome::Measured(measured)).unwrap();
        let interrupted = AtomicBool::new(false);
        let mut is_made = |extra_passes_max| {
            let points = vec![&point];
            let timing = Timing::QUICK;
            let session = Session { points, timing, extra_passes_max, interrupted: &interrupted };
            let stand = || Err(StudyError::NoRun { path: dir.path().to_owned() });
            session.run(stand, &mut store).is_err()
        };
        assert_eq!([is_made(0), is_made(1)], [false, true]);
    }
}
