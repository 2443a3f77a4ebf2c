//! The specification of a run: equal jobs of a load, their ranges, and their threads.

use nearflash_units::ByteLen;

use crate::job::{DriveSpec, JobSpec};
use crate::placement::CoreId;
use crate::workload::Rate;

/// One load and how it is run.
#[derive(Clone, Debug)]
pub struct RunSpec {
    /// The load.
    pub jobs: Jobs,
    /// Duration, and how threads wait.
    pub drive: DriveSpec,
    /// The threads.
    pub threads: Threads,
}

/// A load: equal jobs at the same time. A job is a client: it has an engine, and hence a connection
/// or session, of its own.
#[derive(Clone, Debug)]
pub struct Jobs {
    /// Each of the jobs.
    pub job: JobSpec,
    /// The number of jobs.
    pub count: u32,
    /// Their ranges.
    pub layout: Layout,
    /// The rate of all jobs together, which replaces each job's own.
    pub total_rate: Option<Rate>,
}

/// The ranges of a load's jobs.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Layout {
    /// All on the same range.
    #[default]
    Shared,
    /// Each range starts this far behind the one before: fio's `offset_increment`. Ranges that are
    /// not longer than this do not overlap.
    Apart(ByteLen),
}

/// The threads that run the jobs.
#[derive(Clone, Debug, Default)]
pub struct Threads {
    /// Maximum number of threads, which run the jobs in turn; `None` for one per job.
    pub count: Option<u32>,
    /// Assigned to the threads in turn; empty to leave the placement to the system.
    pub cores: Vec<CoreId>,
}

impl Jobs {
    /// Equal jobs on one range, each at its own rate if it has one.
    pub fn new(job: JobSpec, count: u32) -> Self {
        Self { job, count, layout: Layout::Shared, total_rate: None }
    }

    /// One of the jobs, from 0. Each job has an order of its own; the first has that of the seed.
    ///
    /// # Panics
    /// When `index` is not below [`Self::count`].
    pub fn job(&self, index: u32) -> JobSpec {
        assert!(index < self.count, "there is such a job");
        let mut job = self.job.clone();
        job.workload.seed = job.workload.seed.wrapping_add(index.into());
        if let Layout::Apart(increment) = self.layout {
            // Beyond the address space, the workload refuses it.
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
    /// One thread on a core.
    pub fn one(core: CoreId) -> Self {
        Self { count: Some(1), cores: vec![core] }
    }

    /// The number of threads for this many jobs; no thread is idle.
    pub fn count_for(&self, job_count: usize) -> usize {
        let wanted = self.count.and_then(|count| usize::try_from(count).ok());
        wanted.unwrap_or(job_count).clamp(1, job_count.max(1))
    }

    /// A thread's core, if it is pinned.
    pub(super) fn core(&self, thread: usize) -> Option<CoreId> {
        self.cores.get(thread % self.cores.len().max(1)).copied()
    }
}
