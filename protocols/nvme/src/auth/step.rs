//! A step of an authentication, which another thread can make: it takes milliseconds.

use super::controller::ControllerEnd;
use super::hosts::{HostKeys, Random};
use super::response::Names;
use crate::CommandId;

/// A message of a host, with the end that handles it.
#[derive(Clone, Debug)]
pub struct Step {
    /// The Authentication Send that carries the message.
    pub command_id: CommandId,
    /// The names of both ends.
    pub names: Names,
    /// The message.
    pub message: Vec<u8>,
    /// The controller's end.
    pub end: ControllerEnd,
}

impl Step {
    /// Handles the message with the keys that the host has now.
    pub fn run(&mut self, keys: Option<&HostKeys>, random: &Random) {
        self.end.handle_message(&self.message, &self.names, keys, random);
    }
}
