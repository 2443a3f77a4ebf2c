//! Agents over a store that loses answers, delays transactions, and drops what a watch reports.

use std::collections::BTreeSet;

use nearflash_planner::model::{
    CLUSTER, GIB, Model, begin, check_store, cluster_of, node, open_slice, register, remove, volume,
};
use nearflash_planner::{Begin, Change, Refusal, VolumeSpec};
use nearflash_records::key::prefix;
use nearflash_records::record::{HistoryRecord, RemovedRecord, ReplicaRecord, VolumeState};
use nearflash_records::store::{Found, ModRevision};
use nearflash_units::{Blocks, ByteLen};
use proptest::prelude::*;

use super::*;

/// The fate of a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Fault {
    Nothing,
    /// It does not arrive.
    LostBefore,
    /// It takes effect, and its answer is lost.
    LostAfter,
    /// It is given up, and takes effect later if it is a transaction.
    Delayed,
    /// It works, unless it reads: then it is lost.
    ReadLost,
    /// It works, and a report of each watch is lost.
    WatchDrops,
    /// It works, and each watch ends.
    WatchCut,
    /// Each watch ends, since its revisions have been compacted.
    Compacted,
}

struct Client {
    agent: Agent,
    watch: Option<(RequestId, u64)>,
    outcomes: Vec<(ChangeId, Outcome)>,
    tables: Option<Tables>,
    /// The state that is kept durably.
    seen: Option<Seen>,
    /// The places that this process has zeroed.
    zeroed: BTreeSet<NewPlace>,
    is_down: bool,
}

impl Client {
    fn start((number, run): (u16, u64), seen: Option<Seen>, now: Nanos) -> Self {
        let (cluster, run) = (CLUSTER, Some(run));
        let config = AgentConfig { cluster, node: node(number), run, endpoints: 2, seen };
        let mut agent = Agent::new(config, now);
        agent.note_seen(now);
        let (outcomes, zeroed) = (Vec::new(), BTreeSet::new());
        Self { agent, watch: None, outcomes, tables: None, seen, zeroed, is_down: false }
    }

    /// Zeroes what jobs wait for, and tells the agent a step later.
    fn zero(&mut self, now: Nanos, witness: &mut BTreeSet<NewPlace>) {
        for wanted in self.tables.iter().flat_map(|it| &it.to_zero) {
            witness.insert(wanted.place);
            if !self.zeroed.insert(wanted.place) {
                self.agent.handle_zeroed(now, wanted.place);
            }
        }
    }
}

struct Net {
    now: Nanos,
    model: Model,
    clients: Vec<Client>,
    late: Vec<Txn>,
    store: StoreId,
    /// Every place that was ever zeroed.
    witness: BTreeSet<NewPlace>,
    runs: u64,
}

impl Net {
    fn new(model: Model, clients: u16) -> Self {
        let now = Nanos::from_secs(1);
        let start = |number: u16| Client::start((number, number.into()), None, now);
        let clients = (1..=clients).map(start).collect();
        let (late, store, witness) = (Vec::new(), StoreId(1), BTreeSet::new());
        Self { now, model, clients, late, store, witness, runs: 100 }
    }

    /// The process of a node is started again.
    fn restart(&mut self, index: usize) {
        let seen = self.clients[index].seen;
        let number = u16::try_from(index + 1).unwrap();
        self.runs += 1;
        self.clients[index] = Client::start((number, self.runs), seen, self.now);
    }

    /// The process of a node is killed, and its lease ends.
    fn kill(&mut self, index: usize) {
        self.clients[index].is_down = true;
        self.model.set_alive(u16::try_from(index + 1).unwrap(), false);
    }

    /// No row counts as zeroed whose places were not.
    fn check_zeroed(&self) {
        let state = self.model.state();
        for (uuid, volume) in state.volumes() {
            let rows = state.rows(*uuid, volume).unwrap();
            for view in rows.iter().take(nearflash_units::index(volume.zeroed_rows)).flatten() {
                for ReplicaRecord { ordinal, slice, start } in view.replicas.replicas.clone() {
                    let (mirror, revision) = (view.key, view.places_revision);
                    let place = NewPlace { mirror, ordinal, slice, start, revision };
                    assert!(self.witness.contains(&place), "{place:?}");
                }
            }
        }
    }

    fn is_rolled_back(&self, index: usize) -> bool {
        self.clients[index].agent.health().rolled_back.is_some()
    }

    /// Etcd is stopped, and started with this content.
    fn restore(&mut self, model: Model) {
        self.model = model;
        self.step(Fault::WatchCut);
    }

    /// One step: the time goes on to what is due next, and every request meets the fault.
    fn step(&mut self, fault: Fault) {
        let up = self.clients.iter().filter(|it| !it.is_down);
        let due = up.map(|it| it.agent.poll_timeout()).min().unwrap_or(self.now);
        self.now = due.max(self.now.plus(Nanos::from_millis(1)));
        for index in (0..self.clients.len())
            .filter(|index| !self.clients[*index].is_down)
            .collect::<Vec<_>>()
        {
            self.clients[index].agent.handle_timeout(self.now);
            while let Some(request) = self.clients[index].agent.poll_request() {
                self.execute(index, request, fault);
            }
            self.report(index, fault);
            let client = &mut self.clients[index];
            client.outcomes.extend(std::iter::from_fn(|| client.agent.poll_outcome()));
            client.tables = client.agent.poll_publish().or(client.tables.take());
            client.seen = client.agent.poll_seen().or(client.seen);
            client.zero(self.now, &mut self.witness);
        }
    }

    fn execute(&mut self, index: usize, request: StoreRequest, fault: Fault) {
        let id = request.id;
        let answer = match (fault, request.operation) {
            (Fault::LostBefore, _) => Answer::Unknown { reason: "refused".to_owned() },
            (Fault::Delayed, operation) => {
                if let Operation::Txn(txn) = operation {
                    self.late.push(txn);
                }
                return;
            }
            (Fault::ReadLost, Operation::Range { .. }) => return,
            (_, operation) => self.answer(index, id, operation),
        };
        if fault != Fault::LostAfter {
            let event = StoreEvent::Answered { id, store: Some(self.store), answer };
            self.clients[index].agent.handle_event(self.now, event);
        }
    }

    fn answer(&mut self, index: usize, id: RequestId, operation: Operation) -> Answer {
        match operation {
            Operation::Range { from, keys_only, .. } => {
                // Pages of five keys, all read at the newest revision, since nobody interferes.
                let mut found = self.model.range();
                found.retain(|it| it.key >= from);
                let more = found.len() > 5;
                found.truncate(5);
                found.iter_mut().filter(|_| keys_only).for_each(|it| it.value = None);
                Answer::Range { revision: self.model.revision, found, more }
            }
            Operation::Txn(txn) => {
                let succeeded = self.model.txn(&txn);
                Answer::Txn { succeeded, revision: self.model.revision }
            }
            Operation::Watch { from_revision, .. } => {
                self.clients[index].watch = Some((id, from_revision));
                Answer::Watching
            }
            Operation::LeaseGrant { .. } => Answer::Lease { lease: 1 },
            Operation::LeaseKeepAlive { .. } => Answer::KeptAlive { exists: true },
            Operation::Status => {
                Answer::Status(StoreStatus { voters: 3, healthy: 3, ..StoreStatus::default() })
            }
        }
    }

    fn report(&mut self, index: usize, fault: Fault) {
        let client = &mut self.clients[index];
        let Some((id, from)) = client.watch else { return };
        if matches!(fault, Fault::WatchCut | Fault::Compacted) {
            client.watch = None;
            let (is_compacted, reason) = (fault == Fault::Compacted, "cut".to_owned());
            let event = StoreEvent::WatchEnded { id, is_compacted, reason };
            client.agent.handle_event(self.now, event);
            return;
        }
        client.watch = Some((id, self.model.revision + 1));
        for (revision, changes) in self.model.history.iter().filter(|it| it.0 >= from) {
            if fault != Fault::WatchDrops {
                let (revision, changes) = (*revision, changes.clone());
                let event = StoreEvent::Changed { id, revision, changes };
                client.agent.handle_event(self.now, event);
            }
        }
    }

    fn submit(&mut self, index: usize, id: u64, change: Change) {
        self.clients[index].agent.submit(self.now, ChangeId(id), change);
    }

    /// Time passes without faults, long enough for each agent to compare its state.
    fn settle(&mut self) {
        let end = self.now.plus(Nanos::from_secs(70));
        while self.now < end {
            self.step(Fault::Nothing);
        }
    }
}

fn create(number: u16) -> Change {
    Change::CreateVolume(volume(number, ByteLen(20 * GIB)))
}

#[test]
fn an_agent_registers_its_node_and_slice_and_creates_a_volume() {
    let mut net = Net::new(cluster_of(0, ByteLen(0)), 1);
    let slice = open_slice(1, ByteLen(80 * GIB), 1);
    for (id, change) in [register(1), slice, create(1)].into_iter().enumerate() {
        net.submit(0, id as u64, change);
        // The volume comes when the node is known to run.
        net.settle();
    }
    let expected: Vec<_> = (0..3).map(|id| (ChangeId(id), Outcome::Done)).collect();
    assert_eq!(net.clients[0].outcomes, expected);
    assert_eq!(net.clients[0].tables.as_ref().unwrap().volumes.len(), 1);
    assert_eq!(net.clients[0].agent.state().alive()[&node(1)].run, 1);
}

#[test]
fn a_refusal_is_not_concluded_from_what_a_watch_failed_to_report() {
    let mut net = Net::new(cluster_of(2, ByteLen(80 * GIB)), 1);
    net.model.carry_out(&create(1)).unwrap();
    net.step(Fault::Nothing);
    net.step(Fault::Nothing);
    net.model.remove(volume(1, ByteLen(0)).uuid).unwrap();
    net.step(Fault::WatchDrops);
    let mut spec = volume(2, ByteLen(GIB));
    spec.name = volume(1, ByteLen(0)).name;
    net.submit(0, 1, Change::CreateVolume(spec));
    net.settle();
    assert_eq!(net.clients[0].outcomes, [(ChangeId(1), Outcome::Done)]);
}

#[test]
fn a_delete_that_no_watch_reported_is_found_by_comparing_keys() {
    let mut net = Net::new(cluster_of(2, ByteLen(80 * GIB)), 1);
    net.settle();
    let schema = Schema;
    let (name, machine, slices) = ("n2".parse().unwrap(), String::new(), Vec::new());
    let removed = RemovedRecord { schema, name, machine, slices }.encode();
    net.model.write(vec![
        (Key::Node(node(2)).path(CLUSTER), None),
        (Key::Removed(node(2)).path(CLUSTER), Some(removed)),
    ]);
    net.step(Fault::WatchDrops);
    assert_eq!(net.clients[0].agent.state().nodes().len(), 2);
    net.settle();
    assert_eq!(net.clients[0].agent.state().nodes().len(), 1);
}

#[test]
fn a_store_that_was_restored_from_an_older_snapshot_or_lost_is_not_believed() {
    let mut older = cluster_of(1, ByteLen(80 * GIB));
    let mut newer = older.clone();
    newer.carry_out(&create(1)).unwrap();
    newer.finish(volume(1, ByteLen(0)).uuid).unwrap();
    let mut empty = newer.clone();
    let keys: Vec<String> = empty.records.keys().cloned().collect();
    empty.write(keys.into_iter().map(|key| (key, None)).collect());
    older.history.clear();
    for restored in [older, empty] {
        let mut net = Net::new(newer.clone(), 1);
        net.settle();
        let newest = net.model.clone();
        net.model = restored;
        net.settle();
        let client = &net.clients[0];
        assert!(net.is_rolled_back(0));
        assert_eq!(client.tables.as_ref().unwrap().volumes.len(), 1, "it is served as before");
        net.submit(0, 1, create(2));
        net.settle();
        let outcomes = &net.clients[0].outcomes;
        let is_refused = |it: &Outcome| matches!(it, Outcome::Refused(Refusal::StoreRolledBack(_)));
        assert!(matches!(&outcomes[..], [(ChangeId(1), it)] if is_refused(it)), "{outcomes:?}");
        net.model = newest;
        net.settle();
        assert!(!net.is_rolled_back(0), "the newest state is accepted");
    }
}

/// A store with one volume, and as it was before this volume.
fn with_volume() -> (Model, Model) {
    let older = cluster_of(2, ByteLen(80 * GIB));
    let mut newer = older.clone();
    newer.carry_out(&create(1)).unwrap();
    newer.finish(volume(1, ByteLen(0)).uuid).unwrap();
    (older, newer)
}

/// Other programs write to the etcd, or a restore raises its revision.
fn raise(model: &mut Model, revision: u64) {
    model.revision = model.revision.max(revision);
    model.history.clear();
}

/// Every way in which a restored store may look, with running and with starting nodes: its revision is
/// smaller than, as large as or larger than the known one, or was raised far beyond it.
#[test]
fn a_restored_store_is_not_believed_whatever_its_revision_is() {
    for (behind, id) in [(-1, 1), (0, 1), (1, 1), (200, 1), (1 << 40, 1), (200, 2)] {
        for is_running in [true, false] {
            let (older, newer) = with_volume();
            let mut net = Net::new(newer, 2);
            net.settle();
            let (newest, before) = (net.model.clone(), net.clients[0].agent.state().clone());
            let mut restored = older;
            restored.set_alive(1, false);
            raise(&mut restored, newest.revision.saturating_add_signed(behind));
            net.store = StoreId(id);
            if !is_running {
                net.restart(0);
            }
            net.restore(restored);
            // The nodes would write their records, and others theirs.
            for number in 3..6 {
                net.settle();
                net.model.carry_out(&register(number)).unwrap();
            }
            net.settle();
            let said = format!("{behind} {id} {is_running}");
            assert!(net.is_rolled_back(0), "{said}");
            let agent = &net.clients[0].agent;
            let volumes = usize::from(is_running);
            assert_eq!(agent.state().volumes().len(), volumes, "{said}: as before");
            assert_eq!(agent.health().is_read, is_running, "{said}");
            assert!(
                !net.model.state().alive().contains_key(&node(1)),
                "{said}: nothing is written"
            );
            assert_eq!(agent.store(), None, "{said}");
            net.store = StoreId(1);
            net.restore(newest);
            net.settle();
            assert!(!net.is_rolled_back(0), "{said}");
            assert_eq!(net.clients[0].agent.state().volumes(), before.volumes(), "{said}");
        }
    }
}

#[test]
fn a_watch_of_a_restored_store_changes_nothing() {
    let (older, newer) = with_volume();
    let mut net = Net::new(newer, 1);
    net.settle();
    let (before, revision) = (net.clients[0].agent.state().clone(), net.model.revision);
    // The watch goes on where the earlier one ended, in another history.
    let mut restored = older;
    raise(&mut restored, revision);
    restored.carry_out(&create(2)).unwrap();
    restored.finish(volume(2, ByteLen(0)).uuid).unwrap();
    net.restore(restored);
    // The watch reports changes before a read is answered and shows the other history.
    (0..5).for_each(|_| net.step(Fault::ReadLost));
    assert!(net.clients[0].watch.is_some_and(|(_, from)| from > revision + 1), "it has reported");
    assert_eq!(net.clients[0].agent.state(), &before);
    net.settle();
    assert_eq!(net.clients[0].agent.state(), &before);
    assert!(net.is_rolled_back(0));
}

#[test]
fn a_member_of_etcd_that_is_behind_does_not_count_as_restored() {
    let (older, newer) = with_volume();
    let mut net = Net::new(newer, 1);
    net.settle();
    let newest = net.model.clone();
    net.step(Fault::WatchCut);
    let agent = &mut net.clients[0].agent;
    agent.handle_timeout(net.now.plus(RETRY_AFTER));
    let reads = |it: &StoreRequest| {
        matches!(it.operation, Operation::Watch { .. } | Operation::Range { .. })
    };
    let next = |agent: &mut Agent| std::iter::from_fn(|| agent.poll_request()).find(reads);
    let watch = next(agent).unwrap();
    let answered = |id, answer| StoreEvent::Answered { id, store: Some(StoreId(1)), answer };
    agent.handle_event(net.now, answered(watch.id, Answer::Watching));
    let local = next(agent).unwrap();
    assert!(matches!(local.operation, Operation::Range { is_local: true, keys_only: true, .. }));
    let range = |model: &Model| Answer::Range {
        revision: model.revision,
        found: model.range(),
        more: false,
    };
    agent.handle_event(net.now, answered(local.id, range(&older)));
    let whole = next(agent).unwrap();
    assert!(matches!(whole.operation, Operation::Range { is_local: false, keys_only: true, .. }));
    agent.handle_event(net.now, answered(whole.id, range(&newest)));
    assert!(!net.is_rolled_back(0));
}

#[test]
fn a_volume_whose_record_is_deleted_by_hand_is_served_on() {
    let (_, newer) = with_volume();
    let mut net = Net::new(newer, 1);
    net.settle();
    let uuid = volume(1, ByteLen(0)).uuid;
    for key in net.model.records.keys().cloned().collect::<Vec<_>>() {
        if key.contains(&uuid.to_string()) {
            net.model.write(vec![(key, None)]);
        }
    }
    net.settle();
    assert!(net.is_rolled_back(0));
    assert_eq!(net.clients[0].tables.as_ref().unwrap().volumes.len(), 1);
}

#[test]
fn a_removal_that_was_compacted_before_it_was_seen_is_told_from_a_restore() {
    let (_, newer) = with_volume();
    let mut net = Net::new(newer, 2);
    net.settle();
    net.model.remove(volume(1, ByteLen(0)).uuid).unwrap();
    // Something else lies there now.
    net.model.carry_out(&create(2)).unwrap();
    net.model.finish(volume(2, ByteLen(0)).uuid).unwrap();
    net.step(Fault::Compacted);
    net.settle();
    assert!(!net.is_rolled_back(0));
    assert!(!net.clients[0].agent.state().volumes().contains_key(&volume(1, ByteLen(0)).uuid));
    // The removal of a node, too.
    net.model.set_alive(2, false);
    net.clients.pop();
    net.model.carry_out(&Change::RemoveNode { node: node(2), gives_up: true }).unwrap();
    net.step(Fault::Compacted);
    net.settle();
    assert!(!net.is_rolled_back(0));
    assert_eq!(net.clients[0].agent.state(), &net.model.state());
}

#[test]
fn a_restore_that_an_operator_has_accepted_is_taken_by_nodes_that_start_and_by_no_other() {
    let (older, newer) = with_volume();
    let mut net = Net::new(newer, 2);
    net.settle();
    let mut accepted = older;
    let history = HistoryRecord { schema: Schema, id: node(9), began: 100 };
    accepted.write(vec![(Key::History.path(CLUSTER), Some(history.encode()))]);
    raise(&mut accepted, net.model.revision + 100);
    net.store = StoreId(2);
    net.restart(0);
    net.restore(accepted);
    net.settle();
    assert!(!net.is_rolled_back(0) && net.clients[0].agent.health().is_accepted);
    assert_eq!(net.clients[0].seen.unwrap().history, Some(history), "it is kept");
    assert_eq!(net.clients[0].agent.state().volumes().len(), 0);
    assert!(net.is_rolled_back(1), "it has the newest state, and keeps it");
    // The state from before the restore is not taken any more.
    let (_, newer) = with_volume();
    net.restart(0);
    net.restore(newer);
    net.settle();
    assert!(net.is_rolled_back(0));
}

#[test]
fn a_silent_endpoint_is_reported_and_the_other_one_is_asked() {
    let mut net = Net::new(cluster_of(1, ByteLen(80 * GIB)), 1);
    net.step(Fault::LostBefore);
    let health = net.clients[0].agent.health();
    assert_eq!(health.failures.keys().collect::<Vec<_>>(), [&0]);
    net.step(Fault::Nothing);
    net.step(Fault::Nothing);
    let health = net.clients[0].agent.health();
    assert!(health.is_read && health.silent_since.is_none());
}

#[test]
fn a_second_process_of_a_node_is_noticed_and_does_not_take_its_place() {
    let mut net = Net::new(cluster_of(1, ByteLen(80 * GIB)), 1);
    let key = Key::Alive(node(1)).path(CLUSTER);
    let record = AliveRecord { schema: Schema, run: 77, access: None };
    net.model.write(vec![(key, Some(record.encode()))]);
    net.settle();
    assert_eq!(net.clients[0].agent.health().other_run, Some(77));
    assert_eq!(net.model.state().alive()[&node(1)].run, 77);
}

#[test]
fn a_node_that_is_started_again_is_alive_as_soon_as_its_killed_process_is_not() {
    let mut net = Net::new(cluster_of(1, ByteLen(80 * GIB)), 1);
    let key = Key::Alive(node(1)).path(CLUSTER);
    let record = AliveRecord { schema: Schema, run: 77, access: None };
    net.model.write(vec![(key.clone(), Some(record.encode()))]);
    net.settle();
    let health = net.clients[0].agent.health();
    assert_eq!(health.other_run, Some(77));
    net.model.write(vec![(key, None)]);
    let ended_at = net.now;
    net.report(0, Fault::Nothing);
    net.step(Fault::Nothing);
    assert_eq!(net.model.state().alive()[&node(1)].run, 1);
    assert_eq!(net.now, ended_at.plus(Nanos::from_millis(1)), "without a pause");
}

#[test]
fn a_node_whose_place_another_process_has_taken_takes_it_again_when_that_has_ended() {
    let mut net = Net::new(cluster_of(1, ByteLen(80 * GIB)), 1);
    let run = |net: &Net| net.model.state().alive().get(&node(1)).map(|it| it.run);
    net.settle();
    assert_eq!(run(&net), Some(1));
    let key = Key::Alive(node(1)).path(CLUSTER);
    let record = AliveRecord { schema: Schema, run: 77, access: None };
    net.model.write(vec![(key.clone(), Some(record.encode()))]);
    net.settle();
    assert_eq!(run(&net), Some(77));
    net.model.write(vec![(key, None)]);
    net.settle();
    assert_eq!(run(&net), Some(1));
}

#[test]
fn a_read_that_began_before_the_node_noted_what_it_has_seen_is_no_proof_of_a_restore() {
    let mut net = Net::new(cluster_of(1, ByteLen(80 * GIB)), 1);
    net.settle();
    net.model.carry_out(&create(1)).unwrap();
    net.step(Fault::Nothing);
    // The note is sent, and then a read, which etcd carries out first.
    let is_note = |request: &StoreRequest| match &request.operation {
        Operation::Txn(txn) => txn.puts.iter().any(|put| put.key == Key::Seen(node(1))),
        _ => false,
    };
    let note = loop {
        net.now = net.clients[0].agent.poll_timeout().max(net.now.plus(Nanos::from_millis(1)));
        net.clients[0].agent.handle_timeout(net.now);
        let requests: Vec<_> = std::iter::from_fn(|| net.clients[0].agent.poll_request()).collect();
        let (notes, others): (Vec<_>, Vec<_>) = requests.into_iter().partition(&is_note);
        others.into_iter().for_each(|request| net.execute(0, request, Fault::Nothing));
        net.report(0, Fault::Nothing);
        if let Some(note) = notes.into_iter().next() {
            break note;
        }
    };
    net.submit(0, 1, Change::CancelJob { job: 98 });
    net.clients[0].agent.handle_timeout(net.now);
    let read = net.clients[0].agent.poll_request().unwrap();
    let id = read.id;
    let mut found = net.model.range();
    found.retain(|it| it.key >= prefix(CLUSTER));
    let revision = net.model.revision;
    net.execute(0, note, Fault::Nothing);
    assert!(net.clients[0].agent.seen.unwrap().revision > revision);
    let answer = Answer::Range { revision, found, more: false };
    let event = StoreEvent::Answered { id, store: Some(net.store), answer };
    net.clients[0].agent.handle_event(net.now, event);
    assert!(!net.is_rolled_back(0));
    net.settle();
    assert!(!net.is_rolled_back(0));
}

#[test]
fn events_of_an_earlier_watch_and_unknown_answers_change_nothing() {
    let mut net = Net::new(cluster_of(1, ByteLen(80 * GIB)), 1);
    net.settle();
    let agent = &mut net.clients[0].agent;
    let before = agent.state().clone();
    let key = Key::Node(node(1)).path(CLUSTER);
    let changes = vec![Found { key, value: None, mod_revision: ModRevision(1_000) }];
    let stale = StoreEvent::Changed { id: RequestId(u64::MAX), revision: 1_000, changes };
    agent.handle_event(net.now, stale);
    let answer = Answer::Txn { succeeded: true, revision: 1_000 };
    agent.handle_event(
        net.now,
        StoreEvent::Answered { id: RequestId(u64::MAX), store: None, answer },
    );
    assert_eq!(agent.state(), &before);
}

fn any_fault() -> impl Strategy<Value = Fault> {
    prop::sample::select(vec![
        Fault::Nothing,
        Fault::Nothing,
        Fault::LostBefore,
        Fault::LostAfter,
        Fault::Delayed,
        Fault::WatchDrops,
        Fault::WatchCut,
        Fault::Compacted,
    ])
}

proptest! {
    /// Two agents create, grow and remove volumes over faults of all kinds. Afterwards each change
    /// has one outcome, which is true; no volume was created twice; and both know the store.
    #[test]
    fn changes_are_neither_lost_nor_doubled_and_agents_converge(
        faults in prop::collection::vec((any_fault(), 0..6usize), 1..60)
    ) {
        let mut net = Net::new(cluster_of(2, ByteLen(80 * GIB)), 2);
        for number in 1..=4u16 {
            net.submit(usize::from(number % 2), u64::from(number), create(number));
        }
        // An agent carries out its changes in order: the removal follows the creation.
        let removed = volume(2, ByteLen(0)).uuid;
        net.submit(0, 5, remove(removed));
        for (fault, late) in faults {
            net.step(fault);
            if let Some(txn) = net.late.get(late).cloned() {
                net.model.txn(&txn);
                check_store(&net.model);
            }
        }
        net.settle();
        for txn in std::mem::take(&mut net.late) {
            net.model.txn(&txn);
        }
        net.settle();
        check_store(&net.model);
        let state = net.model.state();
        for client in &net.clients {
            prop_assert_eq!(client.agent.state(), &state);
            prop_assert_eq!(client.tables.as_ref().unwrap().volumes.len(), state.volumes().len());
        }
        let outcomes = net.clients.iter().flat_map(|it| &it.outcomes);
        prop_assert_eq!(outcomes.clone().count(), 5);
        for (id, outcome) in outcomes {
            let uuid = volume(u16::try_from(id.0 % 10).unwrap(), ByteLen(0)).uuid;
            match outcome {
                Outcome::Done if id.0 != 5 && uuid != removed => {
                    prop_assert_eq!(state.volumes()[&uuid].state, VolumeState::Ready);
                }
                Outcome::Done => prop_assert!(!state.volumes().contains_key(&removed)),
                // Sent without an answer, and then overtaken: it never took effect.
                Outcome::Refused(Refusal::Vanished(_)) => {
                    let key = Key::Volume(uuid).path(CLUSTER);
                    let history = net.model.history.iter().flat_map(|it| &it.1);
                    prop_assert!(!history.clone().any(|it| it.key == key));
                }
                refused => prop_assert!(false, "{:?}: {:?}", id, refused),
            }
        }
    }
}

/// An event in the life of a job or of its process.
#[derive(Clone, Copy, Debug)]
enum Event {
    Create { at: usize, number: u16, gib: u64 },
    Grow { at: usize, number: u16, gib: u64 },
    Remove { at: usize, number: u16 },
    Cancel { at: usize, job: u64 },
    Kill { at: usize },
    Start { at: usize },
    Fail { at: usize, job: u64 },
    Steps(Fault, u8),
}

fn any_event() -> impl Strategy<Value = Event> {
    let steps = || (any_fault(), 1..9u8).prop_map(|(fault, steps)| Event::Steps(fault, steps));
    (0..12u8, 0..3usize, 1..4u16, 1..40u64, steps()).prop_map(|(kind, at, number, size, steps)| {
        let job = 2 * (size % 8);
        match kind {
            0 | 1 => Event::Create { at, number, gib: size },
            2 => Event::Grow { at, number, gib: size },
            3 => Event::Remove { at, number },
            4 => Event::Cancel { at, job },
            5 => Event::Kill { at },
            6 => Event::Start { at },
            7 => Event::Fail { at, job },
            _ => steps,
        }
    })
}

impl Net {
    fn apply(&mut self, event: Event) {
        let by = |net: &Self, at: usize| {
            let run = net.clients[at].agent.config.run.unwrap();
            Begin { worker: Worker { node: node(u16::try_from(at + 1).unwrap()), run }, now: 1 }
        };
        let uuid = |number| volume(number, ByteLen(0)).uuid;
        match event {
            Event::Create { at, number, gib } => {
                let spec = volume(number, ByteLen(gib * GIB));
                let taken = self.model.history.iter().flat_map(|it| &it.1);
                let key = Key::Volume(spec.uuid).path(CLUSTER);
                if taken.clone().any(|it| it.key == key) {
                    return; // a UUID is drawn once
                }
                let replicas = if number % 2 == 0 { 2 } else { 1 };
                let spec = VolumeSpec { replicas, begin: by(self, at), ..spec };
                self.submit(at, 0, Change::CreateVolume(spec));
            }
            Event::Grow { at, number, gib } => {
                let blocks = Blocks(gib * GIB / 4096);
                let begin = by(self, at);
                self.submit(at, 0, Change::GrowVolume { volume: uuid(number), blocks, begin });
            }
            Event::Remove { at, number } => {
                let begin = by(self, at);
                self.submit(at, 0, Change::RemoveVolume { volume: uuid(number), begin });
            }
            Event::Cancel { at, job } => self.submit(at, 0, Change::CancelJob { job }),
            Event::Fail { at, job } => {
                let now = self.now;
                self.clients[at].agent.handle_zeroing_failed(
                    now,
                    job,
                    "a device failed".to_owned(),
                );
            }
            Event::Kill { at } => self.kill(at),
            Event::Start { at } if self.clients[at].is_down => self.restart(at),
            Event::Start { .. } => {}
            Event::Steps(fault, steps) => {
                for _ in 0..steps {
                    self.step(fault);
                    self.check_zeroed();
                }
            }
        }
    }
}

#[test]
fn a_job_is_carried_on_by_another_node_when_its_process_is_gone() {
    let mut net = Net::new(cluster_of(3, ByteLen(80 * GIB)), 3);
    net.settle();
    // It lies on nodes 2 and 3 alone, so that all of it can be zeroed.
    let spec = VolumeSpec { replicas: 2, ..volume(1, ByteLen(60 * GIB)) };
    net.apply(Event::Kill { at: 0 });
    let worker = Worker { node: node(1), run: 1 };
    let begin = Begin { worker, ..begin(1) };
    net.model.carry_out(&Change::CreateVolume(VolumeSpec { begin, ..spec })).unwrap();
    let begun = net.now;
    while net.now < begun.plus(WORKER_GONE) {
        net.step(Fault::Nothing);
        let job = net.model.state().jobs()[&2].clone();
        assert!(job.worker == worker || net.now >= begun.plus(WORKER_GONE), "not before its time");
    }
    net.settle();
    let job = net.model.state().jobs()[&2].clone();
    assert_eq!(job.worker.node, node(2), "the lowest number takes it");
    net.restart(0);
    net.settle();
    assert!(net.model.state().jobs()[&2].state.is_over());
    net.check_zeroed();
}

#[test]
fn a_damaged_record_holds_up_only_its_own_job() {
    let mut net = Net::new(cluster_of(1, ByteLen(80 * GIB)), 1);
    net.settle();
    let [damaged, sound] = [1, 2].map(|number| volume(number, ByteLen(GIB)));
    net.model.carry_out(&Change::CreateVolume(damaged.clone())).unwrap();
    let key = Key::Volume(damaged.uuid).path(CLUSTER);
    let value = net.model.records[&key].0.clone();
    // The node knows of the place, and so it zeroes it.
    net.step(Fault::Nothing);
    net.model.write(vec![(key.clone(), Some(b"{}".to_vec()))]);
    net.model.carry_out(&Change::CreateVolume(sound.clone())).unwrap();
    net.settle();
    assert_eq!(net.model.state().volumes()[&sound.uuid].state, VolumeState::Ready);
    let requests = net.model.revision;
    net.settle();
    assert!(net.model.revision < requests + 200, "it does not try without a pause");
    net.model.write(vec![(key, Some(value))]);
    net.settle();
    assert_eq!(net.model.state().volumes()[&damaged.uuid].state, VolumeState::Ready);
    net.check_zeroed();
}

proptest! {
    /// Three nodes create, grow, remove and cancel over faults of all kinds, and processes are killed. Whatever
    /// happens, no row counts as zeroed whose places were not; and as soon as all nodes run again, every job
    /// ends, and each volume is ready or gone.
    #[test]
    fn every_job_ends_and_no_place_is_shown_that_was_not_zeroed(
        events in prop::collection::vec(any_event(), 1..60)
    ) {
        let mut net = Net::new(cluster_of(3, ByteLen(50 * GIB)), 3);
        net.settle();
        for event in events {
            net.apply(event);
            for txn in net.late.split_off(net.late.len() / 2) {
                net.model.txn(&txn);
            }
            check_store(&net.model);
            net.check_zeroed();
        }
        (0..3).for_each(|at| net.apply(Event::Start { at }));
        net.settle();
        check_store(&net.model);
        net.check_zeroed();
        let state = net.model.state();
        for (id, job) in state.jobs() {
            prop_assert!(job.state.is_over(), "job {id}: {job:?}");
        }
        for volume in state.volumes().values() {
            prop_assert_eq!((volume.state, volume.job), (VolumeState::Ready, None));
        }
        prop_assert_eq!(state.zeroed().count(), 0);
    }
}
