//! Who is primary of each mirror of this node, and which replicas are in sync.
//!
//! The agreed membership of a mirror is a [`Record`] in the cluster's store. Only a replica that is in
//! sync changes it, by a compare-and-swap; the store is not needed for anything else. Between the nodes
//! go *leases*: a primary answers reads only while it holds one of every other replica in sync, and the
//! giver takes part in no later term until its lease is over.
//!
//! One [`Membership`] serves a node. It takes messages of other nodes, records of the store and the
//! acknowledgements of the node's cores, and gives [`Action`]s. It follows one mirror at a time
//! (`mirror`): `steps` has the rules of its changes, `join` those of a replica that comes back.
//!
//! Rules, by their tags in `docs/consistency.md`: a replica proposes only in the incarnation that the
//! record names (D1); a transaction without an answer may still take effect, so that what was stopped for
//! it stays stopped (D2); a taker applies everything that it has accepted before it proposes (D6); a
//! replica that returns begins a new session, when nothing that it accepted is under way (D3d, D3e); a
//! replica that has just entered counts that as a lease given (D4).
//!
//! The store also has the places of a mirror's replicas. A planner changes them: it removes a replica that
//! is not in sync, and adds one elsewhere. A primary adds a replica to the record only if its transaction
//! finds the places that the primary knows, so that the record never names a replica without a place.
//!
//! A node with a core that does not turn is *stalled*: it neither asks for leases nor gives any, and wants no
//! change. So the other node of each mirror that is in sync goes on without it.
//!
//! A mirror has two replicas, or one while there is no room for another. While its bytes move, it has a third
//! one. At most two are in sync: when the third one has everything, one proposal puts it in the place of the
//! one that leaves (D10a to D10c). If the primary is to leave, it hands over first.
//!
//! It must not know connections, clients of the store, or threads.

mod join;
mod mirror;
mod note;
mod noting;
mod pulse;
mod record;
mod steps;
#[cfg(test)]
mod tests;
pub mod wire;

use std::collections::{BTreeMap, VecDeque};

use nearflash_device::{DeviceId, MirrorKey};
use nearflash_units::Nanos;

use crate::table::{REMOTES_MAX, Remote, Side, Term};
use mirror::Mirror;
pub use note::{Note, NoteVerdict, Tokens};
pub use pulse::{Heard, Pulse, Question, SliceState};
pub use record::{Element, Known, Record, Token};

use crate::mutant::Mutant;

/// The identity of a node.
pub type NodeKey = [u8; 16];

/// The identity of a slice.
pub type SliceKey = [u8; 16];

/// The length of a lease.
pub const LEASE: Nanos = Nanos::from_secs(1);

/// The time between two questions.
pub const ASK_PERIOD: Nanos = Nanos::from_millis(150);

/// The questions that may still be answered.
const QUESTIONS_MAX: usize = 16;

/// The advantage of a primary over its secondary, when both have lost each other.
const ADVANTAGE: Nanos = Nanos::from_millis(250);

/// The time for which a handover waits for writes under way.
const HANDOVER_MAX: Nanos = Nanos::from_millis(300);

/// The time between two attempts to reach the store, or to join.
const RETRY: Nanos = Nanos::from_millis(200);

/// The mirrors whose later terms a greeting tells, so that the message is not too long.
const AHEAD_MAX: usize = 4096;

/// The answers whose times a node remembers for each partner. The last one that has come is among them: at the usual
/// rate, they are those of 9 s, and after 5 s of silence no further question is answered.
const ANSWERS_MAX: usize = 64;

/// The time that a node's clock must have lost next to a partner's, so that it counts as having stood still.
const STANDSTILL: Nanos = Nanos::from_millis(500);

/// A replica of a mirror.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Replica {
    /// Its ordinal in the mirror.
    pub ordinal: u32,
    /// Its slice.
    pub slice: SliceKey,
    /// The node of the slice.
    pub node: NodeKey,
}

/// A mirror that has a replica on this node.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct MirrorConfig {
    /// The mirror.
    pub key: MirrorKey,
    /// Its replicas, of which one is on this node: at most [`crate::PLACES_MAX`], each on another node.
    pub replicas: Vec<Replica>,
    /// The ordinal of the one that is to give its place in sync to another one.
    pub leaving: Option<u32>,
    /// The revision of the store that wrote this list. The higher revision counts.
    pub places: i64,
    /// Its membership.
    pub known: Known,
    /// The note of the mirror on this node's slice when the process started.
    pub note: Option<Note>,
}

/// The part of this node in a mirror, for its cores.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct View {
    /// The term.
    pub term: Term,
    /// The role.
    pub role: crate::Role,
    /// The ordinal of the primary's replica.
    pub primary: u32,
    /// At the primary: the other replicas to which writes go. A replica keeps its place here.
    pub remotes: [Option<RemoteView>; REMOTES_MAX],
    /// At the primary: reads need a lease of every other replica in sync.
    pub needs_lease: bool,
    /// At a secondary: the session that the primary's operations must carry.
    pub session: u32,
    /// Changes when this node has not been in sync for a while.
    pub stay: u32,
    /// The term since which no answered write was lost.
    pub kept_since: Term,
}

/// Another replica, at the primary.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RemoteView {
    /// Its ordinal.
    pub ordinal: u32,
    /// Its session.
    pub session: u32,
    /// It has everything that was answered, and is not being copied to.
    pub has_all: bool,
}

impl RemoteView {
    /// It as an entry of the table, with the device that stands for it. Whether that one has a volatile cache is
    /// not known.
    pub fn on(self, device: DeviceId) -> Remote {
        let Self { session, has_all, .. } = self;
        Remote { device, session, has_all, volatile_cache: true }
    }
}

/// A change of a record, for the store.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Proposal {
    /// It takes effect only on the record of this revision.
    pub revision: i64,
    /// If it adds a replica: it takes effect only while the list of replicas has this revision.
    pub places: Option<i64>,
    /// The next record.
    pub record: Record,
}

/// The state that made a store refuse a proposal, all of one moment.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Conflict {
    /// The record.
    pub known: Known,
    /// The revision of the list of replicas.
    pub places: i64,
    /// A later process has opened the slice.
    pub is_fenced: bool,
}

/// An answer of the store.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum StoreAnswer {
    /// To [`Action::Read`]: the record.
    Read(Known),
    /// To [`Action::Propose`]: it is the record now, by this revision.
    Committed(i64),
    /// To [`Action::Propose`]: something is not as the proposal needs it.
    Refused(Conflict),
    /// There is no answer. A proposal may still take effect.
    Unknown,
}

/// A thing that the driver does.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Action {
    /// Sends a message. It may be lost with its connection.
    Send(NodeKey, Pulse),
    /// Gives every core new views; answered by [`Membership::handle_shown`].
    Publish(u64, Vec<(MirrorKey, View)>),
    /// Makes a slice know that of mirrors, durably; answered by [`Membership::handle_noted`]. The notes of a
    /// slice take effect in their order.
    Note(SliceKey, Vec<(MirrorKey, Note)>),
    /// Waits until nothing that any core has accepted or started for the mirror is under way at a device
    /// of this node; answered by [`Membership::handle_drained`].
    Drain(u64, MirrorKey),
    /// Gives every core the times until which reads of mirrors may be answered.
    Leases(Vec<(MirrorKey, Nanos)>),
    /// Reads the record, linearizably. The number is that of the call.
    Read(MirrorKey, u64),
    /// Replaces the record if everything has the revisions of the proposal and this process has opened the
    /// slice last. The number is that of the call.
    Propose(MirrorKey, u64, Proposal),
    /// Compares the replica that has this session, and copies what differs.
    Resync(MirrorKey, u32, Scope),
    /// The node's clock has stood still for about this time, as the clock of that partner proves: what waits in the
    /// sockets of hosts is older than this node can tell. Their connections must end.
    EndHosts(NodeKey, Nanos),
}

/// The parts of a mirror that a copy compares.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Scope {
    /// All parts.
    All,
    /// Those that the cores of this node have noted as written ([`crate::Written`]).
    Written,
}

/// A node that shares a mirror with this one.
#[derive(Debug, Default)]
struct Partner {
    /// The process that sent the last message, while its pulse is there.
    run: Option<u64>,
    /// The process that has greeted last, whether its pulse is there or not.
    process: Option<u64>,
    /// Its pulse has ended in an orderly way: no thread of that process runs any more.
    is_dead: bool,
    slices: Vec<SliceState>,
    /// The later terms that its slices know, although the records lack them.
    ahead: Vec<(MirrorKey, Term)>,
    /// When the last questions were sent.
    asked: VecDeque<(u64, Nanos)>,
    /// When the last answers were sent, by the numbers of their questions.
    answered: VecDeque<(u64, Nanos)>,
    /// The last answer that came, and when.
    heard: Option<(u64, Nanos)>,
}

impl Partner {
    /// The last answer that came, for a question at `now`.
    fn heard_at(&self, now: Nanos) -> Option<Heard> {
        let (sequence, at) = self.heard?;
        Some(Heard { sequence, ago_ms: now.since(at).0 / 1_000_000 })
    }

    /// The time that the own clock has lost next to the partner's since the own answer that the partner names.
    /// The partner waited for less than the time between sending that answer and receiving the question.
    fn lost_since(&self, now: Nanos, heard: Heard) -> Option<Nanos> {
        let (_, sent) = self.answered.iter().find(|(number, _)| *number == heard.sequence)?;
        let waited = Nanos(heard.ago_ms.saturating_mul(1_000_000));
        let lost = Nanos(waited.0.saturating_sub(now.since(*sent).0));
        // Two clocks differ by at most 2 %.
        (lost > STANDSTILL.plus(Nanos(waited.0 / 50))).then_some(lost)
    }
}

/// The membership of a node's mirrors.
#[derive(Debug)]
pub struct Membership {
    node: NodeKey,
    run: u64,
    slices: Vec<SliceState>,
    now: Nanos,
    lease: Nanos,
    partners: BTreeMap<NodeKey, Partner>,
    mirrors: BTreeMap<MirrorKey, Mirror>,
    actions: VecDeque<Action>,
    /// The number of the last publication, and of the last one that all cores have.
    published: u64,
    shown: u64,
    drains: u64,
    sequence: u64,
    calls: u64,
    ask_at: Nanos,
    sessions: u32,
    is_leaving: bool,
    is_stalled: bool,
    #[cfg(test)]
    pub(crate) mutant: Option<Mutant>,
}

/// Inputs and outputs.
impl Membership {
    /// The membership of a node with these slices, which have been opened and whose incarnations are in
    /// the store.
    pub fn new(node: NodeKey, run: u64, slices: Vec<SliceState>, now: Nanos) -> Self {
        Self {
            node,
            run,
            slices,
            now,
            lease: LEASE,
            partners: BTreeMap::new(),
            mirrors: BTreeMap::new(),
            actions: VecDeque::new(),
            published: 0,
            shown: 0,
            drains: 0,
            sequence: 0,
            calls: 0,
            ask_at: now,
            sessions: 0,
            is_leaving: false,
            is_stalled: false,
            #[cfg(test)]
            mutant: None,
        }
    }

    /// The time, by a clock that does not stand still while the machine is suspended.
    pub fn set_now(&mut self, now: Nanos) {
        self.now = now;
    }

    /// Replaces the list of mirrors. One that stays keeps its state, also if other replicas are replaced.
    pub fn set_mirrors(&mut self, configs: Vec<MirrorConfig>) {
        self.mirrors.retain(|key, _| configs.iter().any(|config| config.key == *key));
        for config in configs {
            let Some((own, others)) = self.sides(&config.replicas) else { continue };
            let key = config.key;
            if self.mirrors.get(&key).is_some_and(|mirror| mirror.own == own) {
                self.adopt(key, config.known);
                self.replace_peers(key, &others, config.leaving, config.places);
            } else if let Some(mirror) = self.mirror(own, &others, config) {
                self.mirrors.insert(key, mirror);
            }
        }
        let peers = self.mirrors.values().flat_map(Mirror::peers);
        let others: Vec<NodeKey> = peers.map(|peer| peer.replica.node).collect();
        // A node greets once. It may have learned of their first mirror earlier than this one.
        self.partners.retain(|node, it| others.contains(node) || it.run.is_some());
        for node in others {
            self.partners.entry(node).or_default();
        }
        self.step_all();
    }

    /// This node.
    pub fn node(&self) -> NodeKey {
        self.node
    }

    /// The nodes that share mirrors with this one: each needs a pulse.
    pub fn partners(&self) -> impl Iterator<Item = NodeKey> + '_ {
        self.partners.keys().copied().filter(|node| self.shares_with(*node))
    }

    fn shares_with(&self, node: NodeKey) -> bool {
        self.mirrors.values().any(|it| it.peer_at(node).is_some())
    }

    /// The first message of a pulse of this node.
    pub fn hello(&self) -> Pulse {
        let ahead = self.mirrors.iter().filter_map(|(key, it)| Some((*key, it.ahead()?)));
        let ahead = ahead.take(AHEAD_MAX).collect();
        Pulse::Hello { run: self.run, slices: self.slices.clone(), ahead }
    }

    /// A record of the store, however it came.
    pub fn handle_record(&mut self, mirror: MirrorKey, known: Known) {
        self.adopt(mirror, known);
        self.step_all();
    }

    /// A message of another node, on its newest pulse.
    pub fn handle_pulse(&mut self, from: NodeKey, pulse: Pulse) {
        if !self.partners.contains_key(&from) && !matches!(pulse, Pulse::Hello { .. }) {
            return;
        }
        match pulse {
            Pulse::Hello { run, slices, ahead } => self.hear(from, run, (slices, ahead)),
            Pulse::Ask { sequence, questions, heard } => {
                self.judge_own_clock(from, heard);
                self.answer(from, sequence, &questions);
            }
            Pulse::Grant { sequence, mirrors } => self.granted(from, sequence, &mirrors),
            Pulse::Tell(mirror, known) => self.adopt(mirror, known),
            Pulse::Join { mirror, incarnation, tokens } => {
                self.join_asked(from, mirror, incarnation, tokens);
            }
            Pulse::Joined { mirror, term, session } => self.joined(from, mirror, term, session),
            Pulse::Ready { mirror, session } => self.ready(from, mirror, session),
            Pulse::Keep { mirror, session, token } => self.keep(from, mirror, session, token),
            Pulse::Kept { mirror, session } => self.kept(from, mirror, session),
            Pulse::Failed { mirror } => self.failed_there(from, mirror),
        }
        self.step_all();
    }

    /// The newest pulse of a node has ended. It is a proof when it ended in an orderly way, and nothing
    /// between the nodes can have ended it.
    pub fn handle_pulse_end(&mut self, from: NodeKey, is_proof: bool) {
        if !self.shares_with(from) {
            self.partners.remove(&from);
        }
        if let Some(partner) = self.partners.get_mut(&from) {
            partner.is_dead = is_proof && partner.run.is_some();
            partner.run = None;
        }
        self.step_all();
    }

    /// Every core applies the publication of this number.
    pub fn handle_shown(&mut self, number: u64) {
        self.shown = self.shown.max(number);
        self.step_all();
    }

    /// A slice knows that of mirrors, durably: the answer to [`Action::Note`].
    pub fn handle_noted(&mut self, notes: &[(MirrorKey, Note)]) {
        for (key, note) in notes {
            if let Some(mirror) = self.mirrors.get_mut(key) {
                mirror.note = Some(*note);
            }
        }
        self.begin_noted();
        self.step_all();
    }

    /// The answer to [`Action::Drain`].
    pub fn handle_drained(&mut self, number: u64) {
        for mirror in self.mirrors.values_mut() {
            mirror.drained(number);
        }
        self.step_all();
    }

    /// The other replica has everything that this one has, durably. The token, which must be random, names
    /// these contents.
    pub fn handle_resynced(&mut self, mirror: MirrorKey, session: u32, token: Token) {
        self.resynced(mirror, session, token);
        self.step_all();
    }

    /// A part of an operation on the mirror failed at a device: of this node, or of the replica with a session.
    pub fn handle_failure(&mut self, mirror: MirrorKey, side: Side) {
        self.failed_here(mirror, side);
        self.step_all();
    }

    /// The answer to [`Action::Read`] or [`Action::Propose`].
    pub fn handle_store(&mut self, mirror: MirrorKey, call: u64, answer: StoreAnswer) {
        self.answered(mirror, call, answer);
        self.step_all();
    }

    /// Whether a core of this node does not turn ([`crate::Heartbeats`]).
    pub fn set_stalled(&mut self, is_stalled: bool) {
        self.is_stalled = is_stalled && !self.is(Mutant::StallIgnored);
    }

    /// Hands every mirror over to its other replica in sync, if there is one.
    pub fn leave(&mut self) {
        self.is_leaving = true;
        self.ask_to_be_dropped();
        self.step_all();
    }

    /// Whether no mirror counts on this node and another one.
    pub fn has_left(&self) -> bool {
        self.mirrors.values().all(Mirror::has_left)
    }

    /// The time at which [`Self::handle_timeout`] must be called.
    pub fn poll_timeout(&self) -> Nanos {
        self.ask_at
    }

    /// Asks for leases, and looks at everything that waits for a time.
    pub fn handle_timeout(&mut self) {
        if self.now >= self.ask_at {
            self.ask_at = self.now.plus(ASK_PERIOD);
            self.ask();
            self.ask_to_be_dropped();
        }
        self.step_all();
    }

    /// The next action.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.publish();
        self.note();
        self.actions.pop_front()
    }
}

/// Leases.
impl Membership {
    fn hear(
        &mut self,
        from: NodeKey,
        run: u64,
        (slices, ahead): (Vec<SliceState>, Vec<(MirrorKey, Term)>),
    ) {
        let partner = self.partners.entry(from).or_default();
        // What one process has asked and answered stays true when its pulse begins anew: the pulses of a machine
        // that stood still have ended meanwhile.
        let (answered, heard) = match partner.process == Some(run) {
            true => (std::mem::take(&mut partner.answered), partner.heard),
            false => (VecDeque::new(), None),
        };
        let (run, process) = (Some(run), Some(run));
        *partner = Partner { run, process, slices, ahead, answered, heard, ..Partner::default() };
    }

    /// Asks each partner for leases on the mirrors of which this node is primary.
    fn ask(&mut self) {
        let Self { partners, mirrors, actions, now, is_stalled, .. } = self;
        for (node, partner) in partners.iter_mut().filter(|(_, partner)| partner.run.is_some()) {
            let shared = || mirrors.iter().filter(|(_, mirror)| mirror.peer_at(*node).is_some());
            if shared().next().is_none() {
                continue;
            }
            let questions = shared().filter(|_| !*is_stalled);
            let questions: Vec<Question> =
                questions.filter_map(|(key, mirror)| mirror.question(*key, *node)).collect();
            self.sequence += 1;
            partner.asked.push_back((self.sequence, *now));
            let surplus = partner.asked.len().saturating_sub(QUESTIONS_MAX);
            partner.asked.drain(..surplus);
            let (sequence, heard) = (self.sequence, partner.heard_at(*now));
            actions.push_back(Action::Send(*node, Pulse::Ask { sequence, questions, heard }));
        }
    }

    /// A node whose clock stood still takes its leases and the input of its hosts for young. A partner's clock shows
    /// that they are not, also if nobody else decides about its mirrors.
    fn judge_own_clock(&mut self, from: NodeKey, heard: Option<Heard>) {
        let Some(partner) = self.partners.get_mut(&from) else { return };
        let Some(lost) = heard.and_then(|heard| partner.lost_since(self.now, heard)) else {
            return;
        };
        // Each standstill is noticed once: the questions that were sent meanwhile all name an answer from before.
        partner.answered.clear();
        self.actions.push_back(Action::EndHosts(from, lost));
    }

    /// Gives the leases that may be given, and tells what the asker does not know.
    fn answer(&mut self, from: NodeKey, sequence: u64, questions: &[Question]) {
        let until = self.now.plus(longer(self.lease));
        let mut granted = Vec::new();
        for question in questions {
            let mirror = self.mirrors.get_mut(&question.mirror);
            let Some(mirror) = mirror.filter(|it| it.peer_at(from).is_some()) else { continue };
            if !self.is_stalled && mirror.gives_lease(question, from) {
                mirror.given = mirror.given.max(until);
                granted.push(question.mirror);
            } else if mirror.known.record.term > question.term {
                let tell = Pulse::Tell(question.mirror, mirror.known.clone());
                self.actions.push_back(Action::Send(from, tell));
            }
        }
        for (key, mirror) in &mut self.mirrors {
            let question = questions.iter().find(|question| question.mirror == *key);
            mirror.asked(question, from);
        }
        if let Some(partner) = self.partners.get_mut(&from) {
            partner.answered.push_back((sequence, self.now));
            let surplus = partner.answered.len().saturating_sub(ANSWERS_MAX);
            partner.answered.drain(..surplus);
        }
        self.actions.push_back(Action::Send(from, Pulse::Grant { sequence, mirrors: granted }));
    }

    /// The leases count from the question.
    fn granted(&mut self, from: NodeKey, sequence: u64, granted: &[MirrorKey]) {
        let Some(partner) = self.partners.get_mut(&from) else { return };
        partner.heard = Some((sequence, self.now));
        let asked = partner.asked.iter().find(|(number, _)| *number == sequence);
        let Some((_, at)) = asked.copied() else { return };
        let until = at.plus(self.lease);
        let mut leases = Vec::new();
        for (key, mirror) in &mut self.mirrors {
            let Some(peer) = mirror.peer_at_mut(from) else { continue };
            if granted.contains(key) {
                peer.held = peer.held.max(until);
                leases.push((*key, mirror.lease()));
            } else if mirror.question(*key, from).is_some() {
                // It may not know this term yet.
                let tell = Pulse::Tell(*key, mirror.known.clone());
                self.actions.push_back(Action::Send(from, tell));
            }
        }
        if !leases.is_empty() {
            self.actions.push_back(Action::Leases(leases));
        }
    }
}

/// A giver counts its lease as a little longer than the holder does, since clocks differ.
fn longer(lease: Nanos) -> Nanos {
    Nanos(lease.0 + lease.0 / 50)
}
