//! The lifecycle of connections: accepting them, moving them between cores, and ending them.

use std::net::SocketAddr;
use std::sync::Arc;

use nearflash_direct::Face;
use nearflash_direct::serving::TargetSession;
use nearflash_nvme::{ControllerId, QueueId};
use nearflash_units::Nanos;

use crate::connection::{Awaits, Client, Connection, Phase, Role};
use crate::connections::Key;
use crate::direct::session_of;
use crate::door::{Door, Peer};
use crate::message::{ClientPlace, Message};
use crate::notice::Notice;
use crate::shard::Shard;
use crate::world::{SocketId, World};
use nearflash_engine::CoreId;
use nearflash_session::ServingEnd;

/// The time that a peer has to close its end after the last message to it.
const LINGER: Nanos = Nanos::from_secs(1);

impl Shard {
    pub(crate) fn accept<W: World>(
        &mut self,
        socket: SocketId,
        door: Door,
        peer: Peer,
        local: SocketAddr,
        world: &mut W,
    ) {
        if self.draining {
            return world.close(socket);
        }
        if !self.make_room(world) {
            return world.close(socket);
        }
        let session = session_of(self, door, local, world);
        let connection = Connection::new(socket, peer, local, session, world.now());
        let connection = Box::new(connection);
        // An NVMe host is placed by the queue that its Connect names; a client is placed at once.
        let core = match door {
            Door::NvmeTcp { .. } | Door::Iscsi { .. } => CoreId::FIRST,
            Door::Direct { .. } => self.clients.next_core(self.config.core_count),
        };
        if core == self.config.core {
            self.take_in(connection, world);
        } else {
            world.detach(socket);
            world.post(core, Message::Adopt(connection));
        }
    }

    /// Takes over a connection from the first core: of a connected host, or of a new client.
    pub(crate) fn adopt<W: World>(&mut self, mut connection: Box<Connection>, world: &mut W) {
        world.attach(connection.socket);
        self.leftovers.adopt(&connection.leftover);
        if !self.make_room(world) {
            // Its end is reported like that of any other connection.
            let key = self.insert(connection);
            return self.kill(key, world);
        }
        // From here on, this core's exports decide on the session's requests.
        if let Some(session) = connection.session.direct_mut() {
            session.set_exports(Arc::clone(&self.clients.exports));
        }
        if let Some(session) = connection.session.iscsi_mut() {
            session.set_exports(Arc::clone(self.initiators.exports()));
        }
        // The bytes received earlier are handed to the session before more are received.
        let key = self.take_in(connection, world);
        self.stop(key);
        if self.draining {
            return self.begin_closing(key, world);
        }
        // Its session may have ended meanwhile.
        self.resume_siblings(key, world);
    }

    fn take_in<W: World>(&mut self, connection: Box<Connection>, world: &mut W) -> Key {
        let key = self.insert(connection);
        self.note_stranger(key, world);
        self.mark_dirty(key);
        self.start_polling(key, world);
        key
    }

    fn insert(&mut self, mut connection: Box<Connection>) -> Key {
        let socket = connection.socket;
        let account = self.engine.accounts().open(connection.host.as_deref());
        if connection.is_proved {
            self.engine.accounts().set_proved(account);
        }
        connection.account = Some(account);
        self.published.connected(&connection.session);
        let key = self.connections.insert(connection);
        self.set_key(socket, Some(key));
        key
    }

    /// Moves a connection to another core, including its answers and unread input.
    pub(crate) fn hand_over<W: World>(&mut self, key: Key, core: CoreId, world: &mut W) {
        self.withdraw(key, world);
        let Some(mut connection) = self.connections.remove(key) else { return };
        self.published.disconnected(&connection.session);
        self.set_key(connection.socket, None);
        self.engine.accounts().close(connection.account());
        connection.listed = Default::default();
        connection.forget_watch();
        self.leftovers.leave(&connection.leftover);
        world.detach(connection.socket);
        world.post(core, Message::Adopt(connection));
    }

    /// Stops receiving; the remaining answers are still sent.
    pub(crate) fn begin_closing<W: World>(&mut self, key: Key, world: &mut W) {
        self.stop_receiving(key, world);
        self.mark_dirty(key);
    }

    fn stop_receiving<W: World>(&mut self, key: Key, world: &mut W) {
        self.withdraw(key, world);
        let Some(connection) = self.connections.get_mut(key) else { return };
        connection.stop_receiving(&mut self.leftovers, self.engine.accounts(), world.pool());
    }

    /// Ends a connection's wait for buffers.
    pub(crate) fn withdraw<W: World>(&mut self, key: Key, world: &mut W) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        if std::mem::take(&mut connection.awaits) != Awaits::default() {
            self.engine.withdraw(key.to_owner(), world.pool());
        }
    }

    /// Called when all output is sent: a closing connection without requests sends its last
    /// messages. Returns whether that is more output.
    pub(crate) fn close_if_done<W: World>(&mut self, key: Key, world: &mut W) -> bool {
        if self.connections.get(key).is_some_and(|connection| connection.session.is_closing()) {
            self.stop_receiving(key, world);
        }
        let Some(connection) = self.connections.get_mut(key) else { return false };
        if connection.phase == Phase::Closing && connection.requests + connection.changes == 0 {
            if !connection.session.is_closing() {
                connection.session.shut_down();
                if connection.session.output_len() > 0 {
                    return true;
                }
            }
            connection.phase = Phase::Lingering(world.now().plus(LINGER));
            world.shut_down_output(connection.socket);
            self.start_polling(key, world);
        }
        false
    }

    /// Ends a connection now. Its slot stays until its device operations have ended: they still use
    /// its buffers, and must not be reported as ended before they are.
    pub(crate) fn kill<W: World>(&mut self, key: Key, world: &mut W) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        if connection.phase == Phase::Dead {
            return;
        }
        self.withdraw(key, world);
        let Some(connection) = self.connections.get_mut(key) else { return };
        if let Some(error) = connection.session.delayed_refusal() {
            self.initiators.note_error(error, connection.peer, world.now());
        }
        if !self.draining
            && let Some(notice) = connection.abandoned_notice()
        {
            world.notice(notice);
        }
        connection.phase = Phase::Dead;
        self.ended += 1;
        connection.release(&mut self.leftovers, self.engine.accounts(), world.pool());
        let socket = connection.socket;
        world.close(socket);
        self.set_key(socket, None);
        self.notify_siblings(key, world);
        self.engine.cancel_waiting(key.to_owner(), |_| true, world.pool());
        self.mirroring.mirrors.withdraw(key.to_owner());
        self.peers.withdraw(key.to_owner());
        self.remove_if_idle(key, world);
    }

    /// Ends the connections of other machines, of which this node does not know how old their input is. Those of a
    /// primary for a replica of this node stay: its operations carry its term. A client on this machine stood still
    /// with it.
    pub(crate) fn end_hosts<W: World>(&mut self, world: &mut W) {
        let is_ended =
            |it: &Connection| matches!(it.peer, Peer::Address(_)) && it.face != Some(Face::Replica);
        for key in self.connections.keys(is_ended) {
            self.kill(key, world);
        }
    }

    /// Removes a dead connection once no request is in flight; only then is its queue gone.
    pub(crate) fn remove_if_idle<W: World>(&mut self, key: Key, world: &mut W) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        if connection.phase != Phase::Dead || connection.requests > 0 {
            return;
        }
        let (role, identity) = (connection.role, connection.identity.take());
        let has_files = connection.session.direct().is_some_and(TargetSession::has_files);
        if let Some(Client { key }) = connection.client.take() {
            self.places.give_back(key.as_deref(), connection.peer);
            world.notice(Notice::ClientGone { peer: connection.peer, key });
        }
        if let Some(ring) = connection.ring {
            world.detach_ring(ring);
        }
        self.engine.accounts().close(connection.account());
        self.published.disconnected(&connection.session);
        self.connections.remove(key);
        let place = ClientPlace { core: self.config.core, owner: key.to_owner() };
        if has_files {
            world.notice(Notice::FilesGone(place));
        }
        let gone = match (role, identity) {
            (Role::Initiator { tsih, cid }, _) => Message::InitiatorGone { tsih, cid },
            (Role::Direct, Some(identity)) => Message::ClientGone(identity, place),
            _ => match role.queue() {
                Some((controller, queue)) => Message::QueueClosed(controller, queue),
                None => return,
            },
        };
        self.tell(CoreId::FIRST, gone, world);
    }

    /// Sends a message to a core, which may be this one.
    pub(crate) fn tell<W: World>(&mut self, core: CoreId, message: Message, world: &mut W) {
        if core == self.config.core {
            self.handle_message(message, world);
        } else {
            world.post(core, message);
        }
    }

    /// Resumes other connections of the same session, if this one may have unblocked them.
    #[inline]
    pub(crate) fn notify_siblings<W: World>(&mut self, key: Key, world: &mut W) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        if connection.session.concerns_siblings() {
            self.resume_siblings(key, world);
        }
    }

    /// Ends the connections of a controller, or of one of its queues.
    pub(crate) fn disconnect<W: World>(
        &mut self,
        controller: ControllerId,
        queue: Option<QueueId>,
        world: &mut W,
    ) {
        let is_meant = |connection: &Connection| match queue {
            None => connection.role.controller() == Some(controller),
            Some(queue) => connection.role.queue() == Some((controller, queue)),
        };
        // Answers not yet sent are dropped: no host waits for them any more, and a host that comes
        // back waits until these connections have no requests in flight.
        for key in self.connections.keys(is_meant) {
            self.kill(key, world);
        }
    }

    /// Accepts nothing new, answers the requests in flight, then closes.
    pub(crate) fn drain<W: World>(&mut self, world: &mut W) {
        self.draining = true;
        world.stop_listening();
        for key in self.connections.keys(|_| true) {
            self.begin_closing(key, world);
        }
    }
}
