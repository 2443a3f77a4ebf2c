//! The calls of the control interface that are not about rights, each answered by the node. The table of calls in
//! `nearflash_api` requires an implementation of every call.

use std::time::Duration;

use nearflash_api::{
    Activity, ActivityShow, ApiError, DeviceClear, DeviceList, Devices, ErrorCode, EventList,
    Events, JobCancel, JobList, JobShow, JobWait, Jobs, Metrics, MetricsShow, NodeDrain,
    NodeUndrain, OneDevice, OneJob, OneNode, OneReservation, OneVolume, ReservationClear,
    ReservationList, Reservations, Serve, Status, StatusShow, Subject, Trace, TraceRun,
    VolumeCreate, VolumeDetail, VolumeList, VolumeMove, VolumeRemove, VolumeResize, VolumeShow,
    Volumes,
};
use nearflash_planner::{Asked, AskedMove, Store, store_of};
use nearflash_space::Name;
use nearflash_units::{BlockSize, ByteLen};
use uuid::Uuid;

use super::Node;
use crate::error::NodeError;
use nearflash_config::ValueError;

impl Serve<StatusShow> for Node {
    fn serve(&self, _: StatusShow) -> Result<Status, ApiError> {
        Ok(self.status())
    }
}

impl Serve<ActivityShow> for Node {
    fn serve(&self, call: ActivityShow) -> Result<Activity, ApiError> {
        Ok(self.activity(call.since))
    }
}

impl Serve<TraceRun> for Node {
    fn serve(&self, call: TraceRun) -> Result<Trace, ApiError> {
        self.trace(&call)
    }
}

impl Serve<VolumeCreate> for Node {
    fn serve(&self, call: VolumeCreate) -> Result<OneVolume, ApiError> {
        let cluster = self.cluster.get().map(|follower| (follower.state(), follower.begin()));
        let cluster = cluster.as_ref().map(|(state, begin)| (&**state, *begin));
        let store = store_of(asked(&call)?, &self.served().recorded.space, cluster);
        let made = match store.map_err(NodeError::from)? {
            Store::Node(request) => self.create(&request)?,
            Store::Cluster { spec, note } => {
                OneVolume { note: note.map(str::to_owned), ..self.create_in_cluster(spec)? }
            }
        };
        Ok(changed("volume created", made))
    }
}

impl Serve<VolumeShow> for Node {
    fn serve(&self, call: VolumeShow) -> Result<VolumeDetail, ApiError> {
        Ok(self.show_volume(&call.name)?)
    }
}

impl Serve<VolumeList> for Node {
    fn serve(&self, _: VolumeList) -> Result<Volumes, ApiError> {
        let mut volumes = self.volumes();
        volumes.extend(self.unserved_volumes());
        Ok(Volumes { volumes })
    }
}

impl Serve<VolumeResize> for Node {
    fn serve(&self, call: VolumeResize) -> Result<OneVolume, ApiError> {
        Ok(changed("volume resized", self.resize(&call)?))
    }
}

impl Serve<VolumeRemove> for Node {
    fn serve(&self, call: VolumeRemove) -> Result<OneVolume, ApiError> {
        let volume = self.remove(&call.name, call.force)?;
        let note = self.note_of_removal(&call.name);
        Ok(changed("volume removed", OneVolume { volume, job: None, note }))
    }
}

impl Serve<VolumeMove> for Node {
    fn serve(&self, call: VolumeMove) -> Result<OneJob, ApiError> {
        let VolumeMove { name, node, to } = &call;
        let asked = AskedMove::Volume { name, from: node, to: to.as_deref() };
        self.job_of_move(asked)
    }
}

impl Serve<NodeDrain> for Node {
    fn serve(&self, call: NodeDrain) -> Result<OneJob, ApiError> {
        self.job_of_move(AskedMove::Drain(&call.node))
    }
}

impl Serve<NodeUndrain> for Node {
    fn serve(&self, call: NodeUndrain) -> Result<OneNode, ApiError> {
        self.change_places(AskedMove::Undrain(&call.node))?;
        Ok(OneNode { node: call.node })
    }
}

impl Serve<ReservationList> for Node {
    fn serve(&self, call: ReservationList) -> Result<Reservations, ApiError> {
        Ok(Reservations { reservations: self.reservation_list(call.volume.as_deref())? })
    }
}

impl Serve<ReservationClear> for Node {
    fn serve(&self, call: ReservationClear) -> Result<OneReservation, ApiError> {
        Ok(OneReservation { reservation: self.reservation_clear(&call.volume)? })
    }
}

impl Serve<DeviceList> for Node {
    fn serve(&self, _: DeviceList) -> Result<Devices, ApiError> {
        Ok(Devices { devices: self.device_infos() })
    }
}

impl Serve<DeviceClear> for Node {
    fn serve(&self, DeviceClear { name }: DeviceClear) -> Result<OneDevice, ApiError> {
        let device = self.clear_device(&name)?.ok_or_else(|| ApiError {
            subject: Some(Subject::new("device", &name)),
            ..ApiError::new(
                ErrorCode::DeviceNotFound,
                format!("no device '{name}': 'nearflash device list' lists them"),
            )
        })?;
        Ok(OneDevice { device })
    }
}

impl Serve<JobList> for Node {
    fn serve(&self, _: JobList) -> Result<Jobs, ApiError> {
        Ok(Jobs { jobs: self.job_list() })
    }
}

impl Serve<JobShow> for Node {
    fn serve(&self, call: JobShow) -> Result<OneJob, ApiError> {
        Ok(OneJob { job: self.job_show(call.id)? })
    }
}

impl Serve<JobCancel> for Node {
    fn serve(&self, call: JobCancel) -> Result<OneJob, ApiError> {
        Ok(OneJob { job: self.job_cancel(call.id)? })
    }
}

impl Serve<JobWait> for Node {
    fn serve(&self, call: JobWait) -> Result<OneJob, ApiError> {
        Ok(OneJob { job: self.job_wait(call.id, Duration::from_secs(call.seconds))? })
    }
}

impl Serve<MetricsShow> for Node {
    fn serve(&self, _: MetricsShow) -> Result<Metrics, ApiError> {
        Ok(Metrics { text: self.metrics() })
    }
}

impl Serve<EventList> for Node {
    fn serve(&self, call: EventList) -> Result<Events, ApiError> {
        Ok(Events { events: nearflash_journal::events::after(call.after) })
    }
}

fn asked(call: &VolumeCreate) -> Result<Asked<'_>, NodeError> {
    let name = |text: &str| text.parse::<Name>().map_err(ValueError::from);
    let provisioning = call.provisioning.as_deref().map(str::parse).transpose();
    Ok(Asked {
        uuid: Uuid::new_v4(),
        name: name(&call.name)?,
        len: ByteLen(call.bytes),
        device: call.device.as_deref().map(name).transpose()?,
        block_size: volume_block_size(call.block_size)?,
        subsystem: call.subsystem.as_deref().map(name).transpose()?,
        provisioning: provisioning.map_err(ValueError::from)?.unwrap_or_default(),
        replicas: call.replicas,
        stripe_unit: call.stripe_unit.map(ByteLen),
        width: call.width,
        placement: call.placement.as_deref(),
    })
}

fn volume_block_size(bytes: Option<u32>) -> Result<Option<BlockSize>, ValueError> {
    bytes.map(|bytes| nearflash_config::parse_block_size(&bytes.to_string())).transpose()
}

/// Logs a change, or the job that completes it.
fn changed(change: &str, done: OneVolume) -> OneVolume {
    let OneVolume { volume, job, .. } = &done;
    match job {
        None => tracing::debug!(volume = volume.name, bytes = volume.bytes, "{change}"),
        Some(job) => tracing::debug!(volume = volume.name, "job {} prepares it", job.id),
    }
    done
}
