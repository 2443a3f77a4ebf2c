//! The authentication of a queue: its commands carry the messages of `nearflash_nvme::auth`.
//!
//! Spec: NVMe Base 2.0, 6.1, 6.2 and 8.13. A message of the host is handed out with the controller's end of the
//! authentication, because its handling takes milliseconds. The Authentication Send completes when both
//! are back. A queue whose host must authenticate accepts no other command before that.

use nearflash_nvme::auth::{ControllerEnd, Names, Step};
use nearflash_nvme::{Command, CompletionEntry, FabricsType, Status};

use super::commands::{FUSE_BITS, Prepared};
use super::slots::{AuthenticationSend, Kind};
use super::{Demand, SMALL_DATA_LEN_MAX, State, TargetSession};
use crate::error::PeerError;
use crate::length;

impl TargetSession {
    /// Whether the command belongs to an authentication, and the queue has one.
    pub(super) fn is_authentication(&self, command: &Command) -> bool {
        let queue = self.queue.as_ref();
        command.is_authentication() && queue.is_some_and(|queue| queue.authentication.is_some())
    }

    /// The names of a queue whose host must authenticate, and has not.
    pub fn unproved_names(&self) -> Option<&Names> {
        let is_proved = self.authentication.as_ref().is_some_and(ControllerEnd::is_authenticated);
        let names = self.queue.as_ref()?.authentication.as_ref()?;
        (!is_proved && !matches!(self.state, State::Admin | State::Io)).then_some(names)
    }

    /// Handles a command of a queue that is not authenticated.
    pub(super) fn on_unauthenticated_command(
        &mut self,
        command: &Command,
    ) -> Result<(), PeerError> {
        self.check_room()?;
        if self.is_authentication(command) {
            self.on_authentication(command);
        } else {
            self.refuse(command.command_id(), Status::AUTHENTICATION_REQUIRED.dnr());
        }
        Ok(())
    }

    pub(super) fn on_authentication(&mut self, command: &Command) {
        if let Err(status) = self.take_authentication(command) {
            self.refuse(command.command_id(), status);
        }
    }

    /// Handles an Authentication Send or Receive.
    pub(super) fn take_authentication(&mut self, command: &Command) -> Result<(), Status> {
        self.check_usual(command)?;
        if command.flags & FUSE_BITS != 0 {
            return Err(Status::INVALID_FIELD.dnr());
        }
        let len = command.as_authentication().checked_len()?;
        if command.fabrics_type() == FabricsType::AUTHENTICATION_RECEIVE {
            return self.send_message(command, len);
        }
        if len > SMALL_DATA_LEN_MAX {
            return Err(Status::INVALID_FIELD.dnr());
        }
        let (placement, len) = self.locate(command, len..=len)?;
        let kind = Kind::Authentication(Box::default());
        self.begin(Prepared { cid: command.command_id(), kind, len, placement });
        Ok(())
    }

    /// Authentication Receive: sends the next message to the host.
    fn send_message(&mut self, command: &Command, len: u32) -> Result<(), Status> {
        self.check_no_data()?;
        command.sgl.check_to_host(u64::from(len), 0)?;
        // The host did not wait for the completion of its Authentication Send.
        let end = self.authentication.as_mut().ok_or(Status::COMMAND_SEQUENCE_ERROR)?;
        let message = end.next_message(length(len))?;
        let cid = command.command_id();
        // The rest of the buffer is zeroes: some hosts treat less data as an error.
        let filled = len.min(SMALL_DATA_LEN_MAX);
        self.push_own_data(cid, &message, filled);
        self.respond(CompletionEntry::new(cid, Status::SUCCESS));
        self.settle_authentication();
        Ok(())
    }

    /// Hands out an Authentication Send whose message has arrived: one at a time.
    pub(super) fn submit_authentication(&mut self, index: u16) {
        let Some(end) = self.authentication.take() else {
            return self.answer(index, Status::COMMAND_SEQUENCE_ERROR);
        };
        if let Kind::Authentication(send) = &mut self.slots[index].kind {
            send.end = end;
        }
        self.hand_out(index);
    }

    pub(super) fn authentication_demand(&mut self, index: u16, send: AuthenticationSend) -> Demand {
        let slot = &mut self.slots[index];
        slot.kind = Kind::AdminHandedOut;
        slot.len = 0;
        let command_id = slot.cid;
        let names = self.queue.as_ref().and_then(|queue| queue.authentication.clone());
        let names = names.expect("only a queue that authenticates has such commands");
        let AuthenticationSend { message, end } = send;
        Demand::Authentication(Box::new(Step { command_id, names, message, end }))
    }

    /// Passes in a [`Demand::Authentication`] after its [`Step::run`].
    ///
    /// # Panics
    /// If no step is handed out.
    pub fn handle_authentication(&mut self, step: Step) {
        if self.state == State::Closing {
            return;
        }
        assert!(self.authentication.is_none(), "a step is answered once");
        self.authentication = Some(step.end);
        self.handle_admin_response(CompletionEntry::new(step.command_id, Status::SUCCESS), &[]);
        self.settle_authentication();
    }

    /// Opens the queue when the host is authenticated, and closes it when an authentication has failed.
    fn settle_authentication(&mut self) {
        let is_authenticated = self.authentication.as_ref().is_some_and(|it| it.is_authenticated());
        match (self.state, is_authenticated) {
            (State::Authenticating, true) => self.open_queue(),
            (State::Admin | State::Io, false) => self.state = State::Authenticating,
            _ => {}
        }
    }
}
