//! The state that `nearflash top` shows.

use std::cmp::Reverse;
use std::collections::VecDeque;

use nearflash_api::{Activity, HostIo, Interval, Io, Status, VolumeIo};

/// The number of intervals that are shown: two minutes.
pub(super) const INTERVALS_MAX: usize = 120;

/// The order of rows.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum Order {
    #[default]
    Requests,
    Bytes,
    Latency,
    Name,
}

impl Order {
    pub(super) fn next(self) -> Self {
        match self {
            Self::Requests => Self::Bytes,
            Self::Bytes => Self::Latency,
            Self::Latency => Self::Name,
            Self::Name => Self::Requests,
        }
    }

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Bytes => "bytes",
            Self::Latency => "latency",
            Self::Name => "name",
        }
    }

    /// Rows with a greater key come first.
    fn key(self, io: &Io) -> u64 {
        let p99 = |latency: Option<nearflash_api::Latency>| latency.map_or(0, |it| it.p99_ns);
        match self {
            Self::Requests => io.reads + io.writes + io.others + io.errors,
            Self::Bytes => io.read_bytes + io.written_bytes + io.other_bytes,
            Self::Latency => p99(io.read_latency).max(p99(io.write_latency)),
            Self::Name => 0,
        }
    }
}

/// The last state of the node, and its last intervals.
#[derive(Debug, Default)]
pub(super) struct Series {
    pub(super) status: Option<Status>,
    intervals: VecDeque<Interval>,
    volumes: Vec<VolumeIo>,
    hosts: Vec<HostIo>,
    pub(super) order: Order,
    pub(super) is_paused: bool,
    /// The reason why the node could not be asked the last time.
    pub(super) failure: Option<String>,
}

impl Series {
    pub(super) fn take(&mut self, status: Status, activity: Activity) {
        let is_another = self.status.as_ref().is_some_and(|last| last.pid != status.pid);
        if is_another {
            // The numbers begin again.
            self.intervals.clear();
        }
        self.status = Some(status);
        self.intervals.extend(activity.intervals);
        let surplus = self.intervals.len().saturating_sub(INTERVALS_MAX);
        self.intervals.drain(..surplus);
        (self.volumes, self.hosts) = (activity.volumes, activity.hosts);
    }

    pub(super) fn last(&self) -> Option<&Interval> {
        self.intervals.back()
    }

    pub(super) fn last_number(&self) -> Option<u64> {
        self.last().map(|interval| interval.number)
    }

    /// Points of a chart: the age of each interval in seconds, as a negative number, and its value.
    pub(super) fn points(&self, value: impl Fn(&Interval) -> Option<f64>) -> Vec<(f64, f64)> {
        let newest = self.last().map_or(0, |last| last.ended_at_ms);
        let age = |interval: &Interval| -seconds(newest.saturating_sub(interval.ended_at_ms));
        let point = |interval: &Interval| Some((age(interval), value(interval)?));
        self.intervals.iter().filter_map(point).collect()
    }

    /// Rows of volumes: name and counters.
    pub(super) fn volumes(&self) -> Vec<(&str, &Io)> {
        self.ordered(self.volumes.iter().map(|it| (it.volume.as_str(), &it.io)).collect())
    }

    /// Rows of hosts.
    pub(super) fn hosts(&self) -> Vec<(&str, &Io)> {
        let name = |host: &'_ HostIo| host.several;
        let named = self.hosts.iter().map(|host| match &host.host {
            Some(found) => (found.as_str(), &host.io),
            None if name(host) => ("several others", &host.io),
            None => ("anonymous", &host.io),
        });
        self.ordered(named.collect())
    }

    fn ordered<'a>(&self, mut rows: Vec<(&'a str, &'a Io)>) -> Vec<(&'a str, &'a Io)> {
        rows.sort_by_key(|(name, io)| (Reverse(self.order.key(io)), *name));
        rows
    }
}

#[allow(clippy::cast_precision_loss)] // a chart has no more than three digits
pub(super) fn seconds(millis: u64) -> f64 {
    millis as f64 / 1000.0
}

/// A count of an interval, per second.
#[allow(clippy::cast_precision_loss)] // likewise
pub(super) fn per_second(count: u64, millis: u64) -> f64 {
    count as f64 * 1000.0 / millis.max(1) as f64
}
