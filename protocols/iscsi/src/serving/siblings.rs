//! The requests of a task management function or a logout to the session's other connections: to
//! give up commands, to confirm that their answers have arrived before its own is sent, or to
//! close.
//!
//! Spec: RFC 7143, 4.2.3.3 (aborts of many tasks), 4.2.2.3.3 (response fence) and 11.14 (logout).
//! The other connections live on the same core: their driver carries [`SiblingRequest`]s from one
//! to the others whenever [`TargetSession::concerns_siblings`] is true for one.
//!
//! The fence: an answer on one connection may overtake PDUs sent on another, even an R2T for a
//! command that is over, which no StatSN acknowledges. So every other connection sends a ping with
//! a tag of its own behind these PDUs, and the initiator's answer lifts the fence there.

use super::functions::{Function, FunctionAnswer, Order};
use super::slots::{Slot, Stage};
use super::{PING_TAG, State, TargetSession};
use crate::pdu::{HEADER_LEN, NO_TAG, NopOut, Opcode};

/// A request of one connection of a session to the others.
#[derive(Clone, Copy, Debug)]
pub struct SiblingRequest(pub(super) Order);

/// The outcome of a [`SiblingRequest`].
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum SiblingOutcome {
    /// The request concerned other connections.
    NotMeant,
    /// It is done.
    Done,
    /// It is handled, but requests that were handed out earlier have not ended.
    LeavesRequests,
}

/// Answers that wait for the session's other connections.
#[derive(Debug, Default)]
pub(super) struct Fence {
    /// The answers to this connection's functions.
    answers: Vec<FunctionAnswer>,
    /// The other connections have the request to acknowledge.
    is_told: bool,
    /// The tag of the ping that has to be answered here first, for functions of others.
    awaited: Option<u32>,
    /// Counts such pings.
    pings: u16,
}

impl TargetSession {
    /// The request to the session's other connections. The driver calls
    /// [`Self::handle_sibling_request`] of each, and then [`Self::handle_sibling_outcome`] of this
    /// one.
    pub fn sibling_request(&self) -> Option<SiblingRequest> {
        let of_functions = self.siblings.functions.iter().find_map(|function| function.order);
        let acknowledges = !self.siblings.fence.answers.is_empty() && !self.siblings.fence.is_told;
        of_functions.or_else(|| acknowledges.then_some(Order::Acknowledge)).map(SiblingRequest)
    }

    /// The others have handled [`Self::sibling_request`]; `outcome` is their highest one.
    pub fn handle_sibling_outcome(&mut self, outcome: SiblingOutcome) {
        match self.siblings.functions.iter().position(|function| function.order.is_some()) {
            Some(place) => {
                let Function { order, then, .. } = self.siblings.functions[place];
                self.siblings.functions[place].order = None;
                if let Some(Order::Close(_)) = order {
                    self.siblings.functions[place].then = self.after_close(then, outcome);
                }
            }
            None => self.siblings.fence.is_told = true,
        }
    }

    /// Handles the request of another connection of the session.
    pub fn handle_sibling_request(&mut self, order: &SiblingRequest) -> SiblingOutcome {
        match order.0 {
            Order::Close(cid) if cid.is_none_or(|cid| cid == self.names.cid) => {
                return self.leave();
            }
            Order::Close(_) => return SiblingOutcome::NotMeant,
            // Its commands are over, or end with it.
            _ if self.state != State::FullFeature => {}
            Order::GiveUp(reach) => {
                self.give_up_all(reach);
                self.settle_functions();
            }
            Order::Acknowledge => {
                // Never 0, which would give the tag of the other pings.
                self.siblings.fence.pings = self.siblings.fence.pings % u16::MAX + 1;
                let tag = PING_TAG ^ u32::from(self.siblings.fence.pings);
                self.siblings.fence.awaited = Some(tag);
                self.push_ping(tag);
            }
        }
        SiblingOutcome::Done
    }

    /// Ends this connection without a PDU, because a logout on another connection closed it.
    fn leave(&mut self) -> SiblingOutcome {
        let is_handed_out = |slot: &Slot| slot.stage == Stage::Submitted;
        let leaves_requests = self.tasks.slots.iter().any(|(_, slot)| is_handed_out(slot));
        self.has_logged_out = true;
        self.stop();
        if leaves_requests { SiblingOutcome::LeavesRequests } else { SiblingOutcome::Done }
    }

    /// Whether answers wait until every other connection [`Self::is_acknowledged`].
    pub fn awaits_others(&self) -> bool {
        !self.siblings.fence.answers.is_empty() && self.siblings.fence.is_told
    }

    /// Whether the initiator has acknowledged the PDUs, or never will.
    pub fn is_acknowledged(&self) -> bool {
        self.siblings.fence.awaited.is_none() || self.state != State::FullFeature
    }

    /// Sends the answers that waited until every other connection was acknowledged.
    pub fn lift_fence(&mut self) {
        for answer in std::mem::take(&mut self.siblings.fence.answers) {
            if self.state != State::Closing {
                self.conclude(answer);
            }
        }
    }

    /// Ends a function: its answer waits until PDUs on other connections are acknowledged.
    pub(super) fn answer_behind_others(&mut self, answer: FunctionAnswer) {
        self.siblings.fence.answers.push(answer);
        self.siblings.fence.is_told = false;
        self.siblings.is_concerned = true;
    }

    /// Checks whether a PDU answers the fence's ping.
    #[cold]
    pub(super) fn look_at_fence(&mut self, head: &[u8; HEADER_LEN]) {
        let word: &NopOut = zerocopy::transmute_ref!(head);
        let is_answer = word.opcode.opcode() == Opcode::NOP_OUT && word.itt.get() == NO_TAG;
        if is_answer && self.siblings.fence.awaited.take_if(|tag| *tag == word.ttt.get()).is_some()
        {
            self.siblings.is_concerned = true;
        }
    }

    /// Records the end of the connection: no other connection needs to wait for it.
    pub(super) fn leave_fence(&mut self) {
        self.siblings.is_concerned |= self.siblings.fence.awaited.take().is_some();
    }

    /// Records the end of the connection, which sends no more answers.
    pub(super) fn drop_fence(&mut self) {
        self.leave_fence();
        self.siblings.fence.answers.clear();
    }

    /// Whether the initiator still has to acknowledge the fence's ping.
    pub(super) const fn is_fenced(&self) -> bool {
        self.siblings.fence.awaited.is_some()
    }
}
