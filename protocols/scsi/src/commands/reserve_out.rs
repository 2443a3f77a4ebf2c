//! PERSISTENT RESERVE OUT, and RESERVE and RELEASE of SPC-2.
//!
//! Spec: SPC-4, 6.16; SPC-2, 7.16 to 7.21. A registration applies to the sender and the target's
//! only port, so ALL_TG_PT makes no difference. Registering others (SPEC_I_PT) and REGISTER AND
//! MOVE are not supported, as REPORT CAPABILITIES reports.

use nearflash_request::{ChangeKind, Expected, ReservationType};
use nearflash_units::ByteLen;

use crate::call::{Call, Command, Needs, Take};
use crate::task::{ChangeTask, ReportReply};
use crate::{Cdb, Sense, Task, limits};

/// CDB usage data of a service action.
macro_rules! usage {
    ($action:literal, $scope_and_type:literal) => {
        &[0x5F, $action, $scope_and_type, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0x04]
    };
}

pub(super) const COMMANDS: &[Command] = &[
    legacy(Command::of_unit(&[0x16, 0x11, 0, 0, 0, 0x04], reserve_legacy)),
    legacy(Command::of_unit(&[0x17, 0x11, 0, 0, 0, 0x04], release_legacy)),
    legacy(Command::of_unit(&[0x56, 0x11, 0, 0, 0, 0, 0, 0, 0, 0x04], reserve_legacy)),
    legacy(Command::of_unit(&[0x57, 0x11, 0, 0, 0, 0, 0, 0, 0, 0x04], release_legacy)),
    reserve_out(usage!(0x00, 0), register),
    reserve_out(usage!(0x01, 0xFF), reserve),
    reserve_out(usage!(0x02, 0xFF), release),
    reserve_out(usage!(0x03, 0), clear),
    reserve_out(usage!(0x04, 0xFF), |call, bytes| preempt(call, bytes, false)),
    reserve_out(usage!(0x05, 0xFF), |call, bytes| preempt(call, bytes, true)),
    reserve_out(usage!(0x06, 0), register_anyway),
];

const fn legacy(command: Command) -> Command {
    command.within_secs(10).needing(Needs::Reservations)
}

const fn reserve_out(usage: &'static [u8], take: Take) -> Command {
    Command::of_unit(usage, parameter_list)
        .with_service_action()
        .with_parameters(take)
        .within_secs(10)
        .needing(Needs::Reservations)
}

fn change(kind: ChangeKind) -> Task {
    Task::Change(ChangeTask { kind, reply: ReportReply::Status })
}

fn reserve_legacy(call: &Call<'_>) -> Result<Task, Sense> {
    check_whole_unit(call.cdb)?;
    Ok(change(ChangeKind::LegacyReserve))
}

fn release_legacy(call: &Call<'_>) -> Result<Task, Sense> {
    check_whole_unit(call.cdb)?;
    Ok(change(ChangeKind::LegacyRelease))
}

/// Third-party (3RDPTY) and extent (EXTENT) reservations are obsolete and refused.
fn check_whole_unit(cdb: &Cdb) -> Result<(), Sense> {
    match (cdb.bit(1, 4), cdb.bit(1, 0)) {
        (true, _) => Err(Sense::cdb_field(1, 4)),
        (_, true) => Err(Sense::cdb_field(1, 0)),
        _ => Ok(()),
    }
}

/// Length of a parameter list without TransportIDs of other initiators.
const LIST_LEN: usize = 24;

fn parameter_list(call: &Call<'_>) -> Result<Task, Sense> {
    if matches!(call.cdb.service_action(), 0x01 | 0x02 | 0x04 | 0x05) {
        reservation_type(call.cdb)?;
    }
    let len = ByteLen(u64::from(call.cdb.double(5)));
    let fits = len.0 >= 24 && len <= limits::PARAMETERS_LEN_MAX;
    if fits { Ok(Task::Parameters(len)) } else { Err(Sense::PARAMETER_LIST_LENGTH) }
}

/// SCOPE must be the logical unit (0), and TYPE must not be obsolete.
fn reservation_type(cdb: &Cdb) -> Result<ReservationType, Sense> {
    if cdb.byte(2) >> 4 != 0 {
        return Err(Sense::cdb_field(2, 7));
    }
    ReservationType::from_scsi(cdb.byte(2) & 0xF).ok_or(Sense::cdb_field(2, 3))
}

struct List {
    /// RESERVATION KEY: the sender's key.
    key: u64,
    /// SERVICE ACTION RESERVATION KEY: the new key, or the key to preempt.
    action_key: u64,
    /// APTPL: registrations and reservation persist through power loss.
    persists: bool,
}

fn list(bytes: &[u8]) -> Result<List, Sense> {
    let (list, others) =
        bytes.split_first_chunk::<LIST_LEN>().ok_or(Sense::PARAMETER_LIST_LENGTH)?;
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, _, _, _, _, flags, ..] = *list;
    if flags & 1 << 3 != 0 {
        return Err(Sense::parameter_field(20, 3)); // SPEC_I_PT
    }
    if !others.is_empty() {
        return Err(Sense::PARAMETER_LIST_LENGTH);
    }
    Ok(List {
        key: u64::from_be_bytes([a, b, c, d, e, f, g, h]),
        action_key: u64::from_be_bytes([i, j, k, l, m, n, o, p]),
        persists: flags & 1 != 0,
    })
}

fn register(_: &Call<'_>, bytes: &[u8]) -> Result<Task, Sense> {
    let list = list(bytes)?;
    let expected = if list.key == 0 { Expected::Nothing } else { Expected::Key(list.key) };
    Ok(change(registration(expected, &list)))
}

fn register_anyway(_: &Call<'_>, bytes: &[u8]) -> Result<Task, Sense> {
    Ok(change(registration(Expected::Anything, &list(bytes)?)))
}

const fn registration(expected: Expected, list: &List) -> ChangeKind {
    ChangeKind::Register { expected, new: list.action_key, persist: Some(list.persists) }
}

fn reserve(call: &Call<'_>, bytes: &[u8]) -> Result<Task, Sense> {
    let (key, reservation) = (list(bytes)?.key, reservation_type(call.cdb)?);
    Ok(change(ChangeKind::Reserve { key, reservation }))
}

fn release(call: &Call<'_>, bytes: &[u8]) -> Result<Task, Sense> {
    let (key, reservation) = (list(bytes)?.key, reservation_type(call.cdb)?);
    Ok(change(ChangeKind::Release { key, reservation }))
}

fn clear(_: &Call<'_>, bytes: &[u8]) -> Result<Task, Sense> {
    Ok(change(ChangeKind::Clear { key: list(bytes)?.key }))
}

fn preempt(call: &Call<'_>, bytes: &[u8], abort: bool) -> Result<Task, Sense> {
    let List { key, action_key: victim, .. } = list(bytes)?;
    let reservation = reservation_type(call.cdb)?;
    Ok(change(ChangeKind::Preempt { key, victim, reservation, abort }))
}
