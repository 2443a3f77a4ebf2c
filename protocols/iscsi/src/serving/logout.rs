//! The orderly end of a connection, and of a session with all its connections.
//!
//! Spec: RFC 7143, 11.14 (logout) and 11.9 (asynchronous message).

use nearflash_request::{ChangeKind, TaskSet};
use zerocopy::IntoBytes;

use super::answers::Answer;
use super::functions::{Function, Order, Reach, Then};
use super::siblings::SiblingOutcome;
use super::slots::{After, FunctionTask};
use super::{State, TargetSession};
use crate::pdu::{
    AsyncEvent, LogoutReason, LogoutRequest, LogoutResult, NO_TAG, Opcode, RejectReason,
};

impl TargetSession {
    pub(super) fn on_logout(&mut self, request: &LogoutRequest) {
        let reason = request.reason();
        let (itt, cid) = (request.itt.get(), request.cid.get());
        let is_immediate = request.opcode.is_immediate();
        let result = match reason {
            LogoutReason::SESSION => return self.leave_with(itt, is_immediate, true),
            LogoutReason::CONNECTION if cid == self.names.cid => {
                return self.leave_with(itt, is_immediate, false);
            }
            LogoutReason::CONNECTION if self.shared.is_multiple => {
                return self.close_other(itt, is_immediate, cid);
            }
            LogoutReason::CONNECTION => LogoutResult::NO_CONNECTION,
            LogoutReason::RECOVERY => LogoutResult::NO_RECOVERY,
            _ => {
                self.finish_function(is_immediate);
                return self.reject(RejectReason::INVALID_FIELD, request.as_bytes());
            }
        };
        self.finish_function(is_immediate);
        self.conclude_logout(itt, false, result);
    }

    /// This connection ends, perhaps with its session.
    fn leave_with(&mut self, itt: u32, is_immediate: bool, is_of_session: bool) {
        self.skip_all();
        self.give_up_all(Reach::ALL);
        self.state = State::LoggingOut;
        self.leave_fence();
        let order = (is_of_session && self.shared.is_multiple).then_some(Order::Close(None));
        if order.is_some() {
            // A connection that is still joining does not receive the request.
            self.shared.close_all();
        }
        let then = Then::LogOut { goes: true, result: LogoutResult::SUCCESS };
        self.wait(Function { itt, is_immediate, reach: Reach::ALL, order, then });
    }

    /// Ends another connection of the session, which sends nothing more.
    fn close_other(&mut self, itt: u32, is_immediate: bool, cid: u16) {
        let (reach, order) = (Reach::NOTHING, Some(Order::Close(Some(cid))));
        // The result if no connection has this CID.
        let then = Then::LogOut { goes: false, result: LogoutResult::NO_CONNECTION };
        self.wait(Function { itt, is_immediate, reach, order, then });
    }

    /// The rest of a logout after it has ended other connections. Their writes at a device finish
    /// before the logout is answered, because the initiator may then write the same blocks on
    /// another connection. The control side waits for these writes, as their connections may be
    /// gone earlier.
    pub(super) fn after_close(&self, then: Then, outcome: SiblingOutcome) -> Then {
        let Then::LogOut { goes, .. } = then else { return then };
        match (outcome, self.units.iter().next()) {
            (SiblingOutcome::NotMeant, _) => then,
            (SiblingOutcome::LeavesRequests, Some(unit)) => Then::HandOut(FunctionTask {
                volume: unit.volume,
                kind: ChangeKind::EndTasks(TaskSet::Own),
                after: After::Logout { goes },
            }),
            _ => Then::LogOut { goes, result: LogoutResult::SUCCESS },
        }
    }

    /// Answers a logout; with `goes`, this connection closes.
    pub(super) fn conclude_logout(&mut self, itt: u32, goes: bool, result: LogoutResult) {
        let answer = Answer { codes: [result.0, 0], ..Answer::new(Opcode::LOGOUT_RESPONSE, itt) };
        self.push_answer(&answer, &[]);
        if goes {
            self.has_logged_out = true;
            self.stop();
        }
    }

    /// A cold reset: the session ends, and the next one reports a power on. RFC 7143, 11.5.1.
    pub(super) fn begin_anew(&mut self) {
        self.shared.forget();
        self.end_session();
    }

    /// Every connection of the session ends.
    pub(super) fn end_session(&mut self) {
        self.push_message(AsyncEvent::SESSION_DROP, [0; 3]);
        self.shared.close_all();
        self.siblings.is_concerned = true;
        self.stop();
    }

    /// Closes the connection if its session has ended.
    pub(super) fn close_if_over(&mut self) {
        if !self.is_stopped() && self.shared.is_over() {
            self.has_logged_out = true;
            self.stop();
        }
    }

    /// Asynchronous Message, with its three parameters. RFC 7143, 11.9.
    pub(super) fn push_message(&mut self, event: AsyncEvent, parameters: [u16; 3]) {
        let [first, second, third] = parameters.map(u32::from);
        let code = u32::from_be_bytes([event.0, 0, 0, 0]) | first;
        let rest = [code, second << 16 | third, 0];
        let answer = Answer { rest, ..Answer::new(Opcode::ASYNC, NO_TAG) };
        self.push_answer(&answer, &[]);
    }
}
