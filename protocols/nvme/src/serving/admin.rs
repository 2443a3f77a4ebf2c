//! What the handler of an admin command sees, changes and answers. NVMe Base 2.0, 5.

use std::collections::{BTreeMap, VecDeque};

use nearflash_units::Nanos;

use super::Action;
use super::config::TargetConfig;
use super::controller::Controller;
use super::state::ControllerKind;
use super::subsystem::{Namespaces, Subsystem};
use crate::{AdminOpcode, Command, Nqn, Status};

/// AERL + 1: Asynchronous Event Requests that may wait.
pub(super) const EVENT_REQUESTS_MAX: u8 = 4;

/// One admin command in the making: all that its handler may see and change.
pub(super) struct Admin<'a> {
    pub(super) now: Nanos,
    pub(super) config: &'a TargetConfig,
    pub(super) subsystems: &'a BTreeMap<Nqn, Subsystem>,
    pub(super) discovery_generation: u64,
    pub(super) controller: &'a mut Controller,
    pub(super) actions: &'a mut VecDeque<Action>,
    pub(super) command: &'a Command,
    pub(super) data: &'a [u8],
    /// The opcodes that a kind of controller knows.
    pub(super) opcodes: fn(ControllerKind) -> Vec<AdminOpcode>,
}

/// What a command that succeeded returns.
#[derive(Debug, Default)]
pub(super) struct Answer {
    /// Dwords 0 and 1.
    pub(super) result: u64,
    /// To the host.
    pub(super) data: Vec<u8>,
}

/// When a command that succeeded is answered.
pub(super) enum Reply {
    /// At once.
    Now(Answer),
    /// When something happens.
    Later,
}

impl Answer {
    /// Data without a result.
    pub(super) fn data(data: Vec<u8>) -> Self {
        Self { result: 0, data }
    }

    /// A result without data.
    pub(super) fn result(result: u32) -> Self {
        Self { result: u64::from(result), data: Vec::new() }
    }
}

impl Admin<'_> {
    /// The namespaces that the host sees; none on a discovery controller.
    pub(super) fn namespaces(&self) -> &Namespaces {
        static NONE: Namespaces = Namespaces::new();
        self.subsystem().map_or(&NONE, |subsystem| &subsystem.namespaces)
    }

    /// The controller's subsystem, unless that is the discovery subsystem.
    pub(super) fn subsystem(&self) -> Option<&Subsystem> {
        self.subsystems.get(&self.controller.subsystem)
    }

    /// The command's data from the host, which must be exactly so long.
    pub(super) fn data_exactly(&self, len: usize) -> Result<&[u8], Status> {
        let exact = self.data.len() == len;
        if exact { Ok(self.data) } else { Err(Status::SGL_LENGTH_INVALID.dnr()) }
    }

    /// Whether the host has made room for exactly so much data.
    pub(super) fn check_room(&self, len: u64) -> Result<(), Status> {
        self.command.sgl.check_to_host(len, 0)
    }
}
