//! The controllers of a node: who is connected, what they see, what they are told.
//!
//! Spec: NVMe Base 2.0, 3 to 6, for controllers of the dynamic model. One [`Target`] holds all
//! subsystems of a node and lives on one of its cores; the queues' connections, wherever they are,
//! bring it their Connects and admin commands and do what its [`Action`]s say. I/O commands never
//! come here: their queues hold a [`NamespaceTable`] each. Knows nothing of PDUs and sockets.
//!
//! Invariants: while its controller lives each admin command is answered exactly once: at once or,
//! if it is an Asynchronous Event Request, when something happens, when it is aborted or when the
//! controller is reset. A controller that ends is followed by the end of all its queues. All that a
//! host can make grow is bounded by [`Limits`].

mod admin;
mod commands;
mod config;
mod connect;
mod controller;
mod discovery;
mod errors;
mod events;
mod features;
mod identify;
mod logs;
mod properties;
mod reservations;
mod state;
mod status;
mod subsystem;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use nearflash_request::Change;
use nearflash_units::Nanos;

pub use config::{
    Deallocation, HostAccess, Life, Limits, NamespaceConfig, Port, PublishError, TargetConfig,
};
pub use connect::{Connected, QueueKind, Refusal};
pub use state::ControllerKind;
pub use status::{HostStatus, SubsystemStatus, TargetStatus};

use crate::{
    AsyncEvent, Command, CommandId, CompletionEntry, ControllerId, NamespaceTable, Nqn, QueueId,
    Status,
};
use admin::{Admin, Answer, Reply};
use controller::Controller;
use subsystem::{Namespaces, Subsystem, by_subsystem};

/// What is to be done for the target.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Action {
    /// Answer a command of the queue. The queue fills in SQHD.
    Respond {
        /// Whose queue.
        controller: ControllerId,
        /// Which queue.
        queue: QueueId,
        /// The answer.
        completion: CompletionEntry,
        /// Data to the host, sent before it.
        data: Vec<u8>,
    },
    /// End these connections.
    Disconnect {
        /// Whose.
        controller: ControllerId,
        /// Which queue; `None` is all of the controller's, the admin queue too.
        queue: Option<QueueId>,
        /// Why, for the log.
        reason: DisconnectReason,
    },
    /// From now on the controller's I/O queues see these namespaces.
    Namespaces {
        /// Whose.
        controller: ControllerId,
        /// Which.
        table: Arc<NamespaceTable>,
    },
    /// Have the control side make this change; answered with [`Target::handle_change`].
    Change {
        /// Whose.
        controller: ControllerId,
        /// By which command of its admin queue.
        command_id: CommandId,
        /// What.
        change: Change,
    },
}

/// Why a host's connections end.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum DisconnectReason {
    /// The host was not heard of for longer than agreed.
    #[error("keep alive expired")]
    KeepAliveExpired,
    /// The subsystem is no longer offered.
    #[error("subsystem removed")]
    SubsystemRemoved,
    /// The host reset the controller, which ends its I/O queues.
    #[error("controller reset by the host")]
    ControllerReset,
    /// The controller's admin queue ended.
    #[error("admin queue closed")]
    AdminQueueClosed,
}

/// All subsystems and all controllers of a node.
#[derive(Debug)]
pub struct Target {
    config: TargetConfig,
    subsystems: BTreeMap<Nqn, Subsystem>,
    controllers: BTreeMap<ControllerId, Controller>,
    controller_next: ControllerId,
    /// GENCTR.
    discovery_generation: u64,
    actions: VecDeque<Action>,
}

impl Target {
    /// Without subsystems yet.
    ///
    /// # Panics
    /// When limits are not as [`Limits`] says they must be.
    pub fn new(config: TargetConfig) -> Self {
        let limits = &config.limits;
        let transfer_len_max = limits.transfer_len_max.0;
        assert!(transfer_len_max.is_power_of_two() && transfer_len_max >= 4096);
        assert!(limits.in_capsule_len_max.is_multiple_of(16));
        assert!((2..=4096).contains(&limits.queue_entries_max));
        assert!((1..0xFFFF).contains(&limits.io_queues_max));
        Self {
            config,
            subsystems: BTreeMap::new(),
            controllers: BTreeMap::new(),
            controller_next: ControllerId(1),
            discovery_generation: 0,
            actions: VecDeque::new(),
        }
    }

    /// These namespaces and no others are offered from now on. Hosts are told what changed; a
    /// subsystem without namespaces is gone, and so are its controllers.
    ///
    /// # Errors
    /// When they contradict each other; then nothing has changed.
    pub fn publish(&mut self, namespaces: Vec<NamespaceConfig>) -> Result<(), PublishError> {
        let mut wanted = by_subsystem(namespaces)?;
        let gone = |nqn: &&Nqn| !wanted.contains_key(*nqn);
        let gone: Vec<_> = self.subsystems.keys().filter(gone).cloned().collect();
        let is_new = |nqn: &Nqn| !self.subsystems.contains_key(nqn);
        let subsystems_changed = !gone.is_empty() || wanted.keys().any(is_new);
        for nqn in gone {
            self.remove_subsystem(&nqn);
        }
        while let Some((nqn, namespaces)) = wanted.pop_first() {
            self.replace_namespaces(nqn, namespaces);
        }
        if subsystems_changed {
            self.discovery_generation += 1;
            let of_discovery = |it: &Controller| it.kind == ControllerKind::Discovery;
            self.raise_event(AsyncEvent::DISCOVERY_CHANGED, of_discovery);
        }
        Ok(())
    }

    fn remove_subsystem(&mut self, nqn: &Nqn) {
        self.subsystems.remove(nqn);
        let of_it = self.controllers.values().filter(|it| it.subsystem == *nqn);
        let ended: Vec<_> = of_it.map(|it| it.id).collect();
        for id in ended {
            self.end(id, DisconnectReason::SubsystemRemoved);
        }
    }

    fn replace_namespaces(&mut self, nqn: Nqn, namespaces: Namespaces) {
        let make = || Subsystem::new(nqn.clone(), self.config.serial_seed);
        let subsystem = self.subsystems.entry(nqn.clone()).or_insert_with(make);
        let changed = subsystem.replace(namespaces, self.config.limits.transfer_len_max);
        if changed.is_empty() {
            return;
        }
        let table = Arc::clone(&subsystem.table);
        for controller in self.controllers.values_mut().filter(|it| it.subsystem == nqn) {
            controller.changed_namespaces.extend(&changed);
            let table = Arc::clone(&table);
            self.actions.push_back(Action::Namespaces { controller: controller.id, table });
        }
        self.raise_event(AsyncEvent::NAMESPACE_CHANGED, |it| it.subsystem == nqn);
    }

    fn raise_event(&mut self, event: AsyncEvent, at: impl Fn(&Controller) -> bool) {
        for controller in self.controllers.values_mut().filter(|it| at(it)) {
            controller.events.raise(event, controller.features.notices);
            tell_events(controller, &mut self.actions);
        }
    }

    /// The connection of a queue has ended, whoever ended it. With the admin queue its controller
    /// ends.
    pub fn queue_closed(&mut self, controller: ControllerId, queue: QueueId) {
        if !queue.is_admin() {
            if let Some(controller) = self.controllers.get_mut(&controller) {
                controller.queue_closed(queue);
            }
            return;
        }
        let Some(ended) = self.controllers.remove(&controller) else { return };
        for queue in ended.open_queues() {
            self.actions.push_back(Action::Disconnect {
                controller,
                queue: Some(queue),
                reason: DisconnectReason::AdminQueueClosed,
            });
        }
    }

    /// A command of an admin queue, with the data it brought (its descriptor tells how much
    /// that is). Of a controller that has just ended it is passed over: its connection is about to
    /// end.
    pub fn admin(&mut self, now: Nanos, controller: ControllerId, command: &Command, data: &[u8]) {
        let Some(controller) = self.controllers.get_mut(&controller) else { return };
        controller.heard_at = controller.heard_at.max(now);
        let id = controller.id;
        let mut admin = Admin {
            now,
            config: &self.config,
            subsystems: &self.subsystems,
            discovery_generation: self.discovery_generation,
            controller,
            actions: &mut self.actions,
            command,
            data,
            opcodes: commands::supported_opcodes,
        };
        let (status, answer) = match commands::dispatch(&mut admin) {
            Ok(Reply::Now(answer)) => (Status::SUCCESS, Some(answer)),
            Ok(Reply::Later) => (Status::SUCCESS, None),
            Err(status) => {
                admin.controller.errors.record(command, status);
                (status, Some(Answer::default()))
            }
        };
        if let Some(Answer { result, data }) = answer {
            let completion = CompletionEntry::new(command.command_id(), status);
            let completion = completion.with_result64(result);
            let queue = QueueId::ADMIN;
            self.actions.push_back(Action::Respond { controller: id, queue, completion, data });
        }
        if let Some(controller) = self.controllers.get_mut(&id) {
            tell_events(controller, &mut self.actions);
        }
    }

    /// What is to be done next. To be asked until there is nothing, after each call that is given
    /// something.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Time has passed. What has come from hosts by then must have been given before.
    pub fn handle_timeout(&mut self, now: Nanos) {
        let late = |it: &&Controller| it.expires_at().is_some_and(|at| at <= now);
        let late: Vec<_> = self.controllers.values().filter(late).map(|it| it.id).collect();
        for id in late {
            self.end(id, DisconnectReason::KeepAliveExpired);
        }
    }

    /// When [`Self::handle_timeout`] is next to be called.
    pub fn poll_timeout(&self) -> Option<Nanos> {
        self.controllers.values().filter_map(Controller::expires_at).min()
    }

    /// Forgets a controller and ends its connections.
    fn end(&mut self, controller: ControllerId, reason: DisconnectReason) {
        self.controllers.remove(&controller);
        self.actions.push_back(Action::Disconnect { controller, queue: None, reason });
    }
}

/// Answers waiting Asynchronous Event Requests as long as there is something to tell.
fn tell_events(controller: &mut Controller, actions: &mut VecDeque<Action>) {
    while !controller.event_requests.is_empty() {
        let Some(event) = controller.events.take() else { return };
        let Some(cid) = controller.event_requests.pop_front() else { return };
        let result = event.to_result();
        actions.push_back(Action::Respond {
            controller: controller.id,
            queue: QueueId::ADMIN,
            completion: CompletionEntry::with_result(cid, Status::SUCCESS, result),
            data: Vec::new(),
        });
    }
}
