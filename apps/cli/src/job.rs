//! Waiting for a job of the node.

use std::io::{IsTerminal, Write};

use nearflash_api::client::ControlError;
use nearflash_api::{AwaitedReason, JobInfo, JobState, JobWait};

use crate::failure::Failure;
use crate::tables;

/// Interval of the progress display.
const SECONDS: u64 = 1;

/// Waits until a job has ended, and shows its progress on a terminal. Elsewhere, it says once that the job waits for a node
/// that is down or runs without its slice. Interrupting the wait does
/// not cancel the job.
pub(crate) fn wait(
    id: u64,
    ask: impl Fn(JobWait) -> Result<JobInfo, ControlError>,
) -> Result<JobInfo, Failure> {
    let mut stderr = std::io::stderr();
    let is_shown = stderr.is_terminal();
    let mut is_told = is_shown;
    let result = loop {
        let job = ask(JobWait { id, seconds: SECONDS });
        match job {
            Ok(job) if !job.state.is_over() => {
                if !is_told && job.waits_for.iter().any(|it| it.reason != AwaitedReason::Zeroing) {
                    is_told = true;
                    let _ = writeln!(stderr, "job {id} waits for {}", tables::awaited(&job));
                }
                if is_shown {
                    let (done, total) =
                        (tables::size(job.done_bytes), tables::size(job.total_bytes));
                    let waits = waits(&job);
                    // A failure to show progress is ignored.
                    let _ = write!(stderr, "\r\x1b[Kjob {id}: {done} of {total}{waits}");
                }
            }
            over => break over,
        }
    };
    if is_shown {
        let _ = write!(stderr, "\r\x1b[K");
    }
    let job = result?;
    match (job.state, job.error) {
        (JobState::Cancelled, _) => Err(Failure::JobCancelled { id }),
        (_, Some(error)) => Err(Failure::Job { id, error }),
        (_, None) => Ok(JobInfo { error: None, ..job }),
    }
}

/// The nodes that the job waits for, at the end of a line.
pub(crate) fn waits(job: &JobInfo) -> String {
    match job.waits_for.is_empty() {
        true => String::new(),
        false => format!(", waits for {}", tables::awaited(job)),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use nearflash_api::{ApiError, ErrorCode};

    use super::*;

    fn job(state: JobState, error: Option<ApiError>) -> JobInfo {
        JobInfo {
            id: 7,
            kind: "volume-create".to_owned(),
            volume: "data".to_owned(),
            state,
            waits_for: Vec::new(),
            done_bytes: 0,
            total_bytes: 1,
            started_at: 0,
            ended_at: None,
            error,
        }
    }

    #[test]
    fn a_job_is_waited_for_until_it_is_over() {
        let asked = Cell::new(0);
        let done = wait(7, |call| {
            asked.set(asked.get() + 1);
            assert_eq!(call.id, 7);
            Ok(job(if asked.get() < 3 { JobState::Running } else { JobState::Done }, None))
        });
        assert_eq!((done.unwrap().state, asked.get()), (JobState::Done, 3));
    }

    #[test]
    fn a_job_that_failed_or_was_cancelled_fails_the_command() {
        let error = Some(ApiError::new(ErrorCode::DeviceFailed, "device 'flash' failed"));
        let failed = wait(7, |_| Ok(job(JobState::Failed, error.clone())));
        assert_eq!(failed.unwrap_err().to_string(), "job 7: device 'flash' failed");
        let cancelled = wait(7, |_| Ok(job(JobState::Cancelled, None)));
        assert_eq!(
            cancelled.unwrap_err().to_string(),
            "job 7 was cancelled, and its change was undone"
        );
    }
}
