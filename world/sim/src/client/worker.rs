//! A direct client at work: it comes, opens the volume, changes and reads what it may, and judges
//! what it is answered.

mod draw;

use std::ops::Range;

use nearflash_direct::client::{
    ClientCompletion, ClientConfig, ClientEvent, ClientOperation, VolumeHandle,
};
use nearflash_direct::{Secret, Status};
use nearflash_request::{Access, BufferId, Nexus};
use nearflash_units::Nanos;

use crate::Dice;
use crate::client::client_plan::ClientPlan;
use crate::client::ground::Ground;
use crate::client::link::{Connection, Fate, Places, SKEW_MAX};
use crate::client::ownership::{Ending, Fill, Ownership};
use crate::client::words::Words;
use crate::network::{LinkId, Side};
use crate::node::SHARED_ID;
use crate::outside::Outside;
use crate::reservations::Asked;
use crate::witness::Tick;

/// The volume that clients share, and the one for those that do not keep the protocol.
pub(crate) const SHARED: &str = "shared";
/// See [`SHARED`].
pub(crate) const JUNK: &str = "junk";

/// What clients do together.
#[derive(Debug, Default)]
pub(crate) struct Common {
    pub(crate) words: Words,
    pub(crate) succeeded: u64,
    pub(crate) refused: u64,
    pub(crate) failed: u64,
    pub(crate) lost: u64,
    /// Answers that an epoch was stale.
    pub(crate) stale: u64,
    /// Some device operation can fail.
    pub(crate) disks_fail: bool,
    /// Requests made by rings.
    pub(crate) by_ring: u64,
    /// Counts connections.
    pub(crate) joined: u64,
    /// What was asked, whether a reservation refused it, and when that was answered: to be judged.
    pub(crate) answered: Vec<(Asked, bool, Tick)>,
}

/// What is in flight.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    sent: Tick,
    range: Range<u64>,
    pub(crate) buffer: Option<BufferId>,
    durable: bool,
    what: What,
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
    /// Of a client that does not keep the protocol.
    Junk,
}

impl Pending {
    /// Where what is read goes.
    pub(crate) fn read_buffer(&self) -> Option<BufferId> {
        self.buffer.filter(|_| self.what == What::Read)
    }
}

/// Entries of a simulated client's rings.
const RING_ENTRIES_MAX: u32 = 8;

/// Where a client is in its life.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Life {
    Away(Nanos),
    Connecting,
    Working(VolumeHandle),
    /// It asked again what its volume is.
    Refreshing(VolumeHandle),
    Gone,
}

#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) plan: ClientPlan,
    pub(crate) number: usize,
    dice: Dice,
    life: Life,
    ground: Ground,
    pub(crate) owned: Ownership,
    connection: Option<Connection>,
    /// The node has credentials.
    has_key: bool,
    /// For the rings that it has asked for.
    places: Option<Places>,
    left: u32,
    made: u32,
    /// Tells its writes apart.
    fills: u64,
    /// What it last saw of each word of swaps.
    guesses: Vec<(u64, u64)>,
    pub(crate) resting: bool,
    /// Since when it has no rights at all: the node has said that nothing of it is under way.
    pub(crate) revoked_at: Option<Tick>,
    /// Whether it is told now and then that it has no right, or its volume is gone.
    pub(crate) may_be_refused: bool,
    think_until: Nanos,
    /// Links on which it says nothing, or not what it should.
    pub(crate) crooked_links: Vec<LinkId>,
}

/// The name and the secret of a client's key.
pub(crate) fn key_of(number: usize) -> (Box<str>, Secret) {
    let byte = u8::try_from(number + 1).expect("few clients");
    (format!("client-{number}").into(), Secret::new([byte; 32]))
}

impl Client {
    pub(crate) fn new(
        number: usize,
        plan: ClientPlan,
        ground: Ground,
        (has_key, steady): (bool, bool),
        dice: Dice,
    ) -> Self {
        let ranges = match plan.crooked {
            None => ground.owned(u64::try_from(number).expect("few clients")),
            Some(_) => Vec::new(),
        };
        Self {
            number,
            dice,
            life: Life::Away(Nanos(0)),
            owned: Ownership::new(ranges, steady),
            ground,
            connection: None,
            has_key,
            places: None,
            left: plan.requests,
            made: 0,
            fills: 0,
            guesses: Vec::new(),
            resting: false,
            revoked_at: None,
            may_be_refused: false,
            think_until: Nanos(0),
            crooked_links: Vec::new(),
            plan,
        }
    }

    pub(crate) fn has(&self, link: LinkId) -> bool {
        self.connection.as_ref().is_some_and(|connection| connection.link == link)
    }

    /// Whether that was ever a link of its, and what it sends there is nonsense.
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

    /// Looks around and does what there is to do. Returns when to look again, if nothing comes
    /// before.
    pub(crate) fn look(&mut self, common: &mut Common, outside: &mut Outside) -> Option<Nanos> {
        let now = outside.now;
        match self.life {
            Life::Gone => return None,
            Life::Away(until) if until > now => return Some(until),
            Life::Away(_) if self.resting || self.left == 0 => {
                self.life = Life::Gone;
                return None;
            }
            Life::Away(_) => self.join(common, outside),
            _ => {}
        }
        if self.pump(outside) == Fate::Lost {
            return self.leave(false, common, outside);
        }
        if self.take_events(outside) == Fate::Lost {
            return self.leave(false, common, outside);
        }
        self.take_completions(common, outside);
        let made = self.made;
        if !self.resting && now >= self.think_until {
            self.work(common, outside);
            if self.made > made && self.dice.permille(self.plan.leave_permille) {
                let abruptly = self.dice.coin();
                return self.leave(abruptly, common, outside);
            }
            self.think_until = now.plus(self.dice.span(self.plan.think));
        }
        if self.pump(outside) == Fate::Lost {
            return self.leave(false, common, outside);
        }
        self.take_completions(common, outside);
        Some(match self.left {
            0 => now.plus(Nanos::from_millis(50)),
            _ if self.resting => now.plus(Nanos::from_millis(50)),
            // With nothing to do but wait, what comes wakes it; room to send does not.
            _ if self.made == made => self.think_until.max(now.plus(Nanos::from_micros(500))),
            _ => self.think_until,
        })
    }

    fn join(&mut self, common: &mut Common, outside: &mut Outside) {
        common.joined += 1;
        let config = ClientConfig {
            key: self.has_key.then(|| key_of(self.number)),
            digests: self.plan.digests,
            rings: self.plan.rings,
            nonce: outside.nonce(),
        };
        let connection = Connection::new(config, self.plan.crooked, !self.has_key, outside);
        if self.plan.crooked.is_some() {
            self.crooked_links.push(connection.link);
        }
        self.connection = Some(connection);
        self.life = Life::Connecting;
    }

    fn pump(&mut self, outside: &mut Outside) -> Fate {
        let Some(connection) = &mut self.connection else { return Fate::Lost };
        connection.pump(&mut self.dice, outside)
    }

    /// Ends its connection, or finds it ended: nobody knows what became of what was in flight.
    pub(crate) fn leave(
        &mut self,
        abruptly: bool,
        common: &mut Common,
        outside: &mut Outside,
    ) -> Option<Nanos> {
        let now = outside.tick();
        let connection = self.connection.take()?;
        if abruptly {
            outside.network.abort(outside.now, connection.link, Side::Host);
        } else {
            outside.network.close(outside.now, connection.link, Side::Host);
        }
        outside.settle_network();
        for pending in connection.pending.into_values() {
            common.lost += u64::from(pending.what != What::Junk);
            if let What::Change(fill) = pending.what {
                self.owned.ended(&pending.range, fill, Ending::Lost, now);
            }
        }
        let until = outside.now.plus(Nanos::from_micros(self.dice.pick(&[10, 1_000, 50_000])));
        self.life = Life::Away(until);
        Some(until)
    }

    fn take_events(&mut self, outside: &mut Outside) -> Fate {
        let is_crooked = self.plan.crooked.is_some();
        while let Some(connection) = &mut self.connection {
            let Some(event) = connection.session.poll_event() else { break };
            match (event, self.life) {
                (ClientEvent::Ready, _) if self.plan.claims && !is_crooked => {
                    let identity = [u8::try_from(self.number).expect("few clients"); 16];
                    connection.session.claim(identity).expect("the handshake is over");
                }
                (ClientEvent::Claimed(result), _) if !is_crooked => {
                    assert_eq!(result, Ok(()), "client {}", self.number);
                    self.owned.claimed();
                    self.begin();
                }
                (ClientEvent::Ready, _) => self.begin(),
                (ClientEvent::Attached(made), _) if !is_crooked => {
                    connection.places = self.places.take().filter(|_| made.is_ok());
                    connection.session.open(SHARED).expect("the handshake is over");
                }
                (ClientEvent::Opened { result: Ok(info), .. }, _) => {
                    self.life = Life::Working(info.handle);
                }
                (ClientEvent::Opened { result: Err(status), .. }, _) => {
                    let is_due = is_crooked
                        || self.may_be_refused
                            && [Status::NOT_GRANTED, Status::NO_SUCH_VOLUME].contains(&status);
                    assert!(is_due, "client {}: its volume is refused: {status}", self.number);
                    outside.note("client refused", &[]);
                    return Fate::Lost;
                }
                (ClientEvent::Attached(_) | ClientEvent::Claimed(_) | ClientEvent::Pong, _) => {
                    assert!(is_crooked, "nobody asked");
                }
            }
        }
        if self.connection.is_some() { Fate::Lives } else { Fate::Lost }
    }

    /// It is in, and what it had under way before is over: it asks for rings, or for its volume.
    fn begin(&mut self) {
        let Some(connection) = &mut self.connection else { return };
        let is_crooked = self.plan.crooked.is_some();
        if self.plan.rings && !is_crooked {
            let agreed = connection.session.agreed().expect("the handshake is over");
            let entries = 1 << agreed.credits_max.min(RING_ENTRIES_MAX).ilog2();
            let (places, data_len) = Places::new(entries, self.ground.len_max);
            connection.session.attach(entries, data_len).expect("rings are offered");
            self.places = Some(places);
        } else {
            let name = if is_crooked { JUNK } else { SHARED };
            connection.session.open(name).expect("the handshake is over");
        }
    }

    fn take_completions(&mut self, common: &mut Common, outside: &mut Outside) {
        loop {
            let Some(connection) = &mut self.connection else { return };
            let Some(completion) = connection.session.poll_completion() else { return };
            let pending = connection.pending_of(completion.tag);
            let bytes = pending.buffer.map(|buffer| connection.memory.give_back(buffer));
            if pending.what != What::Junk {
                self.judge(&pending, completion, &bytes.unwrap_or_default(), common, outside);
            }
        }
    }

    /// A request is answered.
    fn judge(
        &mut self,
        pending: &Pending,
        done: ClientCompletion,
        bytes: &[u8],
        common: &mut Common,
        outside: &mut Outside,
    ) {
        let now = outside.tick();
        let status = done.status;
        let had_rights = self.revoked_at.is_none_or(|since| pending.sent < since);
        assert!(had_rights || !status.is_ok(), "client {}: {pending:?} was done", self.number);
        self.judge_status(status, common);
        let is_refused = status == Status::RESERVED;
        // A discard of no whole block touches nothing, and nobody asks who may do that.
        let touches = pending.what != What::Change(Fill::Discard)
            || holds_a_block(&pending.range, outside.block_len);
        if (status.is_ok() && touches) || is_refused {
            let (volume, nexus, sent) = (SHARED_ID, Nexus::NONE, pending.sent);
            let access = match pending.what {
                What::Read => Access::Read,
                What::Flush => Access::Manage,
                _ => Access::Write,
            };
            common.answered.push((Asked { volume, nexus, access, sent }, is_refused, now));
        }
        let word = pending.range.start;
        let is_not_done = is_not_done(status);
        match pending.what {
            What::Read if status.is_ok() => self.owned.read(self.number, word, bytes),
            What::Flush if status.is_ok() => {
                self.owned.flushed(pending.sent);
                common.words.flushed(pending.sent);
            }
            What::Change(fill) => {
                let ending = match status {
                    _ if status.is_ok() => Ending::Done { durable: pending.durable },
                    _ if is_not_done => Ending::NotDone,
                    _ => Ending::Failed,
                };
                self.owned.ended(&pending.range, fill, ending, now);
            }
            What::Add if status.is_ok() => {
                common.words.added(word, done.value, (pending.sent, now), pending.durable);
            }
            What::Add if is_not_done => common.words.add_refused(word),
            What::Swap { expected, new } if status.is_ok() => {
                common.words.swapped(word, new, done.value);
                self.guess(word, if done.value == expected { new } else { done.value });
            }
            What::Swap { new, .. } if is_not_done => common.words.swap_refused(word, new),
            What::Read | What::Flush | What::Add | What::Swap { .. } | What::Junk => {}
        }
        if let (Status::STALE_EPOCH, Life::Working(volume)) = (status, self.life)
            && let Some(connection) = &mut self.connection
        {
            // A connection that is closing by now finds out by itself.
            if connection.session.refresh(volume).is_ok() {
                self.life = Life::Refreshing(volume);
            }
        }
    }

    fn judge_status(&self, status: Status, common: &mut Common) {
        let is_due = match status {
            Status::OK => {
                common.succeeded += 1;
                true
            }
            Status::STALE_EPOCH => {
                common.stale += 1;
                true
            }
            // The ledger judges that.
            Status::RESERVED => {
                common.refused += 1;
                true
            }
            Status::NOT_GRANTED | Status::NO_SUCH_VOLUME => {
                common.refused += 1;
                self.may_be_refused
            }
            Status::UNRECOVERED_READ
            | Status::WRITE_FAULT
            | Status::CAPACITY_EXCEEDED
            | Status::DEVICE_UNAVAILABLE => {
                common.failed += 1;
                common.disks_fail
            }
            _ => false,
        };
        assert!(is_due, "client {}: a request was answered {status:?}", self.number);
    }

    /// What a word of swaps is likely to be.
    fn guess(&mut self, word: u64, guess: u64) {
        match self.guesses.iter_mut().find(|(of, _)| *of == word) {
            Some(place) => place.1 = guess,
            None => self.guesses.push((word, guess)),
        }
    }

    /// The power was lost: nothing it knew of words holds.
    pub(crate) fn forget(&mut self) {
        self.guesses.clear();
    }

    /// Makes new requests, as many as its depth allows.
    fn work(&mut self, common: &mut Common, outside: &mut Outside) {
        let Life::Working(volume) = self.life else { return };
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
            let Some((pending, operation)) = self.draw(common, outside) else { return };
            self.left -= 1;
            self.made += 1;
            common.by_ring += u64::from(
                self.connection.as_ref().is_some_and(|connection| connection.places.is_some()),
            );
            self.submit(volume, pending, &operation, outside);
        }
    }

    fn submit(
        &mut self,
        volume: VolumeHandle,
        pending: Pending,
        operation: &ClientOperation,
        outside: &mut Outside,
    ) {
        let Some(connection) = &mut self.connection else { return };
        if connection.places.is_some() {
            let skew = self.dice.pick(&[0, 0, 512, SKEW_MAX, 8, 1, 100]);
            return connection.submit_entry(volume, (pending, operation), skew, outside);
        }
        let payload = pending.buffer.map(|buffer| connection.memory.bytes(buffer).to_vec());
        let tag = connection.session.submit(volume, operation, &payload.unwrap_or_default());
        let tag = tag.expect("a request within the credits is taken");
        let twin = connection.pending.insert(tag.0, pending);
        assert!(twin.is_none(), "a tag in flight is not given out again");
    }
}

fn holds_a_block(range: &Range<u64>, block_len: usize) -> bool {
    let block_len = u64::try_from(block_len).expect("a length");
    range.start.next_multiple_of(block_len) + block_len <= range.end
}

/// Whether such an answer says that nothing was done.
fn is_not_done(status: Status) -> bool {
    [Status::NOT_GRANTED, Status::NO_SUCH_VOLUME, Status::STALE_EPOCH, Status::RESERVED]
        .contains(&status)
}
