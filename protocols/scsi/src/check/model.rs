//! A unit in memory: a simple model of an engine and a control side.

use nearflash_request::{
    BlockRange, BufferId, ChangeKind, ChangeResult, Completion, Outcome, Payload, Tag,
};
use nearflash_units::{Blocks, ByteLen};

use super::units_of;
use crate::{
    Action, Asked, Attentions, Cdb, CopyRecords, CopyState, CopyTask, Failure, LogicalUnit,
    LogicalUnits, RequestTask, Series, Task, interpret, parameters,
};

/// The result for an initiator: data or a failure.
pub type Told = Result<Vec<u8>, Failure>;

/// A unit in memory.
#[derive(Debug)]
pub struct Model {
    units: LogicalUnits,
    attentions: Attentions,
    copies: CopyRecords,
    bytes: Vec<u8>,
}

impl Model {
    /// A unit whose blocks are zero.
    pub fn new(unit: LogicalUnit) -> Self {
        let len = unit.block_size.len(unit.blocks).map_or(0, ByteLen::to_usize);
        Self {
            units: units_of(unit),
            attentions: Attentions::default(),
            copies: CopyRecords::default(),
            bytes: vec![0; len],
        }
    }

    /// The contents of the unit.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The unit.
    pub fn unit(&self) -> &LogicalUnit {
        self.units.get(0).expect("a model has one unit")
    }

    /// The pending unit attention conditions.
    pub const fn attentions(&self) -> &Attentions {
        &self.attentions
    }

    /// Executes a command. Its parameter list or data is `data`, repeated to the required length.
    ///
    /// # Errors
    /// The failure for the initiator.
    pub fn execute(&mut self, cdb: &Cdb, data: &[u8]) -> Told {
        let units = self.units.clone();
        let (attentions, copies) = (&self.attentions, &self.copies);
        let asked = Asked { cdb, unit: units.get(0), units: &units, attentions, copies };
        let mut task = interpret(&asked)?;
        if let Task::Parameters(len) = task {
            task = parameters(&asked, &repeated(data, len))?;
        }
        match task {
            Task::Good | Task::Parameters(_) => Ok(Vec::new()),
            Task::DataIn(data) => Ok(data),
            Task::Request(task) => self.request(&task, &repeated(data, task.data_out)),
            Task::Copy(task) => self.copy(task),
            Task::Change(task) => task.answer(&self.change(task.kind)),
        }
    }

    fn copy(&mut self, task: CopyTask) -> Told {
        let Some(mut series) = Series::of_copy(task) else { return Ok(Vec::new()) };
        loop {
            self.request(&series.piece.task.clone(), &[])?;
            if !series.advance() {
                break;
            }
        }
        if let Some(id) = series.copy().and_then(|task| task.id) {
            self.copies.note(id, series.progress(CopyState::Done));
        }
        Ok(Vec::new())
    }

    fn change(&mut self, kind: ChangeKind) -> ChangeResult {
        match kind {
            ChangeKind::Report => ChangeResult::Report(Box::default()),
            ChangeKind::SetModes(modes) => {
                self.units = units_of(LogicalUnit {
                    software_write_protected: modes.write_protected,
                    descriptor_sense: modes.descriptor_sense,
                    ..self.unit().clone()
                });
                ChangeResult::Done
            }
            _ => ChangeResult::Done,
        }
    }

    fn request(&mut self, task: &RequestTask, data: &[u8]) -> Told {
        let buffers = [BufferId(0), BufferId(1)];
        let operation = task.operation(&buffers[..task.buffer_count()]);
        assert!(operation.is_some(), "{task:?}");
        let place = self.place(task.range);
        let (outcome, payload) = self.act(task, place.clone(), data);
        let answer = task.answer(&Completion { tag: Tag(0), outcome, payload })?;
        if !matches!(task.action, Action::Read) {
            return Ok(answer);
        }
        let read = self.bytes[place].to_vec();
        assert_eq!(ByteLen::of(&read), task.data_in, "{task:?}");
        Ok(read)
    }

    fn place(&self, range: BlockRange) -> std::ops::Range<usize> {
        let size = u64::from(self.unit().block_size.bytes());
        let start = ByteLen(range.start.0 * size).to_usize();
        start..start + ByteLen(range.count.0 * size).to_usize()
    }

    fn act(
        &mut self,
        task: &RequestTask,
        place: std::ops::Range<usize>,
        data: &[u8],
    ) -> (Outcome, Payload) {
        if let Action::Copy { from, .. } = task.action {
            let source = self.place(from);
            self.bytes.copy_within(source, place.start);
            return (Outcome::Success, Payload::None);
        }
        let len = task.buffer_len().to_usize();
        let (first, second) = data.split_at(len.min(data.len()));
        let here = &mut self.bytes[place];
        match &task.action {
            Action::Write { .. } | Action::WriteAndVerify { .. } => here.copy_from_slice(first),
            Action::WriteBytes { .. } => here[..data.len()].copy_from_slice(data),
            Action::OrWrite { .. } => {
                here.iter_mut().zip(first).for_each(|(byte, other)| *byte |= other);
            }
            Action::WriteSame => {
                here.chunks_mut(len).for_each(|block| block.copy_from_slice(first))
            }
            Action::WriteZeroes { .. } => here.fill(0),
            Action::Compare => return compared(here, first.iter()),
            Action::CompareSame => return compared(here, first.iter().cycle()),
            Action::CompareAndWrite { .. } => {
                let compared = compared(here, first.iter());
                if compared.0 == Outcome::Success {
                    here.copy_from_slice(second);
                }
                return compared;
            }
            Action::Deallocate(ranges) => {
                for &range in &**ranges {
                    let place = self.place(range);
                    self.bytes[place].fill(0);
                }
            }
            Action::Allocation => {
                let run = Payload::Allocation { mapped: true, blocks: Blocks(1) };
                return (Outcome::Success, run);
            }
            Action::Read
            | Action::Copy { .. }
            | Action::Flush
            | Action::Verify
            | Action::Admit(_) => {}
        }
        (Outcome::Success, Payload::None)
    }
}

fn compared<'a>(here: &[u8], other: impl Iterator<Item = &'a u8>) -> (Outcome, Payload) {
    match here.iter().zip(other).position(|(byte, other)| byte != other) {
        None => (Outcome::Success, Payload::None),
        Some(at) => (Outcome::Miscompare, Payload::Differs(ByteLen::from_usize(at).0)),
    }
}

fn repeated(data: &[u8], len: ByteLen) -> Vec<u8> {
    let source = if data.is_empty() { &[0][..] } else { data };
    source.iter().copied().cycle().take(len.to_usize()).collect()
}
