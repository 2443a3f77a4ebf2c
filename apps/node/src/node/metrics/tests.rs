//! The text is strictly what OpenMetrics 1.0 has, whatever hosts are called and whatever they did.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nearflash_api::{JobInfo, JobState};
use nearflash_device::{DeviceId, DeviceProperties, DeviceResult};
use nearflash_engine::{Asker, CoreId, DEVICE_DEPTH, Engine, EngineConfig, Owner, Pool, Times};
use nearflash_request::{BlockRange, Nexus, Operation, Outcome, Payload, Request, Tag, VolumeId};
use nearflash_space::{Epoch, Extent, Map, VolumeTable};
use nearflash_units::{BlockSize, Blocks, ByteLen, ByteOffset, Lba, Nanos};
use proptest::prelude::*;

use super::histogram::{Histogram, LATENCY, WAIT};
use super::jobs::JobMetrics;
use super::text;
use super::volumes::VolumeMetrics;
use nearflash_reactor::Ledger;

mod exposition;

use exposition::{Series, parse};

const MIB: u64 = 1 << 20;

/// A core whose hosts read the first block of volumes of 1 MiB.
struct Core {
    engine: Engine,
    pool: Pool,
    ledger: Ledger,
}

impl Core {
    fn new(volumes: u32) -> Self {
        let device = DeviceProperties {
            len: ByteLen(u64::from(volumes) * MIB),
            block_size: BlockSize::B4096,
            volatile_cache: false,
            reads_as_zeroes: false,
            deallocates: true,
        };
        let map = |number: u32| {
            let start = ByteOffset(u64::from(number) * MIB);
            let extent = Extent { device: DeviceId(0), start, len: ByteLen(MIB) };
            Map::new(Epoch(1), BlockSize::B4096, Blocks(MIB / 4096), &[extent]).unwrap()
        };
        let table = VolumeTable::new((0..volumes).map(|number| (VolumeId(number), map(number))));
        let config = EngineConfig {
            core: CoreId::FIRST,
            core_count: 1,
            devices: Arc::from([device]),
            health: Arc::new([Arc::default()]),
            volumes: Arc::new(table),
            device_depth: DEVICE_DEPTH,
        };
        let mut pool = Pool::new(ByteLen(4 * MIB));
        Self { engine: Engine::new(config, &mut pool), pool, ledger: Ledger::default() }
    }

    /// A host does an operation on a volume, which the device answers at a time, in microseconds.
    fn run(&mut self, host: &str, volume: u32, operation: Operation, until: u64) {
        let account = self.engine.accounts().open(Some(host));
        let asker = Asker { owner: Owner(0), account, nexus: Nexus::NONE, begin_by: Nanos::NEVER };
        let range = BlockRange { start: Lba(0), count: Blocks(1) };
        let volume = VolumeId(volume);
        let request = Request { tag: Tag(0), volume, range, operation, sent_in: None };
        self.engine.set_now(Nanos(0));
        self.engine.submit(asker, request, &mut self.pool);
        self.engine.resume(&mut self.pool);
        self.engine.set_now(Nanos::from_micros(until));
        while let Some((request, _)) = self.engine.poll_device() {
            self.engine.handle_device(request.id, DeviceResult::Done, &mut self.pool);
        }
        self.engine.resume(&mut self.pool);
        while let Some(opened) = self.engine.poll_opened() {
            self.ledger.open(CoreId::FIRST, opened);
        }
        while let Some(answer) = self.engine.poll_answer() {
            assert_eq!(answer.completion.outcome, Outcome::Success);
            if let Payload::Buffer(buffer) = answer.completion.payload {
                self.pool.give_back(buffer);
            }
        }
        self.engine.accounts().clear(account);
        self.engine.accounts().close(account);
    }

    fn read(&mut self, host: &str, volume: u32) {
        self.run(host, volume, Operation::Read, 100);
    }

    fn metrics(&self, volumes: u32) -> VolumeMetrics {
        let volume = |number: u32| (VolumeId(number), format!("v{number}"), ByteLen(MIB));
        VolumeMetrics::of((0..volumes).map(volume).collect(), &self.ledger)
    }

    fn text(&self, volumes: u32) -> String {
        text([Box::new(self.metrics(volumes))])
    }
}

/// The values of the samples of this name, by these labels.
fn values(series: &[Series], name: &str, labels: &[&str]) -> BTreeMap<Vec<String>, f64> {
    let of = |it: &Series| labels.iter().map(|label| it.labels[*label].clone()).collect();
    series.iter().filter(|it| it.name == name).map(|it| (of(it), it.value)).collect()
}

fn one(series: &[Series], name: &str) -> f64 {
    let found: Vec<f64> = series.iter().filter(|it| it.name == name).map(|it| it.value).collect();
    assert_eq!(found.len(), 1, "{name}");
    found[0]
}

#[test]
fn each_host_has_its_requests_bytes_and_times_and_the_volume_their_distribution() {
    let mut core = Core::new(2);
    for (host, times) in [("a", 3), ("b", 2)] {
        (0..times).for_each(|_| core.read(host, 1));
    }
    core.run("a", 1, Operation::Flush, 7000);
    let series = parse(&core.text(2));
    let key = |labels: &[&str]| labels.iter().map(ToString::to_string).collect::<Vec<_>>();
    let by_host = ["volume", "host", "op"];
    let operations = values(&series, "nearflash_volume_operations_total", &by_host);
    let expected = [("a", "other", 1.0), ("a", "read", 3.0), ("b", "read", 2.0)]
        .map(|(host, op, count)| (key(&["v1", host, op]), count));
    assert_eq!(operations, expected.into());
    let bytes = values(&series, "nearflash_volume_bytes_total", &by_host);
    assert_eq!(bytes[&key(&["v1", "a", "read"])], 12288.0);
    let busy = values(&series, "nearflash_volume_busy_seconds_total", &by_host);
    assert_eq!(busy[&key(&["v1", "b", "read"])], 0.0002);
    let counts = values(&series, "nearflash_volume_latency_seconds_count", &["volume", "op"]);
    assert_eq!(counts, [(key(&["v1", "other"]), 1.0), (key(&["v1", "read"]), 5.0)].into());
    let buckets = values(&series, "nearflash_volume_latency_seconds_bucket", &["op", "le"]);
    assert_eq!(buckets[&key(&["read", "0.000098303"])], 0.0);
    assert_eq!(buckets[&key(&["read", "0.000131071"])], 5.0);
    let sizes = values(&series, "nearflash_volume_size_bytes", &["volume"]);
    assert_eq!(sizes.len(), 2, "a volume without requests has a size, too");
}

#[test]
fn the_name_of_a_host_cannot_end_its_label_or_its_line() {
    let hostile = "nqn\\\"} 1\n# EOF\n\u{7f}\r\u{2028}x";
    let mut core = Core::new(1);
    core.read(hostile, 0);
    let text = core.text(1);
    let series = parse(&text);
    let hosts = values(&series, "nearflash_volume_operations_total", &["host"]);
    let shown = "nqn\\\"} 1\n# EOF\n\u{fffd}\u{fffd}\u{fffd}x".to_owned();
    assert_eq!(hosts, [(vec![shown], 1.0)].into());
}

#[test]
fn hosts_that_cannot_be_told_apart_are_one_series() {
    let mut core = Core::new(1);
    for host in ["a\u{1}", "a\u{2}", "(others)"] {
        core.read(host, 0);
    }
    let series = parse(&core.text(1));
    let hosts = values(&series, "nearflash_volume_operations_total", &["host"]);
    let expected = [("(others)", 1.0), ("a\u{fffd}", 2.0)];
    assert_eq!(hosts, expected.map(|(host, count)| (vec![host.to_owned()], count)).into());
}

#[test]
fn jobs_are_counted_by_state_and_those_under_way_show_their_progress() {
    let job = |id, state| JobInfo {
        id,
        kind: "volume-create".to_owned(),
        volume: "data".to_owned(),
        state,
        waits_for: Vec::new(),
        done_bytes: 5,
        total_bytes: 9,
        started_at: 0,
        ended_at: None,
        error: None,
    };
    let jobs = [job(1, JobState::Done), job(2, JobState::Failed), job(3, JobState::Running)];
    let series = parse(&text([Box::new(JobMetrics::of(&jobs))]));
    let states = values(&series, "nearflash_jobs", &["state"]);
    let expected = [
        ("waiting", 0.0),
        ("running", 1.0),
        ("undoing", 0.0),
        ("done", 1.0),
        ("failed", 1.0),
        ("cancelled", 0.0),
    ];
    assert_eq!(states, expected.map(|(state, count)| (vec![state.to_owned()], count)).into());
    assert_eq!(one(&series, "nearflash_job_done_bytes"), 5.0);
    assert_eq!(one(&series, "nearflash_job_size_bytes"), 9.0);
}

/// Times of all magnitudes, and those at and around the edges of buckets.
fn any_time() -> impl Strategy<Value = u64> {
    let at_edge = (prop::sample::select(LATENCY), 0..3u64).prop_map(|(edge, off)| edge - 1 + off);
    prop_oneof![(any::<u64>(), 10..64u32).prop_map(|(time, shift)| time >> shift), at_edge]
}

proptest! {
    #[test]
    fn a_bucket_counts_exactly_the_times_up_to_its_bound(
        times in prop::collection::vec(any_time(), 1..60),
        is_wait in any::<bool>(),
    ) {
        let edges = if is_wait { WAIT } else { LATENCY };
        let counted: Times = times.iter().copied().map(Nanos).collect();
        let histogram = Histogram::of(&counted, edges).unwrap();
        prop_assert_eq!(histogram.count, u64::try_from(times.len()).unwrap());
        let mut sum = 0;
        for ((_, count), edge) in histogram.buckets.iter().zip(edges) {
            sum += count;
            let exact = times.iter().filter(|time| *time < edge).count();
            prop_assert_eq!(sum, u64::try_from(exact).unwrap(), "below {}", edge);
        }
    }

    #[test]
    fn whatever_hosts_are_called_the_text_can_be_parsed(
        hosts in prop::collection::btree_set(any::<String>(), 1..6),
    ) {
        let mut core = Core::new(1);
        hosts.iter().for_each(|host| core.read(host, 0));
        let series = parse(&core.text(1));
        let counts = values(&series, "nearflash_volume_operations_total", &["host"]);
        prop_assert_eq!(counts.values().sum::<f64>(), hosts.len() as f64);
    }
}

/// Prints what a scrape of many volumes and hosts takes:
/// `cargo test --release -p nearflash-node --lib -- --ignored --nocapture thousand`.
#[test]
#[ignore = "prints the time of a large scrape for docs/performance-protocols.md; other tests of this file check the text"]
fn a_thousand_volumes_of_a_hundred_hosts_are_written() {
    const VOLUMES: u32 = 1000;
    let hosts: Vec<String> = (0..100)
        .map(|host| format!("nqn.2014-08.org.nvmexpress:uuid:a4757ffc-d9b5-4560-a4aa-{host:012}"))
        .collect();
    let mut core = Core::new(VOLUMES);
    for volume in 0..VOLUMES {
        for host in &hosts {
            core.read(host, volume);
            core.run(host, volume, Operation::Flush, 200);
        }
    }
    for _ in 0..5 {
        let started = std::time::Instant::now();
        let text = core.text(VOLUMES);
        let took = started.elapsed();
        let (lines, hosts) = (text.lines().count(), core.ledger.meters_of_volumes());
        let pairs: BTreeSet<_> =
            hosts.iter().flat_map(|(id, of)| of.iter().map(move |it| (*id, &it.host))).collect();
        println!("{} pairs, {lines} lines, {} bytes: {took:?}", pairs.len(), text.len());
    }
}
