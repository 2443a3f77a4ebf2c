//! A file or block device of this machine, by pread(2) and pwrite(2): the calls that most programs
//! make. fio names this engine `psync`.

use std::fs::File;
use std::os::unix::fs::FileExt;

use nearflash_units::ByteLen;
use rustix::event::PollFd;

use super::aligned::SlotBuffers;
use super::{Done, Engine, EngineError, FileOptions, Opener, Slot};
use crate::BenchError;
use crate::workload::{Direction, Op};

/// Opens a file for [`BlockingEngine`]s. [`FileOptions::batch`] has no effect.
#[derive(Clone, Debug)]
pub struct BlockingFile(pub FileOptions);

impl Opener for BlockingFile {
    type Engine = BlockingEngine;

    fn open(&self, depth: usize, op_len: ByteLen) -> Result<BlockingEngine, BenchError> {
        let file = self.0.open()?;
        let (buffers, done) = (SlotBuffers::new(depth, op_len), Vec::with_capacity(depth));
        Ok(BlockingEngine { file, buffers, done })
    }
}

/// Carries out each operation when it is submitted, so that one is in flight at a time.
pub struct BlockingEngine {
    file: File,
    buffers: SlotBuffers,
    done: Vec<Done>,
}

impl Engine for BlockingEngine {
    fn buffer(&self, slot: Slot) -> &[u8] {
        self.buffers.get(slot)
    }

    fn buffer_mut(&mut self, slot: Slot) -> &mut [u8] {
        self.buffers.get_mut(slot)
    }

    fn submit(&mut self, slot: Slot, op: Op) {
        let moved = match op.direction {
            Direction::Read => self.file.read_at(self.buffers.get_mut(slot), op.offset.0),
            Direction::Write => self.file.write_at(self.buffers.get(slot), op.offset.0),
        };
        let result = match moved.map(ByteLen::from_usize) {
            Ok(moved) if moved == op.len => Ok(()),
            Ok(moved) => Err(EngineError::Short { moved, asked: op.len }),
            Err(source) => Err(EngineError::Io { what: call(op.direction), source }),
        };
        self.done.push(Done { slot, result });
    }

    fn poll(&mut self, done: &mut Vec<Done>) -> Result<(), EngineError> {
        done.append(&mut self.done);
        Ok(())
    }

    fn hand_over(&mut self) -> Result<(), EngineError> {
        Ok(())
    }

    fn doze(&mut self) -> Result<bool, EngineError> {
        Ok(self.done.is_empty())
    }

    fn wakers<'a>(&'a self, _: &mut Vec<PollFd<'a>>) {}

    fn awake(&mut self) {}

    fn flush(&mut self) -> Result<(), EngineError> {
        self.file.sync_data().map_err(|source| EngineError::Io { what: "fdatasync", source })
    }
}

fn call(direction: Direction) -> &'static str {
    match direction {
        Direction::Read => "pread",
        Direction::Write => "pwrite",
    }
}
