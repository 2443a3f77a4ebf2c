//! Compare-and-writes: one command, or two fused commands answered one by one.

use nearflash_request::Access;

use crate::failures::About;
use crate::history::{Block, Ending, WriteId};
use crate::judge::checks::Cause;
use crate::judge::{Answer, Asker, Checks};
use crate::node::node_of;
use crate::outside::Outside;
use crate::reservations::Asked;
use crate::stamp::{Stamp, Value};
use crate::witness::Tick;

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

impl StepState {
    /// The outcome: the answer of the half that gives the reason, if it is known.
    fn verdict(&self) -> Option<Answer> {
        let mut halves = [self.first, self.second].into_iter().flatten();
        halves.find(|answer| *answer != Answer::OtherHalfFailed)
    }

    /// Both halves were answered, or the connection was lost.
    pub(crate) fn judge(self, is_lost: bool, checks: &mut Checks, outside: &mut Outside) {
        let now = outside.tick();
        let succeeded = [self.first, self.second].map(|half| half.is_some_and(Answer::is_success));
        let both_answered = self.first.is_some() && self.second.is_some();
        if both_answered {
            assert_eq!(succeeded[0], succeeded[1], "the halves succeed together: {self:?}");
        }
        let about = [About::blocks(self.block, 1, outside.block_len, self.sent).that_writes()];
        let (nexus, sent, failures) = (self.asker.nexus, self.sent, &outside.failures);
        let (node, depends) = (node_of(self.block.volume), outside.is_mirrored);
        let cause = Cause { node, nexus, sent, about: &about, failures, depends };
        let own = [Answer::Differs, Answer::OtherHalfFailed];
        for answer in [self.first, self.second].into_iter().flatten() {
            checks.count(answer, &own, cause, &self);
        }
        let verdict = self.verdict();
        if let Some(verdict) = verdict {
            let (Block { volume, .. }, nexus) = (self.block, self.asker.nexus);
            let asked = Asked { volume, nexus, access: Access::Write, sent: self.sent };
            checks.judge_right(&[asked], verdict, now);
        }
        if verdict == Some(Answer::Differs) {
            checks.history.differed(self.block, self.from, (self.sent, now), &outside.witness);
        }
        let of_nobody =
            [Answer::Differs, Answer::Conflict, Answer::Attention, Answer::Aborted, Answer::Full];
        let is_refused = verdict.is_some_and(|verdict| of_nobody.contains(&verdict));
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
