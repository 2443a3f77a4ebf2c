//! A client's checks of its answers.

use std::ops::Range;

use nearflash_direct::Status;
use nearflash_direct::client::ClientCompletion;
use nearflash_request::{Access, Nexus};

use super::{Client, Common, OwnRequest, What};
use crate::client::ownership::{Ending, Fill};
use crate::judge::Checks;
use crate::outside::Outside;
use crate::reservations::Asked;
use crate::witness::Tick;

impl Client {
    /// Checks that the reservations explain why the request was admitted or refused.
    pub(super) fn judge_right(
        &self,
        request: &OwnRequest,
        status: Status,
        checks: &mut Checks,
        outside: &mut Outside,
    ) {
        let is_refused = status == Status::RESERVED;
        // A deallocation of less than a block has no effect and needs no access.
        let touches = request.what != What::Change(Fill::Discard)
            || holds_a_block(&request.range, outside.block_len);
        if is_refused || (status.is_ok() && touches) {
            let access = match request.what {
                What::Read => Access::Read,
                What::Flush => Access::Manage,
                _ => Access::Write,
            };
            let (volume, nexus, sent) = (request.volume, Nexus::NONE, request.sent);
            let asked = Asked { volume, nexus, access, sent };
            let now = outside.tick();
            match is_refused {
                true => checks.reservations.judge_refusal(&[asked], now),
                false => checks.reservations.judge_done(asked, now),
            }
        }
    }

    /// A request is answered.
    pub(super) fn judge(
        &mut self,
        pending: &OwnRequest,
        done: ClientCompletion,
        bytes: &[u8],
        common: &mut Common,
        outside: &mut Outside,
    ) {
        let now = outside.tick();
        let status = done.status;
        self.judge_answer(pending.sent, status, common);
        let is_due = !is_of_device(status) || outside.failures.explain(&pending.about());
        assert!(
            is_due,
            "client {}: no device failed {pending:?}, answered {status:?}",
            self.number
        );
        let word = pending.range.start;
        let durable = pending.durable || self.owned.keeps_all();
        // A right that is lost meanwhile may leave the first part of a request done.
        let is_not_done = is_not_done(status) && !pending.is_in_parts();
        match pending.what {
            What::Read if status.is_ok() => self.owned.read(self.number, word, bytes),
            What::Flush if status.is_ok() => {
                self.owned.flushed(pending.sent);
                common.words.flushed(pending.sent);
            }
            What::Change(fill) => {
                let ending = match status {
                    _ if status.is_ok() => Ending::Done { durable: pending.durable },
                    _ if is_not_done => Ending::NotDone,
                    _ => Ending::Failed,
                };
                self.owned.ended(&pending.range, fill, ending, (pending.sent, now));
            }
            What::Add if status.is_ok() => {
                common.words.added(word, done.value, (pending.sent, now), durable);
            }
            What::Add if is_not_done => common.words.add_refused(word),
            What::Swap { expected, new } if status.is_ok() => {
                common.words.swapped(word, new, done.value, (pending.sent, now), durable);
                self.guess(word, if done.value == expected { new } else { done.value });
            }
            What::Swap { new, .. } if is_not_done => common.words.swap_refused(word, new),
            What::Read
            | What::Flush
            | What::Add
            | What::Swap { .. }
            | What::Trespass
            | What::Junk => {}
        }
    }

    /// A request for another client's bytes was answered.
    pub(super) fn judge_trespass(&self, status: Status, common: &mut Common) {
        common.trespasses += u64::from(status == Status::NOT_GRANTED);
        let is_due = status == Status::NOT_GRANTED
            || (status == Status::STALE_EPOCH && common.epochs_change);
        assert!(is_due, "client {} asked for another's, and was answered {status:?}", self.number);
    }

    /// Whether the answer is possible, with the client's grants and the devices' failures.
    pub(super) fn judge_answer(&self, sent: Tick, status: Status, common: &mut Common) {
        let had_rights = self.revoked_at.is_none_or(|since| sent < since);
        let is_due = had_rights || !status.is_ok();
        assert!(is_due, "client {}: what was sent at {sent:?} was done", self.number);
        self.judge_status(sent, status, common);
    }

    fn judge_status(&self, sent: Tick, status: Status, common: &mut Common) {
        let is_due = match status {
            Status::OK => {
                common.succeeded += 1;
                true
            }
            Status::STALE_EPOCH => {
                common.stale += 1;
                common.epochs_change
            }
            // The ledger checks that.
            Status::RESERVED => {
                common.refused += 1;
                true
            }
            Status::NOT_GRANTED | Status::NO_SUCH_VOLUME => {
                common.refused += 1;
                sent < self.refusable_until
            }
            // The failed operation is matched with the request elsewhere.
            status if is_of_device(status) => {
                common.failed += 1;
                true
            }
            _ => false,
        };
        assert!(is_due, "client {}: a request was answered {status:?}", self.number);
    }

    /// Remembers the likely value of a word changed by swaps.
    fn guess(&mut self, word: u64, guess: u64) {
        match self.guesses.iter_mut().find(|(of, _)| *of == word) {
            Some(place) => place.1 = guess,
            None => self.guesses.push((word, guess)),
        }
    }
}

fn holds_a_block(range: &Range<u64>, block_len: usize) -> bool {
    let block_len = u64::try_from(block_len).expect("a length");
    range.start.next_multiple_of(block_len) + block_len <= range.end
}

/// Whether a status means that a device failed.
fn is_of_device(status: Status) -> bool {
    [
        Status::UNRECOVERED_READ,
        Status::WRITE_FAULT,
        Status::CAPACITY_EXCEEDED,
        Status::DEVICE_UNAVAILABLE,
    ]
    .contains(&status)
}

/// Whether a status means that the request was not done.
fn is_not_done(status: Status) -> bool {
    [Status::NOT_GRANTED, Status::NO_SUCH_VOLUME, Status::STALE_EPOCH, Status::RESERVED]
        .contains(&status)
}
