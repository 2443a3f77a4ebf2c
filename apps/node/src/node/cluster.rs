//! Volumes of the cluster, as the control socket changes them. A change goes through the cluster's
//! store; every node then serves what the store says.
//!
//! Creating, growing and removing a volume makes a job, which some node of the cluster carries on
//! (`core/cluster/src/agent/jobs.rs`). Each node zeroes the places on its own slices (`zeroing.rs`).

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use nearflash_api::{
    ApiError, AwaitedNode, AwaitedReason, ErrorCode, JobInfo, MirrorInfo, OneVolume, ReplicaInfo,
    Subject, VolumeDetail, VolumeInfo, VolumeLayout,
};
use nearflash_planner::{
    AskedMove, Awaited, Change, Lost, Refusal, VolumeSpec, job_of_move, waits_for, whole_blocks,
};
use nearflash_publish::iscsi_names;
use nearflash_records::ClusterState;
use nearflash_records::record::{JobRecord, JobState, ReplicaRecord, VolumeRecord, VolumeState};
use nearflash_records::state::MirrorView;
use nearflash_space::{Home, Name, Space, VolumeError};
use nearflash_units::{Blocks, ByteLen};
use uuid::Uuid;

use super::jobs::ANSWER_PATIENCE;
use super::{Node, Served, condition};
use crate::cluster::Follower;
use crate::error::NodeError;
use crate::volume_info::volume_info;
use nearflash_config::ValueError;

/// The time for a change of the store.
pub(super) const CHANGE_MAX: Duration = Duration::from_secs(20);

/// The time within which this node must serve a new volume.
const OFFER_MAX: Duration = Duration::from_secs(20);

impl Node {
    /// Gives the node its connection to the cluster's store, once.
    pub(crate) fn join(&self, follower: Arc<Follower>) {
        // A second one would be a bug of the caller, and changes nothing.
        let _ = self.cluster.set(follower);
    }

    pub(super) fn cluster(&self) -> Result<&Arc<Follower>, Refusal> {
        self.cluster.get().ok_or(Refusal::OutsideCluster)
    }

    /// The UUID of a volume of the cluster that this node serves or the store has.
    pub(super) fn cluster_volume(&self, name: &Name) -> Option<Uuid> {
        let found = self.served().recorded.space.volume(name).map(|it| (it.home, it.uuid));
        match found {
            Some((Home::Cluster, uuid)) => Some(uuid),
            Some(_) => None,
            None => Some(self.cluster.get()?.state().volume_named(name)?.0),
        }
    }

    pub(super) fn create_in_cluster(&self, spec: VolumeSpec) -> Result<OneVolume, ApiError> {
        condition::check_absent().map_err(NodeError::from)?;
        let follower = self.cluster().map_err(NodeError::from)?;
        if self.served().recorded.space.volume(&spec.name).is_some() {
            return Err(NodeError::from(VolumeError::Exists(spec.name)).into());
        }
        self.check_iscsi_name_in_cluster(&spec, &follower.state()).map_err(NodeError::from)?;
        let (uuid, name, blocks) = (spec.uuid, spec.name.clone(), spec.blocks);
        let before = self.begin_job(Change::CreateVolume(spec))?;
        self.answer_of_job((uuid, &name), blocks, before)
    }

    /// Every node of the cluster serves its volumes, so the iSCSI address of any of them counts.
    fn check_iscsi_name_in_cluster(
        &self,
        spec: &VolumeSpec,
        state: &ClusterState,
    ) -> Result<(), Refusal> {
        let new = (&spec.name, &spec.subsystem);
        if iscsi_names::is_served_in(state) {
            iscsi_names::check_new(new, iscsi_names::subsystems_of_cluster(state))?;
        }
        let space = self.served().recorded.space.clone();
        self.check_iscsi_name(new, &space)
    }

    pub(super) fn grow_in_cluster(
        &self,
        volume: Uuid,
        name: &Name,
        len: ByteLen,
    ) -> Result<OneVolume, ApiError> {
        let (blocks, before) = self.begin_growth(volume, name, len)?;
        self.answer_of_job((volume, name), blocks, before)
    }

    /// Makes a change that may make a job. Returns the number of the last job before it.
    fn begin_job(&self, change: Change) -> Result<u64, NodeError> {
        let follower = self.cluster()?;
        let before = follower.state().last_job();
        follower.change(change, CHANGE_MAX)?;
        Ok(before)
    }

    fn begin_growth(
        &self,
        volume: Uuid,
        name: &Name,
        len: ByteLen,
    ) -> Result<(Blocks, u64), NodeError> {
        condition::check_absent()?;
        let follower = self.cluster()?;
        let blocks = whole_blocks(name, len)?;
        let known = follower.state().volumes().get(&volume).map(VolumeRecord::len);
        let known = known.ok_or_else(|| VolumeError::NotFound(name.clone()))?;
        if len < known {
            return Err(Refusal::ClusterVolumeShrinks { name: name.clone(), from: known }.into());
        }
        let begin = follower.begin();
        Ok((blocks, self.begin_job(Change::GrowVolume { volume, blocks, begin })?))
    }

    pub(super) fn remove_from_cluster(
        &self,
        uuid: Uuid,
        name: &Name,
        force: bool,
    ) -> Result<VolumeInfo, NodeError> {
        condition::check_absent()?;
        let follower = self.cluster()?;
        let served = self.served().recorded.space.volume(name).cloned();
        if let Some(volume) = &served {
            let lost = Lost::All(volume.len());
            self.usage(volume, force).check(name, lost, force)?;
        }
        let state = follower.state();
        let record = state.volumes().get(&uuid);
        let info = match (&served, record) {
            (Some(volume), _) => volume_info(volume, &self.served().recorded.space),
            (None, Some(record)) => unserved_info(uuid, record),
            (None, None) => return Err(VolumeError::NotFound(name.clone()).into()),
        };
        if !force && record.is_some_and(|it| it.state != VolumeState::Removing) {
            self.check_elsewhere(uuid, name, Lost::All(ByteLen(info.bytes)))?;
        }
        let begin = follower.begin();
        follower.change(Change::RemoveVolume { volume: uuid, begin }, CHANGE_MAX)?;
        let job = follower.state().last_job_of(uuid);
        let job = job.and_then(|id| self.await_cluster_job(id, CHANGE_MAX));
        let job = job.filter(|job| !job.state.is_over()).map(|job| job.id);
        Ok(VolumeInfo { job, ..info })
    }

    /// The answer to a change that has made a job: the volume as this node serves it, if the job ends soon.
    /// Otherwise, the job goes on.
    fn answer_of_job(
        &self,
        (uuid, name): (Uuid, &Name),
        blocks: Blocks,
        before: u64,
    ) -> Result<OneVolume, ApiError> {
        let state = self.cluster().map_err(NodeError::from)?.state();
        let current = state.volumes().get(&uuid).and_then(|it| it.job);
        let job = current.or_else(|| state.last_job_of(uuid).filter(|id| *id > before));
        let job = job.and_then(|id| self.await_cluster_job(id, ANSWER_PATIENCE));
        let job = job.filter(|job| job.state != nearflash_api::JobState::Done);
        if let Some(error) = job.as_ref().and_then(|job| job.error.clone()) {
            return Err(error);
        }
        if job.is_none() {
            return Ok(OneVolume {
                volume: self.served_info(uuid, name, blocks)?,
                job,
                note: None,
            });
        }
        let volume = self.show_volume(name.as_str())?.volume;
        Ok(OneVolume { volume, job, note: None })
    }

    /// A volume of the cluster, as soon as this node serves it with that length.
    fn served_info(
        &self,
        uuid: Uuid,
        name: &Name,
        blocks: Blocks,
    ) -> Result<VolumeInfo, NodeError> {
        let find = |space: &Space| {
            let volume = space.volume(name).filter(|it| it.uuid == uuid && it.blocks >= blocks);
            volume.map(|volume| volume_info(volume, space))
        };
        let is_missing = |served: &mut Served| find(&served.recorded.space).is_none();
        let waited = self.changed.wait_timeout_while(self.served(), OFFER_MAX, is_missing);
        let served = waited.unwrap_or_else(PoisonError::into_inner).0;
        find(&served.recorded.space).ok_or_else(|| NodeError::NotServedYet { name: name.clone() })
    }

    /// The jobs of the cluster, or only those that this node carries on.
    pub(super) fn cluster_jobs(&self, carried_here: bool) -> Vec<JobInfo> {
        let Some(follower) = self.cluster.get() else { return Vec::new() };
        let (state, own) = (follower.state(), follower.begin().worker.node);
        let jobs = state.jobs().iter().filter(|(_, job)| !carried_here || job.worker.node == own);
        jobs.map(|(id, job)| self.job_info(&state, *id, job)).collect()
    }

    /// A job of the cluster.
    pub(super) fn cluster_job(&self, id: u64) -> Option<JobInfo> {
        let state = self.cluster.get()?.state();
        Some(self.job_info(&state, id, state.jobs().get(&id)?))
    }

    /// The volumes of the cluster that are being made or removed, so that no node serves them.
    pub(super) fn unserved_volumes(&self) -> Vec<VolumeInfo> {
        let Some(follower) = self.cluster.get() else { return Vec::new() };
        let state = follower.state();
        let unserved = state.volumes().iter().filter(|(_, it)| it.state != VolumeState::Ready);
        unserved.map(|(uuid, record)| unserved_info(*uuid, record)).collect()
    }

    /// A job of the cluster once it has ended and this node serves by it, or after `patience`.
    pub(super) fn await_cluster_job(&self, id: u64, patience: Duration) -> Option<JobInfo> {
        let follower = self.cluster.get()?;
        follower.wait_for(patience, |state| {
            let job = state.jobs().get(&id);
            job.is_none_or(|job| job.state.is_over()).then_some(())
        });
        let state = follower.state();
        let volume =
            state.jobs().get(&id).and_then(|job| state.volumes().get_key_value(&job.volume));
        if let Some((uuid, volume)) = volume.filter(|(_, it)| it.state == VolumeState::Ready) {
            // A node that cannot serve it says so elsewhere.
            let _ = self.served_info(*uuid, &volume.name, Blocks(volume.blocks));
        }
        self.cluster_job(id)
    }

    /// Changes the places of replicas. Returns the number of the job that does.
    pub(super) fn change_places(&self, asked: AskedMove<'_>) -> Result<u64, NodeError> {
        condition::check_absent()?;
        let follower = self.cluster()?;
        let change = asked.change(&follower.state(), follower.begin())?;
        follower.change(change.clone(), CHANGE_MAX)?;
        Ok(job_of_move(&follower.state(), &change).unwrap_or_default())
    }

    /// Has a job of the cluster undone.
    pub(super) fn cancel_cluster_job(&self, id: u64) -> Result<(), NodeError> {
        Ok(self.cluster()?.change(Change::CancelJob { job: id }, CHANGE_MAX)?)
    }

    fn job_info(&self, state: &ClusterState, id: u64, job: &JobRecord) -> JobInfo {
        let shown = match job.state {
            JobState::Running => nearflash_api::JobState::Running,
            JobState::Undoing => nearflash_api::JobState::Undoing,
            JobState::Done => nearflash_api::JobState::Done,
            JobState::Failed => nearflash_api::JobState::Failed,
            JobState::Cancelled => nearflash_api::JobState::Cancelled,
        };
        let of = if job.volume.is_nil() { "node" } else { "volume" };
        let error = job.error.as_ref().map(|error| ApiError {
            subject: Some(Subject::new(of, &job.name)),
            ..ApiError::new(ErrorCode::ClusterRefused, error.clone())
        });
        JobInfo {
            id,
            kind: job.kind.call().to_owned(),
            volume: job.name.to_string(),
            state: shown,
            waits_for: waits_for(state, id).into_iter().map(awaited).collect(),
            done_bytes: state.done_bytes(job, |place| self.zeroing.done(place)),
            total_bytes: job.total_bytes,
            started_at: job.began,
            ended_at: job.ended,
            error,
        }
    }

    /// A volume and its layout.
    pub(super) fn show_volume(&self, name: &str) -> Result<VolumeDetail, NodeError> {
        let name: Name = name.parse().map_err(ValueError::from)?;
        let volume = {
            let space = &self.served().recorded.space;
            let volume = space.volume(&name).filter(|volume| volume.home.is_public());
            volume.map(|volume| (volume_info(volume, space), volume.home))
        };
        let not_found = || NodeError::from(VolumeError::NotFound(name.clone()));
        if let Some((volume, Home::Node | Home::OtherNode)) = volume {
            return Ok(VolumeDetail { volume, layout: None });
        }
        let state = self.cluster.get().ok_or_else(not_found)?.state();
        let (uuid, record) = state.volume_named(&name).ok_or_else(not_found)?;
        let served = |(info, _)| VolumeInfo { job: record.job, ..info };
        let info = volume.map_or_else(|| unserved_info(uuid, record), served);
        let rows = state.rows(uuid, record).map_err(crate::cluster::ChangeError::from)?;
        let lens = rows.iter().flatten().map(|view| view.mirror.len.0);
        let space_bytes = lens.sum::<u64>() * u64::from(record.replicas);
        let job = record.job.and_then(|job| state.jobs().get(&job));
        let left =
            job.map_or(0, |job| state.bytes_to_zero(job, |place| self.zeroing.done(place)).0);
        let zeroed_bytes = space_bytes.saturating_sub(left);
        let row_of = |view: &MirrorView<'_>| view.key.number / record.width.max(1);
        let mirrors = rows.iter().flatten().map(|view| mirror_info(&state, row_of(view), view));
        let layout = VolumeLayout {
            replicas: record.replicas,
            stripe_unit: record.stripe_unit.0,
            width: record.width,
            placement: state.placement_text(record.placement),
            space_bytes,
            zeroed_bytes,
            mirrors: mirrors.collect(),
        };
        Ok(VolumeDetail { volume: info, layout: Some(layout) })
    }
}

/// A volume that this node does not serve, because it is not complete, or because a node is unknown.
fn unserved_info(uuid: Uuid, record: &VolumeRecord) -> VolumeInfo {
    VolumeInfo {
        name: record.name.to_string(),
        nqn: nearflash_publish::subsystem_nqn(&record.subsystem).to_string(),
        nsid: record.nsid,
        uuid,
        bytes: record.len().0,
        block_size: record.block_size,
        device: String::new(),
        provisioning: record.provisioning.to_string(),
        job: record.job,
        state: match record.state {
            VolumeState::Ready => None,
            VolumeState::Making => Some(nearflash_api::VolumeState::Making),
            VolumeState::Removing => Some(nearflash_api::VolumeState::Removing),
        },
        files: None,
    }
}

fn awaited((node, awaited): (Name, Awaited)) -> AwaitedNode {
    let reason = match awaited {
        Awaited::Zeroing => AwaitedReason::Zeroing,
        Awaited::SliceClosed => AwaitedReason::SliceClosed,
        Awaited::Down => AwaitedReason::Down,
    };
    AwaitedNode { node: node.to_string(), reason }
}

fn mirror_info(state: &ClusterState, row: u32, view: &MirrorView<'_>) -> MirrorInfo {
    let replica = |replica: &ReplicaRecord| {
        let slice = state.slices().get(&replica.slice);
        ReplicaInfo {
            node: slice.map(|slice| state.name_of_node(slice.node)).unwrap_or_default(),
            slice: slice.map(|slice| slice.name.to_string()).unwrap_or_default(),
            start: replica.start.0,
            is_primary: view.mirror.primary == replica.ordinal,
            is_in_sync: view.mirror.in_sync.iter().any(|it| it.replica == replica.ordinal),
            is_up: slice.is_some_and(|slice| state.alive().contains_key(&slice.node)),
        }
    };
    MirrorInfo {
        number: view.key.number,
        row,
        bytes: view.mirror.len.0,
        term: view.mirror.term,
        replicas: view.replicas.replicas.iter().map(replica).collect(),
    }
}
