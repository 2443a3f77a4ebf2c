//! The part of a start that all cores share.

use std::sync::Arc;

use nearflash_media::Device;
use nearflash_nvme_tcp::serving::SessionConfig;
use nearflash_publish::Served;
use nearflash_reactor::{Courier, Epoch, Ledger, Mailbox, Replies, Tls};
use nearflash_shard::{DirectConfig, Gauges, IscsiConfig};
use nearflash_units::{ByteLen, Nanos};

/// The mailbox of a core.
pub(super) type Post = Box<dyn Mailbox + Send + Sync>;

/// The part of a start that all cores share.
pub(super) struct Common {
    /// The origin of the cores' time.
    pub(super) epoch: Epoch,
    /// The figures of each core.
    pub(super) gauges: Arc<[Arc<Gauges>]>,
    /// The processor of each core.
    pub(super) processors: Vec<usize>,
    pub(super) pool_len: ByteLen,
    pub(super) spin_max: Nanos,
    pub(super) stall_timeout: Nanos,
    pub(super) session: SessionConfig,
    pub(super) devices: Vec<Arc<Device>>,
    /// The state that is served first.
    pub(super) served: Arc<Served>,
    pub(super) courier: Arc<Courier<Post>>,
    pub(super) direct: DirectConfig,
    pub(super) iscsi: IscsiConfig,
    pub(super) replies: Arc<Replies>,
    pub(super) ledger: Arc<Ledger>,
    /// TLS, if a door has it.
    pub(super) tls: Option<Arc<Tls>>,
}
