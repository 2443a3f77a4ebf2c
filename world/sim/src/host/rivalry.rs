//! The commands of hosts that compete for a volume: Reservation Register, Acquire and Release.
//!
//! Spec: NVMe Base 2.0, 7 and 8.19.

use nearflash_nvme::{Command, IoOpcode, NamespaceId};
use nearflash_nvme_tcp::host::CommandData;

use crate::host::pending::Pending;
use crate::host::queue::Queue;
use crate::rivalry::{Move, Rival};

/// RREGA, RACQA and RRELA.
const UNREGISTER: u32 = 1;
const REPLACE: u32 = 2;
const ACQUIRE: u32 = 0;
const PREEMPT: u32 = 1;
const PREEMPT_AND_ABORT: u32 = 2;
const CLEAR: u32 = 1;
/// IEKEY.
const IGNORE_KEY: u32 = 1 << 3;
/// CPTPL: whether the registration persists through a loss of power.
const FORGET: u32 = 2 << 30;
const PERSIST: u32 = 3 << 30;

/// Submits one such command; the queue has room.
pub(crate) fn fight(queue: &mut Queue, rival: &Rival, wanted: Move, nsid: NamespaceId) {
    let own = rival.own;
    let code =
        |reservation: nearflash_request::ReservationType| u32::from(reservation.to_nvme()) << 8;
    let (opcode, dword, keys) = match wanted {
        Move::Register { persist } => {
            let lasts = if persist { PERSIST } else { FORGET };
            (IoOpcode::RESERVATION_REGISTER, REPLACE | IGNORE_KEY | lasts, vec![0, own])
        }
        Move::Unregister => (IoOpcode::RESERVATION_REGISTER, UNREGISTER, vec![own, 0]),
        Move::Reserve(reservation) => {
            (IoOpcode::RESERVATION_ACQUIRE, ACQUIRE | code(reservation), vec![own, 0])
        }
        Move::Release(reservation) => (IoOpcode::RESERVATION_RELEASE, code(reservation), vec![own]),
        Move::Clear => (IoOpcode::RESERVATION_RELEASE, CLEAR, vec![own]),
        Move::Preempt { victim, reservation, abort } => {
            let action = if abort { PREEMPT_AND_ABORT } else { PREEMPT };
            (IoOpcode::RESERVATION_ACQUIRE, action | code(reservation), vec![own, victim])
        }
    };
    let bytes: Vec<u8> = keys.into_iter().flat_map(u64::to_le_bytes).collect();
    let len = u32::try_from(bytes.len()).expect("two keys");
    let command = Command::reservation(opcode, nsid, dword, len);
    queue.submit(&command, CommandData::SmallOutgoing(bytes), Pending::Rivalry);
}
