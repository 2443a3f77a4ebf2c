//! The choice of a client's next request.

use std::ops::Range;

use nearflash_direct::client::ClientOperation;
use nearflash_request::BufferId;

use super::{Client, Common, OwnRequest, Pending, What};
use crate::client::ground::WordUse;
use crate::client::ownership::Fill;
use crate::judge::Checks;
use crate::outside::Outside;
use crate::witness::Tick;

impl Client {
    /// Whether a change, or a read, of this range would overlap one of this client's in flight.
    fn meets(&self, range: &Range<u64>, changes: bool) -> bool {
        let Some(connection) = &self.connection else { return true };
        let mut own = connection.pending.values().filter_map(|pending| match pending {
            Pending::Own(request) => Some(request),
            Pending::Field(_) => None,
        });
        own.any(|pending| {
            let conflicts = match pending.what {
                What::Read => changes,
                What::Change(_) => true,
                What::Flush | What::Add | What::Swap { .. } | What::Trespass | What::Junk => false,
            };
            conflicts && pending.range.start < range.end && range.start < pending.range.end
        })
    }

    /// The next request, if its range is free.
    pub(super) fn draw(
        &mut self,
        common: &mut Common,
        checks: &mut Checks,
        outside: &mut Outside,
    ) -> Option<(Pending, ClientOperation)> {
        let durable = self.dice.permille(self.plan.durable_permille);
        let sent = outside.tick();
        if self.plan.crooked.is_some() || self.is_deaf() {
            return Some(self.draw_junk(sent, durable));
        }
        if self.is_bearer() {
            return self.draw_on_field(durable, checks, outside);
        }
        if self.dice.permille(self.plan.long_read_permille) {
            let stretch = &self.ground.readable(self.own_number())[1];
            let range = stretch.start..stretch.end.min(stretch.start + self.ground.len_max);
            return self.draw_read(range, sent);
        }
        if self.has_key && self.dice.permille(self.plan.trespass_permille) {
            return self.draw_trespass(sent, durable);
        }
        if self.dice.permille(self.plan.field_permille) {
            return self.draw_on_field(durable, checks, outside);
        }
        match self.dice.between(0, 99) {
            0..=34 => self.draw_write(sent, durable),
            35..=64 => {
                let range = self.draw_readable();
                self.draw_read(range, sent)
            }
            65..=69 => {
                let (range, what) = (0..0, What::Flush);
                let flush =
                    OwnRequest { volume: self.shared(), sent, range, buffer: None, durable, what };
                Some((Pending::Own(flush), ClientOperation::Flush))
            }
            70..=73 => self.draw_discard(sent, durable),
            _ => Some(self.draw_word(sent, durable, common)),
        }
    }

    /// A request that nobody checks: from a client that violates the protocol, or that receives no
    /// answers and requests as much as possible.
    fn draw_junk(&mut self, sent: Tick, durable: bool) -> (Pending, ClientOperation) {
        let (offset, len) = if self.is_deaf() {
            let start = self.ground.readable(self.own_number())[1].start;
            place_of(&(start..start + self.ground.len_max))
        } else {
            let offset = self.dice.between(0, 4000);
            (offset, 1 + u32::try_from(self.dice.between(0, 1999)).expect("small"))
        };
        let buffer = self.take(u64::from(len));
        let operation = if self.is_deaf() || self.dice.coin() {
            ClientOperation::Read { buffer, offset, len }
        } else {
            ClientOperation::Write { buffer, offset, len, durable }
        };
        let volume = self.route.node.junk_id();
        let (range, buffer, what) = (0..0, Some(buffer), What::Junk);
        (Pending::Own(OwnRequest { volume, sent, range, buffer, durable, what }), operation)
    }

    /// A request for another client's bytes. That client would notice an effect.
    fn draw_trespass(&mut self, sent: Tick, durable: bool) -> Option<(Pending, ClientOperation)> {
        let range = self.ground.anothers(self.own_number())?;
        let (offset, len) = place_of(&self.draw_within(&range));
        let buffer = self.take(u64::from(len));
        let operation = if self.dice.coin() {
            ClientOperation::Read { buffer, offset, len }
        } else {
            ClientOperation::Write { buffer, offset, len, durable }
        };
        let (range, buffer, what) = (0..0, Some(buffer), What::Trespass);
        Some((
            Pending::Own(OwnRequest { volume: self.shared(), sent, range, buffer, durable, what }),
            operation,
        ))
    }

    fn draw_write(&mut self, sent: Tick, durable: bool) -> Option<(Pending, ClientOperation)> {
        let range = self.draw_own();
        if self.meets(&range, true) {
            return None;
        }
        self.fills += 1;
        let number = self.fills;
        let bytes: Vec<u8> = range.clone().map(|at| Fill::byte(number, at)).collect();
        let buffer = self.connection.as_mut()?.memory.hold(bytes);
        let (offset, len) = place_of(&range);
        let operation = ClientOperation::Write { buffer, offset, len, durable };
        let (buffer, what) = (Some(buffer), What::Change(Fill::Pattern(number)));
        Some((
            Pending::Own(OwnRequest { volume: self.shared(), sent, range, buffer, durable, what }),
            operation,
        ))
    }

    fn draw_discard(&mut self, sent: Tick, durable: bool) -> Option<(Pending, ClientOperation)> {
        let range = self.ground.readable(self.own_number())[1].clone();
        let range = self.draw_within(&range);
        if self.meets(&range, true) {
            return None;
        }
        let (offset, len) = place_of(&range);
        let what = What::Change(Fill::Discard);
        let discard =
            OwnRequest { volume: self.shared(), sent, range, buffer: None, durable, what };
        Some((Pending::Own(discard), ClientOperation::Discard { offset, len }))
    }

    fn draw_read(&mut self, range: Range<u64>, sent: Tick) -> Option<(Pending, ClientOperation)> {
        if self.meets(&range, false) {
            return None;
        }
        let (offset, len) = place_of(&range);
        let buffer = self.take(range.end - range.start);
        let operation = ClientOperation::Read { buffer, offset, len };
        let (buffer, durable, what) = (Some(buffer), false, What::Read);
        Some((
            Pending::Own(OwnRequest { volume: self.shared(), sent, range, buffer, durable, what }),
            operation,
        ))
    }

    fn draw_word(
        &mut self,
        sent: Tick,
        durable: bool,
        common: &mut Common,
    ) -> (Pending, ClientOperation) {
        let words = self.ground.words();
        let (offset, kind) = self.dice.pick(&words);
        let range = offset..offset + 8;
        let (what, operation) = match kind {
            WordUse::Sum => {
                common.words.add_sent(offset);
                (What::Add, ClientOperation::FetchAdd { offset, addend: 1, durable })
            }
            WordUse::Chain => {
                let new = common.words.fresh();
                let guess = self.guesses.iter().find(|(word, _)| *word == offset);
                let expected = guess.map_or(0, |(_, guess)| *guess);
                common.words.swap_sent(offset, expected, new);
                let operation = ClientOperation::CompareAndSwap { offset, expected, new, durable };
                (What::Swap { expected, new }, operation)
            }
        };
        (
            Pending::Own(OwnRequest {
                volume: self.shared(),
                sent,
                range,
                buffer: None,
                durable,
                what,
            }),
            operation,
        )
    }

    /// The volume that it shares with other clients.
    fn shared(&self) -> u32 {
        self.route.node.shared_id()
    }

    pub(super) fn take(&mut self, len: u64) -> BufferId {
        let connection = self.connection.as_mut().expect("a client at work is connected");
        connection.memory.take(usize::try_from(len).expect("a small length"))
    }

    fn own_number(&self) -> u64 {
        u64::try_from(self.number).expect("few clients")
    }

    /// A range that the client owns: all or part of a stripe or of its stretch.
    fn draw_own(&mut self) -> Range<u64> {
        let ranges = self.owned.ranges();
        let stretch = ranges.len() - 1;
        let index = if self.dice.permille(250) { stretch } else { self.dice.index(stretch) };
        let range = self.owned.ranges()[index].clone();
        self.draw_within(&range)
    }

    fn draw_readable(&mut self) -> Range<u64> {
        let index = if self.dice.permille(250) { 1 } else { 0 };
        let range = self.ground.readable(self.own_number())[index].clone();
        self.draw_within(&range)
    }

    /// A part of the range; sometimes whole blocks.
    fn draw_within(&mut self, range: &Range<u64>) -> Range<u64> {
        let len_max = self.ground.len_max.min(range.end - range.start);
        let len = 1 + self.dice.between(0, len_max - 1);
        let start = range.start + self.dice.between(0, range.end - range.start - len);
        let block = self.ground.block_len;
        let aligned = start.next_multiple_of(block)..(start + len) / block * block;
        if aligned.start < aligned.end && self.dice.coin() {
            return aligned;
        }
        start..start + len
    }
}

fn place_of(range: &Range<u64>) -> (u64, u32) {
    (range.start, u32::try_from(range.end - range.start).expect("a short request"))
}
