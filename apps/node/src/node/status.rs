//! The state of the node, in the form of documents.

use nearflash_api::{
    COMMIT, ClusterView, CopyInfo, DeviceInfo, EraseBucket, ErasesInfo, FlashInfo, IscsiClash,
    OpenAddress, PcmInfo, Status, VERSION, Verdict, WithdrawalInfo,
};
use nearflash_publish::iscsi_names;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nearflash_cluster::{SliceSpace, slice_spaces};
use nearflash_device::DeviceId;
use nearflash_media::{Device, FlashWear, Kind, ModelConfig, PcmWear, Wear};
use nearflash_mirror::MirrorId;
use nearflash_request::UnlistedHosts;
use nearflash_space::{Name, Space, Volume};
use nearflash_units::{ByteLen, index};
use uuid::Uuid;

use super::Node;
use crate::error::NodeError;
use crate::runtime::CoresStatus;
use nearflash_config::Protocol;

impl Node {
    pub(super) fn status(&self) -> Status {
        // First: a condition on it then covers all that follows.
        let generation = self.served().recorded.generation;
        let cores = self.cores.status();
        let status = Status {
            version: VERSION.to_owned(),
            commit: COMMIT.map(str::to_owned),
            node: self.catalog.node(),
            pid: std::process::id(),
            generation,
            verdict: Verdict::default(),
            uptime_seconds: self.started.elapsed().as_secs(),
            cluster: self.cluster_view(&cores),
            nvme_tcp: self.addresses.of(Protocol::NvmeTcp),
            nvme_tcp_tls: self.addresses.only_tls(Protocol::NvmeTcp),
            direct: self.addresses.of(Protocol::Direct),
            direct_tls: self.addresses.only_tls(Protocol::Direct),
            direct_local: self.addresses.direct_local.clone(),
            iscsi: self.addresses.of(Protocol::Iscsi),
            http: self.addresses.http,
            http_local: self.addresses.http_local.clone(),
            iscsi_clashes: self.iscsi_clashes(),
            open_to_everyone: self.open_to_everyone(),
            closed: self.closed_and_served(),
            files_faults: self.files_faults(),
            devices: self.device_infos(),
            volumes: self.volumes(),
            cores: cores.cores,
            silent_cores: cores.silent,
            hosts: cores.hosts,
            clients: cores.clients,
            initiators: cores.initiators,
            places: cores.places,
            volume_io: self.volume_io(),
            refused_logins: nearflash_journal::refusals::recent(),
            jobs: self.job_list().into_iter().filter(|job| !job.state.is_over()).collect(),
        };
        Status { verdict: Verdict::of(&status), ..status }
    }

    /// The subsystems that are left out of iSCSI, if the node serves it.
    pub(super) fn iscsi_clashes(&self) -> Vec<IscsiClash> {
        if !self.serves_iscsi() {
            return Vec::new();
        }
        let names = self.served().recorded.target_names();
        let clash = |(iqn, served, left_out): (&str, Option<&Name>, &[Name])| IscsiClash {
            iqn: iqn.to_owned(),
            served: served.map(ToString::to_string),
            left_out: left_out.iter().map(ToString::to_string).collect(),
        };
        names.clashes().map(clash).collect()
    }

    /// The same, unless the subsystems after a change are those before.
    pub(super) fn iscsi_clashes_unless_same(&self, after: &Space) -> Option<Vec<IscsiClash>> {
        let is_same = {
            let before = &self.served().recorded.space;
            iscsi_names::subsystems(before).eq(iscsi_names::subsystems(after))
        };
        (!is_same).then(|| self.iscsi_clashes())
    }

    /// The addresses at which everybody who reaches them uses the volumes. Other machines reach them.
    fn open_to_everyone(&self) -> Vec<OpenAddress> {
        let recorded = &self.served().recorded;
        let shows_all = recorded.unlisted() == UnlistedHosts::All;
        let is_open = |(protocol, _): &(Protocol, _)| match protocol {
            Protocol::NvmeTcp => shows_all,
            Protocol::Iscsi => shows_all && !recorded.closes_iscsi(),
            Protocol::Direct => !recorded.closes_direct(),
        };
        let open = self.addresses.for_everyone().filter(is_open);
        let info = |(protocol, address): (Protocol, _)| OpenAddress {
            protocol: protocol.key().to_owned(),
            address,
        };
        open.map(info).collect()
    }

    /// The protocols that nobody can use, because they have no key and are closed to those without.
    pub(super) fn closed(&self) -> Vec<String> {
        let recorded = &self.served().recorded;
        let has_credential = recorded.grants.credentials().len() > 0;
        let has_account = recorded.accounts.iter().len() > 0;
        let closed = [
            (Protocol::Direct, !has_credential && recorded.closes_direct()),
            (Protocol::Iscsi, !has_account && recorded.closes_iscsi()),
        ];
        let closed = closed.into_iter().filter(|(_, is_closed)| *is_closed);
        closed.map(|(protocol, _)| protocol.key().to_owned()).collect()
    }

    /// Those of them that the node serves.
    fn closed_and_served(&self) -> Vec<String> {
        let addresses = &self.addresses;
        let is_served = |protocol: &String| match protocol.as_str() {
            "iscsi" => self.serves_iscsi(),
            _ => addresses.direct_local.is_some() || !addresses.of(Protocol::Direct).is_empty(),
        };
        self.closed().into_iter().filter(is_served).collect()
    }

    /// Why the files of volumes are not served.
    fn files_faults(&self) -> Vec<String> {
        self.files.get().map(|owner| owner.faults()).unwrap_or_default()
    }

    /// Logs which protocols nobody can use.
    pub(crate) fn report_closed(&self) {
        for protocol in self.closed_and_served() {
            tracing::warn!(
                protocol,
                "the last key of the protocol was removed, and nobody can use it: add one, or start the node with \
                 --anonymous {protocol}"
            );
        }
    }

    /// Logs which subsystems are left out of iSCSI.
    pub(crate) fn report_iscsi_clashes(&self) {
        report_clashes(&self.iscsi_clashes());
    }

    fn cluster_view(&self, cores: &CoresStatus) -> Option<ClusterView> {
        let view = self.cluster.get()?.view_of(self.catalog.node());
        let served = self.served();
        let name = |uuid: Uuid| {
            let found = served.recorded.space.volumes().find(|volume| volume.uuid == uuid);
            found.map(|volume| volume.name.to_string())
        };
        let copy = |(mirror, done): &(MirrorId, ByteLen)| {
            let (key, len) = self.board.mirror(*mirror)?;
            let volume = name(key.volume)?;
            let (mirror, done_bytes, bytes) = (key.number, done.0, len.0);
            Some(CopyInfo { volume, mirror, done_bytes, bytes })
        };
        let copies = cores.copies.iter().filter_map(copy).collect();
        drop(served);
        let (withdrawals, hung_cores) = (self.withdrawals(), self.board.hung_cores());
        Some(ClusterView { copies, withdrawals, hung_cores, ..view })
    }

    /// The withdrawals that have waited for older requests for seconds.
    pub(super) fn withdrawals(&self) -> Vec<WithdrawalInfo> {
        let name = {
            let devices = self.devices();
            move |device: DeviceId| Some(devices.get(index(device.0))?.name().to_string())
        };
        self.shared().withdrawals.shown(name)
    }

    /// Clears the suspicion of a device: its flushes and durable writes can succeed again. `None` for an
    /// unknown name.
    pub(super) fn clear_device(&self, name: &str) -> Result<Option<DeviceInfo>, NodeError> {
        let mut devices = self.devices().into_iter();
        let Some(device) = devices.find(|device| device.name().as_str() == name) else {
            return Ok(None);
        };
        let one = self.one_change_of_a_caller()?;
        if device.health().clear() {
            // An unrecorded clearing would be undone by the next start.
            self.record_health(one).inspect_err(|_| device.health().note_failure())?;
            tracing::warn!(device = name, "device cleared: it is back in service");
        }
        Ok(self.device_infos().into_iter().find(|device| device.name == name))
    }

    /// The space of the cluster's slices, if it is known.
    fn slice_spaces(&self) -> BTreeMap<Uuid, SliceSpace> {
        let state = self.cluster.get().map(|cluster| cluster.state());
        state.and_then(|state| slice_spaces(&state).ok()).unwrap_or_default()
    }

    pub(super) fn device_infos(&self) -> Vec<DeviceInfo> {
        let mirrors = self.outfit().mirrors.clone();
        let mirrors: BTreeSet<DeviceId> = mirrors.into_iter().map(|(device, _)| device).collect();
        let (backings, slices) = (self.backings.found(), self.slice_spaces());
        let served = self.served();
        let used = served.recorded.space.volumes().filter(|it| it.home.is_public());
        let used: BTreeSet<DeviceId> = used.flat_map(Volume::devices).collect();
        // A part on another node keeps its number here when its volume has gone.
        let is_there = |(number, (device, _)): &(u32, (&Arc<Device>, _))| {
            !matches!(device.kind(), Kind::Remote) || used.contains(&DeviceId(*number))
        };
        (0u32..)
            .zip(self.devices().iter().zip(served.recorded.space.devices()))
            .filter(is_there)
            .map(|(number, (device, place))| {
                let properties = device.properties();
                let (flash, pcm) = wear(device.kind());
                // A volume of another node may have grown since it was attached.
                let remote = served.recorded.space.volume(device.name());
                let remote = remote.filter(|_| matches!(device.kind(), Kind::Remote));
                // The node's own space has nothing free on a slice, which is the cluster's.
                let own = (place.free.len().0, place.free.free_len().0);
                let slice = slices.get(&device.uuid()).map(|it| (it.data.0, it.free.0));
                let (data_bytes, free_bytes) = slice.unwrap_or(own);
                DeviceInfo {
                    name: device.name().to_string(),
                    kind: match mirrors.contains(&DeviceId(number)) {
                        true => "mirror".to_owned(),
                        false => kind_name(device.kind()).to_owned(),
                    },
                    source: device.source().map(str::to_owned),
                    uuid: device.uuid(),
                    bytes: remote.map_or(properties.len.0, |volume| volume.len().0),
                    data_bytes,
                    free_bytes,
                    block_size: properties.block_size.bytes(),
                    volatile_cache: properties.volatile_cache,
                    suspect: device.health().is_suspect(),
                    truncated: device.is_truncated(),
                    backing: backings.get(&device.uuid()).copied(),
                    flash,
                    pcm,
                }
            })
            .collect()
    }
}

/// Logs which subsystems are left out of iSCSI.
pub(super) fn report_clashes(clashes: &[IscsiClash]) {
    for clash in clashes {
        tracing::warn!("{}", clash.sentence());
    }
}

fn kind_name(kind: &Kind) -> &'static str {
    match kind {
        Kind::Uring(device) if device.is_block() => "block",
        Kind::Uring(_) => "file",
        Kind::Ram(_) => "ram",
        Kind::Null(_) => "null",
        Kind::Model(model) => match model.spec().config {
            ModelConfig::Flash(_) => "flash",
            ModelConfig::Pcm(_) => "pcm",
        },
        Kind::Remote => "remote",
    }
}

/// The wear of a model.
fn wear(kind: &Kind) -> (Option<FlashInfo>, Option<PcmInfo>) {
    let Kind::Model(model) = kind else { return (None, None) };
    match model.wear() {
        Wear::Flash(wear) => (Some(flash_info(wear)), None),
        Wear::Pcm(wear) => (None, Some(pcm_info(wear))),
    }
}

fn flash_info(wear: FlashWear) -> FlashInfo {
    let [min, median, max] = wear.erases;
    let bucket = |(from, to, blocks)| EraseBucket { from, to, blocks };
    let buckets = wear.buckets.into_iter().map(bucket).collect();
    FlashInfo {
        host_bytes: wear.host_bytes,
        host_pages: wear.counts.host_pages,
        moved_pages: wear.counts.moved_pages,
        levelled_pages: wear.counts.levelled_pages,
        write_amplification: wear.write_amplification,
        erases: ErasesInfo { min, median, max, buckets },
        endurance: wear.endurance,
        life_used: wear.life_used,
        retired_blocks: wear.retired_blocks,
        replacement_blocks: wear.replacement_blocks,
        worn_out: wear.is_worn_out,
    }
}

fn pcm_info(wear: PcmWear) -> PcmInfo {
    PcmInfo {
        host_bytes: wear.host_bytes,
        host_lines: wear.host_lines,
        moved_lines: wear.moved_lines,
        line_writes_max: wear.most,
        line_writes_mean: wear.mean,
        endurance: wear.endurance,
        life_used: wear.life_used,
        mean_read_ns: wear.mean_read.0,
        mean_write_ns: wear.mean_write.0,
        worn_out: wear.is_worn_out,
    }
}
