//! The part of a start that all cores share.

use std::sync::Arc;

use nearflash_media::Device;
use nearflash_nvme_tcp::serving::SessionConfig;
use nearflash_publish::Served;
use nearflash_reactor::{Courier, Epoch, Sender, Tls};
use nearflash_shard::{DirectConfig, Gauges, IscsiConfig, Message};
use nearflash_units::{ByteLen, Nanos};

use super::replies::Replies;
use crate::Ledger;
use crate::runtime_face::{Asker, OnAuthentication, OnFiles, OnMirrors};

/// The part of a start that all cores share.
pub(super) struct Common {
    pub(super) epoch: Epoch,
    pub(super) gauges: Arc<[Arc<Gauges>]>,
    pub(super) core_count: u16,
    pub(super) pool_len: ByteLen,
    pub(super) spin_max: Nanos,
    pub(super) stall_timeout: Nanos,
    pub(super) session: SessionConfig,
    pub(super) devices: Vec<Arc<Device>>,
    pub(super) served: Arc<Served>,
    pub(super) courier: Arc<Courier<Sender<Message>>>,
    pub(super) direct: DirectConfig,
    pub(super) iscsi: IscsiConfig,
    pub(super) replies: Arc<Replies>,
    pub(super) changes: Asker,
    pub(super) ledger: Arc<Ledger>,
    pub(super) on_mirrors: OnMirrors,
    pub(super) on_files: OnFiles,
    pub(super) on_authentication: OnAuthentication,
    /// TLS, if a door has it.
    pub(super) tls: Option<Arc<Tls>>,
}
