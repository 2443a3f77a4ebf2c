//! The controllers of a node: connections, admin commands and events.
//!
//! Spec: NVMe Base 2.0, 3 to 6, for controllers of the dynamic model. One [`Target`] holds all
//! subsystems of a node and runs on one of its cores. The queues' connections run on any core: they
//! pass their Connects and admin commands to the target and execute its [`Action`]s. I/O commands
//! never reach the target, since each I/O queue holds a [`NamespaceTable`]. There are no PDUs and
//! no sockets here.
//!
//! Invariants: each admin command completes exactly once while its controller lives. An
//! Asynchronous Event Request completes on an event, an abort or a controller reset. When a
//! controller ends, all its queues end. [`Limits`] bound all memory that a host can occupy.

mod admin;
mod commands;
mod config;
mod connect;
mod controller;
mod discovery;
mod errors;
mod events;
mod features;
mod host_ids;
mod identify;
mod logs;
mod places;
mod properties;
mod refusal;
mod reservations;
mod state;
mod status;
mod subsystem;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use nearflash_request::{Change, HostRights};
use nearflash_units::Nanos;

pub use config::{
    ALL_CONTROLLER_IDS, Deallocation, HostAccess, Life, Limits, NamespaceConfig, Port,
    PublishError, TargetConfig,
};
pub use connect::{Arrival, Connected, QueueKind};
pub use refusal::Refusal;
pub use state::ControllerKind;
pub use status::{HostStatus, SubsystemStatus, TargetStatus};

use crate::hosts::KeyedHosts;
use crate::tls::Demand;
use crate::{
    AsyncEvent, Command, CommandId, CompletionEntry, ControllerId, HostName, NamespaceTable, Nqn,
    QueueId, Status,
};
use admin::{Admin, Answer, Reply};
use controller::Controller;
use host_ids::HostIds;
use subsystem::{Namespaces, Subsystem, View, by_subsystem, subsystems_that_differ};

/// An action that the caller executes for the target.
#[derive(Clone, Debug, Eq, PartialEq)]
#[allow(missing_docs, reason = "the names say what the fields are")]
pub enum Action {
    /// Complete a command of the queue. The queue fills in SQHD.
    Respond {
        controller: ControllerId,
        queue: QueueId,
        completion: CompletionEntry,
        /// Data to the host, sent before the completion.
        data: Vec<u8>,
    },
    /// End connections.
    Disconnect {
        controller: ControllerId,
        /// The queue; `None` is all of the controller's, including the admin queue.
        queue: Option<QueueId>,
        /// The reason, for the log.
        reason: DisconnectReason,
    },
    /// Replace the namespaces that the controller's I/O queues access.
    Namespaces { controller: ControllerId, table: Arc<NamespaceTable> },
    /// Pass a change to the control side, which replies with [`Target::handle_change`].
    Change {
        controller: ControllerId,
        /// The command of the admin queue that requests it.
        command_id: CommandId,
        change: Change,
    },
}

impl Action {
    /// The completion of a command of the admin queue, without data.
    fn respond(controller: ControllerId, completion: CompletionEntry) -> Self {
        Self::Respond { controller, queue: QueueId::ADMIN, completion, data: Vec::new() }
    }
}

/// Why a host's connections end.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum DisconnectReason {
    /// The host sent nothing for longer than the keep-alive timeout.
    #[error("keep alive expired")]
    KeepAliveExpired,
    /// The subsystem was removed.
    #[error("subsystem removed")]
    SubsystemRemoved,
    /// The host reset the controller and thereby deleted its I/O queues.
    #[error("controller reset by the host")]
    ControllerReset,
    /// The controller's admin queue ended.
    #[error("admin queue closed")]
    AdminQueueClosed,
    /// The host has keys now and has connected without, or the other way round.
    #[error("the keys of the host were added or removed")]
    KeysChanged,
    /// The controller was the oldest of those whose place a new one could take.
    #[error("a new connection needed its place")]
    PlaceTaken,
    /// The host authenticated more controllers than its share.
    #[error("the host has its share of the controllers already")]
    ShareTaken,
    /// Another host has proved its name and uses the host identifier.
    #[error(
        "another host with keys has this host identifier: give each host its own (/etc/nvme/hostid)"
    )]
    HostIdTaken,
}

/// All subsystems and all controllers of a node.
#[derive(Debug)]
pub struct Target {
    config: TargetConfig,
    /// The namespaces of all subsystems, as they were published last.
    published: Arc<[NamespaceConfig]>,
    subsystems: BTreeMap<Nqn, Subsystem>,
    keyed_hosts: Arc<KeyedHosts>,
    host_ids: HostIds,
    /// The namespaces that each host sees.
    rights: Arc<HostRights>,
    controllers: BTreeMap<ControllerId, Controller>,
    controller_next: ControllerId,
    /// The ports of other nodes, at which the subsystems of the cluster are, too.
    elsewhere: Arc<[Port]>,
    /// GENCTR.
    discovery_generation: u64,
    actions: VecDeque<Action>,
}

impl Target {
    /// A target without subsystems.
    ///
    /// # Panics
    /// If the limits violate the bounds that [`Limits`] documents.
    pub fn new(config: TargetConfig) -> Self {
        let limits = &config.limits;
        let transfer_len_max = limits.transfer_len_max.0;
        assert!(transfer_len_max.is_power_of_two() && transfer_len_max >= 4096);
        assert!(limits.in_capsule_len_max.is_multiple_of(16));
        assert!((2..=4096).contains(&limits.queue_entries_max));
        assert!((1..0xFFFF).contains(&limits.io_queues_max));
        let ids = &config.controller_ids;
        assert!(!ids.is_empty() && *ids.start() > 0 && *ids.end() <= ControllerId::MAX.0);
        let controller_next = ControllerId(*ids.start());
        Self {
            config,
            published: Arc::default(),
            subsystems: BTreeMap::new(),
            keyed_hosts: Arc::default(),
            host_ids: HostIds::default(),
            rights: Arc::default(),
            controllers: BTreeMap::new(),
            controller_next,
            elsewhere: Arc::default(),
            discovery_generation: 0,
            actions: VecDeque::new(),
        }
    }

    /// Replaces all namespaces. Hosts are notified of the changes. A subsystem without namespaces
    /// is removed together with its controllers. The work depends on what differs: with 4,096
    /// namespaces of which one changes, the others are only compared.
    ///
    /// # Errors
    /// If the namespaces contradict each other. The target is unchanged then.
    pub fn publish(
        &mut self,
        namespaces: impl Into<Arc<[NamespaceConfig]>>,
    ) -> Result<(), PublishError> {
        let namespaces = namespaces.into();
        let changed = subsystems_that_differ(&self.published, &namespaces);
        let of_changed = namespaces.iter().filter(|it| changed.contains(&it.subsystem));
        let mut wanted = by_subsystem(of_changed)?;
        let before = self.listed(&changed);
        for nqn in changed.iter().filter(|nqn| !wanted.contains_key(*nqn)) {
            self.remove_subsystem(nqn);
        }
        while let Some((nqn, namespaces)) = wanted.pop_first() {
            self.replace_namespaces(nqn, namespaces);
        }
        self.published = namespaces;
        if self.listed(&changed) != before {
            self.discovery_changed();
        }
        Ok(())
    }

    /// Those of these subsystems that exist, and whether the ports of other nodes lead to them.
    fn listed(&self, subsystems: &BTreeSet<Nqn>) -> Vec<(Nqn, bool)> {
        let found = subsystems.iter().filter_map(|nqn| Some((nqn, self.subsystems.get(nqn)?)));
        found.map(|(nqn, it)| (nqn.clone(), it.is_on_every_node())).collect()
    }

    /// Replaces the ports of other nodes. Hosts that stay connected to the discovery subsystem are told.
    pub fn set_elsewhere(&mut self, ports: Arc<[Port]>) {
        if *ports != *self.elsewhere {
            self.elsewhere = ports;
            self.discovery_changed();
        }
    }

    /// The discovery log has changed.
    fn discovery_changed(&mut self) {
        self.discovery_generation += 1;
        self.raise_event(AsyncEvent::DISCOVERY_CHANGED, |it| it.kind == ControllerKind::Discovery);
    }

    /// Replaces the rights of hosts. A host keeps its controllers, and is told of the namespaces that it sees
    /// from now on, or does not see any more.
    pub fn set_rights(&mut self, rights: Arc<HostRights>) {
        if *rights == *self.rights {
            return;
        }
        self.rights = rights;
        for subsystem in self.subsystems.values_mut() {
            subsystem.generation += 1;
        }
        let subsystems: Vec<Nqn> = self.subsystems.keys().cloned().collect();
        subsystems.iter().for_each(|nqn| self.renew_views(nqn));
        self.discovery_changed();
    }

    /// Replaces the hosts that have keys. The controllers end whose host has keys now and has connected without,
    /// or the other way round.
    pub fn set_keyed_hosts(&mut self, hosts: Arc<KeyedHosts>) {
        self.keyed_hosts = hosts;
        self.host_ids.keep_those_of(|host| self.keyed_hosts.has(host));
        let is_wrong = |it: &&Controller| {
            let authenticates = self.keyed_hosts.authenticates(&it.host);
            let tls = self.keyed_hosts.tls(&it.host);
            let lacks_proof =
                authenticates && !it.authenticates || !it.secured && tls == Some(Demand::Required);
            let has_other_proof = it.authenticates && !authenticates || it.secured && tls.is_none();
            has_other_proof || lacks_proof && it.kind == ControllerKind::Io
        };
        let ended: Vec<_> = self.controllers.values().filter(is_wrong).map(|it| it.id).collect();
        for id in ended {
            self.end(id, DisconnectReason::KeysChanged);
        }
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
        let make = || Subsystem::new(&nqn, self.config.serial_seed);
        let subsystem = self.subsystems.entry(nqn.clone()).or_insert_with(make);
        subsystem.replace(namespaces, self.config.limits.transfer_len_max);
        self.renew_views(&nqn);
    }

    /// Shows each host of a subsystem the namespaces that it sees now, and tells it of those that differ.
    fn renew_views(&mut self, nqn: &Nqn) {
        let Some(subsystem) = self.subsystems.get(nqn) else { return };
        let mut views: BTreeMap<HostName, Arc<View>> = BTreeMap::new();
        let mut is_told = BTreeSet::new();
        for controller in self.controllers.values_mut().filter(|it| it.subsystem == *nqn) {
            let host = &controller.host;
            let view = match views.get(host) {
                Some(view) => Arc::clone(view),
                None => subsystem.view(host, &self.rights),
            };
            views.insert(host.clone(), Arc::clone(&view));
            let changed = controller.view.differences(&view);
            controller.view = view;
            if changed.is_empty() {
                continue;
            }
            controller.changed_namespaces.extend(&changed);
            let table = Arc::clone(&controller.view.table);
            self.actions.push_back(Action::Namespaces { controller: controller.id, table });
            is_told.insert(controller.id);
        }
        self.raise_event(AsyncEvent::NAMESPACE_CHANGED, |it| is_told.contains(&it.id));
    }

    /// The namespaces of a subsystem that a host sees. Controllers of one host share them.
    fn view_of(&self, subsystem: &Nqn, host: &HostName) -> Arc<View> {
        let mut others = self.controllers.values();
        match others.find(|it| it.subsystem == *subsystem && it.host == *host) {
            Some(other) => Arc::clone(&other.view),
            None => {
                let subsystem = self.subsystems.get(subsystem);
                subsystem.map_or_else(View::empty, |it| it.view(host, &self.rights))
            }
        }
    }

    /// Whether a host sees any namespace of a subsystem.
    fn sees(&self, host: &HostName, subsystem: &Nqn) -> bool {
        let subsystem = self.subsystems.get(subsystem);
        subsystem.is_some_and(|it| it.is_seen_by(host, &self.rights))
    }

    fn raise_event(&mut self, event: AsyncEvent, at: impl Fn(&Controller) -> bool) {
        for controller in self.controllers.values_mut().filter(|it| at(it)) {
            controller.events.raise(event, controller.features.notices);
            tell_events(controller, &mut self.actions);
        }
    }

    /// The connection of a queue ended, on whichever side. A controller ends with its admin queue.
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

    /// Executes a command of an admin queue. `data` is the data from the host, whose length the
    /// descriptor gives. A command of a controller that has ended is ignored, as its connection is
    /// about to end.
    pub fn admin(&mut self, now: Nanos, controller: ControllerId, command: &Command, data: &[u8]) {
        if self.has_proved_too_many(controller) {
            return self.end(controller, DisconnectReason::ShareTaken);
        }
        let Some(controller) = self.controllers.get_mut(&controller) else { return };
        controller.heard_at = controller.heard_at.max(now);
        let id = controller.id;
        // It has authenticated: only then do its commands arrive.
        if std::mem::take(&mut controller.awaits_authentication)
            && controller.kind == ControllerKind::Io
            && !self.host_ids.take(&controller.host_id, &controller.host)
        {
            self.end(id, DisconnectReason::HostIdTaken);
            return;
        }
        let mut admin = Admin {
            now,
            config: &self.config,
            subsystems: &self.subsystems,
            keyed_hosts: &self.keyed_hosts,
            rights: &self.rights,
            elsewhere: &self.elsewhere,
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

    /// The next action. Call it until it returns `None`, after each call that passes something in.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Handles the passing of time. A controller processes no commands once its timer has expired, so this comes
    /// before what was received from hosts until `now` and has not been passed in. NVMe Base 2.0, 3.9.
    pub fn handle_timeout(&mut self, now: Nanos) {
        let late = |it: &&Controller| it.expires_at().is_some_and(|at| at <= now);
        let late: Vec<_> = self.controllers.values().filter(late).map(|it| it.id).collect();
        for id in late {
            self.end(id, DisconnectReason::KeepAliveExpired);
        }
    }

    /// The keep-alive timer of a controller: its span (KATO), and when it expires. `None` if it is off.
    pub fn keep_alive(&self, controller: ControllerId) -> Option<(Nanos, Nanos)> {
        let controller = self.controllers.get(&controller)?;
        Some((controller.keep_alive?, controller.expires_at()?))
    }

    /// When [`Self::handle_timeout`] must be called next.
    pub fn poll_timeout(&self) -> Option<Nanos> {
        self.controllers.values().filter_map(Controller::expires_at).min()
    }

    /// Removes a controller and ends its connections.
    fn end(&mut self, controller: ControllerId, reason: DisconnectReason) {
        self.controllers.remove(&controller);
        self.actions.push_back(Action::Disconnect { controller, queue: None, reason });
    }
}

/// Completes outstanding Asynchronous Event Requests as long as events are pending.
fn tell_events(controller: &mut Controller, actions: &mut VecDeque<Action>) {
    while !controller.event_requests.is_empty() {
        let Some(event) = controller.events.take() else { return };
        let Some(cid) = controller.event_requests.pop_front() else { return };
        let result = event.to_result();
        let completion = CompletionEntry::with_result(cid, Status::SUCCESS, result);
        actions.push_back(Action::respond(controller.id, completion));
    }
}
