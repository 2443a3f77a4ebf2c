//! Runs the loads of a point, all at once.

use std::sync::atomic::{AtomicUsize, Ordering};

use nearflash_bench::BenchError;
use nearflash_bench::engine::{AnyEngine, Opener};
use nearflash_bench::job::{DriveSpec, JobSpec, Spin};
use nearflash_bench::placement::CoreId;
use nearflash_bench::recorder::Record;
use nearflash_bench::run::{self, Jobs, Threads};
use nearflash_bench::workload::{Rate, WorkloadSpec};
use nearflash_units::{ByteLen, ByteOffset, Nanos};

use super::ways::Way;
use crate::plan::{Layout, Load};

/// Alignment of the clients' ranges.
const RANGE_ALIGN: u64 = 4096;
/// A target that completes nothing for so long is considered dead. Even the slowest disk is faster.
const STALL_MAX: Nanos = Nanos::from_secs(30);
/// Distance between the first seeds of two loads. Clients of one load have consecutive seeds.
const SEEDS_PER_LOAD: u64 = 1 << 16;

/// One load, and the ways that its clients use in turn.
pub(super) struct Lane<'a> {
    pub(super) load: &'a Load,
    pub(super) ways: Vec<Way>,
    pub(super) offset: ByteOffset,
    pub(super) len: ByteLen,
}

/// Timing and placement of a run.
#[derive(Clone, Debug)]
pub(super) struct Manner {
    pub(super) ramp: Nanos,
    /// `None` for one pass over the range.
    pub(super) counted: Option<Nanos>,
    pub(super) cores: Vec<CoreId>,
    pub(super) spin: Spin,
    /// Whether written data is flushed to stable media at the end.
    pub(super) end_fsync: bool,
}

/// Runs the loads; returns a record per load. The clients are distributed over one thread per core.
pub(super) fn drive(lanes: &[Lane<'_>], manner: &Manner) -> Result<Vec<Record>, BenchError> {
    let deals: Vec<Deal<'_>> = lanes.iter().map(Deal::new).collect();
    let loads: Vec<(&Deal<'_>, Jobs)> = deals
        .iter()
        .enumerate()
        .map(|(index, deal)| (deal, jobs(deal.lane, index, manner)))
        .collect();
    let drive = DriveSpec {
        ramp: manner.ramp,
        runtime: manner.counted,
        spin: manner.spin,
        stall_max: Some(STALL_MAX),
        batch: None,
        sides: false,
    };
    let count = u32::try_from(manner.cores.len().max(1)).expect("cores are numbered by 16 bits");
    let threads = Threads { count: Some(count), cores: manner.cores.clone() };
    let results = run::run_together(&loads, &drive, &threads, &mut |_, _| {})?;
    Ok(results.into_iter().map(|(record, _)| record).collect())
}

fn jobs(lane: &Lane<'_>, index: usize, manner: &Manner) -> Jobs {
    let load = lane.load;
    let share = range_per_client(lane.len, load.clients);
    let (range_len, layout) = match load.layout {
        Layout::Shared => (lane.len, run::Layout::Shared),
        Layout::RangePerClient => (share, run::Layout::Apart(share)),
    };
    let job = JobSpec {
        workload: WorkloadSpec {
            pattern: load.pattern,
            read_percent: load.read_percent,
            op_len: load.op_len,
            offset: lane.offset,
            range_len,
            repeats: false,
            endless: manner.counted.is_some(),
            seed: 1 + ByteLen::from_usize(index).0 * SEEDS_PER_LOAD,
        },
        depth: usize::try_from(load.depth).expect("usize is at least 32 bits wide"),
        rate: None,
        verify_seed: None,
        end_fsync: manner.end_fsync,
    };
    let total_rate = load.rate_iops.and_then(Rate::new);
    Jobs { job, count: load.clients, layout, total_rate }
}

/// An equal share of a range.
pub(super) fn range_per_client(len: ByteLen, clients: u32) -> ByteLen {
    ByteLen(len.0 / u64::from(clients.max(1)) / RANGE_ALIGN * RANGE_ALIGN)
}

/// Assigns ways to clients in turn.
struct Deal<'a> {
    lane: &'a Lane<'a>,
    next: AtomicUsize,
}

impl<'a> Deal<'a> {
    fn new(lane: &'a Lane<'a>) -> Self {
        Self { lane, next: AtomicUsize::new(0) }
    }
}

impl Opener for Deal<'_> {
    type Engine = AnyEngine;

    fn open(&self, depth: usize, op_len: ByteLen) -> Result<AnyEngine, BenchError> {
        let index = self.next.fetch_add(1, Ordering::Relaxed);
        let ways = &self.lane.ways;
        ways[index % ways.len()].open(depth, op_len)
    }

    fn tend(&self) -> Result<(), BenchError> {
        self.lane.ways.iter().try_for_each(Way::tend)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_clients_are_aligned_and_fit() {
        for clients in [1, 3, 64, 96] {
            let share = range_per_client(ByteLen(1 << 30), clients);
            assert!(share.0.is_multiple_of(RANGE_ALIGN) && share.0 > 0);
            assert!(share.0 * u64::from(clients) <= 1 << 30);
        }
    }
}
