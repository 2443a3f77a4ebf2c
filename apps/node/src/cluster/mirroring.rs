//! The membership of this node's mirrors: the pulses, the calls of the store, and the cores' table, around
//! [`Membership`], which decides.
//!
//! It lives on the thread `cluster`, which nothing else may delay: a lease that is renewed late stops
//! reads.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use nearflash_api::HungCoreInfo;
use nearflash_cluster::compile::Tables;
use nearflash_cluster_store::{Calls, PulseConfig, PulseEvent, Pulses, Swap};
use nearflash_device::MirrorKey;
use nearflash_media::SliceNotes;
use nearflash_mirror::membership::{
    Action, Conflict, Known, Membership, MirrorConfig, NodeKey, Note, Proposal, Pulse, Scope,
    SliceState, StoreAnswer, Token, View,
};
use nearflash_mirror::{Heartbeats, REMOTES_MAX, Role, SILENCE_MAX, Written};
use nearflash_records::record::{Door, MirrorRecord, Record as _};
use nearflash_records::store::{Compare, Found, ModRevision, Put, StoreId};
use nearflash_records::{ClusterState, Endpoint, Key, Txn};
use nearflash_units::{ByteLen, Nanos};
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout_at};
use uuid::Uuid;

use super::noting::Noting;
use super::refused::refused;
use crate::node::board::Board;
use crate::runtime::MirrorNews;
use nearflash_cluster_store::{known, mirror_record, record_of};

/// The time after which a further endpoint is asked.
const ASK_PERIOD: Duration = Duration::from_millis(150);

/// The time that all endpoints have for an answer.
const CALL_MAX: Duration = Duration::from_millis(1500);

/// The things with which a node begins to take part in mirrors.
pub(crate) struct MirrorSetup {
    pub(crate) node: Uuid,
    /// The slices, which are open, and whose incarnations are in the store.
    pub(crate) slices: Vec<SliceState>,
    /// Their knowledge of their mirrors.
    pub(crate) notes: Vec<Arc<SliceNotes>>,
    /// The socket for the pulses of other nodes.
    pub(crate) listener: TcpListener,
    /// The end of such a pulse may be a proof.
    pub(crate) believes_ends: bool,
    pub(crate) secret: nearflash_records::token::PeerSecret,
    pub(crate) board: Arc<Board>,
}

/// An event of the cores, of the store or of a task.
#[derive(Debug)]
pub(super) enum MirrorEvent {
    /// Every core applies the publication of this number.
    Shown(u64),
    Drained(u64),
    News(MirrorNews),
    /// A slice knows this, durably.
    Noted(Vec<(MirrorKey, Note)>),
    /// The answer to a call, and the place of the endpoint that gave it.
    Store(MirrorKey, u64, StoreAnswer, usize),
    Pulse(PulseEvent),
}

/// The membership, and the ways to everything around it.
pub(super) struct Mirroring {
    membership: Membership,
    pulses: Pulses,
    board: Arc<Board>,
    events: UnboundedSender<MirrorEvent>,
    calls: Calls,
    /// The revisions at which the store learned of the incarnations of the slices.
    slices: BTreeMap<[u8; 16], ModRevision>,
    /// The slice of this node's replica, and the length, of each mirror.
    places: BTreeMap<MirrorKey, ([u8; 16], ByteLen)>,
    /// The same mirrors.
    current: Arc<BTreeSet<MirrorKey>>,
    /// By slice.
    notings: BTreeMap<[u8; 16], Noting>,
    /// The endpoint that answered last.
    endpoint: usize,
    partners: BTreeMap<NodeKey, Vec<SocketAddr>>,
    scopes: BTreeMap<MirrorKey, Collected>,
    heartbeats: Heartbeats,
    /// The processors of the cores that do not turn.
    hung: BTreeSet<usize>,
}

/// The parts of a mirror that the cores have written, for a copy.
struct Collected {
    session: u32,
    written: Written,
    /// The cores that have not told yet.
    left: u16,
}

impl Mirroring {
    /// Begins to listen. Must be called in a [`tokio::task::LocalSet`].
    pub(super) fn new(
        setup: MirrorSetup,
        (calls, events): (Calls, UnboundedSender<MirrorEvent>),
        state: &ClusterState,
        now: Nanos,
    ) -> std::io::Result<Self> {
        let MirrorSetup { node, slices, notes, listener, believes_ends, secret, board } = setup;
        let run = Uuid::new_v4().as_u64_pair().0;
        let (cluster, node) = (state.uuid(), node.into_bytes());
        let (told, mut incoming) = tokio::sync::mpsc::unbounded_channel();
        let on_refused = Box::new(refused);
        let config =
            PulseConfig { cluster, node, run, secret, listener, believes_ends, on_refused };
        let pulses = Pulses::start(config, told)?;
        let forward = events.clone();
        tokio::task::spawn_local(async move {
            while let Some(event) = incoming.recv().await {
                // Nobody receives it while the thread ends.
                let _ = forward.send(MirrorEvent::Pulse(event));
            }
        });
        let revision = |slice: &SliceState| {
            let key = Key::Slice(Uuid::from_bytes(slice.slice));
            (slice.slice, state.revision(&key))
        };
        let revisions = slices.iter().map(revision).collect();
        let noting = |notes: Arc<SliceNotes>| {
            let (slice, events) = (notes.device().uuid().into_bytes(), events.clone());
            let told = move |notes| {
                // Nobody receives it while the thread ends.
                let _ = events.send(MirrorEvent::Noted(notes));
            };
            Ok((slice, Noting::start(notes, Box::new(told))?))
        };
        let notings = notes.into_iter().map(noting).collect::<std::io::Result<_>>()?;
        Ok(Self {
            membership: Membership::new(node, run, slices, now),
            pulses,
            board,
            events,
            calls,
            slices: revisions,
            places: BTreeMap::new(),
            current: Arc::default(),
            notings,
            endpoint: 0,
            partners: BTreeMap::new(),
            scopes: BTreeMap::new(),
            heartbeats: Heartbeats::default(),
            hung: BTreeSet::new(),
        })
    }

    /// The mirrors that have a seat and a replica here.
    pub(super) fn set_mirrors(&mut self, configs: Vec<(MirrorConfig, ByteLen)>, now: Nanos) {
        self.membership.set_now(now);
        let own = self.membership.node();
        let place = |(config, len): &(MirrorConfig, ByteLen)| {
            let replica = config.replicas.iter().find(|replica| replica.node == own)?;
            Some((config.key, (replica.slice, *len)))
        };
        self.places = configs.iter().filter_map(place).collect();
        self.current = Arc::new(self.places.keys().copied().collect());
        let note = |key: &MirrorKey| {
            let (slice, _) = self.places.get(key)?;
            self.notings.get(slice)?.get(key)
        };
        let configs = configs.into_iter();
        let configs =
            configs.map(|(config, _)| MirrorConfig { note: note(&config.key), ..config }).collect();
        self.membership.set_mirrors(configs);
    }

    /// Follows the records and the addresses that the store has.
    pub(super) fn follow(&mut self, tables: &Tables, state: &ClusterState, now: Nanos) {
        self.membership.set_now(now);
        let records: BTreeMap<MirrorKey, Known> =
            tables.mirrors.iter().map(|layout| (layout.key, known(layout))).collect();
        for (key, known) in &records {
            self.membership.handle_record(*key, known.clone());
        }
        self.follow_elsewhere(&records);
        self.follow_partners(state);
    }

    /// Shows the cores who is primary of the mirrors without a replica here. Of the tables, each is newer
    /// than the one before; so whatever differs is news, also if an etcd that went back has the same term twice.
    fn follow_elsewhere(&self, records: &BTreeMap<MirrorKey, Known>) {
        let view = |(key, shown): (MirrorKey, Option<View>)| {
            let Known { record, .. } = records.get(&key)?;
            let view = View {
                term: record.term,
                role: Role::Elsewhere,
                primary: record.primary,
                remotes: [None; REMOTES_MAX],
                needs_lease: false,
                session: 0,
                stay: 0,
                kept_since: record.kept_since,
            };
            (shown != Some(view)).then_some((key, view))
        };
        let views: Vec<_> = self.board.elsewhere().into_iter().filter_map(view).collect();
        if !views.is_empty() {
            self.board.show(views, Box::new(|| ()));
        }
    }

    fn follow_partners(&mut self, state: &ClusterState) {
        let address = |node: NodeKey| {
            let record = state.nodes().get(&Uuid::from_bytes(node))?;
            Some((node, record.addresses.get(&Door::Pulse)?.clone()))
        };
        let partners: BTreeMap<_, _> = self.membership.partners().filter_map(address).collect();
        if partners != self.partners {
            self.partners.clone_from(&partners);
            self.pulses.set_partners(partners);
        }
    }

    /// Hands all mirrors over.
    pub(super) fn leave(&mut self, now: Nanos) {
        self.membership.set_now(now);
        self.membership.leave();
    }

    pub(super) fn has_left(&self) -> bool {
        self.membership.has_left()
    }

    pub(super) fn poll_timeout(&self) -> Nanos {
        self.membership.poll_timeout()
    }

    pub(super) fn handle_timeout(&mut self, now: Nanos) {
        self.membership.set_now(now);
        if now >= self.membership.poll_timeout() {
            self.look_at_cores(now);
            self.membership.handle_timeout();
        }
    }

    /// Finds out whether all cores turn.
    fn look_at_cores(&mut self, now: Nanos) {
        let turns = self.board.turns();
        self.heartbeats.look(now, turns.iter().map(|(_, turns)| *turns));
        let seconds = |still_for: Nanos| still_for.to_duration().as_secs();
        let silent = self.heartbeats.silent();
        let hung: Vec<HungCoreInfo> = silent
            .map(|(core, still_for)| HungCoreInfo {
                core: turns[core].0,
                seconds: seconds(still_for),
            })
            .collect();
        self.membership.set_stalled(!hung.is_empty());
        let before = std::mem::take(&mut self.hung);
        self.hung = hung.iter().map(|it| it.core).collect();
        for core in self.hung.difference(&before) {
            tracing::error!(
                core,
                "core {core} has not turned for {} s: this node leaves its mirrors to their other nodes \
                 until it does; a device may hang",
                seconds(SILENCE_MAX)
            );
        }
        for core in before.difference(&self.hung) {
            tracing::info!(core, "core {core} turns again");
        }
        self.board.set_hung_cores(hung);
    }

    pub(super) fn handle(&mut self, event: MirrorEvent, now: Nanos) {
        self.membership.set_now(now);
        match event {
            MirrorEvent::Shown(number) => self.membership.handle_shown(number),
            MirrorEvent::Drained(number) => self.membership.handle_drained(number),
            MirrorEvent::Noted(notes) => self.membership.handle_noted(&notes),
            MirrorEvent::News(MirrorNews::Written { mirror, session, written }) => {
                if let Some(key) = self.board.key_of(mirror) {
                    self.collect(key, session, &written);
                }
            }
            MirrorEvent::News(MirrorNews::Failed { mirror, side }) => {
                if let Some(key) = self.board.key_of(mirror) {
                    self.membership.handle_failure(key, side);
                }
            }
            MirrorEvent::News(MirrorNews::WritesLost { mirror }) => {
                if let Some(key) = self.board.key_of(mirror) {
                    tracing::error!(
                        "mirror {} of volume {}: its last replica in sync has lost its power before writes \
                         that were answered here were flushed. Flushes of the volume fail on this node \
                         until its suspect devices ('nearflash device list') are cleared: check what the \
                         volume holds first",
                        key.number,
                        key.volume,
                    );
                }
            }
            MirrorEvent::News(MirrorNews::Copied(copied)) => {
                if let Some(key) = self.board.key_of(copied.mirror) {
                    tracing::info!(
                        "mirror {} of volume {} is copied: {} of {} differed",
                        key.number,
                        key.volume,
                        ByteLen(copied.written),
                        ByteLen(copied.compared)
                    );
                    let token = Token(Uuid::new_v4().as_u64_pair().1);
                    self.membership.handle_resynced(key, copied.session, token);
                }
            }
            MirrorEvent::Store(key, call, answer, endpoint) => {
                self.endpoint = match answer {
                    StoreAnswer::Unknown => endpoint + 1,
                    _ => endpoint,
                };
                self.membership.handle_store(key, call, answer);
            }
            MirrorEvent::Pulse(PulseEvent::Connected(node)) => {
                self.pulses.send(node, &self.membership.hello());
            }
            MirrorEvent::Pulse(PulseEvent::Came(node, pulse)) => {
                self.membership.handle_pulse(node, pulse);
            }
            MirrorEvent::Pulse(PulseEvent::Ended { from, is_proof }) => {
                self.membership.handle_pulse_end(from, is_proof);
            }
        }
    }

    /// Does what the membership has decided. While no store is believed, none is asked.
    pub(super) fn act(&mut self, endpoints: &[Endpoint], store: Option<StoreId>) {
        while let Some(action) = self.membership.poll_action() {
            match action {
                Action::Send(to, pulse) => self.send(to, &pulse),
                Action::Publish(number, views) => {
                    self.log(&views);
                    self.board.show(views, self.then(MirrorEvent::Shown(number)));
                }
                Action::Note(slice, notes) => {
                    if let Some(noting) = self.notings.get(&slice) {
                        noting.note(notes, &self.current);
                    }
                }
                Action::Drain(number, key) => {
                    self.board.drain(&key, self.then(MirrorEvent::Drained(number)));
                }
                Action::Leases(leases) => self.board.set_leases(&leases),
                Action::EndHosts(shown_by, lost) => {
                    tracing::warn!(
                        "the clock of this machine stood still for about {} ms, as node {} shows: hosts are \
                         disconnected, because they may have given up what they sent before",
                        lost.0 / 1_000_000,
                        Uuid::from_bytes(shown_by)
                    );
                    self.board.end_hosts();
                }
                Action::Read(key, call) | Action::Propose(key, call, _) if store.is_none() => {
                    let unknown = StoreAnswer::Unknown;
                    self.then(MirrorEvent::Store(key, call, unknown, self.endpoint))();
                }
                Action::Read(key, call) => self.read((key, call), endpoints, store),
                Action::Propose(key, call, proposal) => {
                    self.propose((key, call), &proposal, endpoints, store);
                }
                Action::Resync(key, session, Scope::All) => self.board.copy(&key, session, None),
                Action::Resync(key, session, Scope::Written) => self.ask_written(key, session),
            }
        }
    }

    /// Asks the cores which parts they have written, for the copy of this session.
    fn ask_written(&mut self, key: MirrorKey, session: u32) {
        let cores = self.board.ask_written(&key, session);
        self.scopes.insert(key, Collected { session, written: Written::default(), left: cores });
    }

    /// A core has told which parts it has written. When all have, the copy begins.
    fn collect(&mut self, key: MirrorKey, session: u32, written: &Written) {
        let scope = self.scopes.get_mut(&key).filter(|scope| scope.session == session);
        let Some(scope) = scope else { return };
        scope.written.unite(written);
        scope.left -= 1;
        if scope.left == 0 {
            let scope = self.scopes.remove(&key).map(|scope| scope.written);
            self.board.copy(&key, session, scope);
        }
    }

    fn send(&mut self, to: NodeKey, pulse: &Pulse) {
        self.pulses.send(to, pulse);
    }

    fn log(&self, views: &[(MirrorKey, View)]) {
        for (key, view) in views {
            tracing::debug!(
                "mirror {} of volume {}: term {}, {:?}",
                key.number,
                key.volume,
                view.term.0,
                view.role
            );
        }
    }

    /// A call that tells this thread.
    fn then(&self, event: MirrorEvent) -> crate::Then {
        let events = self.events.clone();
        Box::new(move || {
            // Nobody receives it while the thread ends.
            let _ = events.send(event);
        })
    }

    fn read(&self, (key, call): (MirrorKey, u64), endpoints: &[Endpoint], store: Option<StoreId>) {
        let Some(store) = store else { return };
        let (calls, events, first) = (self.calls.clone(), self.events.clone(), self.endpoint);
        let endpoints = endpoints.to_vec();
        tokio::task::spawn_local(async move {
            let (answer, at) = read((&calls, store), &endpoints, first, key).await;
            let _ = events.send(MirrorEvent::Store(key, call, answer, at));
        });
    }

    fn propose(
        &self,
        (key, call): (MirrorKey, u64),
        proposal: &Proposal,
        endpoints: &[Endpoint],
        store: Option<StoreId>,
    ) {
        let Some(store) = store else { return };
        let (calls, events) = (self.calls.clone(), self.events.clone());
        let Some((slice, len)) = self.places.get(&key).copied() else { return };
        let Some(opened) = self.slices.get(&slice).copied() else { return };
        let first = self.endpoint;
        let compare = |key, mod_revision| Compare { key, mod_revision };
        let revision = |it: i64| ModRevision(u64::try_from(it).unwrap_or_default());
        let mut compares = vec![
            compare(Key::Mirror(key), revision(proposal.revision)),
            compare(Key::Slice(Uuid::from_bytes(slice)), opened),
        ];
        let places = proposal.places.map(revision);
        compares.extend(places.map(|places| compare(Key::Replicas(key), places)));
        let value = mirror_record(&proposal.record, len).encode().into();
        let puts = vec![Put { key: Key::Mirror(key), value, lease: None }];
        let txn = Txn { compares, puts, deletes: Vec::new() };
        let endpoints = endpoints.to_vec();
        tokio::task::spawn_local(async move {
            let (answer, at) = propose((&calls, store), &endpoints, first, (txn, opened)).await;
            let _ = events.send(MirrorEvent::Store(key, call, answer, at));
        });
    }
}

/// Reads a record. All endpoints are asked at first: one that is cut off must not delay a takeover.
async fn read(
    (calls, store): (&Calls, StoreId),
    endpoints: &[Endpoint],
    first: usize,
    key: MirrorKey,
) -> (StoreAnswer, usize) {
    let all_at_once = endpoints.len();
    ask(endpoints, first, all_at_once, |endpoint| {
        let (calls, key) = (calls.clone(), Key::Mirror(key));
        async move {
            let found = calls.get((&endpoint, store), &key).await?;
            let known = found.and_then(known_of);
            Some(known.map_or(StoreAnswer::Unknown, StoreAnswer::Read))
        }
    })
    .await
}

fn known_of(found: Found) -> Option<Known> {
    let record = MirrorRecord::decode(&found.value?).ok()?;
    Some(Known { record: record_of(&record), revision: signed(found.mod_revision.0) })
}

fn signed(revision: u64) -> i64 {
    i64::try_from(revision).unwrap_or(i64::MAX)
}

/// The reason of a refusal. `found` has the record, the slice, and perhaps the list of replicas.
fn conflict(found: Vec<Option<Found>>, opened: ModRevision) -> Option<Conflict> {
    let mut found = found.into_iter();
    let known = found.next().flatten().and_then(known_of)?;
    let mut revision = || found.next().flatten().map(|it| it.mod_revision);
    let is_fenced = revision().is_some_and(|it| it > opened);
    let places = signed(revision().unwrap_or_default().0);
    Some(Conflict { known, places, is_fenced })
}

/// Proposes a transaction, at one endpoint after the other until one answers. It takes effect at most once, because
/// it compares the revision of the record that it replaces; if another copy has taken effect, the refusal
/// has the record.
async fn propose(
    (calls, store): (&Calls, StoreId),
    endpoints: &[Endpoint],
    first: usize,
    (txn, opened): (Txn, ModRevision),
) -> (StoreAnswer, usize) {
    let txn = Rc::new(txn);
    ask(endpoints, first, 1, |endpoint| {
        let (calls, txn) = (calls.clone(), Rc::clone(&txn));
        async move {
            Some(match calls.swap((&endpoint, store), &txn).await? {
                Swap::Done(revision) => StoreAnswer::Committed(signed(revision)),
                Swap::Refused(found) => {
                    conflict(found, opened).map_or(StoreAnswer::Unknown, StoreAnswer::Refused)
                }
            })
        }
    })
    .await
}

/// Asks endpoints until one of them answers. While all are silent, the next one is asked, too, so that neither
/// an endpoint that is cut off nor a request that got lost in an election costs more than [`ASK_PERIOD`].
async fn ask<F>(
    endpoints: &[Endpoint],
    first: usize,
    at_once: usize,
    call: impl Fn(Endpoint) -> F,
) -> (StoreAnswer, usize)
where
    F: Future<Output = Option<StoreAnswer>> + 'static,
{
    let deadline = Instant::now() + CALL_MAX;
    let mut asked = JoinSet::new();
    let mut next = first;
    let mut due = at_once;
    while !endpoints.is_empty() {
        for _ in 0..due {
            let at = next % endpoints.len();
            let called = call(endpoints[at].clone());
            asked.spawn_local(async move { (called.await, at) });
            next += 1;
        }
        let more_at = (Instant::now() + ASK_PERIOD).min(deadline);
        while let Ok(Some(joined)) = timeout_at(more_at, asked.join_next()).await {
            if let Ok((Some(answer), at)) = joined {
                return (answer, at);
            }
        }
        // If all have failed, the next attempt waits for its time, too.
        sleep_until(more_at).await;
        if more_at == deadline {
            break;
        }
        due = 1;
    }
    (StoreAnswer::Unknown, first)
}
