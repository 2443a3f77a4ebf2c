//! One mirror of this node: the record, and how far a change of it is.

use nearflash_device::MirrorKey;
use nearflash_units::Nanos;

use super::note::{Note, Tokens};
use super::record::{Element, Known, Record, Token};
use super::{
    LEASE, Membership, MirrorConfig, NodeKey, Question, RemoteView, Replica, SliceState, View,
    longer,
};
use crate::Role;
use crate::mutant::Mutant;
use crate::table::{REMOTES_MAX, Term};

/// The time in sync after which a replica is taken back at once the next time.
const STAYS: Nanos = Nanos::from_secs(60);

/// The pauses before it is taken back double this often, from one second.
const FLAPS_MAX: u32 = 7;

/// A mirror with a replica on this node.
#[derive(Debug)]
pub(super) struct Mirror {
    pub(super) own: Replica,
    /// The other replicas. One keeps its place here.
    pub(super) peers: [Option<Peer>; REMOTES_MAX],
    /// The ordinal of the one that is to give its place in sync to another one.
    pub(super) leaving: Option<u32>,
    /// The slice of the replica of this node.
    pub(super) slice: SliceState,
    pub(super) known: Known,
    /// The revision of the list of replicas.
    pub(super) places: i64,
    /// The revision of that list which the proposal under way compares, if it adds a replica.
    pub(super) compared: Option<i64>,
    pub(super) phase: Phase,
    /// The number of the last call of the store. Answers to earlier ones are too late.
    pub(super) call: u64,
    /// Nothing is accepted and not applied, so this primary may serve.
    pub(super) is_open: bool,
    pub(super) stay: u32,
    /// At a secondary: the session that it accepts. At a primary: that of the other replica in sync.
    pub(super) session: u32,
    pub(super) joiner: Option<Joiner>,
    /// The two replicas were equal and flushed when the record got this token, and since then the cores of
    /// this process have noted every write in which they may differ.
    pub(super) covered: Option<Token>,
    /// The slice's note, durably.
    pub(super) note: Option<Note>,
    /// The highest term that the slice knew when this process began.
    pub(super) found_term: Term,
    /// The last note that was asked for.
    pub(super) asked_note: Option<Note>,
    /// A record in which this replica is alone in sync. Its term begins when the slice knows it.
    pub(super) coming: Option<Known>,
    /// At a replica that returns: the token that its slice gets before the record names the replica.
    pub(super) keeps: Option<Token>,
    /// Until when the lease lasts that was given last, to any node.
    pub(super) given: Nanos,
    /// The next attempt of something that failed.
    pub(super) retry_at: Nanos,
    /// When this replica was taken back last; how often in a row it did not stay; and when it may ask
    /// again.
    pub(super) entered_at: Nanos,
    pub(super) flaps: u32,
    pub(super) join_at: Nanos,
    /// A write has failed at the device of this replica.
    pub(super) has_failed: bool,
    /// The last published view, and the number of its publication.
    pub(super) view: Option<View>,
    pub(super) published: u64,
}

/// Another replica of a mirror.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer {
    pub(super) replica: Replica,
    /// Until when the lease of it lasts that is held.
    pub(super) held: Nanos,
    /// When this node began to need a lease of it.
    pub(super) needed_since: Nanos,
    /// A write has failed at its device.
    pub(super) has_failed: bool,
}

/// A change under way.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Phase {
    /// No change.
    Idle,
    /// The store is asked for the record: nothing is stopped while it does not answer.
    Reading(Change),
    /// No core serves any more, once they all have the view.
    Stopping(Change),
    /// The operations that this node has accepted reach its device.
    Draining(Change, u64),
    /// The record is proposed. It may take effect at any time from now on.
    Proposing(Record),
    /// To be proposed again at [`Mirror::retry_at`], since there was no answer.
    Again(Record),
    /// A later process has opened the slice.
    Fenced,
    /// A primary of this term opens: what was accepted before reaches the device.
    Opening(u64),
    /// A replica that is out of sync: how far its return is.
    Emptying,
    Emptied(u64),
    Joining,
    Readying,
    Syncing,
}

/// A change of the record that this node wants.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Change {
    /// The other replica in sync is dropped by this primary.
    Drop,
    /// This secondary becomes primary, alone.
    TakeOver,
    /// This primary makes the other replica in sync primary, alone.
    HandOver,
    /// This suspect becomes primary, alone.
    Recover,
    /// A replica that has everything is in sync, in the place of another one if that one leaves.
    Add,
}

/// A replica that returns, at the primary.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Joiner {
    /// Its ordinal.
    pub(super) replica: u32,
    pub(super) session: u32,
    pub(super) incarnation: u64,
    /// The tokens that its slice has.
    pub(super) tokens: Tokens,
    pub(super) stage: Stage,
    /// The token of the next record, when it has everything.
    pub(super) token: Option<Token>,
    /// Its slice has that token.
    pub(super) has_kept: bool,
}

#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Stage {
    /// It was told its session.
    Offered,
    /// It accepts writes. Every core learns to send them.
    Showing,
    /// Everything is copied to it.
    Copying,
    /// It has everything.
    Copied,
    /// Its lease is held. Every core learns that reads need it, and the record is read.
    Requiring,
    /// It counts as in sync.
    Added,
}

/// The part of this replica by the record.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Standing {
    Primary,
    Secondary,
    /// The record names an earlier incarnation.
    Suspect,
    Out,
}

impl Membership {
    /// The replica of this node, and the other ones.
    pub(super) fn sides(&self, replicas: &[Replica]) -> Option<(Replica, Vec<Replica>)> {
        let is_own = |it: &&Replica| it.node == self.node;
        let (own, others): (Vec<Replica>, Vec<Replica>) = replicas.iter().partition(is_own);
        match own[..] {
            [own] if others.len() <= REMOTES_MAX => Some((own, others)),
            _ => None,
        }
    }

    /// A mirror that is new on this node.
    pub(super) fn mirror(
        &self,
        own: Replica,
        others: &[Replica],
        config: MirrorConfig,
    ) -> Option<Mirror> {
        let MirrorConfig { leaving, places, known, note, .. } = config;
        let slice = self.slices.iter().find(|slice| slice.slice == own.slice).copied()?;
        let known_token = known.record.token;
        let mut others = others.iter().map(|replica| Peer::new(*replica, self.now));
        let mut mirror = Mirror {
            own,
            peers: std::array::from_fn(|_| others.next()),
            leaving,
            slice,
            known,
            places,
            compared: None,
            phase: Phase::Idle,
            call: 0,
            is_open: false,
            stay: 0,
            session: 0,
            joiner: None,
            covered: self.is(Mutant::CoversAtStart).then_some(known_token),
            note,
            found_term: note.map_or(Term(0), |note| note.term),
            asked_note: note,
            coming: None,
            keeps: None,
            // The start counts as a lease given.
            given: self.now.plus(longer(self.lease)),
            retry_at: self.now,
            entered_at: self.now,
            flaps: 0,
            join_at: self.now,
            has_failed: false,
            view: None,
            published: 0,
        };
        // The record names this process: no earlier one has written since the replicas were equal.
        mirror.cover();
        Some(mirror)
    }
}

impl Peer {
    fn new(replica: Replica, now: Nanos) -> Self {
        Self { replica, held: Nanos(0), needed_since: now, has_failed: false }
    }

    /// Whether its slice is known to vouch for its bytes, if it is in sync. It noted the token before it was
    /// added, or before it gave a lease.
    pub(super) fn has_noted(&self) -> bool {
        self.held > Nanos(0)
    }

    /// Whether its lease has been over for long enough to drop it.
    pub(super) fn has_lost_lease(&self, now: Nanos) -> bool {
        now > self.held.max(self.needed_since.plus(LEASE))
    }
}

/// The other replicas.
impl Mirror {
    pub(super) fn peers(&self) -> impl Iterator<Item = &Peer> {
        self.peers.iter().flatten()
    }

    pub(super) fn peers_mut(&mut self) -> impl Iterator<Item = &mut Peer> {
        self.peers.iter_mut().flatten()
    }

    pub(super) fn peer_at(&self, node: NodeKey) -> Option<&Peer> {
        self.peers().find(|peer| peer.replica.node == node)
    }

    pub(super) fn peer_at_mut(&mut self, node: NodeKey) -> Option<&mut Peer> {
        self.peers_mut().find(|peer| peer.replica.node == node)
    }

    pub(super) fn peer(&self, replica: u32) -> Option<&Peer> {
        self.peers().find(|peer| peer.replica.ordinal == replica)
    }

    pub(super) fn peer_mut(&mut self, replica: u32) -> Option<&mut Peer> {
        self.peers_mut().find(|peer| peer.replica.ordinal == replica)
    }

    /// The other replica in sync.
    pub(super) fn other(&self) -> Option<&Peer> {
        self.peers().find(|peer| self.known.record.element(peer.replica.ordinal).is_some())
    }

    /// The node of the primary, if it is another one.
    pub(super) fn primary_node(&self) -> Option<NodeKey> {
        self.peer(self.known.record.primary).map(|peer| peer.replica.node)
    }

    /// The replica that returns.
    pub(super) fn joining(&self) -> Option<(Joiner, &Peer)> {
        let joiner = self.joiner?;
        Some((joiner, self.peer(joiner.replica)?))
    }

    /// The list of replicas has changed. Nothing that was learned of one that is gone counts for another one.
    pub(super) fn set_peers(
        &mut self,
        others: &[Replica],
        leaving: Option<u32>,
        places: i64,
        now: Nanos,
    ) {
        self.places = places;
        let is_same = |peer: &Peer| others.contains(&peer.replica);
        if self.peers().count() == others.len()
            && self.peers().all(is_same)
            && self.leaving == leaving
        {
            return;
        }
        self.leaving = leaving;
        for slot in &mut self.peers {
            slot.take_if(|peer| !is_same(peer));
        }
        for other in others {
            let is_known = self.peers().any(|peer| peer.replica == *other);
            let free = self.peers.iter_mut().find(|slot| slot.is_none());
            if let Some(slot) = free.filter(|_| !is_known) {
                *slot = Some(Peer::new(*other, now));
            }
        }
        if self.compared.take().is_some() || self.phase == Phase::Reading(Change::Add) {
            // The proposal to add a replica compares the earlier list, so it never takes effect.
            self.call = 0;
            self.phase = Phase::Idle;
            self.retry_at = now;
        }
        if let Some(joiner) = &mut self.joiner {
            joiner.stage = joiner.stage.min(Stage::Requiring);
        }
        let stays = self.joining().is_some_and(|(_, peer)| self.admits(&peer.replica));
        self.joiner = self.joiner.filter(|_| stays);
    }

    /// Whether a replica that is out of sync may join: a third one only in the place of the other one in sync.
    /// If this one is to leave, it hands over before.
    pub(super) fn admits(&self, replica: &Replica) -> bool {
        let Some(other) = self.other() else { return true };
        let is_out = self.known.record.element(replica.ordinal).is_none();
        is_out && self.leaving == Some(other.replica.ordinal)
    }

    /// Whether the other replicas that count, in each of the records that may be in force, have given leases:
    /// until when all of them last.
    pub(super) fn lease(&self) -> Nanos {
        let required = |stage| matches!(stage, Stage::Requiring | Stage::Added);
        let joining = self.joining().map(|(joiner, peer)| (joiner.stage, peer.held));
        let in_sync = self.other().map(|peer| peer.held);
        match (joining, in_sync) {
            (Some((stage, held)), Some(other)) if required(stage) => held.min(other),
            (_, Some(held)) | (Some((_, held)), None) => held,
            (None, None) => Nanos(0),
        }
    }
}

impl Mirror {
    pub(super) fn standing(&self) -> Standing {
        match self.known.record.element(self.own.ordinal) {
            None => Standing::Out,
            Some(element) if element.incarnation != self.slice.incarnation => Standing::Suspect,
            Some(_) if self.known.record.primary == self.own.ordinal => Standing::Primary,
            Some(_) => Standing::Secondary,
        }
    }

    /// The element of this replica, as it is now.
    pub(super) fn element(&self) -> Element {
        Element { replica: self.own.ordinal, incarnation: self.slice.incarnation }
    }

    /// Whether both replicas are in sync, this one in the present incarnation of its slice.
    pub(super) fn are_both_in_sync(&self) -> bool {
        let is_in_sync = matches!(self.standing(), Standing::Primary | Standing::Secondary);
        is_in_sync && self.other().is_some()
    }

    /// Whether this replica has lost its power since it was in sync.
    fn has_lost_power(&self) -> bool {
        let recorded = self.known.record.element(self.own.ordinal);
        recorded.is_none_or(|it| it.incarnation < self.slice.power)
    }

    /// The term up to which this suspect has the bytes, if the record is of an earlier one: the state of a
    /// restored store was accepted.
    pub(super) fn ahead(&self) -> Option<Term> {
        let is_ahead = self.found_term > self.known.record.term;
        (is_ahead && self.standing() == Standing::Suspect).then_some(self.found_term)
    }

    /// When both replicas are in sync, nothing that was written before needs to be known.
    pub(super) fn cover(&mut self) {
        if self.are_both_in_sync() {
            self.covered = Some(self.known.record.token);
        }
    }

    /// The element of the other replica in sync.
    pub(super) fn other_element(&self) -> Option<Element> {
        self.known.record.element(self.other()?.replica.ordinal)
    }

    /// Whether all cores apply the view of this moment.
    pub(super) fn is_shown(&self, shown: u64) -> bool {
        self.view == Some(self.wanted_view()) && self.published <= shown
    }

    /// The view that the cores should have.
    pub(super) fn wanted_view(&self) -> View {
        let Record { term, primary, kept_since, .. } = self.known.record;
        let standing = self.standing();
        let is_in_sync = standing == Standing::Primary && self.other().is_some();
        let joiner = self.joiner.filter(|joiner| joiner.stage != Stage::Offered);
        let role = self.role(standing);
        let is_required =
            joiner.is_some_and(|it| matches!(it.stage, Stage::Requiring | Stage::Added));
        let in_sync = self.other().filter(|_| is_in_sync).map(|peer| peer.replica.ordinal);
        let remote = |peer: &Peer| {
            let ordinal = peer.replica.ordinal;
            match joiner.filter(|joiner| joiner.replica == ordinal) {
                Some(Joiner { session, .. }) => {
                    Some(RemoteView { ordinal, session, has_all: is_required })
                }
                None => (in_sync == Some(ordinal)).then_some(RemoteView {
                    ordinal,
                    session: self.session,
                    has_all: true,
                }),
            }
        };
        // A primary that has stopped completes what it has sent.
        let sends = role == Role::Primary || self.is_open && self.is_stopped();
        View {
            term,
            role,
            primary,
            remotes: self.peers.map(|peer| peer.as_ref().filter(|_| sends).and_then(remote)),
            needs_lease: is_in_sync || is_required,
            session: if role == Role::Secondary { self.session } else { 0 },
            stay: self.stay,
            kept_since,
        }
    }

    fn role(&self, standing: Standing) -> Role {
        let is_primary_elsewhere = self.known.record.primary != self.own.ordinal;
        match (standing, &self.phase) {
            (_, Phase::Fenced) => Role::Nobody,
            (Standing::Primary, _) if !self.is_open || self.is_stopped() => Role::Nobody,
            (Standing::Primary, _) => Role::Primary,
            (Standing::Secondary, _) if self.is_stopped() => Role::Nobody,
            (Standing::Secondary, _) => Role::Secondary,
            (Standing::Out, Phase::Readying | Phase::Syncing) => Role::Secondary,
            (Standing::Suspect | Standing::Out, _) if is_primary_elsewhere => Role::Elsewhere,
            (Standing::Suspect | Standing::Out, _) => Role::Nobody,
        }
    }

    /// Whether this node has stopped for a change that makes another primary. It stays so until the
    /// outcome is known.
    fn is_stopped(&self) -> bool {
        match &self.phase {
            Phase::Stopping(_) | Phase::Draining(..) => true,
            Phase::Proposing(record) | Phase::Again(record) => {
                record.primary != self.known.record.primary
            }
            _ => false,
        }
    }

    /// The question to a node for a lease, if this node is a primary that needs or will need one.
    pub(super) fn question(&self, mirror: MirrorKey, node: NodeKey) -> Option<Question> {
        if self.standing() != Standing::Primary {
            return None;
        }
        let ordinal = self.peer_at(node)?.replica.ordinal;
        let session = match self.joiner.filter(|joiner| joiner.replica == ordinal) {
            Some(joiner) => joiner.session,
            None => self.known.record.element(ordinal).map(|_| self.session)?,
        };
        Some(Question { mirror, term: self.known.record.term, session })
    }

    /// Whether the asker may have a lease: it is the primary, and this node does not take part in a
    /// term without it.
    pub(super) fn gives_lease(&self, question: &Question, asker: NodeKey) -> bool {
        let is_agreed =
            question.term == self.known.record.term && self.primary_node() == Some(asker);
        let is_following = match self.standing() {
            // Its lease says that its slice knows the bytes: the primary hands over to no other replica.
            Standing::Secondary => {
                matches!(self.phase, Phase::Idle | Phase::Reading(_))
                    && self.has_noted(self.known.record.token)
            }
            Standing::Out => self.phase == Phase::Syncing && question.session == self.session,
            Standing::Primary | Standing::Suspect => false,
        };
        // The next term begins without the asker as soon as the slice knows it.
        is_agreed && is_following && self.coming.is_none()
    }

    /// A node has asked, for this mirror or without it.
    pub(super) fn asked(&mut self, question: Option<&Question>, asker: NodeKey) {
        if self.primary_node() != Some(asker) {
            return;
        }
        let counts = question.is_some_and(|question| question.session == self.session);
        let is_current = question.is_none_or(|it| it.term == self.known.record.term);
        if matches!(self.phase, Phase::Readying | Phase::Syncing) && !counts && is_current {
            // The primary has given this session up.
            self.phase = Phase::Emptying;
        }
        if self.standing() == Standing::Secondary
            && matches!(self.phase, Phase::Reading(Change::TakeOver))
            && question.is_some_and(|question| self.gives_lease(question, asker))
        {
            self.phase = Phase::Idle;
        }
    }

    pub(super) fn drained(&mut self, number: u64) {
        match self.phase.clone() {
            // The other node may have died meanwhile, so this is examined once more.
            Phase::Draining(Change::HandOver, expected) if expected == number => {
                self.retry_at = Nanos(0);
            }
            Phase::Draining(change, expected) if expected == number => {
                let record = self.proposal(change);
                self.phase = record.map_or(Phase::Idle, Phase::Again);
                self.retry_at = Nanos(0);
            }
            Phase::Opening(expected) if expected == number => {
                self.is_open = true;
                self.phase = Phase::Idle;
            }
            Phase::Emptied(expected) if expected == number => {
                self.phase = Phase::Joining;
                self.retry_at = Nanos(0);
            }
            _ => {}
        }
    }

    /// The record that a change makes.
    pub(super) fn proposal(&self, change: Change) -> Option<Record> {
        let own = self.own.ordinal;
        let record = &self.known.record;
        Some(match change {
            Change::Recover if self.has_lost_power() => record.next_after_loss(self.element()),
            Change::Drop | Change::TakeOver | Change::Recover => {
                record.next(own, vec![self.element()])
            }
            Change::HandOver => {
                let other = self.other_element()?;
                record.next(other.replica, vec![other])
            }
            Change::Add => {
                let Joiner { replica, incarnation, token, .. } = self.joiner?;
                let joiner = Element { replica, incarnation };
                Record { token: token?, ..record.next(own, vec![self.element(), joiner]) }
            }
        })
    }

    pub(super) fn has_left(&self) -> bool {
        match self.standing() {
            Standing::Primary => self.other().is_none(),
            Standing::Secondary => false,
            Standing::Suspect | Standing::Out => true,
        }
    }

    /// A replica that does not stay in sync asks later each time, so that it does not come and go.
    pub(super) fn pace(&mut self, before: Standing, after: Standing, now: Nanos) {
        let is_in = |standing| matches!(standing, Standing::Primary | Standing::Secondary);
        if is_in(after) && !is_in(before) {
            self.entered_at = now;
        }
        if is_in(before) && after == Standing::Out {
            let has_stayed = now.since(self.entered_at) > STAYS;
            self.flaps = if has_stayed { 0 } else { (self.flaps + 1).min(FLAPS_MAX) };
            let pause = if self.flaps == 0 { 0 } else { 1 << (self.flaps - 1) };
            self.join_at = now.plus(Nanos::from_secs(pause));
        }
    }
}
