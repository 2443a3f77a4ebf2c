//! The requests of the last seconds. No thread measures them: an interval ends when somebody asks, at
//! least [`INTERVAL_MIN`] after the one before.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use nearflash_api::{Activity, HostIo, Interval, VolumeIo};
use nearflash_engine::{Asking, Figures};
use nearflash_request::VolumeId;

use super::Node;
use super::io::{host_io, io};
use nearflash_reactor::Totals;

/// The shortest interval. Those who ask more often, or one after the other, share it.
const INTERVAL_MIN: Duration = Duration::from_millis(900);

/// The longest interval. After a longer pause, nobody has watched, and a new series begins.
const INTERVAL_MAX: Duration = Duration::from_secs(10);

/// The number of intervals that are kept.
const INTERVALS_MAX: usize = 120;

/// The number of volumes and of hosts that are shown.
const SHOWN_MAX: usize = 256;

/// The series of intervals.
#[derive(Debug, Default)]
pub(super) struct Watched {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    last: Option<(Instant, Totals)>,
    number: u64,
    intervals: VecDeque<Interval>,
    volumes: Vec<(VolumeId, Figures)>,
    hosts: Vec<(Asking, Figures)>,
}

impl State {
    /// Ends the present interval.
    fn end(&mut self, (at, ended_at_ms): (Instant, u64), totals: Totals) {
        let earlier = self.last.take().map(|(begun, totals)| (at.duration_since(begun), totals));
        match earlier.filter(|(length, _)| *length <= INTERVAL_MAX) {
            None => {
                self.intervals.clear();
                (self.volumes, self.hosts) = (Vec::new(), Vec::new());
            }
            Some((length, earlier)) => {
                self.number += 1;
                if self.intervals.len() == INTERVALS_MAX {
                    self.intervals.pop_front();
                }
                self.intervals.push_back(Interval {
                    number: self.number,
                    ended_at_ms,
                    millis: u64::try_from(length.as_millis()).unwrap_or(u64::MAX),
                    io: io(&totals.all.since(&earlier.all)),
                });
                self.volumes = busiest(&totals.volumes, &earlier.volumes);
                self.hosts = busiest(&totals.hosts, &earlier.hosts);
            }
        }
        self.last = Some((at, totals));
    }
}

/// Those with requests since the earlier figures, the busiest first.
fn busiest<K: Clone + Ord>(
    now: &BTreeMap<K, Figures>,
    earlier: &BTreeMap<K, Figures>,
) -> Vec<(K, Figures)> {
    let none = Figures::default();
    let since = |(key, figures): (&K, &Figures)| {
        (key.clone(), figures.since(earlier.get(key).unwrap_or(&none)))
    };
    let is_busy = |(_, figures): &(K, Figures)| figures.answered() + figures.in_flight > 0;
    let mut busy: Vec<(K, Figures)> = now.iter().map(since).filter(is_busy).collect();
    busy.sort_by_key(|(_, figures)| std::cmp::Reverse(figures.answered()));
    busy.truncate(SHOWN_MAX);
    busy
}

impl Node {
    /// The intervals after this number, and what the last one consisted of. No core is asked.
    pub(super) fn activity(&self, since: Option<u64>) -> Activity {
        let mut state = self.watched.state.lock().unwrap_or_else(PoisonError::into_inner);
        let at = Instant::now();
        let is_due = |(begun, _): &(Instant, Totals)| at.duration_since(*begun) >= INTERVAL_MIN;
        if state.last.as_ref().is_none_or(is_due) {
            state.end((at, wall_clock_ms()), self.health.ledger().totals());
        }
        let is_new = |interval: &&Interval| since.is_none_or(|since| interval.number > since);
        let served = self.served();
        let volume_io = |(id, figures): &(VolumeId, Figures)| {
            let name = served.recorded.space.volumes().find(|it| it.id == *id)?.name.to_string();
            Some(VolumeIo { volume: name, io: io(figures), hosts: Vec::new() })
        };
        Activity {
            intervals: state.intervals.iter().filter(is_new).cloned().collect(),
            volumes: state.volumes.iter().filter_map(volume_io).collect(),
            hosts: state
                .hosts
                .iter()
                .map(|(host, it)| host_io((host, it)))
                .collect::<Vec<HostIo>>(),
        }
    }
}

/// The time of day, in milliseconds since 1970.
fn wall_clock_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals(reads: u64) -> Totals {
        let mut all = Figures::default();
        all.kinds[0].done = reads;
        let volumes =
            BTreeMap::from([(VolumeId(1), all.clone()), (VolumeId(2), Figures::default())]);
        Totals { hosts: BTreeMap::from([(Asking::Unnamed, all.clone())]), all, volumes }
    }

    #[test]
    fn an_interval_has_the_requests_since_the_one_before_and_only_busy_volumes() {
        let (begin, mut state) = (Instant::now(), State::default());
        state.end((begin, 0), totals(5));
        assert!(state.intervals.is_empty(), "a series begins with the second look");
        state.end((begin + Duration::from_secs(1), 1000), totals(12));
        let interval = &state.intervals[0];
        assert_eq!((interval.number, interval.millis, interval.io.reads), (1, 1000, 7));
        let volumes: Vec<VolumeId> = state.volumes.iter().map(|(id, _)| *id).collect();
        assert_eq!(volumes, [VolumeId(1)]);
        assert_eq!(state.hosts[0].1.answered(), 7);
    }

    #[test]
    fn after_a_pause_a_new_series_begins_whose_numbers_go_on() {
        let (begin, mut state) = (Instant::now(), State::default());
        state.end((begin, 0), totals(0));
        state.end((begin + Duration::from_secs(1), 0), totals(1));
        state.end((begin + Duration::from_secs(60), 0), totals(2));
        assert!(state.intervals.is_empty() && state.volumes.is_empty());
        state.end((begin + Duration::from_secs(61), 0), totals(3));
        assert_eq!(state.intervals.iter().map(|it| it.number).collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn a_series_keeps_its_last_intervals() {
        let (begin, mut state) = (Instant::now(), State::default());
        for second in 0..200 {
            state.end((begin + Duration::from_secs(second), 0), totals(second));
        }
        assert_eq!(state.intervals.len(), INTERVALS_MAX);
        assert_eq!((state.intervals[0].number, state.number), (80, 199));
    }
}
