//! Bytes in: from sockets through sessions to the engine.

use nearflash_direct::serving as direct;
use nearflash_engine::{Asker, Engine, Grant, Pool, Want};
use nearflash_iscsi::serving as iscsi;
use nearflash_nvme_tcp::serving as nvme_tcp;
use nearflash_request::{Due, Request};
use nearflash_session::{Receiving, ServingEnd};
use nearflash_units::Nanos;

use crate::arrival::YOUNG;
use crate::connection::{Awaits, Connection, Phase};
use crate::connections::Key;
use crate::leftover::Leftover;
use crate::session::{PeerError, Session};
use crate::shard::Shard;
use crate::trace;
use crate::world::{Interest, Place, Received, World};

/// A connection is polled until nothing has arrived for this long. It is longer than the longest
/// spin, so that the decision to sleep comes first.
const POLLED_SPAN: Nanos = Nanos::from_micros(400);

/// The least delay of the answer to a failed authentication. It slows down guessing of secrets.
const PROOF_DELAY: Nanos = Nanos::from_secs(1);

/// The result of handing bytes to a connection.
enum Fed {
    /// The session has taken all of them.
    All,
    /// The rest waits for buffers, or until answers have been sent.
    Paused,
}

impl Shard {
    /// Receives from every polled connection. Returns the number of those that received anything.
    #[inline]
    pub(crate) fn receive_polled<W: World>(&mut self, world: &mut W) -> usize {
        let mut busy = 0;
        let mut index = 0;
        while let Some(key) = self.lists.polled.get(index).copied() {
            match self.receive(key, world) {
                Some(moved) => {
                    busy += usize::from(moved);
                    index += 1;
                }
                None => {
                    self.lists.polled.swap_remove(index);
                    if let Some(connection) = self.connections.get_mut(key) {
                        connection.listed.polled = false;
                    }
                }
            }
        }
        busy
    }

    /// A connection has input: from now on it is polled, if there is room in the list.
    pub(crate) fn start_polling<W: World>(&mut self, key: Key, world: &mut W) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        if connection.listed.polled {
            return;
        }
        connection.received_at = world.now();
        // A connection with rings sends little over its socket.
        let stays = connection.ring.is_none();
        if self.lists.start_polling(key, &mut connection.listed, stays) {
            return;
        }
        if self.receive(key, world).is_some() {
            self.stop_polling(key, world);
        } else if let Some(connection) = self.connections.get_mut(key) {
            connection.listed.polled = false;
        }
    }

    /// Receives once, and returns whether anything arrived. `None` if the connection is no longer
    /// polled.
    #[inline]
    fn receive<W: World>(&mut self, key: Key, world: &mut W) -> Option<bool> {
        let connection = self.connections.get_mut(key)?;
        let place = match (connection.phase, connection.session.receiving()) {
            (Phase::Dead, _) => return None,
            (Phase::Closing | Phase::Lingering(_), _) => return self.discard(key, world),
            // Bytes that were received and not yet taken precede anything received now.
            (Phase::Open, receiving)
                if receiving == Receiving::Paused || !connection.leftover.is_empty() =>
            {
                self.stop(key);
                return None;
            }
            (Phase::Open, Receiving::Payload { buffer, offset, len }) => {
                Some(Place { buffer, offset, len })
            }
            (Phase::Open, _) => None,
        };
        assert!(!self.staging.is_empty(), "nothing is received while received bytes are fed");
        let len_max = self.leftovers.receive_len(self.staging.len());
        let room = len_max + place.map_or(0, |place| place.len);
        match world.receive(connection.socket, place, &mut self.staging[..len_max]) {
            Received::Bytes(len) => {
                connection.received_at = world.now();
                note_arrival(connection, (len, room), world);
                if self.is_given_up(key, world) {
                    self.kill(key, world);
                    return None;
                }
                let connection = self.connections.get_mut(key)?;
                if connection.phase != Phase::Open {
                    return Some(true); // it was given up for another reason
                }
                connection.progress.note(world.now(), len);
                trace::note_receipt(&mut self.engine, world);
                if connection.session.direct().is_some_and(direct::TargetSession::awaits_hello) {
                    self.note_tls(key, world);
                }
                self.received(key, place, len, world);
                Some(true)
            }
            Received::Nothing => {
                if world.is_drained(connection.socket, 0, room) {
                    connection.arrivals.seen_empty(world.now());
                }
                if world.now().since(connection.received_at) <= POLLED_SPAN {
                    return Some(false);
                }
                self.stop_polling(key, world);
                None
            }
            Received::Closed => {
                self.kill(key, world);
                None
            }
        }
    }

    /// Whether the peer of a connection has given it up, or must have by now: what was received from it and has
    /// not begun is not executed. Only the clock is asked for each receipt; the system is asked if the input
    /// may be old, and then at a bounded rate.
    #[inline]
    pub(crate) fn is_given_up<W: World>(&mut self, key: Key, world: &mut W) -> bool {
        let now = world.clock();
        if self.is_overdue(now) {
            // The core stood still within this turn.
            self.expire(now, world);
        }
        self.engine.set_clock(now);
        let Some(connection) = self.connections.get_mut(key) else { return false };
        if connection.phase == Phase::Dead {
            return false;
        }
        let age = now.since(connection.came_since);
        if connection.life.as_ref().is_some_and(|life| life.is_over(now)) {
            return true;
        }
        if !connection.vigil.is_due(now, age) {
            return false;
        }
        let state = world.peer_state(connection.socket);
        connection.vigil.heard(now, state);
        state.is_over
    }

    /// A closing connection is read until its end, so that the peer receives our last messages.
    fn discard<W: World>(&mut self, key: Key, world: &mut W) -> Option<bool> {
        let connection = self.connections.get_mut(key)?;
        match world.receive(connection.socket, None, &mut self.staging) {
            Received::Bytes(_) => Some(true),
            Received::Nothing => {
                let unsent = connection.has_to_send();
                connection.watch(if unsent { Interest::Both } else { Interest::Input }, world);
                None
            }
            Received::Closed => {
                self.kill(key, world);
                None
            }
        }
    }

    /// `len` bytes arrived: first in `place`, then in the staging area.
    #[inline]
    fn received<W: World>(&mut self, key: Key, place: Option<Place>, len: usize, world: &mut W) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        let mut placed = 0;
        if let Some(Place { buffer, offset, len: room }) = place {
            placed = len.min(room);
            let bytes = &world.pool().bytes(buffer)[offset..offset + placed];
            connection.session.handle_payload(bytes);
        }
        // The staging area is taken out of the shard while its bytes are borrowed.
        let staging = std::mem::take(&mut self.staging);
        let bytes = &staging[..len - placed];
        let left = self.feed(key, bytes, world);
        if left > 0
            && let Some(connection) = self.connections.get_mut(key)
            && connection.phase == Phase::Open
        {
            connection.leftover = self.leftovers.keep(&bytes[bytes.len() - left..]);
            self.stop(key);
        }
        self.staging = staging;
    }

    /// Hands bytes to a session, and the resulting requests to the engine. Returns the number of
    /// bytes that must wait.
    #[inline]
    fn feed<W: World>(&mut self, key: Key, bytes: &[u8], world: &mut W) -> usize {
        let mut rest = bytes;
        let fed = loop {
            let Some(connection) = self.connections.get_mut(key) else { return 0 };
            let fed = feed_session(key, connection, &mut rest, &mut self.engine, world);
            self.take_demands(key, world);
            match fed {
                Ok(Fed::All) => break Ok(()),
                Ok(Fed::Paused) if self.connections.get(key).is_some_and(Self::goes_on) => {}
                Ok(Fed::Paused) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        self.announce(key, world);
        let left = if fed.is_ok() { rest.len() } else { 0 };
        if let Err(error) = fed {
            self.peer_error(key, error, world);
        }
        self.notify_siblings(key, world);
        self.mark_dirty(key);
        left
    }

    /// Like `feed`, with bytes that have waited.
    fn feed_leftover<W: World>(&mut self, key: Key, leftover: Leftover, world: &mut W) {
        let left = self.feed(key, leftover.as_slice(), world);
        match self.connections.get_mut(key) {
            Some(connection) if connection.phase == Phase::Open => {
                connection.leftover = self.leftovers.keep_last(leftover, left);
                if left > 0 {
                    self.stop(key);
                }
            }
            _ => self.leftovers.leave(&leftover),
        }
    }

    /// Whether the session of a connection takes input.
    fn goes_on(connection: &Connection) -> bool {
        connection.phase == Phase::Open && connection.session.receiving() != Receiving::Paused
    }

    /// Stops the input of a connection. It is woken when its session is given a buffer, when output
    /// has left, and by every other change of its session.
    pub(crate) fn stop(&mut self, key: Key) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        self.lists.halt(key, &mut connection.listed);
        if Self::goes_on(connection) {
            self.lists.wake(key, &mut connection.listed);
        }
    }

    /// Watches the end of connections whose input has been stopped for a while.
    pub(crate) fn watch_the_halted<W: World>(&mut self, world: &mut W) {
        if !self.lists.halted.is_empty() && world.now().since(self.lists.halted_at) >= YOUNG {
            self.watch_all_halted(world);
        }
    }

    pub(crate) fn watch_all_halted<W: World>(&mut self, world: &mut W) {
        self.lists.halted_at = world.now();
        for key in std::mem::take(&mut self.lists.halted) {
            let Some(connection) = self.connections.get_mut(key) else { continue };
            let is_stopped = connection.listed.unhalt();
            if !is_stopped || connection.phase != Phase::Open || connection.listed.polled {
                continue;
            }
            let interest = if connection.has_to_send() { Interest::Output } else { Interest::End };
            connection.watch(interest, world);
        }
    }

    /// Resumes the input of woken connections where possible.
    pub(crate) fn resume_woken<W: World>(&mut self, world: &mut W) {
        for key in std::mem::take(&mut self.lists.woken) {
            let Some(connection) = self.connections.get_mut(key) else { continue };
            connection.listed.look();
            if !Self::goes_on(connection) {
                continue;
            }
            connection.came_since = connection.arrivals.since();
            if self.is_given_up(key, world) {
                self.kill(key, world);
            }
            let Some(connection) = self.connections.get_mut(key) else { continue };
            if !Self::goes_on(connection) {
                continue;
            }
            connection.listed.start();
            let leftover = std::mem::take(&mut connection.leftover);
            let was_left_over = !leftover.is_empty();
            trace::note_earlier_receipt(&mut self.engine, connection.received_at);
            self.feed_leftover(key, leftover, world);
            let Some(connection) = self.connections.get_mut(key) else { continue };
            if !Self::goes_on(connection) {
                self.stop(key);
                continue;
            }
            if was_left_over {
                // Until now the node was the cause of the wait; from now on it may be the peer.
                connection.progress.begins(world.now());
            }
            self.start_polling(key, world);
        }
    }

    /// A want of a session has ended, with a buffer or without one.
    pub(crate) fn granted<W: World>(&mut self, grant: Grant, world: &mut W) {
        let (key, due) = (Key::from_owner(grant.owner), grant.due);
        let connection = self.connections.get_mut(key);
        let connection = connection.expect("a connection withdraws its wants before it ends");
        *connection.awaits.of(due) = false;
        let session = &mut connection.session;
        if let Some(buffer) = grant.buffer {
            let len = world.pool().len_of(buffer);
            if session.wants(due).is_some_and(|wanted| Pool::charge(wanted) == len) {
                session.provide(due, buffer);
                connection.awaits.is_patient &= due == Due::Later;
            } else {
                self.engine.accounts().give_back(connection.account(), len);
                world.pool().give_back(buffer);
            }
        } else {
            connection.awaits.is_patient = session.stands_still() && !session.give_way();
        }
        self.take_demands(key, world);
        self.mark_dirty(key);
    }

    /// Passes a session's demands on to the engine, the controllers or the other parts of the
    /// shard.
    #[inline]
    pub(crate) fn take_demands<W: World>(&mut self, key: Key, world: &mut W) {
        while let Some(connection) = self.connections.get_mut(key) {
            if provide_buffers(key, connection, &mut self.engine, world.pool()) {
                self.lists.wake(key, &mut connection.listed);
            }
            match &mut connection.session {
                Session::NvmeTcp(session) => match session.poll_demand() {
                    Some(nvme_tcp::Demand::Request(request)) => {
                        hand_over(&mut self.engine, (key, connection), request, world);
                    }
                    Some(nvme_tcp::Demand::Connect(demand)) => self.connect(key, *demand, world),
                    Some(nvme_tcp::Demand::Admin(demand)) => self.admin(key, *demand, world),
                    Some(nvme_tcp::Demand::Change(tag, change)) => {
                        self.ask_for_change(key, tag, change, world);
                    }
                    Some(nvme_tcp::Demand::Authentication(step)) => {
                        self.ask_for_authentication(key, step, world);
                    }
                    None => break,
                },
                Session::Direct(session) => match session.poll_demand() {
                    Some(direct::Demand::Request(request)) => {
                        hand_over(&mut self.engine, (key, connection), request, world);
                    }
                    Some(demand) => self.ring_demand(key, demand, world),
                    None => break,
                },
                Session::Iscsi(session) => match session.poll_demand() {
                    Some(iscsi::Demand::Request(request)) => {
                        hand_over(&mut self.engine, (key, connection), request, world);
                    }
                    Some(iscsi::Demand::Login(demand)) => self.login(key, demand, world),
                    Some(iscsi::Demand::Change(tag, change)) => {
                        self.ask_for_change(key, tag, change, world);
                    }
                    None => break,
                },
            }
        }
    }

    /// Hands a request to the engine.
    #[inline]
    pub(crate) fn submit<W: World>(&mut self, key: Key, request: Request, world: &mut W) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        hand_over(&mut self.engine, (key, connection), request, world);
    }

    /// The host of a connection has become known, and whether it has proved its name or must.
    pub(crate) fn belongs_to(&mut self, key: Key, host: Box<str>, is_proved: bool) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        let accounts = self.engine.accounts();
        accounts.join(connection.account(), &host);
        if is_proved {
            accounts.set_proved(connection.account());
        }
        connection.host = Some(host);
        connection.is_proved = is_proved;
    }

    pub(crate) fn peer_error<W: World>(&mut self, key: Key, error: PeerError, world: &mut W) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        if error.is_failed_proof() {
            connection.quiet_until = Some(world.now().plus(PROOF_DELAY));
        }
        self.initiators.note_error(error, connection.peer, world.now());
        if !error.is_goodbye() {
            world.notice(connection.error_notice(error));
        }
        self.begin_closing(key, world);
    }
}

/// Bytes came, into so much room.
#[inline]
fn note_arrival<W: World>(connection: &mut Connection, (len, room): (usize, usize), world: &mut W) {
    let (socket, now) = (connection.socket, world.now());
    // A command that came early, and waits for one of another connection, is as old as its own bytes.
    let held = connection.session.iscsi().is_some_and(iscsi::TargetSession::holds_commands);
    let arrivals = &mut connection.arrivals;
    arrivals.took(len);
    let since = arrivals.since();
    connection.came_since = if held { since.min(connection.came_since) } else { since };
    if world.is_drained(socket, len, room) {
        arrivals.seen_empty(now);
    } else if arrivals.wants_mark(now) {
        arrivals.mark(now, world.unread(socket));
    }
}

/// Hands a request of a connection to the engine.
#[inline]
fn hand_over<W: World>(
    engine: &mut Engine,
    (key, connection): (Key, &mut Connection),
    request: Request,
    world: &mut W,
) {
    connection.requests += 1;
    let (owner, account, nexus) = (key.to_owner(), connection.account(), connection.nexus);
    let trace = trace::sample(engine, (key, connection), &request, world);
    let begin_by = connection.begin_by(engine.clock());
    let asker = Asker { owner, account, nexus, begin_by };
    engine.submit_traced(asker, request, trace, world.pool());
}

/// Hands the session as many of the bytes as it takes.
#[inline]
fn feed_session<W: World>(
    key: Key,
    connection: &mut Connection,
    rest: &mut &[u8],
    engine: &mut Engine,
    world: &mut W,
) -> Result<Fed, PeerError> {
    while !rest.is_empty() {
        match connection.session.receiving() {
            Receiving::Bytes => {
                let taken = connection.session.handle_input(rest)?;
                *rest = &rest[taken..];
            }
            Receiving::Payload { buffer, offset, len } => {
                let (payload, behind) = rest.split_at(len.min(rest.len()));
                let place = &mut world.pool().bytes_mut(buffer)[offset..offset + payload.len()];
                place.copy_from_slice(payload);
                connection.session.handle_payload(payload);
                *rest = behind;
            }
            // Usually a buffer for in-capsule data is free, so this need not wait for the demands.
            Receiving::Paused if provide_buffers(key, connection, engine, world.pool()) => {}
            Receiving::Paused => return Ok(Fed::Paused),
        }
    }
    Ok(Fed::All)
}

/// Gives the session those of the buffers it wants that are free. The session waits for the others.
/// Returns whether it was given any.
#[inline]
fn provide_buffers(
    key: Key,
    connection: &mut Connection,
    engine: &mut Engine,
    pool: &mut Pool,
) -> bool {
    let mut given = false;
    // A connection that no longer receives needs no buffers.
    while connection.phase == Phase::Open && connection.session.wants_buffer().is_some() {
        // The buffer that the stream waits for comes first: the data for the others is behind it.
        let mut dues = [Due::Next, Due::Later].into_iter();
        if !dues.any(|due| provide_buffer(key, connection, due, engine, pool)) {
            break;
        }
        given = true;
    }
    given
}

#[inline]
fn provide_buffer(
    key: Key,
    connection: &mut Connection,
    due: Due,
    engine: &mut Engine,
    pool: &mut Pool,
) -> bool {
    let Some(len) = connection.session.wants(due) else { return false };
    let account = connection.account();
    if *connection.awaits.of(due) {
        return due == Due::Next && gives_way(key, connection, engine, pool);
    }
    if let Some(buffer) = engine.take_for_payload(account, due, len, pool) {
        connection.session.provide(due, buffer);
        return true;
    }
    *connection.awaits.of(due) = true;
    let (owner, nexus) = (key.to_owner(), connection.nexus);
    let asker = Asker { owner, account, nexus, begin_by: Nanos::NEVER };
    let may_give_way = !connection.awaits.is_patient && connection.session.may_give_way();
    let volume = connection.session.volume_of_want(due);
    engine.want(asker, Want { len, due, volume, may_give_way });
    false
}

/// Asks a session again that has once declined to proceed without a buffer, because other
/// connections or commands may wait for this one. Returns whether it proceeds.
#[cold]
fn gives_way(key: Key, connection: &mut Connection, engine: &mut Engine, pool: &mut Pool) -> bool {
    let gives_way = connection.awaits.is_patient && connection.session.give_way();
    if gives_way {
        connection.awaits = Awaits::default();
        engine.withdraw(key.to_owner(), pool);
    }
    gives_way
}
