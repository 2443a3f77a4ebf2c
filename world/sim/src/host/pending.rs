//! What a command in flight is about, and the judgement of its answer.

use nearflash_nvme::Status;
use nearflash_request::{Access, BufferId, Nexus};

use crate::history::{Block, Ending, History, Sent, WriteId};
use crate::host::memory::Memory;
use crate::increments::Increments;
use crate::outside::Outside;
use crate::reservations::{Asked, Ledger};
use crate::stamp::{Stamp, Value, Writer};
use crate::witness::{Door, Tick};

/// A command in flight.
#[derive(Clone, Debug)]
pub(crate) enum Pending {
    /// Of the admin queue.
    Admin(AdminStep),
    /// Of an I/O queue.
    Io(Io),
    /// Of a fight over a volume: what becomes of it is judged where it is decided.
    Rivalry,
}

/// What an admin command is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum AdminStep {
    /// How many queues there may be.
    Queues,
    /// The controller starts to work.
    Enable,
    /// The controller begins anew, or a queue of it ends.
    Reset,
    /// Answered when something happens.
    Event,
    /// The page that tells what.
    EventPage,
    KeepAlive,
    /// Of a command that may or may not be there.
    Abort,
}

/// How a command was answered, by whichever door it came.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Answer {
    /// With success.
    Done,
    /// A comparison failed.
    Differs,
    /// The other half of it failed.
    OtherHalfFailed,
    /// A reservation forbids it.
    Conflict,
    /// It lies behind the volume's end.
    BehindTheEnd,
    /// A device failed, or may have.
    DeviceFailed,
    /// It was not looked at: something else had to be told first.
    Attention,
    /// A task management function ended it before it began.
    Aborted,
    /// The node had no room for its data, and it was not begun.
    Full,
    /// No grant allows it.
    NotLetIn,
    /// The volume has changed and has to be looked at again.
    Stale,
    /// Something else, by this number.
    Unexpected(u32),
}

impl Answer {
    /// What an NVMe status means.
    pub(crate) fn of_nvme(status: Status) -> Self {
        match status.code() {
            _ if status.is_success() => Self::Done,
            Status::COMPARE_FAILURE => Self::Differs,
            Status::ABORTED_FUSED_FAILED => Self::OtherHalfFailed,
            Status::RESERVATION_CONFLICT => Self::Conflict,
            Status::LBA_OUT_OF_RANGE => Self::BehindTheEnd,
            code if is_of_disk(code) => Self::DeviceFailed,
            code => Self::Unexpected(u32::from(code.0)),
        }
    }

    pub(crate) fn is_success(self) -> bool {
        self == Self::Done
    }
}

/// Who asks: on a connection, and as reservations know it.
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
    pub(crate) first: Block,
    pub(crate) buffer: Option<BufferId>,
    /// It may lie behind the volume's end, and what it reads is not judged.
    pub(crate) in_tail: bool,
    /// It is done in parts, and one that is refused may be done in part.
    pub(crate) in_parts: bool,
    pub(crate) what: What,
}

#[derive(Clone, Debug)]
pub(crate) enum What {
    Read,
    /// A write, or zeroes.
    Write(Vec<WriteId>),
    /// Something that reads a block and writes it back as it is.
    Touch,
    /// A deallocation: each block may become zeroes.
    Advice(Vec<WriteId>),
    Flush(Vec<u32>),
    /// Of one block with what it was when last read.
    Compare(Value),
    /// The first half of a step of a counter.
    StepCompare(StepId),
    /// The second half.
    StepWrite(StepId),
}

/// A compare-and-write in flight, by the sequence number of its queue.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct StepId(pub(crate) u32);

/// A compare-and-write in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StepState {
    pub(crate) block: Block,
    pub(crate) from: Value,
    pub(crate) to: Stamp,
    pub(crate) write: WriteId,
    pub(crate) sent: Tick,
    pub(crate) asker: Asker,
    pub(crate) first: Option<Answer>,
    pub(crate) second: Option<Answer>,
}

/// What is judged, over all hosts.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    /// Of each block.
    pub history: History,
    /// Of counters.
    pub increments: Increments,
    /// Of reservations.
    pub reservations: Ledger,
    /// Devices of this run fail now and then.
    pub(crate) disks_fail: bool,
    /// Commands answered with success.
    pub succeeded: u64,
    /// Commands answered with an error.
    pub failed: u64,
    /// Of those, commands that were aborted before they began.
    pub(crate) aborted: u64,
    /// And those that there was no room for.
    pub(crate) turned_away: u64,
    /// Commands whose connection was lost.
    pub lost: u64,
    /// By door: blocks read that were written by each door.
    pub(crate) across: [[u64; 3]; 3],
}

/// What was learned of blocks.
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
        checks.count(answer, self.in_tail, &self.what);
        self.judge_right(answer, checks, now);
        let is_success = answer.is_success();
        if self.in_tail {
            self.judge_size(is_success, bytes.as_ref().map_or(0, Vec::len), checks, outside);
        }
        match self.what {
            What::Read if is_success => {
                let bytes = bytes.expect("a read has a buffer");
                return self.judge_read(&bytes, now, checks, outside);
            }
            What::Write(writes) => {
                let ending = ending(answer, self.in_parts);
                end_all(&writes, ending, now, checks, outside);
            }
            What::Touch => outside.witness.touched(self.first),
            What::Advice(writes) if is_success => {
                end_all(&writes, Ending::Failed, now, checks, outside);
            }
            What::Advice(writes) => end_all(&writes, ending(answer, false), now, checks, outside),
            What::Flush(volumes) if is_success => {
                volumes.iter().for_each(|volume| checks.history.flushed(*volume, self.sent));
            }
            What::Compare(value) if is_success => {
                checks.history.read(self.first, value, (self.sent, now), &outside.witness);
            }
            What::StepCompare(_) | What::StepWrite(_) => unreachable!("judged together"),
            What::Read | What::Flush(_) | What::Compare(_) => {}
        }
        Vec::new()
    }

    /// Whether the host was let in, or shut out, as the reservations were.
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
        // Of a flush of all, nobody says which volume it was refused for.
        for volume in volumes.iter().filter(|_| volumes.len() == 1 || answer == Answer::Done) {
            let nexus = self.asker.nexus;
            let asked = Asked { volume: *volume, nexus, access, sent: self.sent };
            checks.judge_right(asked, answer, now);
        }
    }

    /// Unless the volume's size changed meanwhile, the command succeeds if, and only if, the volume
    /// has all its blocks.
    fn judge_size(&self, is_success: bool, len: usize, checks: &Checks, outside: &Outside) {
        let Some((since, blocks)) = outside.size else { return };
        if since > self.sent {
            return;
        }
        let count = nearflash_units::ByteLen::from_usize(len / outside.block_len).0;
        let is_inside = self.first.lba.0 + count <= blocks;
        assert!(is_inside || !is_success, "{self:?} succeeded behind the end at {blocks}");
        let may_fail = checks.disks_fail || checks.reservations.is_used();
        assert!(is_success || !is_inside || may_fail, "{self:?} failed before {blocks}");
    }

    /// Whether it reads into its buffer.
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
            if self.in_tail {
                // The range may have been another volume's once, but not of these.
                let is_foreign = |stamp: Stamp| stamp.volume != block.volume;
                let is_own = !matches!(value, Value::Written(stamp) if is_foreign(stamp));
                assert!(is_own, "{block:?} holds {value:?}");
            } else {
                checks.history.read(block, value, (self.sent, now), &outside.witness);
                checks.note_doors(self.asker.writer, value, outside);
                seen.push((block, block_bytes.to_vec()));
            }
            block.lba.0 += 1;
        }
        seen
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
        if let (Ending::NotDone, Some(Value::Written(stamp))) =
            (ending, checks.history.value_of(*write))
        {
            outside.witness.refused(&stamp);
        }
        checks.history.write_ended(*write, ending, now);
    }
}

impl StepState {
    /// Both halves were answered, or the connection was lost.
    pub(crate) fn judge(self, is_lost: bool, checks: &mut Checks, outside: &mut Outside) {
        let now = outside.tick();
        let succeeded = [self.first, self.second].map(|half| half.is_some_and(Answer::is_success));
        let both_answered = self.first.is_some() && self.second.is_some();
        if both_answered {
            assert_eq!(succeeded[0], succeeded[1], "the halves succeed together: {self:?}");
        }
        for answer in [self.first, self.second].into_iter().flatten() {
            checks.count_step(answer);
        }
        if let (Some(first), Some(_)) = (self.first, self.second) {
            let (Block { volume, .. }, nexus) = (self.block, self.asker.nexus);
            let asked = Asked { volume, nexus, access: Access::Write, sent: self.sent };
            checks.judge_right(asked, first, now);
        }
        let of_nobody =
            [Answer::Differs, Answer::Conflict, Answer::Attention, Answer::Aborted, Answer::Full];
        let is_refused = self.first.is_some_and(|first| of_nobody.contains(&first));
        let ending = if succeeded.contains(&true) {
            checks.increments.won(self.block, self.to);
            checks.history.read(self.block, self.from, (self.sent, now), &outside.witness);
            Ending::Done
        } else if is_refused {
            checks.increments.refused(self.block, self.to);
            outside.witness.refused(&self.to);
            Ending::NotDone
        } else if is_lost {
            checks.lost += 1;
            Ending::Lost
        } else {
            Ending::Failed
        };
        checks.history.write_ended(self.write, ending, now);
    }
}

impl Checks {
    fn note_end(&mut self, answer: Answer) {
        self.aborted += u64::from(answer == Answer::Aborted);
        self.turned_away += u64::from(answer == Answer::Full);
    }

    fn count(&mut self, answer: Answer, in_tail: bool, what: &What) {
        self.note_end(answer);
        if answer.is_success() {
            self.succeeded += 1;
            return;
        }
        self.failed += 1;
        let is_expected = match answer {
            Answer::Differs => matches!(what, What::Compare(_)),
            Answer::BehindTheEnd => in_tail,
            Answer::Conflict => self.reservations.is_used(),
            Answer::DeviceFailed => self.disks_fail,
            Answer::Attention | Answer::Aborted | Answer::Full => true,
            // The client has judged that.
            Answer::NotLetIn | Answer::Stale => true,
            Answer::Done | Answer::OtherHalfFailed | Answer::Unexpected(_) => false,
        };
        assert!(is_expected, "{what:?} was answered {answer:?}");
    }

    fn count_step(&mut self, answer: Answer) {
        self.note_end(answer);
        if answer.is_success() {
            self.succeeded += 1;
            return;
        }
        self.failed += 1;
        let is_expected = match answer {
            Answer::DeviceFailed => self.disks_fail,
            Answer::Conflict => self.reservations.is_used(),
            Answer::BehindTheEnd | Answer::Unexpected(_) => false,
            _ => true,
        };
        assert!(is_expected, "a compare-and-write was answered {answer:?}");
    }

    /// Something was read that came in by a door, this one or another.
    fn note_doors(&mut self, reader: Writer, value: Value, outside: &Outside) {
        let Value::Written(stamp) = value else { return };
        let door = |writer| outside.witness.door_of(writer).map(Door::index);
        if let (Some(reader), Some(writer)) = (door(reader), door(stamp.writer)) {
            self.across[reader][writer] += 1;
        }
    }

    fn judge_right(&mut self, asked: Asked, answer: Answer, now: Tick) {
        match answer {
            Answer::Done | Answer::Differs => self.reservations.judge(asked, false, now),
            Answer::Conflict => self.reservations.judge(asked, true, now),
            _ => {}
        }
    }
}

/// What devices' failures become.
fn is_of_disk(code: Status) -> bool {
    [
        Status::UNRECOVERED_READ,
        Status::WRITE_FAULT,
        Status::CAPACITY_EXCEEDED,
        Status::NAMESPACE_NOT_READY,
    ]
    .contains(&code)
}
