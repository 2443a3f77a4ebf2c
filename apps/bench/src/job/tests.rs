//! Jobs on an engine that stores data and records its operations.

use std::num::NonZeroUsize;
use std::sync::atomic::AtomicBool;

use nearflash_units::{ByteLen, ByteOffset, Nanos};
use rustix::event::PollFd;

use super::{Crew, DriveSpec, JobFailure, JobSpec, Seat, Spin, SystemClock, run};
use crate::engine::{Done, Engine, EngineError, Slot};
use crate::recorder::{Gauge, Record};
use crate::verify::Mismatch;
use crate::workload::{Direction, Op, Pattern, Rate, WorkloadSpec};

const OP_LEN: usize = 512;
const BLOCKS: usize = 64;

/// A device in memory that completes the queued operations in reverse, one half per turn.
struct MemoryEngine {
    blocks: Vec<[u8; OP_LEN]>,
    buffers: Vec<[u8; OP_LEN]>,
    queued: Vec<(Slot, Op)>,
    asked: Vec<Op>,
    in_flight_max: usize,
    flushes: usize,
    /// Number of operations of each submission.
    handed_over: Vec<usize>,
    new_ops: usize,
    /// All operations fail after this many.
    fails_after: usize,
    /// Reads of this block have one bit flipped.
    bent: Option<usize>,
}

impl MemoryEngine {
    fn new(depth: usize) -> Self {
        Self {
            blocks: vec![[0; OP_LEN]; BLOCKS],
            buffers: vec![[0xA5; OP_LEN]; depth],
            queued: Vec::new(),
            asked: Vec::new(),
            in_flight_max: 0,
            flushes: 0,
            handed_over: Vec::new(),
            new_ops: 0,
            fails_after: usize::MAX,
            bent: None,
        }
    }

    fn serve(&mut self, slot: Slot, op: Op) -> Result<(), EngineError> {
        self.asked.push(op);
        if self.asked.len() > self.fails_after {
            let source = std::io::ErrorKind::Other.into();
            return Err(EngineError::Io { what: "the device failed", source });
        }
        let block = ByteLen(op.offset.0).to_usize() / OP_LEN;
        match op.direction {
            Direction::Read => {
                self.buffers[slot] = self.blocks[block];
                if self.bent == Some(block) {
                    self.buffers[slot][300] ^= 4;
                }
            }
            Direction::Write => self.blocks[block] = self.buffers[slot],
        }
        Ok(())
    }
}

impl Engine for MemoryEngine {
    fn buffer(&self, slot: Slot) -> &[u8] {
        &self.buffers[slot]
    }

    fn buffer_mut(&mut self, slot: Slot) -> &mut [u8] {
        &mut self.buffers[slot]
    }

    fn submit(&mut self, slot: Slot, op: Op) {
        self.queued.push((slot, op));
        self.new_ops += 1;
        self.in_flight_max = self.in_flight_max.max(self.queued.len());
    }

    fn poll(&mut self, done: &mut Vec<Done>) -> Result<(), EngineError> {
        for _ in 0..self.queued.len().div_ceil(2) {
            let (slot, op) = self.queued.pop().unwrap();
            let result = self.serve(slot, op);
            done.push(Done { slot, result });
        }
        Ok(())
    }

    fn hand_over(&mut self) -> Result<(), EngineError> {
        self.handed_over.push(std::mem::take(&mut self.new_ops));
        Ok(())
    }

    fn doze(&mut self) -> Result<bool, EngineError> {
        Ok(false)
    }

    fn wakers<'a>(&'a self, _: &mut Vec<PollFd<'a>>) {}

    fn awake(&mut self) {}

    fn flush(&mut self) -> Result<(), EngineError> {
        self.flushes += 1;
        Ok(())
    }
}

fn spec(pattern: Pattern) -> JobSpec {
    let op_len = ByteLen::from_usize(OP_LEN);
    JobSpec {
        workload: WorkloadSpec {
            pattern,
            read_percent: 50,
            op_len,
            offset: ByteOffset(0),
            range_len: ByteLen(op_len.0 * 64),
            repeats: false,
            endless: false,
            seed: 5,
        },
        depth: 8,
        rate: None,
        verify_seed: None,
        end_fsync: false,
    }
}

/// A run to the end of the workload, without sleeping.
const TO_THE_END: DriveSpec = DriveSpec {
    ramp: Nanos(0),
    runtime: None,
    spin: Spin::Always,
    stall_max: None,
    batch: None,
    sides: false,
};

fn go(engine: &mut MemoryEngine, spec: &JobSpec) -> Result<Record, JobFailure> {
    run(engine, spec, &TO_THE_END, &Gauge::default(), &AtomicBool::new(false))
}

#[test]
fn with_a_batch_of_one_each_completion_is_followed_by_one_operation_by_itself() {
    let of = |batch| {
        let mut engine = MemoryEngine::new(8);
        let drive = DriveSpec { batch: NonZeroUsize::new(batch), ..TO_THE_END };
        let gauge = Gauge::default();
        let spec = spec(Pattern::RandRead);
        run(&mut engine, &spec, &drive, &gauge, &AtomicBool::new(false)).unwrap();
        assert_eq!(engine.asked.len(), BLOCKS);
        engine.handed_over
    };
    // The first eight are queued together, and the first submission has the ninth as well.
    let single = of(1);
    assert_eq!((single[0], single[1..57].iter().max()), (9, Some(&1)), "{single:?}");
    assert!(of(3).iter().skip(1).all(|count| *count <= 3));
    assert!(of(0).is_empty(), "what follows goes out with the next turn");
}

fn offsets(ops: &[Op]) -> Vec<u64> {
    let mut offsets: Vec<u64> = ops.iter().map(|op| op.offset.0).collect();
    offsets.sort_unstable();
    offsets
}

#[test]
fn a_job_asks_for_every_block_once_and_counts_every_byte() {
    for pattern in [Pattern::Read, Pattern::RandRead] {
        let mut engine = MemoryEngine::new(8);
        let record = go(&mut engine, &spec(pattern)).unwrap();
        let expected: Vec<u64> = (0..64).map(|block| block * 512).collect();
        assert_eq!(offsets(&engine.asked), expected);
        assert!(engine.asked.iter().all(|op| op.len == ByteLen(512)));
        assert_eq!((record.read.ops, record.read.len), (64, ByteLen(64 * 512)));
        assert_eq!((record.write.ops, record.read.latency.len()), (0, 64));
    }
}

#[test]
fn no_more_than_the_depth_is_in_flight() {
    let mut engine = MemoryEngine::new(8);
    go(&mut engine, &spec(Pattern::RandRead)).unwrap();
    assert_eq!(engine.in_flight_max, 8);
}

#[test]
fn what_was_written_is_flushed_and_read_back() {
    let mut engine = MemoryEngine::new(8);
    let spec = JobSpec { verify_seed: Some(9), ..spec(Pattern::RandWrite) };
    let record = go(&mut engine, &spec).unwrap();
    assert_eq!((record.write.ops, record.read.ops), (64, 0), "reading back is not counted");
    assert_eq!(engine.flushes, 1);
    let (written, read) = engine.asked.split_at(64);
    assert!(written.iter().all(|op| op.direction == Direction::Write));
    assert!(read.iter().all(|op| op.direction == Direction::Read));
    assert_eq!(offsets(written), offsets(read));
}

#[test]
fn a_block_that_was_bent_is_named_by_its_offset() {
    let mut engine = MemoryEngine::new(8);
    let write = JobSpec { verify_seed: Some(9), ..spec(Pattern::Write) };
    go(&mut engine, &write).unwrap();
    engine.bent = Some(17);
    let read = JobSpec { verify_seed: Some(9), ..spec(Pattern::RandRead) };
    let failure = go(&mut engine, &read).unwrap_err();
    let offset = ByteOffset(17 * 512);
    assert!(
        matches!(failure, JobFailure::Verify(Mismatch::Corrupt { offset: at, .. }) if at == offset),
        "{failure}"
    );
}

#[test]
fn a_mix_does_not_write_what_it_has_read() {
    for pattern in [Pattern::Rw, Pattern::RandRw] {
        let mut engine = MemoryEngine::new(8);
        go(&mut engine, &spec(pattern)).unwrap();
        let writes = engine.asked.iter().filter(|op| op.direction == Direction::Write).count();
        let noisy = |block: &&[u8; OP_LEN]| block.iter().filter(|byte| **byte == 0).count() < 32;
        assert!(writes > 10);
        assert_eq!(engine.blocks.iter().filter(noisy).count(), writes, "{pattern:?}");
    }
}

#[test]
fn a_mix_proves_only_what_it_has_written_itself() {
    // At first, blocks are not verifiable; reads of blocks not written must pass.
    let mut engine = MemoryEngine::new(8);
    let spec = JobSpec { verify_seed: Some(9), ..spec(Pattern::RandRw) };
    let record = go(&mut engine, &spec).unwrap();
    assert_eq!(record.read.ops + record.write.ops, 64);
}

#[test]
fn the_first_failed_operation_ends_the_job_and_is_named() {
    let mut engine = MemoryEngine::new(8);
    engine.fails_after = 10;
    let failure = go(&mut engine, &spec(Pattern::Read)).unwrap_err().to_string();
    assert!(failure.starts_with("read of 512B at offset"), "{failure}");
    assert!(engine.asked.len() < 64);
}

#[test]
fn a_job_that_is_told_to_stop_finishes_what_is_in_flight() {
    let mut engine = MemoryEngine::new(8);
    let endless = WorkloadSpec { endless: true, ..spec(Pattern::Read).workload };
    let spec = JobSpec { workload: endless, ..spec(Pattern::Read) };
    let stop = AtomicBool::new(true);
    let record = run(&mut engine, &spec, &TO_THE_END, &Gauge::default(), &stop).unwrap();
    assert_eq!(record.ops(), 0);
    assert_eq!(engine.queued.len(), 0);
}

#[test]
fn latency_counts_from_the_intended_time() {
    // A million operations per second from the first microsecond on, on a device without delay:
    // delays are ours, and still counted.
    let mut engine = MemoryEngine::new(1);
    let spec = JobSpec { rate: Rate::new(1_000_000), depth: 1, ..spec(Pattern::Read) };
    let record = go(&mut engine, &spec).unwrap();
    assert_eq!(record.read.ops, 64);
    assert!(record.elapsed >= Nanos::from_micros(63), "the last is not before its time");
}

/// Runs jobs of one load on this thread.
fn go_together(engines: &mut [MemoryEngine], specs: &[JobSpec]) -> Result<Record, super::Failed> {
    let gauges = [Gauge::default()];
    let seats = engines.iter_mut().zip(specs);
    let seats = seats.map(|(engine, spec)| Seat { engine, spec, tally: 0 }).collect();
    let crew = Crew::new(seats, &gauges)?;
    let stop = AtomicBool::new(false);
    Ok(crew.run(&TO_THE_END, &SystemClock::start(), &stop)?.remove(0))
}

#[test]
fn many_jobs_of_one_thread_are_each_as_if_alone() {
    let specs: Vec<JobSpec> = (0..64)
        .map(|seed| {
            let workload = WorkloadSpec { seed, ..spec(Pattern::RandRead).workload };
            JobSpec { workload, depth: 1, ..spec(Pattern::RandRead) }
        })
        .collect();
    let mut engines: Vec<_> = (0..64).map(|_| MemoryEngine::new(1)).collect();
    let record = go_together(&mut engines, &specs).unwrap();
    assert_eq!((record.read.ops, record.read.latency.len()), (64 * 64, 64 * 64));
    for (engine, spec) in engines.iter().zip(&specs) {
        let mut alone = MemoryEngine::new(1);
        go(&mut alone, spec).unwrap();
        assert_eq!(engine.asked, alone.asked, "the same operations in the same order");
    }
}

#[test]
fn a_failure_among_many_jobs_names_the_one_it_happened_to() {
    let specs = vec![spec(Pattern::Read); 3];
    let mut engines: Vec<_> = (0..3).map(|_| MemoryEngine::new(8)).collect();
    engines[1].fails_after = 10;
    let failed = go_together(&mut engines, &specs).unwrap_err();
    assert_eq!(failed.seat, 1);
    assert!(failed.failure.to_string().starts_with("read of 512B"), "{}", failed.failure);
}

#[test]
fn what_each_of_many_jobs_wrote_is_flushed_and_read_back() {
    let specs = vec![JobSpec { verify_seed: Some(9), ..spec(Pattern::RandWrite) }; 2];
    let mut engines: Vec<_> = (0..2).map(|_| MemoryEngine::new(8)).collect();
    let record = go_together(&mut engines, &specs).unwrap();
    assert_eq!((record.write.ops, record.read.ops), (128, 0), "reading back is not counted");
    assert!(engines.iter().all(|engine| engine.flushes == 1 && engine.asked.len() == 128));
}
