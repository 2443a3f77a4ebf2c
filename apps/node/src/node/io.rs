//! The counters of volumes and of their hosts, in the form of documents.

use nearflash_api::{HostIo, Io, Latency, VolumeIo};
use nearflash_engine::{Asking, Figures, Kind, Times};

use super::Node;
use nearflash_reactor::VolumeFigures;

impl Node {
    /// The counters of every volume. No core is asked.
    pub(super) fn volume_io(&self) -> Vec<VolumeIo> {
        let mut counted = self.health.ledger().of_volumes();
        let served = self.served();
        // What other nodes do to the parts of volumes here counts in the metrics of slices.
        let volumes = served.recorded.space.volumes().filter(|volume| volume.home.is_public());
        let io = |volume: &nearflash_space::Volume| {
            volume_io(volume.name.to_string(), counted.remove(&volume.id).unwrap_or_default())
        };
        volumes.map(io).collect()
    }
}

fn volume_io(volume: String, VolumeFigures { all, hosts }: VolumeFigures) -> VolumeIo {
    VolumeIo { volume, io: io(&all), hosts: hosts.iter().map(host_io).collect() }
}

pub(super) fn host_io((host, figures): (&Asking, &Figures)) -> HostIo {
    let name = match host {
        Asking::Host(name) => Some(name.to_string()),
        Asking::Unnamed | Asking::Others => None,
    };
    HostIo { host: name, several: *host == Asking::Others, io: io(figures) }
}

pub(super) fn io(figures: &Figures) -> Io {
    let [read, write, other] = Kind::ALL.map(|kind| figures.of(kind));
    Io {
        reads: read.done,
        writes: write.done,
        others: other.done,
        read_bytes: read.bytes,
        written_bytes: write.bytes,
        other_bytes: other.bytes,
        errors: figures.errors(),
        read_errors: read.errors,
        write_errors: write.errors,
        other_errors: other.errors,
        in_flight: figures.in_flight,
        waiting: figures.waiting,
        read_latency: latency(&read.took),
        write_latency: latency(&write.took),
        other_latency: latency(&other.took),
        read_wait: latency(&read.waited),
        write_wait: latency(&write.waited),
        other_wait: latency(&other.waited),
    }
}

/// `None` without times.
fn latency(times: &Times) -> Option<Latency> {
    let count = times.count();
    (count > 0).then(|| Latency {
        count,
        mean_ns: times.mean().0,
        p50_ns: times.quantile(500).0,
        p99_ns: times.quantile(990).0,
        p999_ns: times.quantile(999).0,
        max_ns: times.max().0,
    })
}
