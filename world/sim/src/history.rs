//! The values that hosts have seen in each block, and the check that some order of events explains
//! them.
//!
//! Each block is a register. A write is *sent* when its host submits it and *ends* when its answer
//! is there; it takes effect once, in between. Then a read that was sent at `s` and answered at `n`
//! may return the value of a write `w` unless
//!
//! - `w` was sent after `n`, or answered as not having been done (a failed comparison), or
//! - another write `x` is known to have taken effect before `s`, and was sent after `w` had ended:
//!   `w` was overwritten.
//!
//! A write is known to have taken effect once it was answered with success, or once some read has
//! returned it. A write that a read returned counts as ended when the read did. So no older value
//! follows one that was read.
//!
//! A write that failed may or may not have taken effect before its answer. A write whose connection
//! was lost may take effect until its device operation ends, which [`crate::witness`] sees. If it
//! was never given to a device, or carries no stamp (zeroes, a deallocation), it may take effect
//! until the node confirms that nothing of its connection is under way.
//!
//! A host that comes back over another node repeats its unanswered writes there. When a repetition has been
//! answered, the lost write takes no effect any more: the host goes on from there.
//!
//! A write whose writer has lost its access, by a reservation or because its grants were revoked,
//! takes no effect once the node has confirmed the loss, whenever the write is answered. The
//! exception: if the access is restored first, the write may have been on its way to the node
//! meanwhile.
//!
//! The rule has no false positives: every history of a real register satisfies it.

use std::collections::BTreeMap;

use nearflash_units::Lba;

use crate::machine::NodeId;
use crate::node::node_of;
use crate::stamp::{Stamp, Value, Writer};
use crate::witness::{Tick, Witness};

/// A block of a volume.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Block {
    /// The volume.
    pub volume: u32,
    /// The block's address.
    pub lba: Lba,
}

/// Identifies a write of a block.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct WriteId {
    block: Block,
    /// Counts the writes of all blocks.
    serial: u64,
}

/// The result of a write.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Ending {
    /// It was answered with success.
    Done,
    /// It was answered with an error, and may have taken effect fully or in part.
    Failed,
    /// It was answered as not done.
    NotDone,
    /// Its connection was lost.
    Lost,
}

#[derive(Clone, Debug)]
struct Write {
    serial: u64,
    value: Value,
    writer: Writer,
    /// Its node lost its power before it was answered by another one: only a read shows whether it took
    /// effect.
    in_doubt: bool,
    sent: Tick,
    ended: Tick,
    ending: Option<Ending>,
    /// On stable media when answered.
    durable: bool,
    /// When the first read had returned it.
    seen: Tick,
    /// Since when its writer has no access.
    shut_out: Tick,
}

impl Write {
    fn is_possible(&self) -> bool {
        self.ending != Some(Ending::NotDone)
    }

    /// When it is known to have taken effect.
    fn known(&self) -> Tick {
        if self.ending != Some(Ending::Done) || self.in_doubt {
            return self.seen;
        }
        self.ended.min(self.seen).min(self.shut_out)
    }

    /// The moment after which it can no longer take effect.
    fn over(&self, witness: &Witness) -> Tick {
        let device = match (self.ending, self.value) {
            (Some(Ending::Lost), Value::Written(stamp)) => witness.end_of(&stamp),
            _ => Tick::NEVER,
        };
        let silent = witness.silent_since(self.writer);
        self.ended.min(device).min(silent).min(self.seen).min(self.shut_out)
    }
}

/// A write as it is sent: the writer, the time, and whether it is durable when answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) writer: Writer,
    pub(crate) at: Tick,
    pub(crate) durable: bool,
}

#[derive(Debug)]
struct Register {
    writes: Vec<Write>,
    /// The initial value of each sector.
    first_sectors: Vec<Value>,
}

/// A flush that succeeded.
#[derive(Clone, Copy, Debug)]
struct Flush {
    volume: u32,
    sent: Tick,
    ended: Tick,
}

/// All blocks.
#[derive(Debug, Default)]
pub(crate) struct History {
    registers: BTreeMap<Block, Register>,
    flushes: Vec<Flush>,
    /// When an operator cleared a suspect device of a node: no flush after it saves a write that was sent
    /// before. The device may have forgotten one whose answer was still on its way.
    cleared: Vec<(NodeId, Tick)>,
    /// Flushes sent while an earlier one was under way, whose answer they may share.
    overlapping: u64,
    reads: u64,
    writes: u64,
    /// Acknowledged writes over another node that a loss of power took, before a flush: that node, the
    /// volume, and when each ended. No flush over that node may succeed.
    owed: Vec<(NodeId, u32, Tick)>,
    /// When a node last lost its power. A read over another node may have begun before.
    power_lost: BTreeMap<NodeId, Tick>,
}

impl Register {
    /// The last write that meets the condition and that a request sent at `sent` and answered at
    /// `now` may have found.
    fn find(
        &self,
        is_meant: impl Fn(Value) -> bool,
        (sent, now): (Tick, Tick),
        witness: &Witness,
    ) -> Option<usize> {
        let is_allowed = |write: &Write| {
            let over = write.over(witness);
            let overwritten = |other: &Write| other.known() < sent && over < other.sent;
            write.is_possible() && write.sent < now && !self.writes.iter().any(overwritten)
        };
        self.writes.iter().rposition(|write| is_meant(write.value) && is_allowed(write))
    }

    /// The acknowledged writes that a loss of power took from at least one sector.
    fn taken<'a>(
        &'a self,
        left: &'a Self,
        witness: &'a Witness,
    ) -> impl Iterator<Item = &'a Write> + 'a {
        let is_older = |sector: &Value, write: &Write| {
            let mut all = self.writes.iter();
            all.all(|other| other.value != *sector || other.over(witness) < write.sent)
        };
        self.writes.iter().filter(move |write| {
            write.ending == Some(Ending::Done)
                && !write.in_doubt
                && left.first_sectors.iter().any(|sector| is_older(sector, write))
        })
    }

    /// The writes that another node may still answer, or send, after a loss of power of this one.
    fn still_open<'a>(&'a self, witness: &'a Witness) -> impl Iterator<Item = Write> + 'a {
        let is_open = |write: &&Write| {
            write.over(witness) == Tick::NEVER && witness.over(write.writer).is_some()
        };
        self.writes.iter().filter(is_open).map(|write| Write { in_doubt: true, ..write.clone() })
    }

    fn find_write(&self, id: WriteId) -> Option<usize> {
        self.writes.iter().rposition(|write| write.serial == id.serial)
    }

    fn starting_with(value: Value, sectors: Vec<Value>) -> Self {
        let first = Write {
            serial: 0,
            in_doubt: false,
            value,
            writer: Writer(0),
            sent: Tick(0),
            ended: Tick(0),
            ending: Some(Ending::Done),
            durable: true,
            seen: Tick::NEVER,
            shut_out: Tick::NEVER,
        };
        Self { writes: vec![first], first_sectors: sectors }
    }
}

impl History {
    fn register(&mut self, block: Block) -> &mut Register {
        let fresh = || Register::starting_with(Value::Zero, Vec::new());
        self.registers.entry(block).or_insert_with(fresh)
    }

    /// A write of a block is sent.
    pub(crate) fn write_sent(&mut self, block: Block, value: Value, sent: Sent) -> WriteId {
        let Sent { writer, at: sent, durable } = sent;
        let (ended, seen, shut_out) = (Tick::NEVER, Tick::NEVER, Tick::NEVER);
        self.writes += 1;
        let (serial, ending, in_doubt) = (self.writes, None, false);
        let write =
            Write { serial, in_doubt, value, writer, sent, ended, ending, durable, seen, shut_out };
        self.register(block).writes.push(write);
        WriteId { block, serial }
    }

    /// The set of allowed writers of a volume has changed on all cores. Unanswered writes of all
    /// others take no effect any more.
    pub(crate) fn rights_changed(
        &mut self,
        volume: u32,
        may_write: impl Fn(Writer) -> bool,
        now: Tick,
    ) {
        let first = |volume| Block { volume, lba: Lba(0) };
        let registers = self.registers.range_mut(first(volume)..first(volume + 1));
        let writes = registers.flat_map(|(_, register)| &mut register.writes);
        for write in writes.filter(|write| write.ended == Tick::NEVER) {
            write.shut_out =
                if may_write(write.writer) { Tick::NEVER } else { write.shut_out.min(now) };
        }
    }

    /// The value that a write writes.
    pub(crate) fn value_of(&self, id: WriteId) -> Option<Value> {
        self.registers
            .get(&id.block)?
            .find_write(id)
            .map(|index| self.registers[&id.block].writes[index].value)
    }

    /// A write is over for its host.
    ///
    /// # Panics
    /// When it ends twice, or was read although it was not done.
    pub(crate) fn write_ended(&mut self, id: WriteId, ending: Ending, now: Tick) {
        let Some(register) = self.registers.get_mut(&id.block) else { return };
        let Some(index) = register.find_write(id) else { return };
        let write = &mut register.writes[index];
        assert_eq!(write.ending, None, "a write ends once");
        write.ending = Some(ending);
        if ending != Ending::Lost {
            write.ended = now;
        }
        let unseen = ending != Ending::NotDone || write.seen == Tick::NEVER;
        assert!(unseen, "{:?}: {:?} was not done, and was read", id.block, write.value);
    }

    /// A lost write was repeated over another path, and the repetition was answered: from now on, the host may
    /// overwrite it.
    pub(crate) fn repeated(&mut self, id: WriteId, now: Tick) {
        let Some(register) = self.registers.get_mut(&id.block) else { return };
        let Some(index) = register.find_write(id) else { return };
        let write = &mut register.writes[index];
        write.ended = write.ended.min(now);
    }

    /// The node has nothing under way: lost writes have ended.
    pub(crate) fn all_ended(&mut self, now: Tick) {
        let writes = self.registers.values_mut().flat_map(|register| &mut register.writes);
        for write in writes.filter(|write| write.ended == Tick::NEVER) {
            write.ended = now;
        }
    }

    /// A flush that was sent at `sent` has succeeded.
    pub(crate) fn flushed(&mut self, volume: u32, (sent, ended): (Tick, Tick)) {
        let overlaps = |earlier: &Flush| earlier.sent < sent && sent < earlier.ended;
        self.overlapping += u64::from(self.flushes.iter().any(overlaps));
        self.flushes.push(Flush { volume, sent, ended });
    }

    /// A flush that was sent at `sent` over another node has succeeded, or not. Returns whether it must
    /// not succeed.
    ///
    /// # Panics
    /// When a loss of power took what it should have saved.
    pub(crate) fn flushed_over(
        &self,
        over: NodeId,
        volume: u32,
        sent: Tick,
        is_done: bool,
    ) -> bool {
        let is_owed =
            |owed: &&(NodeId, u32, Tick)| (owed.0, owed.1) == (over, volume) && owed.2 < sent;
        let owed = self.owed.iter().find(is_owed);
        assert!(
            !is_done || owed.is_none(),
            "a flush over {over:?} succeeded, and a loss of power took a write before it: {owed:?}"
        );
        owed.is_some()
    }

    /// A node starts again, and its hosts know.
    pub(crate) fn owes_nothing(&mut self, over: NodeId, now: Tick) {
        self.power_lost.insert(over, now);
        self.owed.retain(|(node, ..)| *node != over);
    }

    /// An operator has cleared a device of a node: volatile writes may be lost.
    pub(crate) fn cleared(&mut self, node: NodeId, now: Tick) {
        self.cleared.push((node, now));
    }

    /// The number of successful flushes that were sent while another was under way.
    pub(crate) fn overlapping_flushes(&self) -> u64 {
        self.overlapping
    }

    /// A read, or a comparison that held, has returned `value`.
    ///
    /// # Panics
    /// When no order of events allows it.
    pub(crate) fn read(
        &mut self,
        block: Block,
        value: Value,
        (sent, now): (Tick, Tick),
        witness: &Witness,
    ) {
        self.reads += 1;
        if self.spans_power_loss(block, sent) {
            return;
        }
        if let Value::Written(Stamp { volume, lba, .. }) = value {
            assert!((volume, lba) == (block.volume, block.lba), "{block:?} holds {value:?}");
        }
        let register = self.register(block);
        let found = register.find(|it| it == value, (sent, now), witness);
        let Some(found) = found else {
            panic!(
                "{block:?}: a read from {sent:?} to {now:?} returned {value:?}, which is stale or \
                 was never written; the block's writes: {:#?}",
                last(&register.writes)
            );
        };
        if matches!(value, Value::Written(_)) {
            let seen = &mut register.writes[found].seen;
            *seen = (*seen).min(now);
        }
    }

    /// Whether the node of a block has lost its power since: a read over another node goes on.
    fn spans_power_loss(&self, block: Block, sent: Tick) -> bool {
        self.power_lost.get(&node_of(block.volume)).is_some_and(|lost| sent < *lost)
    }

    /// A comparison with `value` did not hold.
    ///
    /// # Panics
    /// When the comparison holds in every order of events.
    pub(crate) fn differed(
        &mut self,
        block: Block,
        value: Value,
        (sent, now): (Tick, Tick),
        witness: &Witness,
    ) {
        if self.spans_power_loss(block, sent) {
            return;
        }
        let register = self.register(block);
        let otherwise = register.find(|it| it != value, (sent, now), witness);
        assert!(
            otherwise.is_some(),
            "{block:?}: a comparison from {sent:?} to {now:?} did not hold, and {value:?} was there; \
             the block's writes: {:#?}",
            last(&register.writes)
        );
    }

    /// The power is back: checks each sector's remaining content, which is the block's initial
    /// content from now on.
    ///
    /// # Panics
    /// When something durable is lost.
    pub(crate) fn power_lost(
        &mut self,
        block: Block,
        bytes: &[u8],
        volatile: bool,
        witness: &Witness,
    ) {
        let Some(register) = self.registers.get(&block) else {
            assert_eq!(Value::of(bytes), Value::Zero, "{block:?} was never written");
            return;
        };
        let is_durable = |write: &Write| {
            let is_in_doubt = |flush: &Flush| {
                self.cleared.iter().any(|(node, cleared)| {
                    *node == node_of(block.volume)
                        && write.sent < *cleared
                        && *cleared < flush.ended
                })
            };
            let flushed = |flush: &Flush| {
                flush.volume == block.volume && flush.sent > write.ended && !is_in_doubt(flush)
            };
            // Of a write in doubt, the answer does not say that it took effect after the last loss of power.
            let took_effect = !write.in_doubt || write.seen < Tick::NEVER;
            write.ending == Some(Ending::Done)
                && took_effect
                && (write.durable || !volatile || self.flushes.iter().any(flushed))
        };
        let sectors = Value::of_sectors(bytes);
        for (index, value) in sectors.iter().enumerate() {
            let may_be = |(number, write): (usize, &Write)| {
                let first = register.first_sectors.get(index).filter(|_| number == 0);
                let over = write.over(witness);
                let lost = |later: &Write| is_durable(later) && over < later.sent;
                *first.unwrap_or(&write.value) == *value
                    && write.is_possible()
                    && !register.writes.iter().any(lost)
            };
            assert!(
                register.writes.iter().enumerate().any(may_be),
                "{block:?}: the power was lost, and sector {index} holds {value:?}: something \
                 durable is lost; the block's writes: {:#?}; flushes: {:?}",
                last(&register.writes),
                last(&self.flushes),
            );
        }
        let mut fresh = Register::starting_with(Value::of(bytes), sectors);
        let owed = register.taken(&fresh, witness).filter_map(|write| {
            let over = witness.over(write.writer)?;
            let is_known = self.power_lost.get(&over).is_none_or(|lost| write.ended > *lost);
            is_known.then_some((over, block.volume, write.ended))
        });
        self.owed.extend(owed);
        fresh.writes.extend(register.still_open(witness));
        self.registers.insert(block, fresh);
    }

    /// A node starts again: only the current content of its blocks counts.
    pub(crate) fn forget_flushes(&mut self, node: NodeId) {
        self.flushes.retain(|flush| node_of(flush.volume) != node);
        self.cleared.retain(|(of, _)| *of != node);
    }

    /// Every block that was ever written or read, of all nodes.
    pub(crate) fn blocks(&self) -> Vec<Block> {
        self.registers.keys().copied().collect()
    }

    /// The number of reads that were checked.
    pub(crate) fn reads(&self) -> u64 {
        self.reads
    }
}

fn last<T>(all: &[T]) -> &[T] {
    &all[all.len().saturating_sub(12)..]
}

#[cfg(test)]
mod tests {
    use nearflash_request::Nexus;

    use super::*;
    use crate::network::LinkId;
    use crate::witness::{Door, Opened, Who};

    const BLOCK: Block = Block { volume: 0, lba: Lba(5) };
    const WRITER: Writer = Writer(1);

    fn sent(at: u64) -> Sent {
        Sent { writer: WRITER, at: Tick(at), durable: false }
    }

    fn value(sequence: u32) -> Value {
        let Block { volume, lba } = BLOCK;
        Value::Written(Stamp { volume, lba, writer: WRITER, sequence, count: 0 })
    }

    /// One write that was done from 10 to 20.
    fn one_write() -> History {
        let mut history = History::default();
        let id = history.write_sent(BLOCK, value(1), sent(10));
        history.write_ended(id, Ending::Done, Tick(20));
        history
    }

    fn read(history: &mut History, value: Value, sent: u64, now: u64) {
        history.read(BLOCK, value, (Tick(sent), Tick(now)), &Witness::default());
    }

    #[test]
    fn a_read_beside_a_write_may_return_old_or_new() {
        read(&mut one_write(), Value::Zero, 15, 25);
        read(&mut one_write(), value(1), 5, 15);
    }

    #[test]
    #[should_panic(expected = "stale")]
    fn a_read_after_a_write_may_not_return_what_was_before() {
        read(&mut one_write(), Value::Zero, 21, 25);
    }

    #[test]
    #[should_panic(expected = "stale")]
    fn what_was_seen_is_not_followed_by_what_is_older() {
        let mut history = one_write();
        read(&mut history, value(1), 5, 12);
        read(&mut history, Value::Zero, 13, 14);
    }

    fn differed(history: &mut History, value: Value, sent: u64, now: u64) {
        history.differed(BLOCK, value, (Tick(sent), Tick(now)), &Witness::default());
    }

    #[test]
    fn a_comparison_beside_a_write_may_hold_or_not() {
        differed(&mut one_write(), value(1), 15, 25);
        differed(&mut one_write(), Value::Zero, 15, 25);
    }

    #[test]
    #[should_panic(expected = "did not hold")]
    fn a_comparison_with_what_was_there_all_the_while_holds() {
        differed(&mut one_write(), value(1), 21, 25);
    }

    #[test]
    #[should_panic(expected = "never written")]
    fn bytes_that_nobody_wrote_are_found() {
        read(&mut one_write(), Value::Other(7), 15, 25);
    }

    #[test]
    fn a_lost_write_may_come_after_a_later_one_until_it_has_ended() {
        let mut history = History::default();
        let lost = history.write_sent(BLOCK, value(1), sent(10));
        history.write_ended(lost, Ending::Lost, Tick(15));
        let next = history.write_sent(BLOCK, value(2), sent(16));
        history.write_ended(next, Ending::Done, Tick(20));
        read(&mut history, value(2), 21, 22);
        read(&mut history, value(1), 23, 24);
    }

    #[test]
    #[should_panic(expected = "stale")]
    fn zeroes_that_were_lost_do_not_come_after_the_node_has_said_that_they_are_over() {
        let mut history = one_write();
        let lost = history.write_sent(BLOCK, Value::Zero, Sent { writer: Writer(2), ..sent(21) });
        history.write_ended(lost, Ending::Lost, Tick(22));
        let mut witness = Witness::default();
        let who = Who { door: Door::Direct, number: 0 };
        let link = LinkId(1);
        witness.opens(
            Writer(2),
            Opened { who, nexus: Nexus::NONE, link, admin: None, over: None, is_bearers: false },
        );
        witness.is_gone(link, Tick(25));
        let next = history.write_sent(BLOCK, value(2), sent(26));
        history.write_ended(next, Ending::Done, Tick(30));
        history.read(BLOCK, Value::Zero, (Tick(31), Tick(32)), &witness);
    }

    /// A write of 10, whose writer lost its right at 15, and was answered at 20.
    fn one_write_of_one_shut_out() -> History {
        let mut history = History::default();
        let id = history.write_sent(BLOCK, value(1), sent(10));
        history.rights_changed(BLOCK.volume, |writer| writer != WRITER, Tick(15));
        history.write_ended(id, Ending::Done, Tick(20));
        let next = history.write_sent(BLOCK, value(2), sent(16));
        history.write_ended(next, Ending::Done, Tick(18));
        history
    }

    #[test]
    #[should_panic(expected = "stale")]
    fn a_write_of_one_shut_out_does_not_land_on_what_was_written_since() {
        read(&mut one_write_of_one_shut_out(), value(1), 22, 23);
    }

    #[test]
    fn a_write_that_was_done_before_its_writer_was_shut_out_is_overwritten() {
        let mut history = one_write_of_one_shut_out();
        read(&mut history, value(2), 22, 23);
    }

    #[test]
    fn a_write_of_one_let_in_again_may_have_been_on_its_way() {
        let mut history = History::default();
        let id = history.write_sent(BLOCK, value(1), sent(10));
        history.rights_changed(BLOCK.volume, |writer| writer != WRITER, Tick(15));
        let next = history.write_sent(BLOCK, value(2), sent(16));
        history.write_ended(next, Ending::Done, Tick(18));
        history.rights_changed(BLOCK.volume, |_| true, Tick(19));
        history.write_ended(id, Ending::Done, Tick(20));
        read(&mut history, value(1), 22, 23);
    }

    #[test]
    #[should_panic(expected = "durable is lost")]
    fn a_flushed_write_survives_the_loss_of_power() {
        let mut history = one_write();
        history.flushed(BLOCK.volume, (Tick(21), Tick(22)));
        history.power_lost(BLOCK, &[0; 512], true, &Witness::default());
    }

    #[test]
    fn a_durable_write_over_another_node_may_have_been_overwritten_before_its_node_lost_its_power()
    {
        let mut witness = Witness::default();
        let (who, link) = (Who { door: Door::Direct, number: 0 }, LinkId(0));
        let over = Some(NodeId(1));
        let opened = Opened { who, nexus: Nexus::NONE, link, admin: None, over, is_bearers: false };
        witness.opens(WRITER, opened);
        let mut history = History::default();
        let durable = Sent { durable: true, ..sent(10) };
        let id = history.write_sent(BLOCK, value(1), durable);
        let other = Sent { writer: Writer(2), at: Tick(11), durable: true };
        let next = history.write_sent(BLOCK, Value::Zero, other);
        history.write_ended(next, Ending::Done, Tick(12));
        history.power_lost(BLOCK, &[0; 512], true, &witness);
        history.write_ended(id, Ending::Done, Tick(30));
        history.power_lost(BLOCK, &[0; 512], true, &witness);
    }

    #[test]
    fn a_write_that_was_not_flushed_may_be_lost() {
        let mut history = one_write();
        history.flushed(BLOCK.volume, (Tick(19), Tick(22)));
        history.power_lost(BLOCK, &[0; 512], true, &Witness::default());
    }
}
