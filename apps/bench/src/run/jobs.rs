//! What is run: equal jobs of a load, where they work, and on how many threads.

use nearflash_units::ByteLen;

use crate::job::{DriveSpec, JobSpec};
use crate::placement::CoreId;
use crate::workload::Rate;

/// One load, and how it is run.
#[derive(Clone, Debug)]
pub struct RunSpec {
    /// The load.
    pub jobs: Jobs,
    /// How long, and how threads wait.
    pub drive: DriveSpec,
    /// Which threads.
    pub threads: Threads,
}

/// A load: equal jobs at the same time. A job is a client: it has an engine, and so a connection or
/// session, of its own.
#[derive(Clone, Debug)]
pub struct Jobs {
    /// What each does.
    pub job: JobSpec,
    /// How many.
    pub count: u32,
    /// Where they work.
    pub layout: Layout,
    /// The rate that all keep together, instead of each the job's own.
    pub total_rate: Option<Rate>,
}

/// Where the jobs of a load work.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Layout {
    /// All on the same range.
    #[default]
    Shared,
    /// Each so far behind the one before it: fio's `offset_increment`. Ranges that are no longer than
    /// that are the jobs' own.
    Apart(ByteLen),
}

/// Who drives the jobs.
#[derive(Clone, Debug, Default)]
pub struct Threads {
    /// How many at most, the jobs dealt out to them in turn; a thread for each job unless given.
    pub count: Option<u32>,
    /// Given to the threads in turn; empty to leave them to the system.
    pub cores: Vec<CoreId>,
}

impl Jobs {
    /// Equal jobs on one range, each at its own rate if it has one.
    pub fn new(job: JobSpec, count: u32) -> Self {
        Self { job, count, layout: Layout::Shared, total_rate: None }
    }

    /// One of them, counted from 0. Every job has an order of its own; the first one that of the seed.
    ///
    /// # Panics
    /// When there are not so many.
    pub fn job(&self, index: u32) -> JobSpec {
        assert!(index < self.count, "there is such a job");
        let mut job = self.job.clone();
        job.workload.seed = job.workload.seed.wrapping_add(index.into());
        if let Layout::Apart(increment) = self.layout {
            // Past the address space, the workload refuses it.
            let offset = increment.0.saturating_mul(index.into());
            job.workload.offset.0 = job.workload.offset.0.saturating_add(offset);
        }
        if let Some(rate) = self.total_rate {
            job.rate = Some(rate.share(index, self.count));
        }
        job
    }
}

impl Threads {
    /// One thread, on a core.
    pub fn one(core: CoreId) -> Self {
        Self { count: Some(1), cores: vec![core] }
    }

    /// How many there are for so many jobs: none is idle.
    pub fn count_for(&self, job_count: usize) -> usize {
        let wanted = self.count.and_then(|count| usize::try_from(count).ok());
        wanted.unwrap_or(job_count).clamp(1, job_count.max(1))
    }

    /// A thread's core, if it has one.
    pub(super) fn core(&self, thread: usize) -> Option<CoreId> {
        self.cores.get(thread % self.cores.len().max(1)).copied()
    }
}
