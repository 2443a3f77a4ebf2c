//! What a task management function asks of the session's other connections: to give up commands of
//! theirs, and to know that their answers have arrived before its own goes out.
//!
//! Spec: RFC 7143, 4.2.3.3 (aborts of many tasks) and 4.2.2.3.3 (response fence). The other
//! connections live on the same core: whoever drives them carries [`Order`]s from one to the others
//! whenever one [`TargetSession::stirs`].
//!
//! The fence: an answer on one connection may overtake one on another. So every other connection asks
//! its initiator for a word (a ping), and any PDU that acknowledges all that was said until then lifts
//! the fence there.

use super::functions::{FunctionAnswer, Reach};
use super::{State, TargetSession};
use crate::pdu::{HEADER_LEN, Serial};

/// What one connection of a session asks of the others.
#[derive(Clone, Copy, Debug)]
pub struct Order(Wish);

#[derive(Clone, Copy, Debug)]
enum Wish {
    /// These commands are over.
    GiveUp(Reach),
    /// What was said is to be acknowledged.
    Acknowledge,
}

/// Answers that wait for the session's other connections.
#[derive(Debug, Default)]
pub(super) struct Fence {
    /// Of this connection's functions.
    answers: Vec<FunctionAnswer>,
    /// The others know.
    is_told: bool,
    /// What has to be acknowledged here first, for functions of others: the status number behind it.
    acknowledged_to: Option<Serial>,
}

impl TargetSession {
    /// What the session's other connections are to hear, of those that [`Self::obey`] it.
    pub fn poll_order(&mut self) -> Option<Order> {
        if let Some(function) = self.functions.iter_mut().find(|function| !function.is_told) {
            function.is_told = true;
            return Some(Order(Wish::GiveUp(function.reach)));
        }
        if self.fence.answers.is_empty() || self.fence.is_told {
            return None;
        }
        self.fence.is_told = true;
        Some(Order(Wish::Acknowledge))
    }

    /// Does what another connection of the session asks for.
    pub fn obey(&mut self, order: &Order) {
        if self.state != State::FullFeature {
            return; // its commands are over, or end with it
        }
        match order.0 {
            Wish::GiveUp(reach) => {
                self.give_up_all(reach);
                self.settle_functions();
            }
            Wish::Acknowledge => {
                self.fence.acknowledged_to = Some(Serial(self.stat_sn));
                self.push_ping();
            }
        }
    }

    /// Whether answers wait until every other connection [`Self::is_acknowledged`].
    pub fn awaits_others(&self) -> bool {
        !self.fence.answers.is_empty() && self.fence.is_told
    }

    /// Whether the initiator has heard what it was to acknowledge, or never will.
    pub fn is_acknowledged(&self) -> bool {
        self.fence.acknowledged_to.is_none() || self.state != State::FullFeature
    }

    /// Every other connection is acknowledged: what waited for that is said.
    pub fn lift_fence(&mut self) {
        for answer in std::mem::take(&mut self.fence.answers) {
            if self.state != State::Closing {
                self.conclude(answer);
            }
        }
    }

    /// A function is over, but for what other connections said before.
    pub(super) fn answer_behind_others(&mut self, answer: FunctionAnswer) {
        self.fence.answers.push(answer);
        self.fence.is_told = false;
        self.has_stirred = true;
    }

    /// A PDU has come while something is to be acknowledged. Its ExpStatSN says how far that is.
    #[cold]
    pub(super) fn look_at_fence(&mut self, head: &[u8; HEADER_LEN]) {
        let [.., a, b, c, d] = *head.first_chunk::<32>().expect("a header is longer");
        let expected = Serial(u32::from_be_bytes([a, b, c, d]));
        let is_lifted = |to: &mut Serial| !expected.is_before(*to);
        if self.fence.acknowledged_to.take_if(is_lifted).is_some() {
            self.has_stirred = true;
        }
    }

    /// The connection ends: nobody is to wait for it any more.
    pub(super) fn leave_fence(&mut self) {
        self.has_stirred |= self.fence.acknowledged_to.take().is_some();
    }

    /// And nothing is answered on it.
    pub(super) fn drop_fence(&mut self) {
        self.leave_fence();
        self.fence.answers.clear();
    }

    /// Whether something is to be acknowledged here.
    #[inline]
    pub(super) const fn is_fenced(&self) -> bool {
        self.fence.acknowledged_to.is_some()
    }
}
