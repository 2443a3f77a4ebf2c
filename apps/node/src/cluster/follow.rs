//! The thread `cluster`: it follows the cluster's store, and carries out changes in it.
//!
//! The agent ([`nearflash_cluster::Agent`]) decides on the requests; this thread sends them. It does nothing
//! else, so that the node's lease is renewed in time: the tables go to a thread of their own.

use std::collections::BTreeMap;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use nearflash_api::{ClusterNodeInfo, ClusterView};
use nearflash_cluster::agent::AgentConfig;
use nearflash_cluster::compile::Tables;
use nearflash_cluster::{Agent, ChangeId, Level, NodeSummary, Outcome, Part, summary, verdict};
use nearflash_cluster_store::{
    Absence, Calls, ClusterError, Members, OnTables, StoreAccess, Told, View, boot_time, now,
};
use nearflash_mirror::membership::MirrorConfig;
use nearflash_planner::{Begin, Change, Refusal};
use nearflash_records::Endpoint;
use nearflash_records::kept::SeenRecord;
use nearflash_records::record::Worker;
use nearflash_records::state::{Inconsistent, NewPlace};
use nearflash_records::store::{Operation, RolledBack, StoreRequest};
use nearflash_records::{ClusterState, Seen, StoreEvent};
use nearflash_units::{ByteLen, Nanos};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::{AbortHandle, LocalSet};
use uuid::Uuid;

use super::mirroring::{MirrorEvent, MirrorSetup, Mirroring};
use crate::OnMirrors;
use crate::end_of_panic::EndOfPanic;

/// Error: a change of the cluster was not made, or nobody knows.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// It is not possible.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Too many changes wait.
    #[error("64 changes of the cluster wait already: try again")]
    Busy,
    /// The store did not answer in time.
    #[error(
        "etcd has not answered in time: the change may still take effect; see 'nearflash cluster \
         status' and what it changed, and repeat it if it has not"
    )]
    Unknown,
    /// The node is ending.
    #[error(
        "this node does not follow its cluster, because it is ending or could not join: see 'nearflash \
         status'"
    )]
    Stopped,
}

impl From<Inconsistent> for ChangeError {
    fn from(error: Inconsistent) -> Self {
        Self::Refused(error.into())
    }
}

/// The state of a node that does not serve its cluster's volumes.
const NOT_SERVED: &str = "this node does not serve the volumes of its cluster";

/// Keeps durably what the node has seen of the store.
pub(crate) type OnSeen = Arc<dyn Fn(SeenRecord) + Send + Sync>;

/// Hears that jobs of the cluster have changed. Must not block.
pub(crate) type OnJobs = Arc<dyn Fn() + Send + Sync>;

/// The connection of a node to the cluster's store.
pub(crate) struct Follower {
    worker: Worker,
    shared: Arc<Told>,
    commands: UnboundedSender<Command>,
    mirror_events: UnboundedSender<MirrorEvent>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

enum Command {
    Change(Change, Sender<Outcome>),
    Begin(MirrorSetup),
    Mirrors(Vec<(MirrorConfig, ByteLen)>),
    /// Note from now on what is seen of the store.
    NoteSeen,
    /// A place has been zeroed, durably.
    Zeroed(NewPlace),
    /// A place could not be zeroed for this job.
    ZeroingFailed(u64, String),
    /// The node serves by this version of the list of access.
    ConfirmAccess(u64),
    /// Hand all mirrors over, and say so.
    Leave(Sender<()>),
    Stop,
}

impl Follower {
    /// Follows the store as this node.
    ///
    /// # Errors
    /// When the system has no thread.
    pub(crate) fn start(
        access: StoreAccess,
        (node, seen): (Uuid, Option<Seen>),
        (on_tables, on_seen, on_jobs): (OnTables, OnSeen, OnJobs),
    ) -> Result<Self, ClusterError> {
        let failed = |source| ClusterError::System { action: "start a thread", source };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(failed)?;
        let worker = Worker { node, run: Uuid::new_v4().as_u64_pair().0 };
        let config = AgentConfig {
            cluster: access.cluster(),
            node,
            run: Some(worker.run),
            endpoints: access.endpoints().len(),
            seen,
        };
        let agent = Agent::new(config, boot_time());
        let view = View {
            state: Arc::new(agent.state().clone()),
            health: agent.health(),
            endpoints: names(&access.endpoints()),
        };
        let shared = Arc::new(Told::new(view));
        let (commands, receiver) = unbounded_channel();
        let (mirror_events, mirror_incoming) = unbounded_channel();
        let mirror_sender = mirror_events.clone();
        let (driven, told) = (Arc::clone(&shared), Arc::clone(&shared));
        let drive = move || {
            let _guard = EndOfPanic;
            let (events, incoming) = unbounded_channel();
            let ways = (Calls::new(&access, events), access.endpoints());
            let driver = Driver::new(agent, ways, driven, mirror_sender, (on_seen, on_jobs));
            LocalSet::new().block_on(&runtime, driver.run(incoming, receiver, mirror_incoming));
        };
        let tell = move || told.tell(on_tables);
        let threads = vec![
            Builder::new().name("cluster".to_owned()).spawn(drive).map_err(failed)?,
            Builder::new().name("cluster-tables".to_owned()).spawn(tell).map_err(failed)?,
        ];
        Ok(Self { worker, shared, commands, mirror_events, threads: Mutex::new(threads) })
    }

    /// This process, as it begins a job now.
    pub(crate) fn begin(&self) -> Begin {
        Begin { worker: self.worker, now: now().0 }
    }

    /// A place has been zeroed, durably.
    pub(crate) fn zeroed(&self, place: NewPlace) {
        // The thread has ended if nobody receives it. The next process zeroes the place again.
        let _ = self.commands.send(Command::Zeroed(place));
    }

    /// A place could not be zeroed for this job.
    pub(crate) fn zeroing_failed(&self, job: u64, error: String) {
        let _ = self.commands.send(Command::ZeroingFailed(job, error));
    }

    /// Takes the news of the cores about mirrors.
    pub(crate) fn on_mirrors(&self) -> OnMirrors {
        let events = self.mirror_events.clone();
        OnMirrors::new(move |news| {
            // Nobody receives it while the thread ends.
            let _ = events.send(MirrorEvent::News(news));
        })
    }

    /// Takes part in mirrors from now on.
    pub(crate) fn begin_mirrors(&self, setup: MirrorSetup) {
        // The thread has ended if nobody receives it.
        let _ = self.commands.send(Command::Begin(setup));
    }

    /// The mirrors that have a seat and a replica here, and their lengths.
    pub(crate) fn set_mirrors(&self, configs: Vec<(MirrorConfig, ByteLen)>) {
        let _ = self.commands.send(Command::Mirrors(configs));
    }

    /// Notes from now on what the node has seen of the store: it has taken its part in the cluster.
    pub(crate) fn note_seen(&self) {
        let _ = self.commands.send(Command::NoteSeen);
    }

    /// The proof that the store has gone back, if it has.
    pub(crate) fn rolled_back(&self) -> Option<RolledBack> {
        self.shared.view().health.rolled_back.clone()
    }

    /// Whether an operator has accepted a restored store since the node ran last.
    pub(crate) fn is_accepted(&self) -> bool {
        self.shared.view().health.is_accepted
    }

    /// Hands all mirrors over to other nodes. Waits until that is done, for at most `timeout`.
    pub(crate) fn leave(&self, timeout: Duration) {
        let (sender, receiver) = channel();
        if self.commands.send(Command::Leave(sender)).is_ok() {
            // Otherwise the other nodes take over when their leases are over.
            let _ = receiver.recv_timeout(timeout);
        }
    }

    /// Carries out a change. Waits until its outcome is known, for at most `timeout`.
    ///
    /// # Errors
    /// When it is refused, or its outcome is not known in time.
    pub(crate) fn change(&self, change: Change, timeout: Duration) -> Result<(), ChangeError> {
        let (sender, receiver) = channel();
        self.commands.send(Command::Change(change, sender)).map_err(|_| ChangeError::Stopped)?;
        match receiver.recv_timeout(timeout) {
            Ok(Outcome::Done) => Ok(()),
            Ok(Outcome::Refused(refusal)) => Err(refusal.into()),
            Ok(Outcome::Busy) => Err(ChangeError::Busy),
            Err(RecvTimeoutError::Timeout) => Err(ChangeError::Unknown),
            Err(RecvTimeoutError::Disconnected) => Err(ChangeError::Stopped),
        }
    }

    /// All cores of the node serve by this version of the list of access, the node has kept it, and older requests
    /// have ended.
    pub(crate) fn confirm_access(&self, version: u64) {
        let _ = self.commands.send(Command::ConfirmAccess(version));
    }

    /// The known content of the store.
    pub(crate) fn state(&self) -> Arc<ClusterState> {
        Arc::clone(&self.shared.view().state)
    }

    /// The cluster, as this node sees it.
    pub(crate) fn view_of(&self, node: Uuid) -> ClusterView {
        let View { state, health, endpoints } = self.shared.view().clone();
        let verdict = verdict(boot_time(), &health, &endpoints, &state);
        let Part { level, reason, remedy } = verdict.worst().clone();
        let reason = if remedy.is_empty() { reason } else { format!("{reason}: {remedy}") };
        let uuid = state.uuid();
        if let Some(Absence { node, failure }) = self.shared.absence() {
            let verdict = Level::Unavailable.to_string();
            let reason = match failure {
                Some(failure) => format!("{NOT_SERVED}: {failure}"),
                None => format!("{NOT_SERVED} yet: {reason}"),
            };
            let node = node.to_string();
            return ClusterView { uuid, node, verdict, reason, ..ClusterView::default() };
        }
        let name = state.nodes().get(&node).map(|it| it.name.to_string());
        let (node, verdict) = (name.unwrap_or_default(), level.to_string());
        let nodes = node_infos(&state);
        ClusterView { uuid, node, verdict, reason, nodes, ..ClusterView::default() }
    }

    /// Has the node look again at the tables that it has.
    pub(crate) fn look_again(&self) {
        self.shared.look_again();
    }

    /// Waits until no other process counts as alive as this node, for at most `timeout`. Returns whether none does.
    pub(crate) fn wait_until_alone(&self, timeout: Duration) -> bool {
        self.shared.wait(timeout, |view| view.health.other_run.is_none().then_some(())).is_some()
    }

    /// Notes that the node does not serve the cluster's volumes, or that it does.
    pub(crate) fn set_absence(&self, absence: Option<Absence>) {
        self.shared.set_absence(absence);
    }

    /// Waits until the store has been read, for at most `timeout`. Returns whether it has been.
    pub(crate) fn wait_until_read(&self, timeout: Duration) -> bool {
        self.shared.wait(timeout, |view| view.health.is_read.then_some(())).is_some()
    }

    /// Waits until the known content of the store has what is looked for, for at most `timeout`.
    pub(crate) fn wait_for<T>(
        &self,
        timeout: Duration,
        mut find: impl FnMut(&ClusterState) -> Option<T>,
    ) -> Option<T> {
        self.shared.wait(timeout, |view| find(&view.state))
    }

    /// Ends the threads.
    pub(crate) fn stop(&self) {
        self.shared.end();
        // The thread may have ended already.
        let _ = self.commands.send(Command::Stop);
        let threads =
            std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!("a thread that follows the cluster has panicked");
            }
        }
    }
}

/// Drives the agent.
struct Driver {
    agent: Agent,
    calls: Calls,
    endpoints: Vec<Endpoint>,
    shared: Arc<Told>,
    waiting: BTreeMap<ChangeId, Sender<Outcome>>,
    next_change: u64,
    watch: Option<AbortHandle>,
    members: (UnboundedSender<Members>, UnboundedReceiver<Members>),
    mirroring: Option<Mirroring>,
    mirror_events: UnboundedSender<MirrorEvent>,
    /// The newest tables, for a membership that begins later.
    tables: Tables,
    leaving: Vec<Sender<()>>,
    on_seen: OnSeen,
    on_jobs: OnJobs,
}

impl Driver {
    fn new(
        agent: Agent,
        (calls, endpoints): (Calls, Vec<Endpoint>),
        shared: Arc<Told>,
        mirror_events: UnboundedSender<MirrorEvent>,
        (on_seen, on_jobs): (OnSeen, OnJobs),
    ) -> Self {
        Self {
            agent,
            calls,
            endpoints,
            shared,
            waiting: BTreeMap::new(),
            next_change: 0,
            watch: None,
            members: unbounded_channel(),
            mirroring: None,
            mirror_events,
            tables: Tables::default(),
            leaving: Vec::new(),
            on_seen,
            on_jobs,
        }
    }

    async fn run(
        mut self,
        mut events: UnboundedReceiver<StoreEvent>,
        mut commands: UnboundedReceiver<Command>,
        mut mirror_events: UnboundedReceiver<MirrorEvent>,
    ) {
        loop {
            self.agent.set_wall(now().0);
            self.agent.handle_timeout(boot_time());
            self.pass_on();
            self.turn_mirrors();
            let left = self.next_timeout().since(boot_time()).to_duration();
            tokio::select! {
                event = events.recv() => {
                    let mut next = event;
                    while let Some(event) = next {
                        self.agent.handle_event(boot_time(), event);
                        next = events.try_recv().ok();
                    }
                    self.show();
                }
                command = commands.recv() => match command {
                    Some(Command::Change(change, sender)) => self.submit(change, sender),
                    Some(Command::Begin(setup)) => self.begin_mirrors(setup),
                    Some(Command::Mirrors(configs)) => self.set_mirrors(configs),
                    Some(Command::NoteSeen) => self.agent.note_seen(boot_time()),
                    Some(Command::Zeroed(place)) => self.agent.handle_zeroed(boot_time(), place),
                    Some(Command::ZeroingFailed(job, error)) => {
                        self.agent.handle_zeroing_failed(boot_time(), job, error);
                    }
                    Some(Command::ConfirmAccess(version)) => {
                        self.agent.confirm_access(boot_time(), version);
                    }
                    Some(Command::Leave(sender)) => self.leave(sender),
                    Some(Command::Stop) | None => return,
                },
                event = mirror_events.recv() => {
                    let mut next = event;
                    while let (Some(event), Some(mirroring)) = (next.take(), &mut self.mirroring) {
                        mirroring.handle(event, boot_time());
                        next = mirror_events.try_recv().ok();
                    }
                }
                members = self.members.1.recv() => {
                    self.follow_members(&members.unwrap_or_default());
                }
                () = tokio::time::sleep(left) => self.show(),
            }
        }
    }

    fn submit(&mut self, change: Change, sender: Sender<Outcome>) {
        let id = ChangeId(self.next_change);
        self.next_change += 1;
        self.waiting.insert(id, sender);
        self.agent.submit(boot_time(), id, change);
    }

    /// Passes on what the agent has ready.
    fn pass_on(&mut self) {
        while let Some(request) = self.agent.poll_request() {
            self.ask(request);
        }
        while let Some((id, outcome)) = self.agent.poll_outcome() {
            if let Some(sender) = self.waiting.remove(&id) {
                // The state that the change has led to is there before its outcome.
                self.show();
                // The caller may have given up.
                let _ = sender.send(outcome);
            }
        }
        if let Some(seen) = self.agent.poll_seen() {
            let record = SeenRecord::of(seen, self.agent.state());
            let keep = Arc::clone(&self.on_seen);
            // It writes to a disk, and this thread waits for nothing. Of two, the later one stays.
            tokio::task::spawn_blocking(move || keep(record));
        }
        if let Some(tables) = self.agent.poll_publish() {
            if let Some(mirroring) = &mut self.mirroring {
                mirroring.follow(&tables, self.agent.state(), boot_time());
            }
            self.tables.clone_from(&tables);
            self.shared.publish(tables);
        }
    }

    fn next_timeout(&self) -> Nanos {
        let mirrors = self.mirroring.as_ref().map(Mirroring::poll_timeout);
        mirrors.into_iter().fold(self.agent.poll_timeout(), Nanos::min)
    }

    fn begin_mirrors(&mut self, setup: MirrorSetup) {
        let ways = (self.calls.clone(), self.mirror_events.clone());
        match Mirroring::new(setup, ways, self.agent.state(), boot_time()) {
            Ok(mirroring) => self.mirroring = Some(mirroring),
            Err(error) => tracing::error!("mirrors are not served: cannot listen: {error}"),
        }
    }

    fn set_mirrors(&mut self, configs: Vec<(MirrorConfig, ByteLen)>) {
        if let Some(mirroring) = &mut self.mirroring {
            mirroring.set_mirrors(configs, boot_time());
            mirroring.follow(&self.tables, self.agent.state(), boot_time());
        }
    }

    fn leave(&mut self, sender: Sender<()>) {
        if let Some(mirroring) = &mut self.mirroring {
            mirroring.leave(boot_time());
        }
        self.leaving.push(sender);
    }

    /// Does what is due for the mirrors.
    fn turn_mirrors(&mut self) {
        if let Some(mirroring) = &mut self.mirroring {
            mirroring.handle_timeout(boot_time());
            mirroring.act(&self.endpoints, self.agent.store());
        }
        if self.mirroring.as_ref().is_none_or(Mirroring::has_left) {
            for sender in self.leaving.drain(..) {
                // The caller may have given up.
                let _ = sender.send(());
            }
        }
    }

    fn ask(&mut self, StoreRequest { id, endpoint, deadline, operation }: StoreRequest) {
        let address = self.endpoints[endpoint.min(self.endpoints.len() - 1)].clone();
        let calls = self.calls.clone();
        if let Operation::Watch { prefix, from_revision } = operation {
            self.watch.take().iter().for_each(AbortHandle::abort);
            let watch = async move { calls.watch((id, address), &prefix, from_revision).await };
            self.watch = Some(tokio::task::spawn_local(watch).abort_handle());
            return;
        }
        let timeout = deadline.since(boot_time()).to_duration();
        let members = self.members.0.clone();
        tokio::task::spawn_local(async move {
            if let Some(found) = calls.call((id, address), operation, timeout).await {
                // Nobody receives it while the thread ends.
                let _ = members.send(found);
            }
        });
    }

    /// Members that have joined since the start can be asked, too. The place of one that was removed is
    /// another one's from now on.
    fn follow_members(&mut self, members: &Members) {
        if members.is_empty() {
            return;
        }
        for (place, endpoint) in self.endpoints.iter_mut().enumerate() {
            if !members.contains(endpoint) {
                endpoint.clone_from(&members[place % members.len()]);
                self.agent.replace_endpoint(place);
            }
        }
        for address in members {
            if !self.endpoints.contains(address) {
                self.endpoints.push(address.clone());
                self.agent.set_endpoints(self.endpoints.len());
            }
        }
        self.shared.view().endpoints = names(&self.endpoints);
    }

    fn show(&mut self) {
        let are_new = self.shared.show(|view| {
            let before = Arc::clone(&view.state);
            if *before != *self.agent.state() {
                view.state = Arc::new(self.agent.state().clone());
            }
            view.health = self.agent.health();
            before.jobs() != view.state.jobs()
        });
        if are_new {
            (self.on_jobs)();
        }
    }
}

/// The nodes; none if a record is damaged, which the verdict names.
fn node_infos(state: &ClusterState) -> Vec<ClusterNodeInfo> {
    let info = |node: NodeSummary| ClusterNodeInfo {
        name: node.name.to_string(),
        uuid: node.uuid,
        is_running: node.is_running,
        version: node.version,
        data_bytes: node.space.data.0,
        free_bytes: node.space.free.0,
        replicas: node.replicas,
        primaries: node.primaries,
    };
    summary(state).unwrap_or_default().into_iter().map(info).collect()
}

fn names(endpoints: &[Endpoint]) -> Vec<String> {
    endpoints.iter().map(Endpoint::to_string).collect()
}
