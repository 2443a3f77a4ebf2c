//! One connection of a shard: its socket, its session, and its share of the core's bounds.

use std::net::SocketAddr;
use std::sync::Arc;

use nearflash_direct::Face;
use nearflash_direct::serving::ClientIdentity;
use nearflash_engine::{AccountId, Accounts, Pool};
use nearflash_nvme::{ControllerId, QueueId};
use nearflash_request::{Due, Nexus};
use nearflash_session::{Receiving, ServingEnd};
use nearflash_units::Nanos;

use crate::arrival::{AGE_MAX, Arrivals, Vigil};
use crate::door::Peer;
use crate::leftover::{Leftover, Leftovers};
use crate::life::Life;
use crate::lists::Listed;
use crate::progress::Progress;
use crate::session::Session;
use crate::world::{Interest, RingId, SocketId, World};

/// The role of a connection, known once its handshake is complete.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Role {
    /// No role yet.
    Handshake,
    /// The admin queue of a controller. Always on the first core.
    Admin(ControllerId),
    /// An I/O queue.
    Io(ControllerId, QueueId),
    Direct,
    /// A connection of an initiator's session.
    Initiator {
        /// The session.
        tsih: u16,
        /// The connection in it.
        cid: u16,
    },
}

impl Role {
    pub(crate) fn controller(self) -> Option<ControllerId> {
        self.queue().map(|(controller, _)| controller)
    }

    pub(crate) fn queue(self) -> Option<(ControllerId, QueueId)> {
        match self {
            Self::Handshake | Self::Direct | Self::Initiator { .. } => None,
            Self::Admin(controller) => Some((controller, QueueId::ADMIN)),
            Self::Io(controller, queue) => Some((controller, queue)),
        }
    }
}

/// The phase of a connection's life.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Phase {
    /// Receives and answers.
    Open,
    /// Receives nothing more; sends the remaining answers, then closes.
    Closing,
    /// All output is sent, and the peer was informed. The socket is closed when the peer closes it
    /// or the time is up. If it were closed at once, with unread input, the last messages would be
    /// lost.
    Lingering(Nanos),
    /// The socket is gone. Waits for the device operations of its requests.
    Dead,
}

/// A connected direct client.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    /// `None` for an anonymous one.
    pub(crate) key: Option<Box<str>>,
}

/// A connection. Moves between cores whole.
#[derive(Debug)]
pub struct Connection {
    pub(crate) socket: SocketId,
    pub(crate) peer: Peer,
    pub(crate) local: SocketAddr,
    pub(crate) session: Session,
    pub(crate) role: Role,
    /// The direct client, once its connection was announced.
    pub(crate) client: Option<Client>,
    /// The identity that a direct client claims for the connection.
    pub(crate) identity: Option<Box<ClientIdentity>>,
    /// The rings that it shares with its client.
    pub(crate) ring: Option<RingId>,
    pub(crate) phase: Phase,
    /// Received bytes behind a command that waits for a buffer or for answers to be sent.
    pub(crate) leftover: Leftover,
    /// The I_T nexus that reservations know the peer by; empty before the login.
    pub(crate) nexus: Nexus,
    /// The host that it belongs to, by its name in its protocol; `None` before that is known, and of an
    /// anonymous client.
    pub(crate) host: Option<Box<str>>,
    /// The host has proved that name, or must before it asks for anything.
    pub(crate) is_proved: bool,
    /// Requests in the engine, and in front of it.
    pub(crate) requests: usize,
    /// Changes that the control side has not answered. The end of a connection does not wait for
    /// them: the control side may itself be waiting for that end, and makes changes in the order of
    /// asking anyway.
    pub(crate) changes: usize,
    /// No output is sent before this time, because the answer to a failed login is delayed.
    pub(crate) quiet_until: Option<Nanos>,
    /// Its peer was refused, and that was reported.
    pub(crate) is_refused: bool,
    /// The faces of mirrors that its peer uses, if it is another node.
    pub(crate) face: Option<Face>,
    /// Its account in the pool of its core.
    pub(crate) account: Option<AccountId>,
    /// When bytes last came.
    pub(crate) received_at: Nanos,
    /// How old the bytes of its socket, and the entries of its ring, may be.
    pub(crate) arrivals: Arrivals,
    pub(crate) ring_arrivals: Arrivals,
    /// The time after which the input that was taken last has come.
    pub(crate) came_since: Nanos,
    /// The system's answers about its peer.
    pub(crate) vigil: Vigil,
    /// Since when its socket has been watched for input.
    watched_at: Option<Nanos>,
    /// The keep-alive timer of its controller.
    pub(crate) life: Option<Arc<Life>>,
    /// The progress of its peer.
    pub(crate) progress: Progress,
    /// The buffers that it waits for.
    pub(crate) awaits: Awaits,
    /// Turns in a row in which nothing could be sent.
    pub(crate) blocked_turns: u16,
    /// The lists of the shard that it is in.
    pub(crate) listed: Listed,
}

/// The wants of a session that wait in its core's engine.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Awaits {
    pub(crate) next: bool,
    pub(crate) later: bool,
    /// Its session could not proceed without a buffer for the next payload.
    pub(crate) is_patient: bool,
}

impl Awaits {
    #[inline]
    pub(crate) const fn of(&mut self, due: Due) -> &mut bool {
        match due {
            Due::Next => &mut self.next,
            Due::Later => &mut self.later,
        }
    }
}

impl Connection {
    pub(crate) fn new(
        socket: SocketId,
        peer: Peer,
        local: SocketAddr,
        session: Session,
        now: Nanos,
    ) -> Self {
        let role = match session {
            Session::NvmeTcp(_) | Session::Iscsi(_) => Role::Handshake,
            Session::Direct(_) => Role::Direct,
        };
        Self {
            socket,
            peer,
            local,
            session,
            role,
            client: None,
            identity: None,
            ring: None,
            phase: Phase::Open,
            leftover: Leftover::default(),
            nexus: Nexus::NONE,
            host: None,
            is_proved: false,
            requests: 0,
            changes: 0,
            quiet_until: None,
            is_refused: false,
            face: None,
            account: None,
            received_at: now,
            arrivals: Arrivals::new(now),
            ring_arrivals: Arrivals::new(now),
            came_since: now,
            vigil: Vigil::new(now),
            watched_at: None,
            life: None,
            progress: Progress::new(now),
            awaits: Awaits::default(),
            blocked_turns: 0,
            listed: Listed::default(),
        }
    }

    /// Whether its peer has not proved yet who it is, as far as it must.
    pub(crate) fn is_stranger(&self) -> bool {
        self.phase != Phase::Dead && !self.is_let_in()
    }

    /// Asks for one event of its socket.
    pub(crate) fn watch<W: World>(&mut self, interest: Interest, world: &mut W) {
        let has_input = matches!(interest, Interest::Input | Interest::Both);
        self.watched_at = has_input.then(|| world.now());
        world.watch(self.socket, interest);
    }

    /// Its socket is not watched while it is on its way to another core.
    pub(crate) const fn forget_watch(&mut self) {
        self.watched_at = None;
    }

    /// Its socket is ready. If it was watched for input before the world settled, nothing waited then.
    pub(crate) fn is_ready<W: World>(&mut self, world: &W) {
        let settled_at = world.settled_at();
        if self.watched_at.take().is_some_and(|since| since < settled_at) {
            self.arrivals.seen_empty(settled_at);
        }
    }

    /// The age at which no change of a volume that several nodes serve begins any more: its host must not give
    /// it up earlier. Requests of another node's mirrors are under a lock there, and have no limit.
    fn age_max(&self) -> Option<Nanos> {
        if self.face == Some(Face::Replica) {
            return None;
        }
        let half = self.life.as_ref().map_or(Nanos::NEVER, |life| life.half());
        Some(half.min(AGE_MAX))
    }

    /// How long its core may sleep: input that comes to a core which sleeps is as old as its sleep, for all
    /// that the core knows.
    pub(crate) fn sleep_max(&self) -> Nanos {
        self.age_max().map_or(Nanos::NEVER, |span| Nanos(span.0 / 2))
    }

    /// The time until which a change that it brings now may begin, on a volume that several nodes serve.
    #[inline]
    pub(crate) fn begin_by(&self, now: Nanos) -> Nanos {
        match self.age_max() {
            None => Nanos::NEVER,
            Some(_) if self.vigil.is_deaf(now) => Nanos(0),
            Some(span) => self.came_since.plus(span),
        }
    }

    /// Whether nothing more is sent, even if its session still has output.
    pub(crate) const fn is_mute(&self) -> bool {
        matches!(self.phase, Phase::Dead | Phase::Lingering(_))
    }

    /// Whether it has anything to send.
    pub(crate) fn has_to_send(&self) -> bool {
        self.quiet_until.is_none() && !self.is_mute() && self.session.output_len() > 0
    }

    /// Its account. It has one while it belongs to a core.
    #[inline]
    pub(crate) fn account(&self) -> AccountId {
        self.account.expect("a connection of a core has an account")
    }

    /// Whether input is taken, and does not wait for buffers or for answers to be sent.
    pub(crate) fn takes_input(&self) -> bool {
        self.leftover.is_empty() && self.session.receiving() != Receiving::Paused
    }

    /// Whether progress depends on the peer: it must take answers, or send data. Input that the
    /// shard does not take does not count against the peer.
    pub(crate) fn waits_for_peer(&self) -> bool {
        let waits_for_data =
            self.phase == Phase::Open && self.takes_input() && self.session.awaits_data();
        self.session.output_len() > 0 || waits_for_data
    }

    /// Whether it has waited for the peer for longer than `patience`, with less progress than
    /// expected. It must be called regularly: the wait counts from the first call that sees it.
    pub(crate) fn is_stalled(&mut self, now: Nanos, patience: Nanos, accounts: &Accounts) -> bool {
        if !self.waits_for_peer() {
            self.progress.rests();
            return false;
        }
        self.progress.is_stalled(now, patience, accounts.held(self.account()))
    }

    /// Stops receiving. Buffers of incomplete payload are returned at once, because requests that
    /// must be answered before the end may wait for them.
    pub(crate) fn stop_receiving(
        &mut self,
        leftovers: &mut Leftovers,
        accounts: &mut Accounts,
        pool: &mut Pool,
    ) {
        if self.phase != Phase::Open {
            return;
        }
        self.phase = Phase::Closing;
        leftovers.leave(&std::mem::take(&mut self.leftover));
        let account = self.account();
        self.session.release_incoming(&mut |buffer| {
            accounts.give_back(account, pool.len_of(buffer));
            pool.give_back(buffer);
        });
    }

    /// Returns every buffer that the connection itself holds.
    pub(crate) fn release(
        &mut self,
        leftovers: &mut Leftovers,
        accounts: &mut Accounts,
        pool: &mut Pool,
    ) {
        self.session.release_all(&mut |buffer| pool.give_back(buffer));
        leftovers.leave(&std::mem::take(&mut self.leftover));
        accounts.clear(self.account());
    }
}
