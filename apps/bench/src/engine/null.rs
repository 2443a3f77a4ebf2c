//! An engine without a target: the overhead of the tool itself.

use nearflash_units::ByteLen;
use rustix::event::PollFd;

use super::aligned::SlotBuffers;
use super::{Done, Engine, EngineError, Opener, Slot};
use crate::BenchError;
use crate::workload::Op;

/// Every operation completes as soon as it is submitted.
pub struct NullEngine {
    buffers: SlotBuffers,
    queued: Vec<Slot>,
}

impl NullEngine {
    /// An engine with `depth` slots of `op_len` bytes.
    pub fn new(depth: usize, op_len: ByteLen) -> Self {
        Self { buffers: SlotBuffers::new(depth, op_len), queued: Vec::with_capacity(depth) }
    }
}

impl Engine for NullEngine {
    fn buffer(&self, slot: Slot) -> &[u8] {
        self.buffers.get(slot)
    }

    fn buffer_mut(&mut self, slot: Slot) -> &mut [u8] {
        self.buffers.get_mut(slot)
    }

    fn submit(&mut self, slot: Slot, _: Op) {
        self.queued.push(slot);
    }

    fn poll(&mut self, done: &mut Vec<Done>) -> Result<(), EngineError> {
        done.extend(self.queued.drain(..).map(|slot| Done { slot, result: Ok(()) }));
        Ok(())
    }

    fn hand_over(&mut self) -> Result<(), EngineError> {
        Ok(())
    }

    fn doze(&mut self) -> Result<bool, EngineError> {
        Ok(self.queued.is_empty())
    }

    fn wakers<'a>(&'a self, _: &mut Vec<PollFd<'a>>) {}

    fn awake(&mut self) {}

    fn flush(&mut self) -> Result<(), EngineError> {
        Ok(())
    }
}

/// Opens [`NullEngine`]s.
pub struct OpenNull;

impl Opener for OpenNull {
    type Engine = NullEngine;

    fn open(&self, depth: usize, op_len: ByteLen) -> Result<NullEngine, BenchError> {
        Ok(NullEngine::new(depth, op_len))
    }
}
