//! The metrics of jobs.

use std::fmt;

use nearflash_api::{JobInfo, JobState};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::family::{Family, Labels};
use super::label::Label;
use crate::node::Node;

const JOBS: Family = Family::plain(
    "nearflash_jobs",
    "Jobs by state: those that have not ended, and the last ones that have. One node of a cluster counts a job of the cluster",
);
const DONE: Family =
    Family::bytes("nearflash_job_done", "Bytes that a job that has not ended has processed");
const TOTAL: Family =
    Family::bytes("nearflash_job_size", "Bytes that a job that has not ended has to process");

/// A snapshot of all jobs.
#[derive(Debug)]
pub(super) struct JobMetrics {
    by_state: [(Label, u64); JobState::ALL.len()],
    under_way: Vec<OneJob>,
}

#[derive(Debug)]
struct OneJob {
    id: Label,
    kind: Label,
    volume: Label,
    done: u64,
    total: u64,
}

impl Node {
    pub(super) fn job_metrics(&self) -> JobMetrics {
        JobMetrics::of(&self.carried_jobs())
    }
}

impl JobMetrics {
    pub(super) fn of(jobs: &[JobInfo]) -> Self {
        let by_state = JobState::ALL.map(|state| {
            let count = jobs.iter().filter(|job| job.state == state).count();
            (Label::plain(state.as_str()), u64::try_from(count).unwrap_or(u64::MAX))
        });
        let under_way = jobs.iter().filter(|job| !job.state.is_over()).map(OneJob::of).collect();
        Self { by_state, under_way }
    }

    fn each(&self, value: impl Fn(&OneJob) -> u64) -> impl Iterator<Item = (Labels<'_, 3>, u64)> {
        self.under_way.iter().map(move |job| {
            ([("job", &job.id), ("kind", &job.kind), ("volume", &job.volume)], value(job))
        })
    }
}

impl OneJob {
    fn of(job: &JobInfo) -> Self {
        Self {
            id: Label::of(&job.id.to_string()),
            kind: Label::of(&job.kind),
            volume: Label::of(&job.volume),
            done: job.done_bytes,
            total: job.total_bytes,
        }
    }
}

impl Collector for JobMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let encoder = &mut encoder;
        let jobs = self.by_state.iter().map(|(state, count)| ([("state", state)], *count));
        JOBS.gauges(encoder, jobs)?;
        DONE.gauges(encoder, self.each(|job| job.done))?;
        TOTAL.gauges(encoder, self.each(|job| job.total))
    }
}
