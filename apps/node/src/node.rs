//! A running node, as the control socket drives it. A change has these steps: decide on a copy,
//! zero new blocks, record durably, publish to the cores; then, while other changes proceed, wait
//! until the older requests of the volume have ended, and answer.

mod activity;
mod backing;
mod bell;
pub(crate) mod board;
mod calls;
mod change;
mod cluster;
mod condition;
mod contents;
mod expiry;
mod face;
mod io;
mod jobs;
mod metrics;
pub(crate) mod mirrored;
mod quiesce;
mod quiescing;
mod remotes;
mod service;
mod shared;
mod shared_list;
mod status;
mod trace;
mod usage;
mod users;
mod withdrawn;
mod zeroing;

use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use nearflash_access::UnixTime;
use nearflash_api::{ApiError, OneVolume, VolumeInfo, VolumeResize};
use nearflash_planner::{Lost, Refusal};
use nearflash_publish::{Records, iscsi_names, raised_by};
use nearflash_records::kept::SeenRecord;
use nearflash_space::{Home, Name, Space, Volume, VolumeError, VolumeRequest};
use nearflash_units::ByteLen;
use uuid::Uuid;

use crate::Ticket;
use crate::asker::Asker;
use crate::cluster::Follower;
use crate::doors::Addresses;
use crate::error::NodeError;
use crate::files::FilesOwner;
use crate::health::Health;
use crate::prepare::{Outfit, Prepared};
use crate::recorded::Recorder;
use crate::runtime::Cores;
use crate::volume_info::volume_info;
use nearflash_config::{Protocol, ValueError};

use activity::Watched;
pub(crate) use backing::BackingWatch;
use backing::Backings;
use bell::Bell;
use board::Board;
pub(crate) use calls::fill_random;
pub(crate) use change::Changes;
pub(crate) use expiry::ExpiryWatch;
use jobs::JobDesk;
pub(crate) use jobs::Workers;
pub(crate) use nearflash_cluster_store::now;
use quiescing::{Quiescing, shrunk};
pub(crate) use remotes::RemoteWatch;
pub(crate) use shared::IsOver;
use shared::Shared;
use trace::Tracing;

/// The time after which a call of the control socket looks again whether it may make its change.
const CHANGE_PAUSE: Duration = Duration::from_millis(1);

/// A running node.
pub(crate) struct Node {
    catalog: Recorder,
    devices: Mutex<Outfit>,
    /// The connection to the cluster's store.
    cluster: OnceLock<Arc<Follower>>,
    /// The owner of files, if the node has one.
    files: OnceLock<Arc<FilesOwner>>,
    zeroing: zeroing::Zeroing,
    /// Held while the node serves new tables of the cluster, so that it does so one after the other.
    showing: Mutex<()>,
    /// Only the holder of `showing` changes it. Taken before `devices`.
    shared: Mutex<Shared>,
    /// Serializes the decisions: held until every core has adopted a change, and never while older
    /// requests end.
    changing: Mutex<()>,
    /// Never held during a wait: a device that hangs must not block a status request.
    served: Mutex<Served>,
    jobs: JobDesk,
    watched: Watched,
    tracing: Tracing,
    /// Rings after a change of the served state or of a job.
    bell: Bell,
    /// Signals a change of the served state, or the end of the node.
    changed: Condvar,
    cores: Arc<Cores>,
    /// The mirrors, for the cores.
    board: Arc<Board>,
    /// Sends events to the thread that makes changes.
    asker: Asker,
    quiescing: Quiescing,
    addresses: Addresses,
    /// The volumes of the start line and the configuration file.
    configured: Vec<Name>,
    started: Instant,
    /// The same moment as a time of day.
    ready_at: UnixTime,
    health: Health,
    /// The state of devices that are files.
    backings: Backings,
}

/// The recorded and served state.
struct Served {
    recorded: Records,
    /// The time at which the access of direct clients was last published to the cores.
    shown_at: UnixTime,
    /// The node is stopping: the watch for expiry ends.
    is_ending: bool,
}

impl Node {
    /// A node from its prepared state, and cores that were started with the same state.
    pub(crate) fn new(
        prepared: Prepared,
        shown_at: UnixTime,
        cores: Arc<Cores>,
        asker: Asker,
        addresses: Addresses,
        health: Health,
    ) -> Self {
        let Prepared { catalog, outfit, recorded, configured, .. } = prepared;
        let devices = Mutex::new(outfit);
        let served = Mutex::new(Served { recorded, shown_at, is_ending: false });
        let (changing, changed, started) = (Mutex::default(), Condvar::new(), Instant::now());
        Self {
            catalog,
            devices,
            cluster: OnceLock::new(),
            files: OnceLock::new(),
            zeroing: zeroing::Zeroing::default(),
            showing: Mutex::default(),
            shared: Mutex::default(),
            changing,
            served,
            changed,
            jobs: JobDesk::default(),
            watched: Watched::default(),
            tracing: Tracing::default(),
            bell: Bell::default(),
            board: Arc::new(Board::new(Arc::clone(&cores))),
            cores,
            asker,
            quiescing: Quiescing::default(),
            addresses,
            configured,
            started,
            ready_at: now(),
            health,
            backings: Backings::default(),
        }
    }

    /// Writes the health file of a node that runs or has drained.
    pub(crate) fn save_health(&self, is_running: bool) {
        let space = self.served().recorded.space.clone();
        self.health.save(&space, is_running);
    }

    /// Every volume that is served.
    pub(crate) fn volumes(&self) -> Vec<VolumeInfo> {
        let cluster = self.cluster.get().map(|follower| follower.state());
        let job_of = |volume: &Volume| cluster.as_ref()?.volumes().get(&volume.uuid)?.job;
        let space = &self.served().recorded.space;
        let volumes = space.volumes().filter(|volume| volume.home.is_public());
        let info = |volume: &Volume| {
            let files = self.files.get().and_then(|owner| owner.state_of(volume.id));
            let info = volume_info(volume, space);
            VolumeInfo { files, job: info.job.or_else(|| job_of(volume)), ..info }
        };
        volumes.map(info).collect()
    }

    /// The node owns files.
    pub(crate) fn serve_files(&self, owner: Arc<FilesOwner>) {
        // It starts once.
        let _ = self.files.set(owner);
    }

    fn create(&self, request: &VolumeRequest) -> Result<OneVolume, ApiError> {
        self.prepare_blocks(|space, job| {
            self.check_iscsi_name((&request.name, request.subsystem()), space)?;
            Ok(space.reserve(request, Uuid::new_v4(), job)?.clone())
        })
    }

    /// Whether the node serves iSCSI.
    fn serves_iscsi(&self) -> bool {
        !self.addresses.of(Protocol::Iscsi).is_empty()
    }

    /// Refuses a new volume whose subsystem iSCSI does not tell from another one, where iSCSI is served.
    fn check_iscsi_name(&self, new: (&Name, &Name), space: &Space) -> Result<(), Refusal> {
        match self.serves_iscsi() {
            true => iscsi_names::check_new(new, iscsi_names::subsystems(space)),
            false => Ok(()),
        }
    }

    fn resize(&self, call: &VolumeResize) -> Result<OneVolume, ApiError> {
        let name: Name =
            call.name.parse().map_err(|error| NodeError::from(ValueError::from(error)))?;
        let len = ByteLen(call.bytes);
        if let Some(uuid) = self.cluster_volume(&name) {
            return self.grow_in_cluster(uuid, &name, len);
        }
        let check = |space: &Space| match space.volume(&name) {
            Some(volume) if self.quiescing.is_shrinking(volume.id) => {
                Err(Refusal::Quiescing { name: name.clone() })
            }
            _ => Ok(()),
        };
        let found = self.served().recorded.space.volume(&name).cloned();
        if found.as_ref().is_some_and(|found| len > found.len()) {
            return self.prepare_blocks(|space, job| {
                check(space)?;
                Ok(space.reserve_growth(&name, len, job)?.clone())
            });
        }
        let is_cut = |found: &Volume| found.home == Home::Node && call.shrink && len < found.len();
        let cut = found.filter(is_cut);
        let cut = cut.map(|volume| self.before_cut(volume, call.force)).transpose()?;
        let volume = self.change(|space| {
            check(space)?;
            let volume = space.resize(&name, len, call.shrink)?.clone();
            cut.map_or(Ok(()), |cut| cut.check(&volume, len, call.force))?;
            Ok(volume)
        })?;
        Ok(OneVolume { volume, job: None, note: None })
    }

    fn remove(&self, name: &str, force: bool) -> Result<VolumeInfo, NodeError> {
        let name: Name = name.parse().map_err(ValueError::from)?;
        if let Some(uuid) = self.cluster_volume(&name) {
            return self.remove_from_cluster(uuid, &name, force);
        }
        let found = self.served().recorded.space.volume(&name).cloned();
        let usage = found.as_ref().map(|volume| self.usage(volume, force));
        self.change(|space| {
            let volume = space.remove(&name)?;
            let is_same = found.as_ref().is_some_and(|found| found.uuid == volume.uuid);
            match usage.filter(|_| is_same) {
                Some(usage) => usage.check(&name, Lost::All(volume.len()), force)?,
                // Another call has just replaced the volume.
                None => return Err(VolumeError::NotFound(name.clone()).into()),
            }
            Ok(volume)
        })
        .inspect(|_| found.iter().for_each(|it| shared_list::forget_rights_on(self, it.uuid)))
    }

    /// The advice for the operator after a removal: the next start refuses a start line that has the volume.
    fn note_of_removal(&self, name: &str) -> Option<String> {
        let is_named = self.configured.iter().any(|configured| configured.as_str() == name);
        is_named.then(|| {
            format!(
                "the node was started with --volume {name}: take it out of the start line or the \
                 configuration file, or the next start is refused"
            )
        })
    }

    /// Makes a change on a copy; if that succeeds, records it and publishes it to the cores.
    fn change(
        &self,
        change: impl FnOnce(&mut Space) -> Result<Volume, NodeError>,
    ) -> Result<VolumeInfo, NodeError> {
        self.change_as(self.one_change_of_a_caller()?, change)
    }

    /// The same, with the lock of changes taken.
    fn change_as(
        &self,
        one: MutexGuard<'_, ()>,
        change: impl FnOnce(&mut Space) -> Result<Volume, NodeError>,
    ) -> Result<VolumeInfo, NodeError> {
        let (info, ticket, freed) = self.change_at_once(one, change)?;
        self.wait_for(&ticket)?;
        freed.into_iter().for_each(|number| self.give_back(number));
        Ok(info)
    }

    /// The same, without a wait for the end of older requests. The number is of the space that is free
    /// then.
    fn change_at_once(
        &self,
        one: MutexGuard<'_, ()>,
        change: impl FnOnce(&mut Space) -> Result<Volume, NodeError>,
    ) -> Result<(VolumeInfo, Ticket, Option<u64>), NodeError> {
        let mut fresh = self.copy();
        let volume = change(&mut fresh.space)?;
        fresh.forget_rights_on_gone_volumes();
        self.record(&mut fresh)?;
        let before = self.served().recorded.space.clone();
        let shrunk = shrunk(&before, &fresh.space, &volume);
        fresh.space.withhold(shrunk.as_ref().map_or(&[][..], |shrunk| &shrunk.freed));
        let info = volume_info(&volume, &fresh.space);
        let ticket = self.show(fresh);
        let freed = shrunk.map(|shrunk| self.give_back_after(shrunk, &ticket));
        drop(one);
        Ok((info, ticket, freed))
    }

    /// Makes a change durable. It was decided on a copy of the served state.
    fn record(&self, fresh: &mut Records) -> Result<(), NodeError> {
        fresh.generation = self.catalog.record(&self.served().recorded, fresh)?;
        Ok(())
    }

    /// Records which devices are suspect, so that a restart clears none.
    fn record_health(&self, _one: MutexGuard<'_, ()>) -> Result<(), NodeError> {
        let devices = self.devices();
        let generation = self.catalog.record_health(devices.iter().map(Arc::as_ref))?;
        self.served().recorded.generation = generation;
        self.bell.ring();
        Ok(())
    }

    /// Something that the HTTP interface tells its callers has changed.
    pub(crate) fn ring(&self) {
        self.bell.ring();
    }

    /// The same, where nobody waits for it.
    pub(crate) fn record_suspects(&self) {
        if let Err(error) = self.record_health(self.one_change()) {
            tracing::error!("cannot record a suspect device, so a restart may clear it: {error}");
        }
    }

    /// Keeps what the node has seen of the cluster's store.
    pub(crate) fn keep_seen(&self, record: &SeenRecord) -> Result<(), NodeError> {
        Ok(self.catalog.keep_seen(record)?)
    }

    /// Releases the locks of the devices and records that. No operation is under way any more.
    pub(crate) fn release(&self) {
        self.devices().iter().for_each(|device| device.release());
        self.catalog.devices_released();
    }

    /// Refuses a call of the control socket while a change waits for a core that takes no messages.
    fn check_cores(&self) -> Result<(), Refusal> {
        match self.cores.silent() {
            Some(processor) => Err(Refusal::CoreSilent { processor }),
            None => Ok(()),
        }
    }

    /// Takes the lock that serializes changes, for a call of the control socket: if a change waits
    /// for a core that takes no messages, this call fails instead of waiting behind it.
    fn one_change_of_a_caller(&self) -> Result<MutexGuard<'_, ()>, NodeError> {
        loop {
            self.check_cores()?;
            match self.changing.try_lock() {
                Err(TryLockError::WouldBlock) => std::thread::sleep(CHANGE_PAUSE),
                Ok(one) => return self.check_condition().map(|()| one),
                Err(TryLockError::Poisoned(one)) => {
                    return self.check_condition().map(|()| one.into_inner());
                }
            }
        }
    }

    /// Takes the lock that serializes changes, for one of the few threads that must make theirs.
    fn one_change(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The copy that a change is made on.
    pub(crate) fn copy(&self) -> Records {
        self.served().recorded.clone()
    }

    /// The state that the cores serve, to be changed. The caller holds the lock of changes.
    fn next(&self) -> nearflash_publish::Served {
        (*self.cores.served()).clone()
    }

    /// Publishes everything that these records say. The caller holds the lock of changes.
    fn show(&self, recorded: Records) -> Ticket {
        let raised = raised_by(&self.served().recorded.space, &recorded.space);
        let (mut next, shown_at) = (self.next(), now());
        next.follow(&recorded, shown_at);
        let ticket = self.cores.serve(next, raised, Vec::new());
        self.replace(recorded, shown_at);
        ticket
    }

    /// Replaces the served state by one that the cores have adopted.
    fn replace(&self, recorded: Records, shown_at: UnixTime) {
        let before = self.iscsi_clashes_unless_same(&recorded.space);
        let mut served = self.served();
        *served = Served { recorded, shown_at, is_ending: served.is_ending };
        drop(served);
        self.changed.notify_all();
        self.bell.ring();
        if let Some(before) = before {
            let mut clashes = self.iscsi_clashes();
            clashes.retain(|clash| !before.contains(clash));
            status::report_clashes(&clashes);
        }
    }

    /// Replaces the recorded state, where the access of direct clients is the same.
    fn adopt(&self, recorded: Records) {
        self.served().recorded = recorded;
        self.changed.notify_all();
        self.bell.ring();
    }

    /// A change is made on a copy, so the state is consistent even if a change has panicked.
    fn served(&self) -> MutexGuard<'_, Served> {
        self.served.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
