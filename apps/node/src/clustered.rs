//! A node's part in the cluster: its registration, its slices, and the thread that follows the tables.
//!
//! The node's number in the cluster decides which numbers its NVMe controllers get, so the node registers
//! before its cores start. If it has volumes of its own, it does not wait for a store that is away: the
//! catalog keeps the number, and the node joins later, see `joining.rs`.
//!
//! Invariant: nothing of a slice is used before the cluster's store knows its incarnation.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nearflash_access::Secret;
use nearflash_cluster::compile;
use nearflash_cluster::compile::Tables;
use nearflash_cluster_store::StoreAccess;
use nearflash_media::Slice;
use nearflash_mirror::Term;
use nearflash_mirror::membership::{Note, NoteVerdict, SliceState};
use nearflash_planner::{Change, NodeSpec, SliceSpec};
use nearflash_publish::{Records, controller_ids};
use nearflash_records::ClusterState;
use nearflash_records::kept::SeenRecord;
use nearflash_records::record::{AddressTls, Door, version_with_level};
use nearflash_records::token::PeerSecret;
use nearflash_session::DoorTls;
use nearflash_space::Name;
use nearflash_space::slice::{Notes, SliceVerdict, Superblock};
use uuid::Uuid;

use crate::cluster::{ChangeError, Follower, MirrorSetup, note_of, record_of};
use crate::doors::Addresses;
use crate::joining::{self, Joining};
use crate::node::{IsOver, Node};
use crate::prepare::Slices;
use crate::start_error::StartError;
use crate::{Catalog, OnMirrors};
use nearflash_config::{ClusterConfig, PULSE_PORT, Protocol};

/// The time that the store has for its first answer.
const FIRST_ANSWER_MAX: Duration = Duration::from_secs(30);

/// The time between two reports that the store does not answer; also the time that it has for its first
/// answer while volumes of the node alone could be served.
pub(crate) const REPORT_EVERY: Duration = Duration::from_secs(5);

/// The time for handing mirrors over at the end.
const LEAVE_MAX: Duration = Duration::from_secs(2);

/// The time for which a node counts as alive after its process was killed, and some more for an etcd
/// whose leader has changed.
const ALIVE_MAX: Duration = Duration::from_secs(8);

/// The time for a change at the start.
const CHANGE_MAX: Duration = Duration::from_secs(10);

/// A node with a number in its cluster, whose cores do not run yet.
pub(crate) struct Enrolled {
    pub(crate) follower: Arc<Follower>,
    pub(crate) spec: NodeSpec,
    pub(crate) ordinal: u16,
    pub(crate) receiver: Arc<Receiver>,
    /// The socket for the pulses of other nodes, until it is used.
    pulse: Mutex<Option<TcpListener>>,
    pulse_proof: bool,
    peer_secret: PeerSecret,
    secret: Secret,
    cluster: Uuid,
    /// Whether the store has answered. Otherwise the number is that of an earlier start.
    is_registered: bool,
}

/// Takes the tables for a node that does not exist yet.
#[derive(Default)]
pub(crate) struct Receiver {
    node: Mutex<Option<Arc<Node>>>,
    is_there: Condvar,
    pub(crate) is_over: Arc<IsOver>,
}

/// A node that follows its cluster.
pub(crate) struct Clustered {
    follower: Arc<Follower>,
    receiver: Arc<Receiver>,
    /// The thread of a node that joins late.
    joining: Option<JoinHandle<()>>,
}

impl Enrolled {
    /// Connects to the cluster's store, and registers the node there. A node that `has_own` volumes and has
    /// been registered before does not wait for a store that is away.
    ///
    /// # Errors
    /// When the data directory belongs to no cluster, the store does not answer in time, or it refuses
    /// the node, for example because another one has its name.
    pub(crate) fn new(
        (data_dir, config): (&Path, &ClusterConfig),
        (catalog, has_own): (&Catalog, bool),
        addresses: &Addresses,
    ) -> Result<Self, StartError> {
        let access = StoreAccess::of(data_dir)?;
        let (cluster, ip, node) = (access.cluster(), access.ip(), catalog.node());
        let (peer_secret, machine) = (access.peer_secret(), access.machine());
        let secret = Secret::new(peer_secret);
        let (pulse, pulse_address) = listen(config.pulse.unwrap_or((ip, PULSE_PORT).into()))?;
        let endpoints = access.endpoints_text();
        let receiver = Arc::new(Receiver::default());
        let (take, keep) = (Arc::clone(&receiver), Arc::clone(&receiver));
        let ring = Arc::clone(&receiver);
        let on_tables = Box::new(move |tables| take.take(tables));
        let on_seen = Arc::new(move |record| keep.keep(&record));
        let on_jobs = Arc::new(move || ring.ring());
        let seen = catalog.seen()?.and_then(|it| it.seen(cluster));
        let follower = Follower::start(access, (node, seen), (on_tables, on_seen, on_jobs))?;
        let spec = NodeSpec {
            uuid: node,
            name: config.node.clone(),
            addresses: reachable(addresses, ip, pulse_address),
            tls: secured(addresses, ip),
            version: version_with_level(env!("CARGO_PKG_VERSION")),
            machine,
        };
        let earlier = catalog.ordinal(cluster)?.filter(|_| has_own);
        let found = match earlier {
            Some(_) => register_soon(&follower, &spec)?,
            None => {
                await_store(&follower, &endpoints)?;
                Some(register(&follower, &spec, CHANGE_MAX)?)
            }
        };
        let is_registered = found.is_some();
        let ordinal = found.or(earlier).ok_or(ChangeError::Unknown)?;
        if !is_registered {
            tracing::warn!(
                "etcd does not answer ({endpoints}): the node serves its own volumes, and those of the \
                 cluster follow when etcd answers"
            );
        }
        catalog.keep_ordinal(cluster, ordinal)?;
        let follower = Arc::new(follower);
        let pulse = Mutex::new(Some(pulse));
        Ok(Self {
            follower,
            spec,
            ordinal,
            receiver,
            pulse,
            pulse_proof: config.pulse_proof,
            peer_secret,
            secret,
            cluster,
            is_registered,
        })
    }

    pub(crate) fn secret(&self) -> &Secret {
        &self.secret
    }

    pub(crate) fn cluster(&self) -> Uuid {
        self.cluster
    }

    /// Whether the store has answered, so that slices can be checked and taken.
    pub(crate) fn is_registered(&self) -> bool {
        self.is_registered
    }

    /// The numbers of the node's NVMe controllers, which no other node of the cluster uses.
    pub(crate) fn controller_ids(&self) -> RangeInclusive<u16> {
        controller_ids(self.ordinal)
    }

    /// Checks that the node has no access of its own in a cluster whose nodes share one list.
    ///
    /// # Errors
    /// When it has. Nobody knows which of the two an operator wants.
    pub(crate) fn check_access(&self, records: &Records) -> Result<(), StartError> {
        let is_own = records.list.is_none_or(|it| it.cluster != self.cluster);
        match is_own && records.has_access() && self.follower.state().shares_access() {
            true => Err(StartError::OwnAccess),
            false => Ok(()),
        }
    }

    /// Checks a slice against what the store says of it and of its mirrors. Nothing has been written to it.
    ///
    /// # Errors
    /// When one of the two was restored from an older copy.
    pub(crate) fn check(
        &self,
        name: &Name,
        uuid: Option<Uuid>,
        (superblock, notes): (Option<&Superblock>, Option<&Notes>),
    ) -> Result<(), StartError> {
        let Some(uuid) = uuid else { return Ok(()) };
        let state = self.follower.state();
        let known = state.slices().get(&uuid).map(|it| it.incarnation);
        let reason = match (superblock, known) {
            (None, None) => return Ok(()),
            (None, Some(_)) => {
                "its superblock is gone: restore the first 17 MiB of the device from a \
                                backup"
                    .to_owned()
            }
            (Some(superblock), known) => match superblock.verdict(known) {
                SliceVerdict::StoreRolledBack { .. } if self.follower.is_accepted() => {
                    tracing::warn!(
                        "slice {name} is newer than the restored etcd that was accepted"
                    );
                    return Ok(());
                }
                SliceVerdict::Good => {
                    let is_accepted = self.follower.is_accepted();
                    match contradiction(&state, (uuid, notes), is_accepted) {
                        Some(reason) => reason,
                        None => return Ok(()),
                    }
                }
                verdict => verdict.to_string(),
            },
        };
        Err(StartError::SliceStore { name: name.clone(), reason: reason.into() })
    }

    /// Hands the node its cluster: its slices are used from now on, and the tables are followed. If the
    /// store is away, a thread does this when it answers.
    ///
    /// # Errors
    /// When a slice does not fit what the store says of it. It is unchanged then.
    pub(crate) fn follow(self, node: &Arc<Node>, slices: Slices) -> Result<Clustered, StartError> {
        node.join(Arc::clone(&self.follower));
        let (follower, receiver) = (Arc::clone(&self.follower), Arc::clone(&self.receiver));
        let joining = match slices {
            Slices::Taken(slices) => {
                self.serve(node, &slices, CHANGE_MAX)?;
                None
            }
            Slices::Held(held) => Some(joining::start(Joining::new(self, Arc::clone(node), held))?),
        };
        Ok(Clustered { follower, receiver, joining })
    }

    /// Tells the store of the slices, uses them, and follows the tables.
    pub(crate) fn serve(
        &self,
        node: &Arc<Node>,
        slices: &[Slice],
        timeout: Duration,
    ) -> Result<(), StartError> {
        // Nobody places anything on a slice whose node is not known to run.
        let is_known = |state: &ClusterState| state.alive().get(&self.spec.uuid).map(drop);
        self.follower.wait_for(ALIVE_MAX, is_known);
        for slice in slices {
            self.open(slice, timeout)?;
            let no_thread = |source| StartError::System { action: "start a thread", source };
            node.use_slice(slice.uuid()).map_err(no_thread)?;
        }
        self.begin_mirrors(node, slices);
        // The volumes are there when the node says that it is ready.
        node.follow_cluster(compile(&self.follower.state(), self.spec.uuid));
        self.receiver.hand(Arc::clone(node));
        self.follower.note_seen();
        Ok(())
    }

    /// Takes part in mirrors from now on.
    fn begin_mirrors(&self, node: &Node, slices: &[Slice]) {
        let state = |slice: &Slice| SliceState {
            slice: slice.uuid().into_bytes(),
            incarnation: slice.incarnation(),
            power: slice.power_incarnation(),
        };
        let mut pulse = self.pulse.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(listener) = pulse.take() else { return };
        self.follower.begin_mirrors(MirrorSetup {
            node: self.spec.uuid,
            slices: slices.iter().map(state).collect(),
            notes: slices.iter().map(|slice| Arc::clone(slice.notes())).collect(),
            listener,
            believes_ends: self.pulse_proof,
            secret: self.peer_secret,
            board: node.board(),
        });
    }

    /// Takes the news of the cores about mirrors.
    pub(crate) fn on_mirrors(&self) -> OnMirrors {
        self.follower.on_mirrors()
    }

    /// Tells the store that the slice is open, in its new incarnation.
    fn open(&self, slice: &Slice, timeout: Duration) -> Result<(), StartError> {
        let name = slice.device().name().clone();
        let failed =
            |reason: String| StartError::SliceStore { name: name.clone(), reason: reason.into() };
        let spec = SliceSpec {
            uuid: slice.uuid(),
            node: self.spec.uuid,
            name: name.clone(),
            len: slice.len(),
            incarnation: slice.incarnation(),
        };
        self.follower.change(Change::OpenSlice(spec), timeout)?;
        slice.confirm().map_err(|error| failed(error.to_string()))
    }
}

/// A mirror of which a slice and the store know different things, as a fault and its remedy.
/// Terms that the store lacks are no contradiction if the state of a restored store was accepted.
fn contradiction(
    state: &ClusterState,
    (slice, notes): (Uuid, Option<&Notes>),
    is_accepted: bool,
) -> Option<String> {
    state.replicas_on(slice).find_map(|(key, ordinal, record)| {
        let note = notes.and_then(|notes| notes.get(&key)).map(|note| note_of(&note));
        let volume = state.volumes().get(&key.volume).map(|it| it.name.to_string());
        let volume = volume.unwrap_or_else(|| key.volume.to_string());
        match Note::verdict(note.as_ref(), ordinal, &record_of(record)) {
            NoteVerdict::Good => None,
            NoteVerdict::RecordIsOlder(Term(term)) if is_accepted => {
                tracing::warn!(
                    "of mirror {} of volume {volume}, the restored etcd that was accepted has term {}, and the \
                     slice term {term}: if this node does not become its primary, the writes of the terms \
                     between are lost",
                    key.number,
                    record.term
                );
                None
            }
            NoteVerdict::RecordIsOlder(Term(term)) => Some(format!(
                "etcd has been restored from an older snapshot: of mirror {} of volume {volume}, it has \
                 term {}, and the slice term {term}, whose writes other slices may lack. The slice is \
                 unchanged: restore the newest state of etcd",
                key.number, record.term
            )),
            NoteVerdict::SliceIsOlder => Some(format!(
                "the slice has been restored from an older copy, and lacks later writes to mirror {} of \
                 volume {volume}: put the right device in its place. If another node with a copy in \
                 sync runs, start this one again: it is copied anew then",
                key.number
            )),
        }
    })
}

/// Registers the node in the store. `None` if the store does not answer soon.
fn register_soon(follower: &Follower, spec: &NodeSpec) -> Result<Option<u16>, StartError> {
    if !follower.wait_until_read(REPORT_EVERY) {
        return Ok(None);
    }
    match register(follower, spec, CHANGE_MAX) {
        Err(StartError::Change(ChangeError::Unknown)) => Ok(None),
        registered => registered.map(Some),
    }
}

/// Registers the node in the store, and returns its number.
pub(crate) fn register(
    follower: &Follower,
    spec: &NodeSpec,
    timeout: Duration,
) -> Result<u16, StartError> {
    refuse_copy(follower, spec)?;
    follower.change(Change::RegisterNode(spec.clone()), timeout)?;
    let record = follower.state().nodes().get(&spec.uuid).cloned();
    Ok(record.map(|record| record.ordinal).ok_or(ChangeError::Unknown)?)
}

/// Refuses a node that runs elsewhere already. A process of the node that was killed is no longer alive
/// when its lease is over. It is not waited for if it had the address of this node's pulse: this process
/// listens there, so no other one does.
fn refuse_copy(follower: &Follower, spec: &NodeSpec) -> Result<(), StartError> {
    let state = follower.state();
    let Some(known) = state.nodes().get(&spec.uuid) else { return Ok(()) };
    if known.addresses.get(&Door::Pulse) == spec.addresses.get(&Door::Pulse) {
        return Ok(());
    }
    match follower.wait_until_alone(ALIVE_MAX) {
        true => Ok(()),
        false => Err(StartError::Copied { node: known.name.clone() }),
    }
}

impl Clustered {
    /// Stops following the cluster. The node serves its volumes as before.
    pub(crate) fn stop(self) {
        self.follower.leave(LEAVE_MAX);
        self.receiver.stop(&self.follower);
        if self.joining.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread that joins the cluster has panicked");
        }
    }
}

impl Receiver {
    /// Takes tables, or has the node look again at those that it has. Waits until the node is there. Returns
    /// whether some of it waits for older requests.
    fn take(&self, tables: Option<Tables>) -> bool {
        let mut node = self.node();
        while node.is_none() {
            if self.is_over.load(Ordering::SeqCst) {
                return false;
            }
            node = self.is_there.wait(node).unwrap_or_else(PoisonError::into_inner);
        }
        let served = node.clone();
        drop(node);
        match (served, tables) {
            (Some(node), Some(tables)) => node.follow_cluster(tables),
            (Some(node), None) => node.show_cluster(),
            (None, _) => false,
        }
    }

    /// Keeps what the node has seen of the cluster's store.
    fn keep(&self, record: &SeenRecord) {
        let node = self.node().clone();
        if let Some(Err(error)) = node.map(|node| node.keep_seen(record)) {
            tracing::error!("cannot record what was seen of etcd: {error}");
        }
    }

    /// Tells the HTTP interface that jobs of the cluster have changed.
    fn ring(&self) {
        if let Some(node) = &*self.node() {
            node.ring();
        }
    }

    /// Ends the threads of the follower.
    pub(crate) fn stop(&self, follower: &Follower) {
        {
            // With the lock, so that no wait begins in between.
            let _node = self.node();
            self.is_over.store(true, Ordering::SeqCst);
        }
        self.is_there.notify_all();
        follower.stop();
    }

    fn hand(&self, node: Arc<Node>) {
        *self.node() = Some(node);
        self.is_there.notify_all();
    }

    fn node(&self) -> MutexGuard<'_, Option<Arc<Node>>> {
        self.node.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits until the store has been read. One that has gone back is not read.
fn await_store(follower: &Follower, endpoints: &str) -> Result<(), StartError> {
    let since = Instant::now();
    while !follower.wait_until_read(REPORT_EVERY) {
        if let Some(proof) = follower.rolled_back() {
            return Err(StartError::StoreRolledBack(proof));
        }
        let seconds = since.elapsed().as_secs();
        if since.elapsed() >= FIRST_ANSWER_MAX {
            return Err(StartError::StoreSilent { seconds, endpoints: endpoints.into() });
        }
        tracing::info!("waiting for etcd for {seconds} s: {endpoints}");
    }
    Ok(())
}

/// The addresses at which the other nodes and hosts reach this one. A door that listens on every
/// address is reached at the one that the cluster has for this machine.
fn reachable(
    addresses: &Addresses,
    ip: std::net::IpAddr,
    pulse: SocketAddr,
) -> BTreeMap<Door, Vec<SocketAddr>> {
    let of_hosts = |protocol| {
        let told = addresses.advertised(protocol).into_iter();
        told.map(|(address, _)| specific(address, ip)).collect::<Vec<_>>()
    };
    // The other nodes are direct clients without TLS, and not behind the address translation of hosts.
    let direct = addresses.plain(Protocol::Direct).into_iter().map(|it| specific(it, ip)).collect();
    [
        (Door::NvmeTcp, of_hosts(Protocol::NvmeTcp)),
        (Door::Iscsi, of_hosts(Protocol::Iscsi)),
        (Door::Direct, direct),
        (Door::Pulse, vec![specific(pulse, ip)]),
    ]
    .into()
}

/// The addresses of NVMe/TCP whose connections use TLS.
fn secured(addresses: &Addresses, ip: std::net::IpAddr) -> BTreeMap<SocketAddr, AddressTls> {
    let of = |(address, tls)| {
        let tls = match tls {
            DoorTls::Off => return None,
            DoorTls::Allowed => AddressTls::Allowed,
            DoorTls::Required => AddressTls::Required,
        };
        Some((specific(address, ip), tls))
    };
    addresses.advertised(Protocol::NvmeTcp).into_iter().filter_map(of).collect()
}

fn specific(address: SocketAddr, ip: std::net::IpAddr) -> SocketAddr {
    match address.ip().is_unspecified() {
        true => SocketAddr::new(ip, address.port()),
        false => address,
    }
}

/// Opens the socket for the pulses of other nodes.
fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), StartError> {
    let failed = |source| StartError::PulseSocket { address, source };
    let listener = TcpListener::bind(address).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok((listener, address))
}
