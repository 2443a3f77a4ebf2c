//! Commands that run piece by piece: transfers longer than a buffer, and third-party copies.
//!
//! Spec: RFC 7143, 11.7 (Data-In in several sequences), 11.8 (R2Ts in order). One piece at a time
//! is in the engine or collects its data. A command therefore holds at most one buffer, however
//! long it is. Its unsent data is bounded like everything that a connection holds of the pool.

use nearflash_request::{Completion, Payload};
use nearflash_scsi::{CopyState, Series};

use super::TargetSession;
use super::answers::{DataSource, Residual, Span, source_of};
use super::commands::{buffers_of, len32};
use super::slots::{Cut, Kind, Slot, Stage};

impl TargetSession {
    /// The engine's answer to a piece.
    #[cold]
    pub(super) fn answer_piece(
        &mut self,
        index: u16,
        mut series: Box<Series>,
        done: Completion,
        payload: &[u8],
    ) {
        if let Err(failure) = series.answer(&done) {
            self.link.output.orphan_payload(done.payload);
            self.note_copy(&series, CopyState::Failed);
            if series.piece.task.data_in.0 > 0 {
                self.tasks.slots[index].wanted = len32(series.done.0);
            }
            return self.fail(index, failure);
        }
        let start = series.done;
        let goes_on = series.advance();
        if let Some(cut) = self.tasks.slots[index].cut_short {
            self.link.output.orphan_payload(done.payload);
            self.tasks.slots[index].kind = Kind::Series(series);
            return match cut {
                Cut::Silently => self.give_up(index),
                Cut::TaskAborted => self.abort(index),
            };
        }
        if let Payload::Buffer(_) | Payload::Zeroes = done.payload {
            let (start, end) = (len32(start.0), len32(series.done.0));
            let source = source_of(done.payload, payload);
            // Data that the initiator has no room for is not read.
            if !goes_on || end >= self.tasks.slots[index].expected {
                return self.answer_with_last(index, source, start);
            }
            let slot = &self.tasks.slots[index];
            let span = Span { start, end, number: slot.r2t_sn, is_last: false };
            self.tasks.slots[index].r2t_sn =
                self.push_in_parts(slot.itt, source, span, Residual::of(0, 0));
            return self.hand_out_piece(index, series);
        }
        if goes_on {
            return self.go_on_with(index, series);
        }
        self.note_copy(&series, CopyState::Done);
        self.answer_good(index);
    }

    /// Requests the next piece from the engine, or its data from the initiator.
    fn go_on_with(&mut self, index: u16, series: Box<Series>) {
        self.note_copy(&series, CopyState::InProgress);
        if series.piece.task.data_out.0 == 0 {
            return self.hand_out_piece(index, series);
        }
        let slot = &mut self.tasks.slots[index];
        slot.base = slot.received;
        slot.buffers = buffers_of(&series.piece.task);
        slot.kind = Kind::Series(series);
        self.go_on(index);
    }

    /// GOOD, with the last piece's data.
    fn answer_with_last(&mut self, index: u16, source: DataSource<'_>, start: u32) {
        if start == 0 {
            return self.answer_with(index, source);
        }
        let slot = &self.tasks.slots[index];
        let (itt, expected, wanted) = (slot.itt, slot.expected, slot.wanted);
        let end = expected.min(wanted);
        let span = Span { start, end, number: slot.r2t_sn, is_last: true };
        self.release_slot(index);
        self.push_in_parts(itt, source, span, Residual::of(expected, wanted));
    }

    fn hand_out_piece(&mut self, index: u16, series: Box<Series>) {
        self.tasks.slots[index].kind = Kind::Series(series);
        self.tasks.ready.push_back(index);
    }

    /// Ends the series that are meant after their current piece. Returns their number.
    pub(super) fn cut_short(&mut self, cut: Cut, is_meant: impl Fn(u16, &Slot) -> bool) -> usize {
        let mut count = 0;
        for (index, slot) in self.tasks.slots.iter_mut() {
            let is_series = matches!(slot.kind, Kind::Series(_)) && slot.stage == Stage::Submitted;
            if is_series && is_meant(index, slot) {
                slot.cut_short.get_or_insert(cut);
                count += 1;
            }
        }
        count
    }

    /// Gives up a command. If it is a copy, its record shows that it failed.
    pub(super) fn note_end_of_copy(&self, index: u16) {
        if let Kind::Series(series) = &self.tasks.slots[index].kind {
            self.note_copy(series, CopyState::Failed);
        }
    }

    fn note_copy(&self, series: &Series, state: CopyState) {
        if let Some(id) = series.copy().and_then(|task| task.id) {
            self.shared.copies.note(id, series.progress(state));
        }
    }
}
