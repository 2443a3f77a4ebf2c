//! The commands of initiators that compete for a volume: PERSISTENT RESERVE OUT.
//!
//! Spec: SPC-4, 6.16.

use nearflash_iscsi::initiator::CommandData;
use nearflash_iscsi::initiator::cdb::Cdb;

use crate::initiator::connection::{Connection, Task};
use crate::rivalry::{Move, Rival};

const RESERVE_OUT: u8 = 0x5F;
const REGISTER: u8 = 0x00;
const RESERVE: u8 = 0x01;
const RELEASE: u8 = 0x02;
const CLEAR: u8 = 0x03;
const PREEMPT: u8 = 0x04;
const PREEMPT_AND_ABORT: u8 = 0x05;
const REGISTER_ANYWAY: u8 = 0x06;
/// Length of the parameter list.
const PARAMETERS_LEN: u8 = 24;

/// Submits one such command to a logical unit; there is room.
pub(crate) fn fight(connection: &mut Connection, rival: &Rival, wanted: Move, lun: u16) {
    let own = rival.own;
    let mut persists = false;
    let (action, reservation, key, service_key) = match wanted {
        Move::Register { persist } => {
            persists = persist;
            (REGISTER_ANYWAY, 0, 0, own)
        }
        Move::Unregister => (REGISTER, 0, own, 0),
        Move::Reserve(reservation) => (RESERVE, reservation.to_scsi(), own, 0),
        Move::Release(reservation) => (RELEASE, reservation.to_scsi(), own, 0),
        Move::Clear => (CLEAR, 0, own, 0),
        Move::Preempt { victim, reservation, abort } => {
            let action = if abort { PREEMPT_AND_ABORT } else { PREEMPT };
            (action, reservation.to_scsi(), own, victim)
        }
    };
    let mut cdb: Cdb = [0; 16];
    (cdb[0], cdb[1], cdb[2], cdb[8]) = (RESERVE_OUT, action, reservation, PARAMETERS_LEN);
    let mut parameters = Vec::with_capacity(usize::from(PARAMETERS_LEN));
    parameters.extend_from_slice(&key.to_be_bytes());
    parameters.extend_from_slice(&service_key.to_be_bytes());
    parameters.extend_from_slice(&[0, 0, 0, 0, u8::from(persists), 0, 0, 0]);
    connection.submit(lun, &cdb, CommandData::SmallOutgoing(parameters), Task::Rivalry);
}
