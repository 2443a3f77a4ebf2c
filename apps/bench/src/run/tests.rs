//! Runs on null engines: assignment of jobs to threads, and of counts to loads.

use nearflash_units::{ByteLen, ByteOffset};

use super::{Jobs, Layout, RunSpec, Threads, run, run_together};
use crate::engine::{BlockingFile, FileOptions, OpenAny, OpenNull};
use crate::job::{DriveSpec, JobSpec, Spin};
use crate::workload::{Pattern, Rate, WorkloadSpec};

fn job(pattern: Pattern, ops: u64) -> JobSpec {
    JobSpec {
        workload: WorkloadSpec {
            pattern,
            read_percent: 50,
            op_len: ByteLen(4096),
            offset: ByteOffset(0),
            range_len: ByteLen(4096 * ops),
            repeats: false,
            endless: false,
            seed: 1,
        },
        depth: 1,
        rate: None,
        verify_seed: None,
        end_fsync: false,
    }
}

fn drive() -> DriveSpec {
    DriveSpec::default()
}

#[test]
fn jobs_are_dealt_out_to_no_more_threads_than_there_are_jobs() {
    let threads = |count| Threads { count, cores: Vec::new() };
    assert_eq!(threads(None).count_for(64), 64);
    assert_eq!(threads(Some(2)).count_for(64), 2);
    assert_eq!(threads(Some(8)).count_for(3), 3);
    assert_eq!(threads(Some(8)).count_for(0), 1);
}

#[test]
fn as_much_is_done_by_few_threads_as_by_many() {
    for count in [Some(1), Some(3), None] {
        let spec = RunSpec {
            jobs: Jobs::new(job(Pattern::RandRead, 100), 16),
            drive: drive(),
            threads: Threads { count, cores: Vec::new() },
        };
        let (record, _) = run(&OpenNull, &spec, &mut |_, _| {}).unwrap();
        assert_eq!((record.read.ops, record.write.ops), (1600, 0));
    }
}

#[test]
fn loads_that_run_together_are_counted_apart() {
    let reads = Jobs::new(job(Pattern::Read, 300), 2);
    let writes = Jobs::new(job(Pattern::Write, 50), 3);
    let loads = [(&OpenNull, reads), (&OpenNull, writes)];
    let threads = Threads { count: Some(1), cores: Vec::new() };
    let results = run_together(&loads, &drive(), &threads, &mut |_, _| {}).unwrap();
    let ops = results.iter().map(|(record, _)| (record.read.ops, record.write.ops));
    assert_eq!(ops.collect::<Vec<_>>(), [(600, 0), (0, 150)]);
}

#[test]
fn every_operation_of_a_file_is_done_whatever_the_batch() {
    let dir = tempfile::tempdir().unwrap();
    let len = ByteLen(4096 * 64);
    for batch in [1, 3, 64] {
        let path = dir.path().join("image");
        let file = FileOptions { path, direct: false, writes: true, len_min: Some(len), batch };
        file.prepare().unwrap();
        let jobs = Jobs::new(JobSpec { depth: 5, ..job(Pattern::Write, 64) }, 1);
        let spec = RunSpec { jobs, drive: drive(), threads: Threads::default() };
        assert_eq!(run(&file, &spec, &mut |_, _| {}).unwrap().0.write.ops, 64, "{batch}");
    }
}

#[test]
fn blocking_calls_move_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    let len_min = Some(ByteLen(4096 * 64));
    let file = FileOptions { path: path.clone(), direct: false, writes: true, len_min, batch: 1 };
    file.prepare().unwrap();
    let before = std::fs::read(&path).unwrap();
    let jobs = |pattern| Jobs::new(job(pattern, 64), 1);
    let spec =
        |pattern| RunSpec { jobs: jobs(pattern), drive: drive(), threads: Threads::default() };
    let file = BlockingFile(file);
    let written = run(&file, &spec(Pattern::RandWrite), &mut |_, _| {}).unwrap().0;
    assert_eq!(written.write.ops, 64);
    let after = std::fs::read(&path).unwrap();
    let is_kept = before.chunks(4096).zip(after.chunks(4096)).any(|(old, new)| old == new);
    assert!(after.len() == before.len() && !is_kept, "every block was written once");
    assert_eq!(run(&file, &spec(Pattern::RandRead), &mut |_, _| {}).unwrap().0.read.ops, 64);
    // Cut during the measurement: a short read is an error, not a result.
    std::fs::File::options().write(true).open(&path).unwrap().set_len(4096 * 60 + 1).unwrap();
    let failed = run(&file, &spec(Pattern::Read), &mut |_, _| {}).unwrap_err();
    assert!(failed.to_string().contains("1B of 4KiB"), "{failed}");
}

#[test]
fn loads_on_different_kinds_of_targets_run_on_one_thread() {
    let dir = tempfile::tempdir().unwrap();
    let len = ByteLen(4096 * 64);
    let path = dir.path().join("image");
    let file = FileOptions { path, direct: false, writes: true, len_min: Some(len), batch: 1 };
    file.prepare().unwrap();
    let openers: [&dyn OpenAny; 2] = [&OpenNull, &file];
    // Several engines that sleep at once: some without a descriptor, some with an eventfd.
    for spin in [Spin::Never, Spin::Adaptive, Spin::Always] {
        let loads = openers.map(|opener| (opener, Jobs::new(job(Pattern::RandWrite, 64), 4)));
        let drive = DriveSpec { spin, ..drive() };
        let threads = Threads { count: Some(1), cores: Vec::new() };
        let results = run_together(&loads, &drive, &threads, &mut |_, _| {}).unwrap();
        assert!(results.iter().all(|(record, _)| record.write.ops == 256), "{spin:?}");
    }
}

#[test]
fn a_total_rate_is_kept_by_all_jobs_together() {
    let rate = Rate::new(1000).unwrap();
    let jobs = Jobs { total_rate: Some(rate), ..Jobs::new(job(Pattern::Read, 10), 3) };
    let shares: Vec<_> = (0..3).map(|index| jobs.job(index).rate).collect();
    assert_eq!(shares, [0, 1, 2].map(|turn| Some(rate.share(turn, 3))));
}

#[test]
fn ranges_apart_do_not_touch_each_other() {
    let increment = ByteLen(4096 * 10);
    let jobs = Jobs { layout: Layout::Apart(increment), ..Jobs::new(job(Pattern::Read, 10), 5) };
    let mut offsets = Vec::new();
    for index in 0..5 {
        let mut workload = crate::workload::Workload::new(jobs.job(index).workload).unwrap();
        offsets.extend(std::iter::from_fn(|| workload.next_op()).map(|op| op.offset.0 / 4096));
    }
    assert_eq!(offsets, (0..50).collect::<Vec<_>>());
}
