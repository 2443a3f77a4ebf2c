//! The shard itself and its turn.
//!
//! A turn first ends what has expired. Then it takes all events, passes them through sessions and engine until nothing moves, and sends
//! all output that is ready: one receive and one send per busy connection, regardless of the number
//! of requests.

use std::collections::HashMap;
use std::sync::Arc;

use nearflash_engine::{CoreId, Engine, EngineConfig, Pool};
use nearflash_mirror::MirrorTable;
use nearflash_nvme::serving::Target;
use nearflash_nvme_tcp::serving::SessionConfig;
use nearflash_publish::{Devices, Served};
use nearflash_request::VolumeId;
use nearflash_units::{Nanos, index};

use crate::connection::Phase;
use crate::connections::{Connections, Key};
use crate::controllers::Controllers;
use crate::direct::{Clients, DirectConfig};
use crate::gauges::{Gauges, Published};
use crate::identities::ClientIdentities;
use crate::iscsi::{Initiators, IscsiConfig};
use crate::leftover::Leftovers;
use crate::lists::Lists;
use crate::message::Message;
use crate::mirroring::Mirroring;
use crate::notice::{ConnectedHost, Notice, ShardStatus};
use crate::peers::Peers;
use crate::places::Places;
use crate::rings::Rings;
use crate::seals::Seals;
use crate::world::{Event, Interest, SocketId, Submitted, World};
use crate::{serve, trace};
use nearflash_session::ServingEnd;

/// The maximum number of connections per core; a further one is refused.
pub const CONNECTIONS_MAX: usize = 16_384;

/// The maximum number of bytes received from one connection in one turn.
pub(crate) const STAGING_LEN: usize = 256 * 1024;

/// The period in which an idle core checks whether operations of other cores that it waits for have
/// ended.
const LOOK_PERIOD: Nanos = Nanos::from_micros(100);

/// The time between two turns from which on a core reports that it stood still.
pub const STANDSTILL_MIN: Nanos = Nanos::from_secs(1);

/// The period of the checks for timeouts of connections.
const SWEEP_PERIOD: Nanos = Nanos::from_secs(1);

/// The configuration of a shard.
#[derive(Debug)]
pub struct ShardConfig {
    /// The core.
    pub core: CoreId,
    /// The number of cores of the node.
    pub core_count: u16,
    /// The maximum number of operations under way at a device.
    pub device_depth: u32,
    /// The state that is served first.
    pub served: Arc<Served>,
    /// The limits of sessions.
    pub session: SessionConfig,
    /// Subsystems and controllers, without namespaces and hosts: on the first core, and only there.
    pub target: Option<Target>,
    /// The configuration of direct sessions.
    pub direct: DirectConfig,
    /// The configuration of initiators' sessions.
    pub iscsi: IscsiConfig,
    /// The mirrors.
    pub mirrors: Arc<MirrorTable>,
    /// The time that a peer may neither take answers nor send the data it owes.
    pub stall_timeout: Nanos,
    /// Receives the core's figures.
    pub gauges: Arc<Gauges>,
}

/// One core's connections, engine and buffers.
#[derive(Debug)]
pub struct Shard {
    pub(crate) config: Limits,
    pub(crate) served: Arc<Served>,
    pub(crate) engine: Engine,
    pub(crate) connections: Connections,
    pub(crate) by_socket: Vec<Option<Key>>,
    pub(crate) controllers: Option<Controllers>,
    pub(crate) clients: Clients,
    pub(crate) initiators: Initiators,
    pub(crate) identities: ClientIdentities,
    pub(crate) rings: Rings,
    pub(crate) seals: Seals,
    pub(crate) peers: Peers,
    pub(crate) mirroring: Mirroring,
    pub(crate) staging: Box<[u8]>,
    pub(crate) leftovers: Leftovers,
    pub(crate) lists: Lists,
    pub(crate) places: Places,
    pub(crate) published: Published,
    /// Changes that the control side has not answered, by volume.
    pub(crate) changes_asked: HashMap<VolumeId, usize>,
    pub(crate) draining: bool,
    /// The end of draining was reported.
    drained: bool,
    stopped: bool,
    events: Vec<Event>,
    /// Connections that were ended since the last turn's end.
    pub(crate) ended: usize,
    swept_at: Nanos,
    turned_at: Nanos,
    /// When the next turn is due: at once, or when the core has slept.
    due_at: Nanos,
    /// The longest that the core may sleep while it has connections.
    sleep_max: Nanos,
}

/// Configuration that does not change.
#[derive(Debug)]
pub(crate) struct Limits {
    pub(crate) core: CoreId,
    pub(crate) core_count: u16,
    pub(crate) session: SessionConfig,
    pub(crate) stall_timeout: Nanos,
}

impl Shard {
    /// A shard without connections.
    pub fn new(config: ShardConfig, pool: &mut Pool) -> Self {
        let ShardConfig { core, core_count, served, session, target, stall_timeout, .. } = config;
        let Devices { properties, health, kinds, peers } = &*served.devices;
        let mut mirroring = Mirroring::new(core, config.mirrors);
        mirroring.set_devices(Arc::clone(kinds), Arc::clone(health), Arc::clone(properties));
        let engine = EngineConfig {
            core,
            core_count,
            devices: Arc::clone(properties),
            health: Arc::clone(health),
            volumes: Arc::clone(&served.volumes),
            device_depth: config.device_depth,
        };
        let (direct, iscsi) = (Arc::clone(&served.direct), Arc::clone(&served.iscsi));
        let mut shard = Self {
            mirroring,
            controllers: target.map(|target| Controllers::new(target, &served, core_count)),
            seals: Seals::new(config.direct.salt),
            clients: Clients::new(config.direct, direct),
            initiators: Initiators::new(config.iscsi, iscsi, core_count),
            identities: ClientIdentities::default(),
            rings: Rings::default(),
            peers: Peers::new(peers, kinds),
            engine: Engine::new(engine, pool),
            config: Limits { core, core_count, session, stall_timeout },
            served: Arc::clone(&served),
            connections: Connections::default(),
            by_socket: Vec::new(),
            staging: vec![0; STAGING_LEN].into_boxed_slice(),
            leftovers: Leftovers::default(),
            lists: Lists::default(),
            places: Places::default(),
            published: Published::new(config.gauges),
            changes_asked: HashMap::new(),
            draining: false,
            drained: false,
            stopped: false,
            events: Vec::new(),
            ended: 0,
            swept_at: Nanos(0),
            turned_at: Nanos(0),
            due_at: Nanos::NEVER,
            sleep_max: SWEEP_PERIOD,
        };
        shard.reserve_for_faces(pool);
        shard
    }

    /// Once the node has mirrors, other nodes must not wait for its hosts.
    pub(crate) fn reserve_for_faces(&mut self, pool: &mut Pool) {
        if self.mirroring.is_used() {
            self.engine.reserve_for_faces(pool);
        }
    }

    /// One turn: a bounded amount of work, without waiting. Returns the amount of progress; zero
    /// means that the shard waits for the world.
    pub fn turn<W: World>(&mut self, world: &mut W) -> usize {
        let mut events = std::mem::take(&mut self.events);
        world.poll(&mut events);
        let began = world.now();
        self.published.begin_turn(began);
        self.engine.set_now(began);
        self.mirroring.read_clock(world);
        self.note_standstill(began, world);
        // What is received now may be older than a deadline that has passed.
        self.expire(began, world);
        let mut moved = events.len();
        for event in events.drain(..) {
            self.handle_event(event, world);
        }
        self.events = events;
        moved += self.receive_polled(world);
        moved += self.receive_rings(world);
        moved += self.receive_from_peers(world);
        self.mirroring.read_clock(world);
        self.settle(world);
        if !self.lists.woken.is_empty() {
            self.resume_woken(world);
            self.settle(world);
        }
        moved += self.send_to_peers(world);
        moved += self.send_dirty(world);
        moved += usize::from(self.watch_mirrors(world));
        self.watch_the_halted(world);
        self.turned_at = began;
        moved += self.confirm(world);
        // Their buffers are free again: other connections may have waited for them.
        moved += std::mem::take(&mut self.ended);
        moved += self.lists.woken.len();
        self.publish(began, moved, world);
        moved
    }

    /// Before the world waits: watches every connection that was polled in each turn.
    pub fn prepare_to_sleep<W: World>(&mut self, world: &mut W) {
        for key in std::mem::take(&mut self.lists.dirty) {
            if let Some(connection) = self.connections.get_mut(key) {
                connection.listed.clean();
            }
            self.watch_for_room(key, world);
        }
        for key in std::mem::take(&mut self.lists.polled) {
            self.stop_polling(key, world);
        }
        self.watch_all_halted(world);
        self.watch_peers(world);
        self.due_at = self.poll_timeout().unwrap_or(Nanos::NEVER);
    }

    /// The time at which the shard must turn again, even without an event.
    pub fn poll_timeout(&self) -> Option<Nanos> {
        let has_connections = self.connections.len() > 0;
        let sweep = has_connections
            .then(|| self.swept_at.plus(SWEEP_PERIOD).min(self.turned_at.plus(self.sleep_max)));
        let target = self.controllers.as_ref().and_then(Controllers::poll_timeout);
        let awaits_others = self.engine.awaits_others() || self.mirroring.awaits_others();
        let look = awaits_others.then(|| self.turned_at.plus(LOOK_PERIOD));
        let elsewhere = self.peers.poll_timeout().into_iter().chain(self.mirroring.poll_timeout());
        sweep.into_iter().chain(target).chain(look).chain(elsewhere).min()
    }

    /// Whether it was told to stop.
    pub fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Whether it was told to drain and has nothing left.
    fn is_drained(&self) -> bool {
        let is_idle = self.engine.jobs_len() == 0 && self.mirroring.mirrors.is_idle();
        self.draining && self.connections.len() == 0 && is_idle
    }

    fn handle_event<W: World>(&mut self, event: Event, world: &mut W) {
        match event {
            Event::Device(id, result) => self.device_ended(id, result, world),
            Event::Ready(socket) => self.ready(socket, world),
            Event::Accepted { socket, door, peer, local } => {
                self.accept(socket, door, peer, local, world);
            }
            Event::Message(message) => self.handle_message(message, world),
        }
    }

    fn ready<W: World>(&mut self, socket: SocketId, world: &mut W) {
        let Some(key) = self.key_of(socket) else { return self.peers.ready(socket) };
        let Some(connection) = self.connections.get_mut(key) else { return };
        connection.is_ready(world);
        if connection.listed.stopped && self.is_given_up(key, world) {
            return self.kill(key, world);
        }
        self.mark_dirty(key);
        self.start_polling(key, world);
    }

    pub(crate) fn handle_message<W: World>(&mut self, message: Message, world: &mut W) {
        match message {
            Message::Adopt(connection) => self.adopt(connection, world),
            Message::Fence(message) => self.engine.handle_fence(message, world.pool()),
            Message::Disconnect(controller, queue) => self.disconnect(controller, queue, world),
            Message::Namespaces(controller, table) => self.set_namespaces(controller, &table),
            Message::QueueClosed(controller, queue) => {
                self.queue_closed(controller, queue, world);
            }
            Message::Serve(publication) => serve::serve(self, &publication, world),
            Message::Mirrors(number, table) => {
                self.mirroring.mirrors.set_table(table);
                world.notice(Notice::MirrorsShown(self.config.core, number));
            }
            Message::AwaitMirrors(number, mirrors) => {
                self.mirroring.await_drained(number, mirrors);
            }
            Message::Leases(leases) => {
                self.mirroring.read_clock(world);
                self.mirroring.mirrors.set_leases(&leases);
            }
            Message::EndHosts => self.end_hosts(world),
            Message::TellWritten(mirror, session) => self.tell_written(mirror, session, world),
            Message::CopyMirror(mirror, session, scope) => {
                self.mirroring.mirrors.begin_copy(mirror, session, scope, world.nonce());
            }
            Message::Mirror(message) => self.mirroring.mirrors.handle_message(message),
            Message::Authenticated(owner, step) => self.authenticated(owner, *step, world),
            Message::Claim(identity, place) => self.client_claims(*identity, place, world),
            Message::Claimed(owner) => self.claimed(owner),
            Message::EndClient(owner) => self.kill(Key::from_owner(owner), world),
            Message::ClientGone(identity, place) => self.client_gone(&identity, place, world),
            Message::Revoke(order) => self.revoke(*order, world),
            Message::Revoked(number) => self.revoked(number),
            Message::EndConnection(place) => self.end_connection(place, world),
            Message::InitiatorGone { tsih, cid } => self.initiator_gone(tsih, cid, world),
            Message::Changed(owner, asked, result) => self.changed(owner, asked, &result, world),
            Message::FilesAnswered(owner, answer) => self.files_answered(owner, answer),
            Message::ReportStatus(number) => self.report_status(number, world),
            Message::TellUsers(number, volume) => self.tell_users(number, volume, world),
            Message::Trace(order) => self.engine.begin_trace(*order),
            Message::EndTrace(number) => self.end_trace(number, world),
            Message::Drain => self.drain(world),
            Message::Stop => self.stopped = true,
        }
    }

    fn report_status<W: World>(&mut self, number: u64, world: &mut W) {
        let status = Box::new(self.status(world));
        world.notice(Notice::Status(self.config.core, number, status));
    }

    fn tell_users<W: World>(&self, number: u64, volume: VolumeId, world: &mut W) {
        let users = self.users_of(volume);
        world.notice(Notice::Users(self.config.core, number, users));
    }

    /// Moves what the engine has ready until nothing moves: operations to devices, messages to
    /// cores, answers to sessions.
    #[inline]
    pub(crate) fn settle<W: World>(&mut self, world: &mut W) {
        loop {
            trace::tick(&mut self.engine, world);
            self.engine.resume(world.pool());
            let mut moved = false;
            while let Some((request, cause)) = self.engine.poll_device() {
                moved = true;
                trace::note_submission(&mut self.engine, &request, world);
                if !self.mirroring.is_local(request.device) {
                    self.submit_elsewhere((request, cause), world);
                    continue;
                }
                let next = self.engine.peek_device();
                if let Some(next) = next.filter(|next| self.mirroring.is_local(next.device)) {
                    world.prepare(next);
                }
                if let Submitted::Done(result) = world.submit(request) {
                    trace::tick(&mut self.engine, world);
                    self.engine.handle_device(request.id, result, world.pool());
                }
            }
            moved |= self.settle_mirrors(world);
            while let Some((id, result)) = self.peers.poll_ended() {
                moved = true;
                self.device_ended(id, result, world);
            }
            while let Some((core, message)) = self.engine.poll_fence() {
                moved = true;
                self.tell(core, Message::Fence(message), world);
            }
            while let Some(opened) = self.engine.poll_opened() {
                world.notice(Notice::Meter(self.config.core, opened));
            }
            while let Some(answer) = self.engine.poll_answer() {
                moved = true;
                self.answer(answer, world);
            }
            while let Some(grant) = self.engine.poll_grant() {
                moved = true;
                self.granted(grant, world);
            }
            if !moved {
                return;
            }
        }
    }

    /// Sends the control plane, and the clients that revoke seals, the answers that are due. Returns how
    /// many went to clients.
    fn confirm<W: World>(&mut self, world: &mut W) -> usize {
        let core = self.config.core;
        let mut to_clients = 0;
        while let Some(number) = self.engine.poll_over() {
            if self.is_over_for_seals(number, world) {
                to_clients += 1;
            } else {
                serve::requests_over(self, number, world);
            }
        }
        while let Some(number) = self.initiators.poll_ended() {
            world.notice(Notice::Quiesced(core, number));
        }
        if !self.drained && self.is_drained() {
            self.drained = true;
            world.notice(Notice::Drained(core));
        }
        to_clients
    }

    /// Reports that the core took no turn for long: the machine, or its process, stood still.
    fn note_standstill<W: World>(&mut self, now: Nanos, world: &mut W) {
        let late = now.since(self.due_at);
        self.due_at = now;
        if late > STANDSTILL_MIN {
            self.published.stood_still();
            world.notice(Notice::StoodStill(self.config.core, late));
        }
    }

    /// Ends what has expired. It comes before any input: a host may have given up by then what it sent.
    pub(crate) fn expire<W: World>(&mut self, now: Nanos, world: &mut W) {
        if self.controllers.as_ref().and_then(Controllers::poll_timeout).is_some_and(|at| at <= now)
        {
            self.controllers_timeout(now, world);
        }
        if now >= self.swept_at.plus(SWEEP_PERIOD) {
            self.swept_at = now;
            self.sweep(now, world);
        }
    }

    /// Whether something may have expired since the turn began.
    #[inline]
    pub(crate) fn is_overdue(&self, now: Nanos) -> bool {
        now > self.swept_at.plus(SWEEP_PERIOD).plus(STANDSTILL_MIN)
    }

    /// Checks every connection for timeouts.
    fn sweep<W: World>(&mut self, now: Nanos, world: &mut W) {
        let stall = self.config.stall_timeout;
        self.sleep_max = SWEEP_PERIOD;
        for key in self.connections.keys(|_| true) {
            let Some(connection) = self.connections.get_mut(key) else { continue };
            if connection.quiet_until.take_if(|until| now >= *until).is_some() {
                self.mark_dirty(key);
            }
            let Some(connection) = self.connections.get_mut(key) else { continue };
            self.sleep_max = self.sleep_max.min(connection.sleep_max());
            match connection.phase {
                Phase::Open | Phase::Closing => {
                    if let Err(error) = connection.session.handle_timeout(now) {
                        self.initiators.note_error(error, connection.peer, now);
                        world.notice(connection.error_notice(error));
                    }
                    let is_stalled = connection.is_stalled(now, stall, self.engine.accounts());
                    let is_over = connection.session.is_closing();
                    let asks = connection.session.output_len() > 0;
                    if is_stalled {
                        world.notice(Notice::Stalled(connection.peer));
                        self.kill(key, world);
                    } else if is_over {
                        self.begin_closing(key, world);
                    } else if asks {
                        // For example, a ping that checks whether an initiator is still there.
                        self.mark_dirty(key);
                    }
                }
                Phase::Lingering(until) if now >= until => self.kill(key, world),
                Phase::Lingering(_) | Phase::Dead => {}
            }
        }
    }

    fn status<W: World>(&self, world: &mut W) -> ShardStatus {
        let (client_count, clients) = self.connected_clients();
        ShardStatus {
            connections: self.connections.len(),
            requests_in_flight: self.engine.jobs_len(),
            pool_free: world.pool().free_len(),
            copies: self.mirroring.mirrors.copies().collect(),
            hosts: self.connected_hosts(),
            client_count,
            clients,
            initiators: self.initiators.connected(),
            places: self.all_places_used(),
        }
    }

    fn connected_hosts(&self) -> Vec<ConnectedHost> {
        let hosts = self.controllers.iter().flat_map(Controllers::hosts);
        hosts
            .filter_map(|(key, status)| {
                let peer = self.connections.get(key)?.peer.address()?;
                Some(ConnectedHost { peer, status })
            })
            .collect()
    }

    pub(crate) fn key_of(&self, socket: SocketId) -> Option<Key> {
        *self.by_socket.get(index(socket.0))?
    }

    pub(crate) fn set_key(&mut self, socket: SocketId, key: Option<Key>) {
        let index = index(socket.0);
        if self.by_socket.len() <= index {
            self.by_socket.resize(index + 1, None);
        }
        self.by_socket[index] = key;
    }

    /// Watches a connection that was polled in each turn.
    pub(crate) fn stop_polling<W: World>(&mut self, key: Key, world: &mut W) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        connection.listed.polled = false;
        if connection.phase == Phase::Dead {
            return; // it waits for its requests; its socket may be another's by now
        }
        let interest = if connection.has_to_send() { Interest::Both } else { Interest::Input };
        connection.watch(interest, world);
    }
}
