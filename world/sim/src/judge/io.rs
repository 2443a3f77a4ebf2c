//! Commands that read, write or flush, and the checks of their answers.

use nearflash_request::{Access, BufferId, Nexus};
use nearflash_units::Nanos;

use crate::failures::About;
use crate::history::{Block, Ending, Sent, WriteId};
use crate::judge::checks::Cause;
use crate::judge::{Answer, Checks, StepId};
use crate::machine::NodeId;
use crate::memory::Memory;
use crate::node::node_of;
use crate::outside::Outside;
use crate::reservations::Asked;
use crate::stamp::{Value, Writer};
use crate::witness::Tick;

/// The sender of a command: its connection and its nexus.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asker {
    pub(crate) writer: Writer,
    pub(crate) nexus: Nexus,
}

impl Asker {
    /// It sends a write.
    pub(crate) fn sends(self, at: Tick, durable: bool) -> Sent {
        Sent { writer: self.writer, at, durable }
    }
}

/// An I/O command.
#[derive(Clone, Debug)]
pub(crate) struct Io {
    pub(crate) asker: Asker,
    pub(crate) sent: Tick,
    /// The moment at which it was sent.
    pub(crate) began: Nanos,
    pub(crate) first: Block,
    pub(crate) buffer: Option<BufferId>,
    /// The command may be beyond the end of the volume.
    pub(crate) in_tail: bool,
    /// The command is done in parts; one that is refused may have been done in part.
    pub(crate) in_parts: bool,
    /// The unanswered writes over another path that it repeats.
    pub(crate) repeats: Vec<WriteId>,
    pub(crate) what: What,
}

#[derive(Clone, Debug)]
pub(crate) enum What {
    Read,
    /// A write, or a write of zeroes.
    Write(Vec<WriteId>),
    /// A command that rewrites a block with its own content.
    Touch,
    /// A deallocation: each block may become zeroes.
    Advice(Vec<WriteId>),
    Flush(Vec<u32>),
    /// A compare of one block with its content at the last read.
    Compare(Value),
    /// The compare half of a counter's step.
    StepCompare(StepId),
    /// The write half of a counter's step.
    StepWrite(StepId),
}

/// A node waits at least this long for another one's answer about a lost connection: ten seconds on
/// its own clock, which may run a little too fast.
const LONG_WAIT: Nanos = Nanos::from_secs(9);

/// Whether a flush that was sent then, and whether it succeeded, had to fail: the node over which it went has
/// answered writes of one of these volumes that were lost.
fn owes_lost_writes(
    over: NodeId,
    volumes: &[u32],
    (sent, is_success): (Tick, bool),
    checks: &Checks,
) -> bool {
    // Each volume is judged.
    let judge = |volume: &&u32| checks.history.flushed_over(over, **volume, sent, is_success);
    volumes.iter().filter(judge).count() > 0
}

/// The blocks whose content an answer has shown, with that content.
pub(crate) type Seen = Vec<(Block, Vec<u8>)>;

impl Io {
    /// The command was answered.
    pub(crate) fn judge(
        self,
        answer: Answer,
        memory: &mut Memory,
        checks: &mut Checks,
        outside: &mut Outside,
    ) -> Seen {
        let now = outside.tick();
        let bytes = self.buffer.map(|buffer| memory.give_back(buffer));
        let about = self.about(bytes.as_ref().map_or(0, Vec::len), outside.block_len);
        let (nexus, sent, failures) = (self.asker.nexus, self.sent, &outside.failures);
        let node = node_of(self.first.volume);
        let over = outside.witness.over(self.asker.writer);
        let is_far = over.is_some();
        let depends = is_far || outside.is_mirrored;
        let cause = Cause { node, nexus, sent, about: &about, failures, depends };
        checks.count(answer, self.own_answers(), cause, &self);
        self.judge_right(answer, checks, now);
        let is_success = answer.is_success();
        if self.in_tail {
            self.judge_size(answer, bytes.as_ref().map_or(0, Vec::len), outside);
        }
        if is_success {
            self.judge_repeats(now, checks, outside);
        }
        match self.what {
            What::Read if is_success => {
                let bytes = bytes.expect("a read has a buffer");
                return self.judge_read(&bytes, now, checks, outside);
            }
            What::Write(writes) => {
                if is_success {
                    checks.note_write(self.asker.writer, outside);
                    note_parts(self.in_parts, (node, self.sent), outside);
                }
                let ending = match over {
                    Some(_) => far_ending(answer, self.began, outside),
                    None => ending(answer, self.in_parts),
                };
                end_all(&writes, ending, now, checks, outside);
            }
            What::Touch => {
                checks.touched += u64::from(is_success);
                outside.witness.touched(self.first, self.asker.writer);
            }
            What::Advice(writes) if is_far => {
                let ending = match far_ending(answer, self.began, outside) {
                    Ending::Lost => Ending::Lost,
                    _ => Ending::Failed,
                };
                end_all(&writes, ending, now, checks, outside);
            }
            What::Advice(writes) if is_success => {
                end_all(&writes, Ending::Failed, now, checks, outside);
            }
            What::Advice(writes) => end_all(&writes, ending(answer, false), now, checks, outside),
            What::Flush(volumes)
                if over.is_some_and(|over| {
                    owes_lost_writes(over, &volumes, (self.sent, is_success), checks)
                }) =>
            {
                outside.note("flush failed over lost writes", &[])
            }
            What::Flush(volumes) if is_success => {
                let span = (self.sent, now);
                volumes.iter().for_each(|volume| checks.history.flushed(*volume, span));
            }
            What::Compare(value) if is_success => {
                checks.history.read(self.first, value, (self.sent, now), &outside.witness);
            }
            What::Compare(value) if answer == Answer::Differs => {
                checks.history.differed(self.first, value, (self.sent, now), &outside.witness);
            }
            What::StepCompare(_) | What::StepWrite(_) => unreachable!("judged together"),
            What::Read | What::Flush(_) | What::Compare(_) => {}
        }
        Vec::new()
    }

    /// The writes of other nodes that a successful write has repeated have their end.
    fn judge_repeats(&self, now: Tick, checks: &mut Checks, outside: &mut Outside) {
        if !self.repeats.is_empty() {
            outside.note("repeated over another node", &[]);
        }
        self.repeats.iter().for_each(|write| checks.history.repeated(*write, now));
    }

    /// The parts of devices whose failure may fail the command: `len` bytes of data, or its blocks.
    fn about(&self, len: usize, block_len: usize) -> Vec<About> {
        if let What::Flush(volumes) = &self.what {
            return volumes.iter().map(|volume| About::all(*volume, self.sent)).collect();
        }
        let count = match &self.what {
            What::Write(writes) | What::Advice(writes) => writes.len(),
            _ => 1,
        };
        let about = About::blocks(self.first, count.max(len / block_len), block_len, self.sent);
        vec![if self.reads() { about } else { about.that_writes() }]
    }

    /// Answers that are possible for some commands only.
    fn own_answers(&self) -> &'static [Answer] {
        match self.what {
            _ if self.in_tail => &[Answer::BehindTheEnd],
            What::Compare(_) => &[Answer::Differs],
            _ => &[],
        }
    }

    /// Checks that the reservations explain why the host was admitted or refused.
    fn judge_right(&self, answer: Answer, checks: &mut Checks, now: Tick) {
        let access = match self.what {
            What::Read | What::Compare(_) => Access::Read,
            What::Flush(_) => Access::Manage,
            _ => Access::Write,
        };
        let volumes = match &self.what {
            What::Flush(volumes) => volumes.clone(),
            _ => vec![self.first.volume],
        };
        let nexus = self.asker.nexus;
        let asked = |volume: &u32| Asked { volume: *volume, nexus, access, sent: self.sent };
        checks.judge_right(&volumes.iter().map(asked).collect::<Vec<_>>(), answer, now);
    }

    /// Unless the volume's size changed meanwhile, the command may succeed only if the volume has
    /// all its blocks, and may be answered as beyond the end only if not.
    fn judge_size(&self, answer: Answer, len: usize, outside: &Outside) {
        let node = node_of(self.first.volume);
        let Some((since, blocks)) = outside.machine(node).size else { return };
        if since > self.sent {
            return;
        }
        let count = nearflash_units::ByteLen::from_usize(len / outside.block_len).0;
        let is_inside = self.first.lba.0 + count <= blocks;
        let is_due = match answer {
            Answer::Done => is_inside,
            Answer::BehindTheEnd => !is_inside,
            _ => true,
        };
        assert!(is_due, "{self:?} was answered {answer:?}, and the end is at {blocks}");
    }

    /// Whether the command reads into its buffer.
    pub(crate) fn reads(&self) -> bool {
        matches!(self.what, What::Read)
    }

    /// The connection was lost.
    pub(crate) fn lose(self, checks: &mut Checks, now: Tick) {
        checks.lost += 1;
        if let What::Write(writes) | What::Advice(writes) = self.what {
            for write in writes {
                checks.history.write_ended(write, Ending::Lost, now);
            }
        }
    }

    fn judge_read(&self, bytes: &[u8], now: Tick, checks: &mut Checks, outside: &Outside) -> Seen {
        let mut seen = Seen::new();
        let mut block = self.first;
        for block_bytes in bytes.chunks_exact(outside.block_len) {
            let value = Value::of(block_bytes);
            checks.history.read(block, value, (self.sent, now), &outside.witness);
            checks.note_doors(self.asker.writer, value, outside);
            seen.push((block, block_bytes.to_vec()));
            block.lba.0 += 1;
        }
        seen
    }
}

/// A write was done, perhaps in parts, with a change of the volume's size between them.
fn note_parts(in_parts: bool, (node, sent): (NodeId, Tick), outside: &mut Outside) {
    if in_parts && outside.machine(node).size.is_none_or(|(since, _)| since > sent) {
        outside.note("parts around a change of size", &[]);
    }
}

/// The end of a write over another node. A node waits for the other for a while: after an answer that
/// came sooner, the write does not take effect any more.
fn far_ending(answer: Answer, began: Nanos, outside: &mut Outside) -> Ending {
    if answer == Answer::PathLost {
        outside.note("path lost", &[]);
    }
    let is_long = outside.now.since(began) >= LONG_WAIT;
    match answer {
        Answer::Done => Ending::Done,
        _ if is_long => Ending::Lost,
        _ => Ending::Failed,
    }
}

fn ending(answer: Answer, in_parts: bool) -> Ending {
    match answer {
        Answer::Conflict | Answer::NotLetIn if in_parts => Ending::Failed,
        Answer::Done => Ending::Done,
        Answer::Conflict
        | Answer::BehindTheEnd
        | Answer::Attention
        | Answer::Aborted
        | Answer::Full
        | Answer::NotLetIn
        | Answer::Stale => Ending::NotDone,
        _ => Ending::Failed,
    }
}

fn end_all(
    writes: &[WriteId],
    ending: Ending,
    now: Tick,
    checks: &mut Checks,
    outside: &mut Outside,
) {
    for write in writes {
        if let (Ending::Done | Ending::Failed, Some(Value::Written(stamp))) =
            (ending, checks.history.value_of(*write))
            && outside.witness.over(stamp.writer).is_some()
        {
            outside.witness.answered(&stamp);
        }
        if let (Ending::NotDone, Some(Value::Written(stamp))) =
            (ending, checks.history.value_of(*write))
        {
            outside.witness.refused(&stamp);
        }
        checks.history.write_ended(*write, ending, now);
    }
}
