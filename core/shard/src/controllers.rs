//! The first core's part: Connects, admin commands and the actions of controllers.

use std::collections::HashMap;
use std::sync::Arc;

use nearflash_engine::CoreId;
use nearflash_nvme::hosts::KeyedHosts;
use nearflash_nvme::serving::{Action, Arrival, Connected, HostStatus, QueueKind, Refusal, Target};
use nearflash_nvme::{
    CompletionEntry, ControllerId, HostName, NamespaceTable, QueueId, Status, TransportAddress,
};
use nearflash_nvme_tcp::serving::{AdminDemand, ConnectDemand};
use nearflash_publish::Served;
use nearflash_units::Nanos;

use crate::associations::{Associations, Host};
use crate::changes::tag_of;
use crate::claim::Claim;
use crate::connection::{Connection, Role};
use crate::connections::Key;
use crate::life::Life;
use crate::message::Message;
use crate::notice::Notice;
use crate::places::PlaceKind;
use crate::shard::Shard;
use crate::tls::TlsIdentity;
use crate::world::World;

/// The controllers of the node, and where their admin connections are.
#[derive(Debug)]
pub(crate) struct Controllers {
    target: Target,
    admins: HashMap<ControllerId, Key>,
    lives: HashMap<ControllerId, Arc<Life>>,
    /// The host of each controller.
    names: HashMap<ControllerId, HostName>,
    associations: Associations,
    /// Connects of hosts whose last controller has requests in flight: at most a handshake's time.
    held_back: Vec<(Key, ConnectDemand)>,
    core_count: u16,
}

impl Controllers {
    /// Controllers of a target that serves nothing yet.
    pub(crate) fn new(mut target: Target, served: &Served, core_count: u16) -> Self {
        target.set_rights(Arc::clone(&served.rights));
        target.set_elsewhere(Arc::clone(&served.elsewhere));
        let published = target.publish(Arc::clone(&served.namespaces));
        published.expect("the control side gives each namespace a number of its own");
        target.set_keyed_hosts(Arc::clone(&served.keyed));
        let associations = Associations::default();
        Self {
            target,
            admins: HashMap::new(),
            lives: HashMap::new(),
            names: HashMap::new(),
            associations,
            held_back: Vec::new(),
            core_count,
        }
    }

    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    pub(crate) fn target_mut(&mut self) -> &mut Target {
        &mut self.target
    }

    pub(crate) fn poll_timeout(&self) -> Option<Nanos> {
        self.target.poll_timeout()
    }

    /// Shows the cores with queues of a controller its keep-alive timer.
    fn show_life(&mut self, controller: ControllerId) -> Arc<Life> {
        let life = self.lives.entry(controller).or_default();
        life.set(self.target.keep_alive(controller));
        Arc::clone(life)
    }

    /// The hosts, each with the key of its admin connection.
    pub(crate) fn hosts(&self) -> impl Iterator<Item = (Key, HostStatus)> {
        let hosts = self.target.status().hosts.into_iter();
        hosts.filter_map(|host| Some((*self.admins.get(&host.controller)?, host)))
    }

    /// Whether a Connect has to wait: see [`Associations`].
    fn must_wait(&self, demand: &ConnectDemand) -> bool {
        let is_new = demand.data.controller_id() == ControllerId::DYNAMIC;
        is_new && Host::of(&demand.data).is_some_and(|host| self.associations.is_draining(&host))
    }

    fn connect(
        &mut self,
        now: Nanos,
        demand: &ConnectDemand,
        arrival: Arrival,
    ) -> Result<Connected, Refusal> {
        let connected = self.target.connect(now, &demand.command, &demand.data, arrival)?;
        if let (QueueKind::Io, Some(host)) = (connected.kind, Host::of(&demand.data)) {
            self.associations.queue_connected(connected.controller, connected.queue, host);
        }
        Ok(connected)
    }

    /// Queues of one controller are spread over the cores, controllers begin at different ones.
    fn core_for(&self, controller: ControllerId, queue: QueueId) -> CoreId {
        let place = u32::from(controller.0) + u32::from(queue.0.saturating_sub(1));
        let core = place % u32::from(self.core_count);
        CoreId(u16::try_from(core).expect("a remainder is below its divisor"))
    }
}

impl Shard {
    /// Handles a Connect, by which a host makes a connection a queue.
    pub(crate) fn connect<W: World>(&mut self, key: Key, demand: ConnectDemand, world: &mut W) {
        let Some(controllers) = &mut self.controllers else {
            unreachable!("connections leave the first core only once connected");
        };
        if controllers.must_wait(&demand) {
            return controllers.held_back.push((key, demand));
        }
        let Some(connection) = self.connections.get_mut(key) else { return };
        let Some(session) = connection.session.nvme_tcp_mut() else { return };
        let now = world.now();
        let local = TransportAddress::tcp(connection.local);
        let tls = match world.tls_identity(connection.socket) {
            Some(TlsIdentity::Nvme(identity)) => Some(identity),
            Some(TlsIdentity::Direct(_)) | None => None,
        };
        let suite = tls.as_ref().map(|identity| identity.suite);
        let origin = connection.peer.origin();
        let arrival = Arrival { local, origin, anonymous: demand.anonymous, tls };
        let cid = demand.command.command_id();
        match controllers.connect(now, &demand, arrival) {
            Ok(connected) => {
                let (controller, queue) = (connected.controller, connected.queue);
                let completion = connected.completion(cid);
                let is_io = connected.kind == QueueKind::Io;
                let is_proved = connected.authentication.is_some() || suite.is_some();
                connection.nexus = connected.nexus;
                connection.life = Some(controllers.show_life(controller));
                session.handle_connected(completion, Some(connected));
                let host = demand.data.host.host();
                let host = host.expect("a Connect with an invalid name is refused");
                let name = host.to_string().into();
                if is_io {
                    connection.role = Role::Io(controller, queue);
                    let core = controllers.core_for(controller, queue);
                    self.belongs_to(key, name, is_proved);
                    if core != self.config.core {
                        self.hand_over(key, core, world);
                    }
                } else {
                    connection.role = Role::Admin(controller);
                    let peer = connection.peer;
                    controllers.admins.insert(controller, key);
                    controllers.names.insert(controller, host.clone());
                    self.belongs_to(key, name, is_proved);
                    world.notice(Notice::ControllerConnected { controller, peer, host, suite });
                }
            }
            Err(refusal) => {
                let peer = connection.peer;
                session.handle_connected(refusal.completion(cid), None);
                connection.is_refused = true;
                let claim = Box::new(Claim::of_connect(&demand.data));
                world.notice(Notice::ConnectRefused { peer, refusal, claim });
                if refusal.status == Status::CONNECT_CONTROLLER_BUSY {
                    self.report_shortage(kind_of(&demand), world);
                }
            }
        }
        self.mark_dirty(key);
        self.act(world);
    }

    /// A command of an admin queue.
    pub(crate) fn admin<W: World>(&mut self, key: Key, demand: AdminDemand, world: &mut W) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        let Some(controller) = connection.role.controller() else { return };
        let Some(controllers) = &mut self.controllers else { return };
        controllers.target.admin(world.now(), controller, &demand.command, &demand.data);
        if controllers.lives.contains_key(&controller) {
            controllers.show_life(controller);
        }
        self.act(world);
    }

    /// Performs the actions that the controllers request.
    pub(crate) fn act<W: World>(&mut self, world: &mut W) {
        while let Some(action) = self.controllers.as_mut().and_then(|c| c.target.poll_action()) {
            match action {
                Action::Respond { controller, completion, data, .. } => {
                    self.respond(controller, completion, &data);
                }
                Action::Disconnect { controller, queue, reason } => {
                    let controllers = self.controllers.as_mut().expect("the action is one of them");
                    let host = controllers.names.get(&controller).cloned();
                    if queue.is_none() {
                        if let Some(life) = controllers.lives.remove(&controller) {
                            life.end();
                        }
                        controllers.associations.controller_ended(controller);
                    }
                    // The queues of a host that is gone end without a further report.
                    if host.is_some() {
                        world.notice(Notice::Disconnecting { controller, host, reason });
                    }
                    self.tell_others(world, || Message::Disconnect(controller, queue));
                    self.disconnect(controller, queue, world);
                }
                Action::Namespaces { controller, table } => {
                    let message = || Message::Namespaces(controller, Arc::clone(&table));
                    self.tell_others(world, message);
                    self.set_namespaces(controller, &table);
                }
                Action::Change { controller, command_id, change } => {
                    let admins = self.controllers.as_ref().map(|it| &it.admins);
                    if let Some(&key) = admins.and_then(|admins| admins.get(&controller)) {
                        self.ask_for_change(key, tag_of(command_id), Box::new(change), world);
                    }
                }
            }
        }
    }

    fn respond(&mut self, controller: ControllerId, completion: CompletionEntry, data: &[u8]) {
        let Some(controllers) = &self.controllers else { return };
        // Without an admin connection there is no host to answer.
        let Some(&key) = controllers.admins.get(&controller) else { return };
        let Some(connection) = self.connections.get_mut(key) else { return };
        let Some(session) = connection.session.nvme_tcp_mut() else { return };
        session.handle_admin_response(completion, data);
        self.mark_dirty(key);
    }

    fn tell_others<W: World>(&self, world: &mut W, message: impl Fn() -> Message) {
        for core in 1..self.config.core_count {
            world.post(CoreId(core), message());
        }
    }

    pub(crate) fn set_namespaces(&mut self, controller: ControllerId, table: &Arc<NamespaceTable>) {
        for key in self.connections.keys(|c| c.role.controller() == Some(controller)) {
            let Some(connection) = self.connections.get_mut(key) else { continue };
            if let Some(session) = connection.session.nvme_tcp_mut() {
                session.set_namespaces(Arc::clone(table));
            }
        }
    }

    /// Handles the end of a queue's connection, whose requests have all ended.
    pub(crate) fn queue_closed<W: World>(
        &mut self,
        controller: ControllerId,
        queue: QueueId,
        world: &mut W,
    ) {
        let Some(controllers) = &mut self.controllers else { return };
        if queue.is_admin() {
            controllers.admins.remove(&controller);
            if let Some(life) = controllers.lives.remove(&controller) {
                life.end();
            }
            controllers.associations.controller_ended(controller);
            let host = controllers.names.remove(&controller);
            world.notice(Notice::ControllerGone { controller, host });
        } else {
            controllers.associations.queue_silent(controller, queue);
        }
        controllers.target.queue_closed(controller, queue);
        let held_back = std::mem::take(&mut controllers.held_back);
        self.act(world);
        for (key, demand) in held_back {
            self.connect(key, demand, world);
        }
    }

    /// Replaces the hosts that have keys. Controllers that the new keys do not admit end.
    pub(crate) fn set_keyed_hosts<W: World>(&mut self, hosts: Arc<KeyedHosts>, world: &mut W) {
        // A host that has no PSK any more may get one before its Connect. Its old one must then count for nothing.
        let is_void = |connection: &Connection| match world.tls_identity(connection.socket) {
            Some(TlsIdentity::Nvme(identity)) => {
                connection.role == Role::Handshake
                    && hosts.tls(&HostName::Named(identity.host)).is_none()
            }
            Some(TlsIdentity::Direct(_)) | None => false,
        };
        for key in self.connections.keys(is_void) {
            self.kill(key, world);
        }
        if let Some(controllers) = &mut self.controllers {
            controllers.target.set_keyed_hosts(hosts);
        }
        self.act(world);
    }

    pub(crate) fn controllers_timeout<W: World>(&mut self, now: Nanos, world: &mut W) {
        let Some(controllers) = &mut self.controllers else { return };
        controllers.target.handle_timeout(now);
        self.act(world);
    }
}

/// The kind of the places that a Connect wants one of.
fn kind_of(demand: &ConnectDemand) -> PlaceKind {
    let subsystem = demand.data.subsystem.get();
    let is_discovery = subsystem.is_ok_and(|subsystem| subsystem.is_discovery());
    if is_discovery { PlaceKind::DiscoveryControllers } else { PlaceKind::Controllers }
}
