//! The metrics of volumes, and of the hosts of each.

use std::collections::BTreeMap;
use std::fmt;

use nearflash_engine::{Asking, Figures, Kind, KindTotals, Totals};
use nearflash_reactor::{Ledger, Metered};
use nearflash_request::VolumeId;
use nearflash_units::ByteLen;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::family::{Family, Labels};
use super::histogram::{Histogram, LATENCY, WAIT, seconds};
use super::label::Label;
use crate::node::Node;

const SIZE: Family = Family::bytes("nearflash_volume_size", "Size of the volume");
const OPERATIONS: Family = Family::plain(
    "nearflash_volume_operations",
    "Requests of the host that succeeded: reads, writes and others",
);
const BYTES: Family = Family::bytes(
    "nearflash_volume",
    "Bytes that these requests read, wrote, and zeroed, compared or verified",
);
const ERRORS: Family =
    Family::plain("nearflash_volume_errors", "Requests of the host that failed or were cancelled");
const BUSY: Family = Family::seconds(
    "nearflash_volume_busy",
    "Sum of the times from arrival to answer. Its rate is the mean number of requests in flight",
);
const WAITED: Family = Family::seconds(
    "nearflash_volume_waited",
    "Sum of the times that requests waited for their turn, a buffer or a fence",
);
const IN_FLIGHT: Family =
    Family::plain("nearflash_volume_in_flight", "Requests of the host that are in flight");
const WAITING: Family = Family::plain(
    "nearflash_volume_waiting",
    "Requests of these that wait for their turn, a buffer or a fence",
);
const LATENCIES: Family = Family::seconds(
    "nearflash_volume_latency",
    "Times from arrival to answer, over all hosts, failed requests included",
);
const WAITS: Family = Family::seconds(
    "nearflash_volume_wait",
    "Times from arrival to start of the requests that had to wait, over all hosts",
);

/// The values of the label `op`, by [`Kind`].
pub(super) static OPS: [Label; 3] =
    [Label::plain("read"), Label::plain("write"), Label::plain("other")];

/// The hosts that have no name, and those that the node does not count separately. No NQN, name of
/// an initiator or credential has brackets.
const ANONYMOUS: Label = Label::plain("(anonymous)");
const OTHERS: Label = Label::plain("(others)");

/// A snapshot of all volumes.
#[derive(Debug)]
pub(super) struct VolumeMetrics {
    volumes: Vec<OneVolume>,
}

#[derive(Debug)]
struct OneVolume {
    label: Label,
    size: ByteLen,
    /// Two hosts of one name cannot be told apart, and count as one.
    hosts: BTreeMap<Label, Totals>,
    times: [Distributions; 3],
}

/// The distributions of the times of one kind of requests, if there were any.
#[derive(Debug)]
pub(super) struct Distributions {
    pub(super) latency: Option<Histogram>,
    pub(super) wait: Option<Histogram>,
}

impl Distributions {
    pub(super) fn of(figures: &Figures) -> [Self; 3] {
        Kind::ALL.map(|kind| {
            let figures = figures.of(kind);
            Self {
                latency: Histogram::of(&figures.took, LATENCY),
                wait: Histogram::of(&figures.waited, WAIT),
            }
        })
    }
}

impl Node {
    pub(super) fn volume_metrics(&self) -> VolumeMetrics {
        let served = self.served();
        let volumes = served.recorded.space.volumes().filter(|volume| volume.home.is_public());
        let of =
            |volume: &nearflash_space::Volume| (volume.id, volume.name.to_string(), volume.len());
        let volumes: Vec<_> = volumes.map(of).collect();
        drop(served);
        VolumeMetrics::of(volumes, self.health.ledger())
    }
}

impl VolumeMetrics {
    pub(super) fn of(volumes: Vec<(VolumeId, String, ByteLen)>, ledger: &Ledger) -> Self {
        let mut meters = ledger.meters_of_volumes();
        let volumes = volumes.into_iter().map(|(id, name, size)| {
            let meters = meters.remove(&id).unwrap_or_default();
            OneVolume::of((&name, size), &meters)
        });
        Self { volumes: volumes.collect() }
    }

    /// The samples of each host of each volume.
    fn hosts(&self) -> impl Iterator<Item = (&OneVolume, &Label, &Totals)> {
        self.volumes.iter().flat_map(|volume| {
            volume.hosts.iter().map(move |(host, totals)| (volume, host, totals))
        })
    }

    /// The same for each kind of which there were requests.
    fn kinds<V>(
        &self,
        value: impl Fn(&KindTotals) -> V + Copy,
    ) -> impl Iterator<Item = (Labels<'_, 3>, V)> {
        self.hosts().flat_map(move |(volume, host, totals)| {
            let kinds = OPS.iter().zip(&totals.kinds).filter(|(_, kind)| is_used(kind));
            kinds.map(move |(op, kind)| {
                ([("volume", &volume.label), ("host", host), ("op", op)], value(kind))
            })
        })
    }

    fn times(
        &self,
        of: impl Fn(&Distributions) -> Option<&Histogram> + Copy,
    ) -> impl Iterator<Item = (Labels<'_, 2>, &Histogram)> {
        self.volumes.iter().flat_map(move |volume| {
            let times = OPS.iter().zip(&volume.times);
            times.filter_map(move |(op, times)| {
                Some(([("volume", &volume.label), ("op", op)], of(times)?))
            })
        })
    }
}

/// A kind without a request has no samples, which would be most of the text.
fn is_used(kind: &KindTotals) -> bool {
    *kind != KindTotals::default()
}

impl OneVolume {
    fn of((name, size): (&str, ByteLen), meters: &[Metered]) -> Self {
        let mut all = Figures::default();
        meters.iter().for_each(|Metered { meter, .. }| all.read(meter));
        let hosts = hosts_of(meters);
        Self { label: Label::of(name), size, hosts, times: Distributions::of(&all) }
    }
}

/// The totals of each host of these meters, which are in the order of their hosts.
pub(super) fn hosts_of(meters: &[Metered]) -> BTreeMap<Label, Totals> {
    let mut hosts = BTreeMap::<Label, Totals>::new();
    // The meters of a host follow each other, so its name is cleaned once.
    for of_host in meters.chunk_by(|one, other| one.host == other.host) {
        let label = of_host.first().map_or(OTHERS, |entry| label_of(&entry.host));
        let totals = hosts.entry(label).or_default();
        of_host.iter().for_each(|Metered { meter, .. }| totals.read(meter));
    }
    hosts
}

fn label_of(host: &Asking) -> Label {
    match host {
        Asking::Host(name) => Label::of(name),
        Asking::Unnamed => ANONYMOUS,
        Asking::Others => OTHERS,
    }
}

impl Collector for VolumeMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let encoder = &mut encoder;
        let sizes = self.volumes.iter().map(|it| ([("volume", &it.label)], it.size.0));
        SIZE.gauges(encoder, sizes)?;
        OPERATIONS.counters(encoder, self.kinds(|kind| kind.done))?;
        BYTES.counters(encoder, self.kinds(|kind| kind.bytes))?;
        ERRORS.counters(encoder, self.kinds(|kind| kind.errors))?;
        BUSY.counters(encoder, self.kinds(|kind| seconds(kind.took)))?;
        WAITED.counters(encoder, self.kinds(|kind| seconds(kind.waited)))?;
        let gauges = |value: fn(&Totals) -> u64| {
            self.hosts().map(move |(volume, host, totals)| {
                ([("volume", &volume.label), ("host", host)], value(totals))
            })
        };
        IN_FLIGHT.gauges(encoder, gauges(|totals| totals.in_flight))?;
        WAITING.gauges(encoder, gauges(|totals| totals.waiting))?;
        LATENCIES.histograms(encoder, self.times(|times| times.latency.as_ref()))?;
        WAITS.histograms(encoder, self.times(|times| times.wait.as_ref()))
    }
}
