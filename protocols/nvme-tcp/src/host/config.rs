//! The configuration of a host session, the data of its commands, and their completions.

use nearflash_nvme::{CommandId, CompletionEntry, ControllerId, Nqn, QueueId};
use uuid::Uuid;

use crate::digest::Digests;
use crate::pdu::DataAlignment;

/// The parameters of one queue pair.
#[derive(Clone, Debug)]
pub struct HostConfig {
    /// The digests to request. A digest that the controller does not enable is not used.
    pub digests: Digests,
    /// HPDA: the alignment of the data that the controller sends.
    pub alignment: DataAlignment,
    /// The queue's number; 0 is the admin queue.
    pub queue: QueueId,
    /// The number of submission queue entries, 1's based, at least 2. One fewer can be in flight.
    pub sq_entries: u16,
    /// Whether every completion has SQHD. Without it, reads need no response capsule.
    pub flow_control: bool,
    /// The most in-capsule data: 8 KiB on an admin queue, `IOCCSZ * 16 - 64` on an I/O queue.
    pub in_capsule_len_max: u32,
    /// [`ControllerId::DYNAMIC`] on an admin queue, and then the number that it returned.
    pub controller: ControllerId,
    /// KATO, for an admin queue; 0 disables the timer.
    pub keep_alive_ms: u32,
    /// HOSTID: the same for all queues of a host.
    pub host_id: Uuid,
    /// HOSTNQN.
    pub host: Nqn,
    /// SUBNQN.
    pub subsystem: Nqn,
}

/// The completion of a command.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HostCompletion {
    /// The identifier that [`super::HostSession::submit`] returned.
    pub cid: CommandId,
    /// The completion; Transient Transport Error if data to the host was damaged or is missing.
    pub entry: CompletionEntry,
    /// The data received for [`nearflash_session::CommandData::SmallIncoming`]; otherwise empty.
    pub data: Vec<u8>,
}

/// Why a command was not submitted.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum SubmitError {
    /// The queue is full. Wait for a completion.
    #[error("the submission queue is full")]
    QueueFull,
    /// The queue is not connected yet or no longer.
    #[error("the queue is not connected")]
    NotConnected,
}
