//! The metrics of cores: figures that each core shows at the end of a turn, and its share of the
//! counters of volumes.

use std::fmt;

use nearflash_engine::{CoreId, Figures, Kind, KindFigures};
use nearflash_shard::{Protocol, Reading};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::family::{Family, Labels};
use super::histogram::seconds;
use super::label::Label;
use super::volumes::{Distributions, OPS};
use crate::node::Node;

const OPERATIONS: Family = Family::plain(
    "nearflash_core_operations",
    "Requests that succeeded on the core, those of removed volumes included",
);
const BYTES: Family =
    Family::bytes("nearflash_core", "Bytes that these requests read, wrote or compared");
const ERRORS: Family =
    Family::plain("nearflash_core_errors", "Requests that failed or were cancelled on the core");
const IN_FLIGHT: Family =
    Family::plain("nearflash_core_in_flight", "Requests of the core that are in flight");
const WAITING: Family = Family::plain(
    "nearflash_core_waiting",
    "Requests of these that wait for their turn, a buffer or a fence",
);
const LATENCIES: Family =
    Family::seconds("nearflash_core_latency", "Times from arrival to answer on the core");
const STANDSTILLS: Family = Family::plain(
    "nearflash_core_standstills",
    "Times that the core took no turn for more than a second",
);
const GAVE_WAY: Family = Family::plain(
    "nearflash_core_gave_way",
    "Times that the core slept instead of spinning, for a client on its own processor",
);
const TURNS: Family = Family::plain("nearflash_core_turns", "Turns of the core");
const BUSY: Family =
    Family::seconds("nearflash_core_busy", "Time of the turns in which the core moved something");
const POOL_FREE: Family =
    Family::bytes("nearflash_core_pool_free", "Free bytes of the core's buffer pool");
const CONNECTIONS: Family =
    Family::plain("nearflash_core_connections", "Connections of the protocol on the core");
const ANSWERED: Family = Family::plain(
    "nearflash_core_answered_requests",
    "Requests of connections of the protocol that the core has answered, failed ones included",
);
const COPIES: Family = Family::plain(
    "nearflash_core_mirror_copies",
    "Mirrors that the core copies to a replica that returns",
);
const LEFT_TO_COPY: Family = Family::bytes(
    "nearflash_core_mirror_copies_left",
    "Bytes that these copies have not gone through yet",
);
const SILENT: Family = Family::plain(
    "nearflash_silent_cores",
    "Cores that have taken no messages for long while a change waits for them",
);

/// The values of the label `protocol`, by [`Protocol`].
static PROTOCOLS: [Label; Protocol::ALL.len()] =
    [Label::plain("nvme-tcp"), Label::plain("iscsi"), Label::plain("direct")];

/// A snapshot of all cores.
#[derive(Debug)]
pub(super) struct CoreMetrics {
    cores: Vec<OneCore>,
    silent: u64,
}

#[derive(Debug)]
struct OneCore {
    /// Its processor.
    label: Label,
    reading: Reading,
    figures: Figures,
    times: [Distributions; 3],
}

impl Node {
    pub(super) fn core_metrics(&self) -> CoreMetrics {
        let mut figures = self.health.ledger().of_cores();
        let readings = (0..).map(CoreId).zip(self.cores.readings());
        let core = |(core, (processor, reading)): (CoreId, (usize, Reading))| {
            let figures = figures.remove(&core).unwrap_or_default();
            let label = Label::of(&processor.to_string());
            OneCore { label, reading, times: Distributions::of(&figures), figures }
        };
        let cores = readings.map(core).collect();
        CoreMetrics { cores, silent: u64::from(self.cores.silent().is_some()) }
    }
}

impl CoreMetrics {
    fn each<V>(&self, value: impl Fn(&OneCore) -> V) -> impl Iterator<Item = (Labels<'_, 1>, V)> {
        self.cores.iter().map(move |core| ([("core", &core.label)], value(core)))
    }

    fn kinds(
        &self,
        value: impl Fn(&KindFigures) -> u64 + Copy,
    ) -> impl Iterator<Item = (Labels<'_, 2>, u64)> {
        self.cores.iter().flat_map(move |core| {
            let of = move |(op, kind)| {
                ([("core", &core.label), ("op", op)], value(core.figures.of(kind)))
            };
            OPS.iter().zip(Kind::ALL).map(of)
        })
    }

    fn protocols(
        &self,
        values: impl Fn(&Reading) -> [u64; 3] + Copy,
    ) -> impl Iterator<Item = (Labels<'_, 2>, u64)> {
        self.cores.iter().flat_map(move |core| {
            let labels = move |protocol| [("core", &core.label), ("protocol", protocol)];
            PROTOCOLS.iter().map(labels).zip(values(&core.reading))
        })
    }
}

impl Collector for CoreMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let encoder = &mut encoder;
        OPERATIONS.counters(encoder, self.kinds(|kind| kind.done))?;
        BYTES.counters(encoder, self.kinds(|kind| kind.bytes))?;
        ERRORS.counters(encoder, self.kinds(|kind| kind.errors))?;
        IN_FLIGHT.gauges(encoder, self.each(|core| core.figures.in_flight))?;
        WAITING.gauges(encoder, self.each(|core| core.figures.waiting))?;
        let latencies = self.cores.iter().flat_map(|core| {
            let times = OPS.iter().zip(&core.times);
            times.filter_map(|(op, times)| {
                Some(([("core", &core.label), ("op", op)], times.latency.as_ref()?))
            })
        });
        LATENCIES.histograms(encoder, latencies)?;
        TURNS.counters(encoder, self.each(|core| core.reading.turns))?;
        STANDSTILLS.counters(encoder, self.each(|core| core.reading.standstills))?;
        GAVE_WAY.counters(encoder, self.each(|core| core.reading.gave_way))?;
        BUSY.counters(encoder, self.each(|core| seconds(core.reading.busy)))?;
        POOL_FREE.gauges(encoder, self.each(|core| core.reading.pool_free.0))?;
        CONNECTIONS.gauges(encoder, self.protocols(|reading| reading.connections))?;
        ANSWERED.counters(encoder, self.protocols(|reading| reading.answered))?;
        COPIES.gauges(encoder, self.each(|core| core.reading.copies))?;
        LEFT_TO_COPY.gauges(encoder, self.each(|core| core.reading.left_to_copy.0))?;
        SILENT.gauge(encoder, self.silent)
    }
}
