//! What a host session is told, given and answers.

use nearflash_nvme::{CommandId, CompletionEntry, ControllerId, Nqn, QueueId};
use nearflash_request::BufferId;
use uuid::Uuid;

use crate::digest::Digests;
use crate::pdu::DataAlignment;

/// One queue pair that a host wants.
#[derive(Clone, Debug)]
pub struct HostConfig {
    /// The digests to ask for. What the controller does not grant is not used.
    pub digests: Digests,
    /// HPDA: how the controller must align data.
    pub alignment: DataAlignment,
    /// Which queue; 0 is the admin queue.
    pub queue: QueueId,
    /// Entries of the submission queue, 1's based, at least 2. One fewer can be in flight.
    pub sq_entries: u16,
    /// SQHD is kept in every completion. Without it, reads need no response.
    pub flow_control: bool,
    /// The most data in a capsule: 8 KiB on an admin queue; on others what IOCCSZ of the
    /// controller allows, which is `IOCCSZ * 16 - 64`.
    pub in_capsule_len_max: u32,
    /// [`ControllerId::DYNAMIC`] on an admin queue, the number that was returned there on others.
    pub controller: ControllerId,
    /// KATO, for an admin queue; 0 turns the timer off.
    pub keep_alive_ms: u32,
    /// HOSTID: the same for all queues of a host.
    pub host_id: Uuid,
    /// HOSTNQN.
    pub host: Nqn,
    /// SUBNQN.
    pub subsystem: Nqn,
}

/// A command's data.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum HostData {
    /// None.
    #[default]
    None,
    /// Received into a buffer of the caller's.
    ToHost {
        /// Which; it must hold `len` bytes until the command completes.
        buffer: BufferId,
        /// How much.
        len: u32,
    },
    /// Sent from a buffer of the caller's.
    FromHost {
        /// Which; its bytes stay as they are until the command completes.
        buffer: BufferId,
        /// How much.
        len: u32,
    },
    /// Received into [`HostCompletion::data`]: identify structures, log pages.
    SmallToHost {
        /// How much at most.
        len: u32,
    },
    /// Sent from these bytes.
    SmallFromHost(Vec<u8>),
}

/// A command is over.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HostCompletion {
    /// As [`super::HostSession::submit`] returned it.
    pub cid: CommandId,
    /// The controller's answer. A transient transport error also stands for data that was damaged
    /// on its way to the host or did not come.
    pub entry: CompletionEntry,
    /// What came for [`HostData::SmallToHost`]; otherwise empty.
    pub data: Vec<u8>,
}

/// Why a command was not taken.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum SubmitError {
    /// As many commands are in flight as the queue holds: wait for a completion.
    #[error("the submission queue is full")]
    QueueFull,
    /// The queue is not connected yet, or no more.
    #[error("the queue is not connected")]
    NotConnected,
}
