//! A working direct client: it connects, opens the volume, changes and reads the ranges that it may
//! access, and checks its answers.

mod coming;
mod draw;
mod field;
mod files;
mod judge;
mod seals;

use std::ops::Range;

use nearflash_direct::client::{ClientConfig, ClientEvent, ClientOperation};
use nearflash_direct::{Secret, Status, segments};
use nearflash_request::{BufferId, Nexus};
use nearflash_units::Nanos;

use crate::Dice;
use crate::client::client_plan::ClientPlan;
use crate::client::ground::Ground;
use crate::client::link::{Connection, Places, SKEW_MAX};
use crate::client::ownership::{Ending, Fill, Ownership};
use crate::client::words::Words;
use crate::failures::About;
use crate::host::worker::Leaving;
use crate::judge::{Answer, Asker, Checks, Io};
use crate::line::Fate;
use crate::misbehaviour::Crook;
use crate::network::{LinkId, Route, Side};
use crate::outside::Outside;
use crate::stamp::Writer;
use crate::witness::{Door, Opened, Tick, Who};
use crate::workload::{Field, Workload};
use files::Messages;
use seals::{Seals, Wanted};

/// State that all clients share.
#[derive(Debug, Default)]
pub(crate) struct Common {
    pub(crate) words: Words,
    pub(crate) succeeded: u64,
    pub(crate) refused: u64,
    pub(crate) failed: u64,
    pub(crate) lost: u64,
    /// Refused requests for other clients' bytes.
    pub(crate) trespasses: u64,
    /// Answers with a stale epoch.
    pub(crate) stale: u64,
    /// Requests made over rings.
    pub(crate) by_ring: u64,
    /// Requests through seals that were answered.
    pub(crate) sealed: u64,
    /// Those of clients that have entered with a bearer.
    pub(crate) by_bearer: u64,
    /// Those that were refused because the seal is void.
    pub(crate) seals_stale: u64,
    /// Confirmed revocations of seals.
    pub(crate) seals_revoked: u64,
    /// Messages on files that were answered, and those that the node refused.
    pub(crate) files: u64,
    pub(crate) files_refused: u64,
    /// Revocations that another client is to ask for.
    wanted: Vec<Wanted>,
    /// Writers whose seal is void, with the time of the confirmation.
    voided: Vec<(Writer, Tick)>,
    /// The number of connections.
    pub(crate) joined: u64,
    /// The epoch of at least one volume has changed since the beginning.
    pub(crate) epochs_change: bool,
}

/// A request in flight.
#[derive(Clone, Debug)]
pub(crate) enum Pending {
    /// On the volume that clients share.
    Own(OwnRequest),
    /// On the blocks of hosts and initiators: checked as their commands are.
    Field(Io),
}

/// A request on the clients' own volume.
#[derive(Clone, Debug)]
pub(crate) struct OwnRequest {
    volume: u32,
    sent: Tick,
    range: Range<u64>,
    buffer: Option<BufferId>,
    durable: bool,
    what: What,
}

impl OwnRequest {
    /// Whether the node begins it in several parts.
    fn is_in_parts(&self) -> bool {
        let len =
            u32::try_from(self.range.end - self.range.start).expect("a length of the protocol");
        segments::count(self.range.start, len) > 1
    }

    /// The parts of devices whose failure may fail the request.
    fn about(&self) -> About {
        match self.what {
            What::Flush => About::all(self.volume, self.sent),
            what => About {
                volume: self.volume,
                bytes: self.range.clone(),
                sent: self.sent,
                writes: what != What::Read,
            },
        }
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum What {
    Read,
    Change(Fill),
    Flush,
    Add,
    Swap {
        expected: u64,
        new: u64,
    },
    /// A request for bytes to which the client has no right.
    Trespass,
    /// A request of a client that violates the protocol.
    Junk,
}

impl Pending {
    pub(crate) fn buffer(&self) -> Option<BufferId> {
        match self {
            Self::Own(request) => request.buffer,
            Self::Field(io) => io.buffer,
        }
    }

    /// The buffer that a read fills.
    pub(crate) fn read_buffer(&self) -> Option<BufferId> {
        let reads = match self {
            Self::Own(request) => request.what == What::Read,
            Self::Field(io) => io.reads(),
        };
        self.buffer().filter(|_| reads)
    }

    /// The volume of the request.
    fn volume(&self) -> u32 {
        match self {
            Self::Own(request) => request.volume,
            Self::Field(io) => io.first.volume,
        }
    }
}

/// Entries of a simulated client's rings.
const RING_ENTRIES_MAX: u32 = 8;

/// The phase of a client's life.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Life {
    Away(Nanos),
    Connecting,
    /// It has asked for its volumes' descriptions, and sends nothing else until it has them.
    Opening,
    Working,
    Gone,
}

#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) plan: ClientPlan,
    pub(crate) number: usize,
    pub(crate) route: Route,
    dice: Dice,
    life: Life,
    ground: Ground,
    pub(crate) owned: Ownership,
    workload: Workload,
    connection: Option<Connection>,
    /// It has a key, as the node has credentials.
    has_key: bool,
    /// Slots in the data area of the rings that it has asked for.
    places: Option<Places>,
    left: u32,
    made: u32,
    /// Distinguishes its writes.
    fills: u64,
    /// The last known value of each word changed by swaps.
    guesses: Vec<(u64, u64)>,
    pub(crate) resting: bool,
    seals: Seals,
    messages: Messages,
    /// Answers about seals.
    seal_events: Vec<ClientEvent>,
    /// When it lost all its grants: the node has confirmed that none of its requests is under way.
    pub(crate) revoked_at: Option<Tick>,
    /// Requests sent before this moment may be refused: the grants were gone, or not yet restored.
    pub(crate) refusable_until: Tick,
    think_until: Nanos,
    /// Links that it abandoned silently, until its next connection claims its identity.
    silenced: Vec<LinkId>,
    /// Links on which it says nothing or violates the protocol.
    pub(crate) crooked_links: Vec<LinkId>,
}

/// The name and the secret of a client's key.
pub(crate) fn key_of(number: usize) -> (Box<str>, Secret) {
    let byte = u8::try_from(number + 1).expect("few clients");
    (format!("client-{number}").into(), Secret::new([byte; 32]))
}

impl Client {
    pub(crate) fn new(
        (number, route): (usize, Route),
        plan: ClientPlan,
        (ground, field): (Ground, Field),
        (has_key, steady): (bool, bool),
        dice: Dice,
    ) -> Self {
        let ranges = match plan.crooked {
            None => ground.owned(u64::try_from(number).expect("few clients")),
            Some(_) => Vec::new(),
        };
        Self {
            number,
            route,
            messages: Messages::new(dice.clone().fork()),
            dice,
            life: Life::Away(Nanos(0)),
            owned: Ownership::new(ranges, steady),
            workload: Workload { mix: plan.mix, field, known: Default::default() },
            ground,
            connection: None,
            has_key,
            places: None,
            left: plan.requests,
            made: 0,
            fills: 0,
            guesses: Vec::new(),
            resting: false,
            seals: Seals::default(),
            seal_events: Vec::new(),
            revoked_at: None,
            refusable_until: Tick(0),
            think_until: Nanos(0),
            silenced: Vec::new(),
            crooked_links: Vec::new(),
            plan,
        }
    }

    pub(crate) fn has(&self, link: LinkId) -> bool {
        self.connection.as_ref().is_some_and(|connection| connection.link == link)
    }

    /// Whether this was ever one of its links, and it violates the protocol there.
    pub(crate) fn is_crooked_at(&self, link: LinkId) -> bool {
        self.crooked_links.contains(&link)
    }

    pub(crate) fn is_deaf(&self) -> bool {
        self.connection.as_ref().is_some_and(|connection| connection.is_deaf)
    }

    pub(crate) fn requests_left(&self) -> u32 {
        if self.plan.crooked.is_some() { 0 } else { self.left }
    }

    pub(crate) fn in_flight(&self) -> usize {
        let keeps = self.plan.crooked.is_none() && !self.is_deaf();
        self.connection.as_ref().filter(|_| keeps).map_or(0, |connection| connection.pending.len())
    }

    pub(crate) fn link(&self) -> Option<LinkId> {
        self.connection.as_ref().map(|connection| connection.link)
    }

    /// Takes its next step. Returns when to take another if no event comes earlier.
    pub(crate) fn look(
        &mut self,
        writers: &mut u32,
        common: &mut Common,
        checks: &mut Checks,
        outside: &mut Outside,
    ) -> Option<Nanos> {
        let now = outside.now;
        match self.life {
            Life::Gone => return None,
            Life::Away(until) if until > now => return Some(until),
            Life::Away(_) if self.resting || self.left == 0 => {
                self.life = Life::Gone;
                return None;
            }
            Life::Away(_) => self.join(writers, common, outside),
            _ => {}
        }
        if self.pump(outside) == Fate::Lost {
            return self.leave(Leaving::Closing, common, checks, outside);
        }
        if self.take_events(common, outside) == Fate::Lost {
            return self.leave(Leaving::Closing, common, checks, outside);
        }
        self.take_seal_events(writers, common, checks, outside);
        if self.is_idle_bearer(writers, outside) {
            return self.leave(Leaving::Closing, common, checks, outside);
        }
        self.take_completions(common, checks, outside);
        let made = self.made;
        if !self.resting && now >= self.think_until {
            self.work_on_seals(common);
            self.work_on_files(outside);
            self.work(common, checks, outside);
            if self.made > made && self.dice.permille(self.plan.leave_permille) {
                let how = self.draw_leaving();
                return self.leave(how, common, checks, outside);
            }
            self.think_until = now.plus(self.dice.span(self.plan.think));
        }
        if self.pump(outside) == Fate::Lost {
            return self.leave(Leaving::Closing, common, checks, outside);
        }
        self.take_completions(common, checks, outside);
        Some(match self.left {
            0 => now.plus(Nanos::from_millis(50)),
            _ if self.resting => now.plus(Nanos::from_millis(50)),
            // With nothing to do but wait, input wakes it; room to send does not.
            _ if self.made == made => self.think_until.max(now.plus(Nanos::from_micros(500))),
            _ => self.think_until,
        })
    }

    fn draw_leaving(&mut self) -> Leaving {
        let mut ways = vec![Leaving::Closing, Leaving::Resetting];
        // The node would notice the loss only by the claim of the next connection.
        if self.plan.claims && self.plan.crooked.is_none() && !self.is_bearer() {
            ways.push(Leaving::Silently);
        }
        self.dice.pick(&ways)
    }

    /// Its identity for the witness.
    pub(crate) fn who(&self) -> Who {
        Who { door: Door::Direct, number: u32::try_from(self.number).expect("few clients") }
    }

    fn join(&mut self, writers: &mut u32, common: &mut Common, outside: &mut Outside) {
        common.joined += 1;
        *writers += 1;
        let bearer = self.draw_bearer(outside);
        let config = ClientConfig {
            key: bearer.clone().or_else(|| self.has_key.then(|| key_of(self.number))),
            digests: self.plan.digests,
            rings: self.plan.rings,
            nonce: outside.nonce(),
        };
        let asker = Asker { writer: Writer(*writers), nexus: Nexus::NONE };
        let crook = self.plan.crooked.map(|how| Crook::new(how, self.dice.fork()));
        let how = (crook, asker);
        let route = (self.route, !self.has_key);
        let mut connection = Connection::new(config, how, route, outside);
        connection.is_bearers = bearer.is_some();
        let opened = Opened {
            who: self.who(),
            nexus: asker.nexus,
            link: connection.link,
            admin: None,
            over: None,
            is_bearers: connection.is_bearers,
        };
        outside.witness.opens(asker.writer, opened);
        if self.plan.crooked.is_some() {
            self.crooked_links.push(connection.link);
        }
        self.connection = Some(connection);
        self.life = Life::Connecting;
    }

    fn pump(&mut self, outside: &mut Outside) -> Fate {
        let Some(connection) = &mut self.connection else { return Fate::Lost };
        connection.pump(outside)
    }

    /// Ends its connection, or finds it ended: the results of requests in flight are unknown.
    pub(crate) fn leave(
        &mut self,
        how: Leaving,
        common: &mut Common,
        checks: &mut Checks,
        outside: &mut Outside,
    ) -> Option<Nanos> {
        let now = outside.tick();
        let connection = self.connection.take()?;
        self.seals.end();
        self.messages.end();
        self.seal_events.clear();
        outside.note("client leaves", &[u64::from(connection.link.0)]);
        match how {
            Leaving::Resetting => {
                outside.network.abort(outside.now, connection.link, Side::Caller);
            }
            Leaving::Silently => {
                let at = outside.is_mirrored.then(|| outside.too_old_at());
                outside.network.silence(connection.link, at);
                // A connection with a bearer claims no identity, and is ended by no claim.
                if !connection.is_bearers {
                    self.silenced.push(connection.link);
                }
            }
            _ => outside.network.close(outside.now, connection.link, Side::Caller),
        }
        outside.settle_network();
        for pending in connection.pending.into_values() {
            match pending {
                Pending::Own(OwnRequest { what: What::Junk, .. }) => continue,
                Pending::Own(OwnRequest { range, what: What::Change(fill), sent, .. }) => {
                    self.owned.ended(&range, fill, Ending::Lost, (sent, now));
                }
                Pending::Own(_) => {}
                Pending::Field(io) => io.lose(checks, now),
            }
            common.lost += 1;
        }
        let until = outside.now.plus(Nanos::from_micros(self.dice.pick(&[10, 1_000, 50_000])));
        self.life = Life::Away(until);
        Some(until)
    }

    fn take_completions(
        &mut self,
        common: &mut Common,
        checks: &mut Checks,
        outside: &mut Outside,
    ) {
        loop {
            let Some(connection) = &mut self.connection else { return };
            let Some(completion) = connection.session.poll_completion() else { return };
            let pending = connection.pending_of(completion.tag);
            let volume = pending.volume();
            match pending {
                Pending::Own(request) => {
                    let bytes = request.buffer.map(|buffer| connection.memory.give_back(buffer));
                    match request.what {
                        What::Junk => continue,
                        What::Trespass => self.judge_trespass(completion.status, common),
                        _ => {
                            let bytes = bytes.unwrap_or_default();
                            self.judge(&request, completion, &bytes, common, outside);
                            self.judge_right(&request, completion.status, checks, outside);
                        }
                    }
                }
                Pending::Field(io) => {
                    let is_sealed = self.judge_sealed(&io, completion.status, common, outside);
                    if !is_sealed {
                        self.judge_answer(io.sent, completion.status, common);
                    }
                    let answer = Answer::of_direct(completion.status);
                    if let Some(connection) = &mut self.connection {
                        io.judge(answer, &mut connection.memory, checks, outside);
                    }
                    if is_sealed {
                        continue;
                    }
                }
            }
            if completion.status == Status::STALE_EPOCH {
                self.refresh(volume, outside);
            }
        }
    }

    /// The power was lost: remembered values of words are no longer valid.
    pub(crate) fn forget(&mut self) {
        self.guesses.clear();
    }

    /// Makes new requests, as many as its depth allows.
    fn work(&mut self, common: &mut Common, checks: &mut Checks, outside: &mut Outside) {
        if self.life != Life::Working {
            return;
        }
        for _ in 0..self.dice.between(1, 4) {
            let Some(connection) = &mut self.connection else { return };
            let has_room =
                connection.session.credits_left() > 0 && connection.pending.len() < self.plan.depth;
            if !has_room || self.left == 0 {
                return;
            }
            if self.plan.deaf_after.is_some_and(|after| self.made >= after) {
                connection.is_deaf = true;
            }
            let Some((pending, operation)) = self.draw(common, checks, outside) else { return };
            self.left -= 1;
            self.made += 1;
            common.by_ring += u64::from(
                self.connection.as_ref().is_some_and(|connection| connection.places.is_some()),
            );
            self.submit(pending, &operation, outside);
        }
    }

    fn submit(&mut self, pending: Pending, operation: &ClientOperation, outside: &mut Outside) {
        let Some(connection) = &mut self.connection else { return };
        let volume = pending.volume();
        // A client that receives no answers sends arbitrary requests on its open volumes.
        let volume = if connection.is_deaf { self.route.node.shared_id() } else { volume };
        let volume = connection.volumes.get(&volume).copied();
        let sealed = match &pending {
            Pending::Field(io) => self.through_seal(io.asker, operation),
            Pending::Own(_) => None,
        };
        let (volume, operation) = match &sealed {
            Some((handle, operation)) => (*handle, operation),
            None => (volume.expect("it has opened its volumes"), operation),
        };
        let Some(connection) = &mut self.connection else { return };
        if connection.places.is_some() {
            let skew = self.dice.pick(&[0, 0, 512, SKEW_MAX, 8, 1, 100]);
            return connection.submit_entry(volume, (pending, operation), skew, outside);
        }
        let payload = pending.buffer().map(|buffer| connection.memory.bytes(buffer).to_vec());
        let tag = connection.session.submit(volume, operation, &payload.unwrap_or_default());
        let tag = tag.expect("a request within the credits is taken");
        let twin = connection.pending.insert(tag.0, pending);
        assert!(twin.is_none(), "a tag in flight is not given out again");
    }
}
