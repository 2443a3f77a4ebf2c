//! One connection of a shard: its socket, its session, and what it holds of the core's bounds.

use std::collections::VecDeque;
use std::net::SocketAddr;

use nearflash_direct::serving::Lineage;
use nearflash_engine::{Need, Pool};
use nearflash_nvme::{ControllerId, QueueId};
use nearflash_request::{BufferId, Nexus, Operation, Request};
use nearflash_session::{Receiving, ServingEnd};
use nearflash_units::{ByteLen, Nanos};

use crate::account::Account;
use crate::door::Peer;
use crate::leftover::{Leftover, Leftovers};
use crate::progress::Progress;
use crate::session::Session;
use crate::world::{RingId, SocketId};

/// What a connection is, once its Connect is answered.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Role {
    /// Nothing yet.
    Handshake,
    /// The admin queue of a controller. Always on the first core.
    Admin(ControllerId),
    /// An I/O queue.
    Io(ControllerId, QueueId),
    /// A direct client.
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
        match self {
            Self::Handshake | Self::Direct | Self::Initiator { .. } => None,
            Self::Admin(controller) | Self::Io(controller, _) => Some(controller),
        }
    }

    pub(crate) fn queue(self) -> Option<(ControllerId, QueueId)> {
        match self {
            Self::Handshake | Self::Direct | Self::Initiator { .. } => None,
            Self::Admin(controller) => Some((controller, QueueId::ADMIN)),
            Self::Io(controller, queue) => Some((controller, queue)),
        }
    }
}

/// How far a connection's life has gone.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Phase {
    /// Receives and answers.
    Open,
    /// Nothing more is received; what is answered is still sent, then the connection is closed.
    Closing,
    /// All is sent, and the peer was told; closed when it closes or the time is over. A socket
    /// closed at once, with input unread, would take the last words back.
    Lingering(Nanos),
    /// The socket is gone. Waits for the device operations of its requests.
    Dead,
}

/// A direct client that is in.
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
    /// A direct client that is in, as it was announced: the key that it came with.
    pub(crate) client: Option<Client>,
    /// What a direct client claims for it.
    pub(crate) lineage: Option<Box<Lineage>>,
    /// The rings that it shares with its client.
    pub(crate) ring: Option<RingId>,
    pub(crate) phase: Phase,
    /// Received, but behind something that has to wait (for a buffer, for answers to be sent).
    pub(crate) leftover: Leftover,
    /// Requests that wait until the connection holds less of the pool: those that read, and those
    /// that take scratch. The two do not wait for one another: what takes scratch may hold the very
    /// buffers that reads wait for.
    pub(crate) deferred: VecDeque<Deferred>,
    pub(crate) deferred_scratch: VecDeque<Deferred>,
    /// Who asks, as reservations know it; nobody before the login.
    pub(crate) nexus: Nexus,
    /// Requests in the engine.
    pub(crate) requests: usize,
    /// Changes that the control side has not answered. Nobody waits for them when the connection is
    /// gone: the control side may be waiting for just that, and makes changes in the order of
    /// asking anyway.
    pub(crate) changes: usize,
    /// Nothing is sent before: a login that failed is not told at once that it did.
    pub(crate) quiet_until: Option<Nanos>,
    /// What it holds of the pool.
    pub(crate) account: Account,
    /// When bytes last came.
    pub(crate) received_at: Nanos,
    /// What moves between it and its peer.
    pub(crate) progress: Progress,
    /// Turns in a row in which nothing could be sent.
    pub(crate) blocked_turns: u16,
    /// Which of the shard's lists it is in.
    pub(crate) listed: Listed,
}

/// A request that waits in front of the engine.
#[derive(Debug)]
pub(crate) struct Deferred {
    pub(crate) request: Request,
    /// The engine's generation when the session handed it out.
    pub(crate) came: u64,
}

/// The lists of its shard that a connection is in, so that it is in each once.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Listed {
    /// Received from in every turn.
    pub(crate) hot: bool,
    /// Has something to send.
    pub(crate) dirty: bool,
    /// Waits for buffers or answers before it receives on.
    pub(crate) paused: bool,
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
            lineage: None,
            ring: None,
            phase: Phase::Open,
            leftover: Leftover::default(),
            deferred: VecDeque::new(),
            deferred_scratch: VecDeque::new(),
            nexus: Nexus::NONE,
            requests: 0,
            changes: 0,
            quiet_until: None,
            account: Account::default(),
            received_at: now,
            progress: Progress::new(now),
            blocked_turns: 0,
            listed: Listed::default(),
        }
    }

    /// Whether nothing is sent any more, whatever its session still has to say.
    pub(crate) const fn is_mute(&self) -> bool {
        matches!(self.phase, Phase::Dead | Phase::Lingering(_))
    }

    /// Whether room to send is of use to it.
    pub(crate) fn has_to_send(&self) -> bool {
        self.quiet_until.is_none() && !self.is_mute() && self.session.output_len() > 0
    }

    /// Whether it may take `more` of the pool.
    ///
    /// Each connection may hold as much as half of what is free, so that connections which hold on
    /// to their share (hosts that stop reading) leave room for one more, always.
    ///
    /// And [`Pool::FRONT_LEN`] is left alone: a buffer that waits for data (R2T) is of use only when what
    /// stands in the stream in front of that data has found a buffer, too. Whoever holds nothing may
    /// have all the rest.
    pub(crate) fn may_hold(&self, more: ByteLen, pool: &Pool) -> bool {
        let held = self.account.held().0;
        let is_its_share = held == 0 || held + more.0 <= pool.free_len().0 / 2;
        is_its_share && (pool.would_leave(Pool::FRONT_LEN, more) || pool.is_whole())
    }

    /// Whether a request of it may have what it needs.
    ///
    /// Scratch is had by one request at a time even beyond the connection's share: it may hold the
    /// very buffers that others wait for, and the engine, which has a reserve for that, gets every
    /// such request done without the peer.
    #[inline]
    pub(crate) fn may_take(&self, need: Need, pool: &Pool) -> bool {
        let is_only_scratch = matches!(need, Need::Scratch(_)) && self.account.has_no_scratch();
        need.is_empty() || is_only_scratch || self.may_hold(need.len(), pool)
    }

    /// The requests behind which one of that need waits.
    #[inline]
    pub(crate) fn deferred_like(&mut self, need: Need) -> &mut VecDeque<Deferred> {
        match need {
            Need::Read(_) => &mut self.deferred,
            Need::Scratch(_) => &mut self.deferred_scratch,
        }
    }

    /// Whether no request waits until the connection holds less.
    pub(crate) fn defers_nothing(&self) -> bool {
        self.deferred.is_empty() && self.deferred_scratch.is_empty()
    }

    /// What waits so.
    pub(crate) fn all_deferred(&self) -> impl Iterator<Item = &Deferred> {
        self.deferred.iter().chain(&self.deferred_scratch)
    }

    /// Takes out the requests of a direct client that wait so and are no longer allowed.
    pub(crate) fn take_disallowed(&mut self) -> Vec<Deferred> {
        let Some(session) = self.session.direct_mut() else { return Vec::new() };
        let mut disallowed =
            |deferred: &mut Deferred| !session.is_still_allowed(deferred.request.tag);
        let mut taken = Vec::new();
        for queue in [&mut self.deferred, &mut self.deferred_scratch] {
            let mut index = 0;
            while let Some(deferred) = queue.get_mut(index) {
                match disallowed(deferred) {
                    true => taken.extend(queue.remove(index)),
                    false => index += 1,
                }
            }
        }
        taken
    }

    /// Whether what the peer sends is taken, and does not wait for buffers or for answers to leave.
    pub(crate) fn takes_input(&self) -> bool {
        self.leftover.is_empty() && self.session.receiving() != Receiving::Paused
    }

    /// Whether something waits on the peer: answers to be taken, or data to be sent. What the peer
    /// may have sent and we do not take is not its fault.
    pub(crate) fn waits_for_peer(&self) -> bool {
        let waits_for_data =
            self.phase == Phase::Open && self.takes_input() && self.session.awaits_data();
        self.session.output_len() > 0 || waits_for_data
    }

    /// Whether it has waited on the peer for longer than `patience`, and less has moved than may be
    /// expected. To be asked now and then: waiting counts from the first time that it is seen.
    pub(crate) fn is_stalled(&mut self, now: Nanos, patience: Nanos) -> bool {
        if !self.waits_for_peer() {
            self.progress.rests();
            return false;
        }
        self.progress.is_stalled(now, patience, self.account.held())
    }

    /// Nothing more is received. Buffers of what was still coming are given back at once: what is to be
    /// answered before the end may wait for them.
    pub(crate) fn stop_receiving(&mut self, leftovers: &mut Leftovers, pool: &mut Pool) {
        if self.phase != Phase::Open {
            return;
        }
        self.phase = Phase::Closing;
        leftovers.forget(std::mem::take(&mut self.leftover));
        let account = &mut self.account;
        self.session.release_incoming(&mut |buffer| {
            account.give_back(pool.len_of(buffer));
            pool.give_back(buffer);
        });
    }

    /// Gives back every buffer that the connection itself holds.
    pub(crate) fn release(&mut self, leftovers: &mut Leftovers, pool: &mut Pool) {
        self.session.release_all(&mut |buffer| pool.give_back(buffer));
        for deferred in self.deferred.drain(..).chain(self.deferred_scratch.drain(..)) {
            payloads(&deferred.request).for_each(|buffer| pool.give_back(buffer));
        }
        leftovers.forget(std::mem::take(&mut self.leftover));
        self.account.clear();
    }
}

/// The buffers that a request brings along.
pub(crate) fn payloads(request: &Request) -> impl Iterator<Item = BufferId> {
    let (first, second) = match request.operation {
        Operation::Write { payload, .. }
        | Operation::WriteBytes { payload, .. }
        | Operation::ReadInto { buffer: payload }
        | Operation::WriteSame { payload, .. }
        | Operation::OrWrite { payload, .. }
        | Operation::WriteAndVerify { payload, .. }
        | Operation::Compare { payload }
        | Operation::CompareSame { payload } => (Some(payload), None),
        Operation::CompareAndWrite { compare, write, .. } => (Some(compare), Some(write)),
        Operation::Read
        | Operation::Flush
        | Operation::CompareAndSwap { .. }
        | Operation::FetchAdd { .. }
        | Operation::WriteZeroes { .. }
        | Operation::Deallocate { .. }
        | Operation::Copy { .. }
        | Operation::Verify
        | Operation::Allocation
        | Operation::Admit(_) => (None, None),
    };
    first.into_iter().chain(second)
}
