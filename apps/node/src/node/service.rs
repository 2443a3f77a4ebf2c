//! The calls of the control interface, each answered by the node. The table of calls in
//! `nearflash_api` requires an implementation of every call.

use std::time::Duration;

use nearflash_api::{
    Accounts, Activity, ActivityShow, ApiError, ChapAdd, ChapList, ChapRemove, ClusterVolumeCreate,
    CredentialCreate, CredentialList, CredentialRemove, Credentials, DeviceClear, DeviceList,
    Devices, ErrorCode, EventList, Events, GrantAdd, GrantList, GrantRevoke, GrantSeal, Grants,
    HostAdd, HostAllow, HostDeny, HostList, HostRemove, HostRotate, HostUnlist, JobCancel, JobList,
    JobShow, JobWait, Jobs, KeyedHosts, Metrics, MetricsShow, NewCredential, NewSeal, NewToken,
    OneAccount, OneCredential, OneDevice, OneGrant, OneJob, OneKeyedHost, OneReservation, OneToken,
    OneVolume, OneVolumeList, ReservationClear, ReservationList, Reservations, Serve, Status,
    StatusShow, Subject, TokenCreate, TokenList, TokenRemove, Tokens, Trace, TraceRun,
    VolumeCreate, VolumeDetail, VolumeList, VolumeRemove, VolumeResize, VolumeShow, Volumes,
};
use nearflash_space::{Name, VolumeRequest};
use nearflash_units::{BlockSize, ByteLen};

use super::{Node, access};
use crate::NodeError;
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
        Ok(changed("volume created", self.create(&volume_request(call)?)?))
    }
}

impl Serve<ClusterVolumeCreate> for Node {
    fn serve(&self, call: ClusterVolumeCreate) -> Result<OneVolume, ApiError> {
        Ok(changed("volume of the cluster created", self.create_in_cluster(&call)?))
    }
}

impl Serve<VolumeShow> for Node {
    fn serve(&self, call: VolumeShow) -> Result<VolumeDetail, ApiError> {
        Ok(self.show_volume(&call.name)?)
    }
}

impl Serve<VolumeList> for Node {
    fn serve(&self, _: VolumeList) -> Result<Volumes, ApiError> {
        Ok(Volumes { volumes: self.volumes() })
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

impl Serve<CredentialCreate> for Node {
    fn serve(&self, call: CredentialCreate) -> Result<NewCredential, ApiError> {
        Ok(self.credential_create(&call.id, call.expires_at)?)
    }
}

impl Serve<CredentialList> for Node {
    fn serve(&self, _: CredentialList) -> Result<Credentials, ApiError> {
        Ok(self.credential_list())
    }
}

impl Serve<CredentialRemove> for Node {
    fn serve(&self, call: CredentialRemove) -> Result<OneCredential, ApiError> {
        Ok(OneCredential { credential: self.credential_remove(&call.id)? })
    }
}

impl Serve<GrantAdd> for Node {
    fn serve(&self, call: GrantAdd) -> Result<OneGrant, ApiError> {
        let GrantAdd { credential, volume, path, start, end, rights, expires_at } = call;
        let covers = access::covered(path.as_deref(), start, end).map_err(NodeError::from)?;
        let grant = self.grant_add(&credential, &volume, covers, &rights, expires_at)?;
        Ok(OneGrant { grant })
    }
}

impl Serve<GrantSeal> for Node {
    fn serve(&self, call: GrantSeal) -> Result<NewSeal, ApiError> {
        let range = access::range(call.start, call.end).map_err(NodeError::from)?;
        Ok(self.grant_seal(&call.volume, range, &call.rights, call.expires_at)?)
    }
}

impl Serve<GrantList> for Node {
    fn serve(&self, call: GrantList) -> Result<Grants, ApiError> {
        Ok(Grants { grants: self.grant_list(call.credential.as_deref())? })
    }
}

impl Serve<GrantRevoke> for Node {
    fn serve(&self, call: GrantRevoke) -> Result<OneGrant, ApiError> {
        Ok(OneGrant { grant: self.grant_revoke(call.number)? })
    }
}

impl Serve<ChapAdd> for Node {
    fn serve(&self, call: ChapAdd) -> Result<OneAccount, ApiError> {
        Ok(self.chap_add(&call)?)
    }
}

impl Serve<ChapList> for Node {
    fn serve(&self, _: ChapList) -> Result<Accounts, ApiError> {
        Ok(Accounts { accounts: self.chap_list() })
    }
}

impl Serve<ChapRemove> for Node {
    fn serve(&self, call: ChapRemove) -> Result<OneAccount, ApiError> {
        let account = self.chap_remove(&call.user)?;
        Ok(OneAccount { account, secret: None, mutual_secret: None })
    }
}

impl Serve<HostAdd> for Node {
    fn serve(&self, call: HostAdd) -> Result<OneKeyedHost, ApiError> {
        Ok(self.host_add(&call)?)
    }
}

impl Serve<HostRotate> for Node {
    fn serve(&self, call: HostRotate) -> Result<OneKeyedHost, ApiError> {
        Ok(self.host_rotate(&call)?)
    }
}

impl Serve<HostAllow> for Node {
    fn serve(&self, call: HostAllow) -> Result<OneVolumeList, ApiError> {
        Ok(OneVolumeList { list: self.host_allow(&call)? })
    }
}

impl Serve<HostDeny> for Node {
    fn serve(&self, call: HostDeny) -> Result<OneVolumeList, ApiError> {
        Ok(OneVolumeList { list: self.host_deny(&call)? })
    }
}

impl Serve<HostUnlist> for Node {
    fn serve(&self, call: HostUnlist) -> Result<OneVolumeList, ApiError> {
        Ok(OneVolumeList { list: self.host_unlist(&call.host)? })
    }
}

impl Serve<HostList> for Node {
    fn serve(&self, _: HostList) -> Result<KeyedHosts, ApiError> {
        Ok(self.host_list())
    }
}

impl Serve<HostRemove> for Node {
    fn serve(&self, call: HostRemove) -> Result<OneKeyedHost, ApiError> {
        let host = self.host_remove(&call)?;
        Ok(OneKeyedHost { host, key: None, controller_key: None })
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

impl Serve<TokenCreate> for Node {
    fn serve(&self, call: TokenCreate) -> Result<NewToken, ApiError> {
        Ok(self.token_create(&call.name, call.scope, call.expires_at)?)
    }
}

impl Serve<TokenList> for Node {
    fn serve(&self, _: TokenList) -> Result<Tokens, ApiError> {
        Ok(Tokens { tokens: self.token_list() })
    }
}

impl Serve<TokenRemove> for Node {
    fn serve(&self, call: TokenRemove) -> Result<OneToken, ApiError> {
        Ok(OneToken { token: self.token_remove(&call.name)? })
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
        Ok(Events { events: crate::events::after(call.after) })
    }
}

fn volume_request(call: VolumeCreate) -> Result<VolumeRequest, NodeError> {
    let VolumeCreate { name, bytes, device, block_size, subsystem, provisioning } = call;
    let parse = |text: &str| text.parse::<Name>().map_err(ValueError::from);
    let provisioning = provisioning.as_deref().map(str::parse).transpose();
    Ok(VolumeRequest {
        name: parse(&name)?,
        len: ByteLen(bytes),
        device: parse(&device)?,
        block_size: volume_block_size(block_size)?,
        subsystem: subsystem.as_deref().map(parse).transpose()?,
        provisioning: provisioning.map_err(ValueError::from)?.unwrap_or_default(),
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
