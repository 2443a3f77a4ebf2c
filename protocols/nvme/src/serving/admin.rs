//! The context, effects and result of an admin command's handler. NVMe Base 2.0, 5.

use std::collections::{BTreeMap, VecDeque};

use nearflash_request::{HostRights, Support};
use nearflash_units::Nanos;

use super::Action;
use super::config::{Port, TargetConfig};
use super::controller::Controller;
use super::state::ControllerKind;
use super::subsystem::{Namespaces, Subsystem};
use crate::hosts::KeyedHosts;
use crate::{AdminOpcode, Command, Nqn, Status};

/// AERL + 1: the maximum number of outstanding Asynchronous Event Requests.
pub(super) const EVENT_REQUESTS_MAX: u8 = 4;

/// One admin command in execution: everything that its handler may read and change.
pub(super) struct Admin<'a> {
    pub(super) now: Nanos,
    pub(super) config: &'a TargetConfig,
    pub(super) subsystems: &'a BTreeMap<Nqn, Subsystem>,
    pub(super) keyed_hosts: &'a KeyedHosts,
    pub(super) rights: &'a HostRights,
    /// The ports of other nodes.
    pub(super) elsewhere: &'a [Port],
    pub(super) discovery_generation: u64,
    pub(super) controller: &'a mut Controller,
    pub(super) actions: &'a mut VecDeque<Action>,
    pub(super) command: &'a Command,
    pub(super) data: &'a [u8],
    /// The opcodes that a controller of this kind supports.
    pub(super) opcodes: fn(ControllerKind) -> Vec<AdminOpcode>,
}

/// The result of a successful command.
#[derive(Debug, Default)]
pub(super) struct Answer {
    /// Dwords 0 and 1.
    pub(super) result: u64,
    pub(super) data: Vec<u8>,
}

/// When a successful command completes.
pub(super) enum Reply {
    /// Immediately.
    Now(Answer),
    /// Later, when an event occurs or the control side has replied.
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
    /// Whether the host may connect to subsystems.
    pub(super) fn is_admitted(&self) -> bool {
        let host = &self.controller.host;
        let is_keyed = self.keyed_hosts.authenticates(host) || self.keyed_hosts.tls(host).is_some();
        is_keyed || self.config.hosts.admits(host) && !self.keyed_hosts.is_removed(host)
    }

    /// The namespaces that the host can access; empty on a discovery controller.
    pub(super) fn namespaces(&self) -> &Namespaces {
        &self.controller.view.namespaces
    }

    /// The optional commands of the controller: reservations if a namespace has them, and fused commands if
    /// all of them have them, because no namespace can say that it has none. A controller without
    /// namespaces has both.
    pub(super) fn support(&self) -> Support {
        let mut all = self.namespaces().values().map(|config| config.support);
        let compound = all.clone().all(|it| it.compound);
        let reservations = self.namespaces().is_empty() || all.any(|it| it.reservations);
        Support { compound, reservations }
    }

    /// The controller's subsystem; `None` on a discovery controller.
    pub(super) fn subsystem(&self) -> Option<&Subsystem> {
        self.subsystems.get(&self.controller.subsystem)
    }

    /// The command's data from the host, which must have exactly this length.
    pub(super) fn data_exactly(&self, len: usize) -> Result<&[u8], Status> {
        let exact = self.data.len() == len;
        if exact { Ok(self.data) } else { Err(Status::SGL_LENGTH_INVALID.dnr()) }
    }

    /// Checks that the host's buffer has exactly this length.
    pub(super) fn check_room(&self, len: u64) -> Result<(), Status> {
        self.command.sgl.check_to_host(len, 0)
    }
}
