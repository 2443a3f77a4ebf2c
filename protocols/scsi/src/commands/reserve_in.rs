//! PERSISTENT RESERVE IN: registrants and the reservation holder.
//!
//! Spec: SPC-4, 6.15.

use nearflash_request::{ChangeKind, Identity, Registrant, Report, ReservationType};

use super::data_in::{cut, len_u32};
use crate::call::{Call, Command, Needs};
use crate::task::{ChangeTask, ReportReply};
use crate::{Sense, Task, transport_id};

/// A service action, and the part of the report that it returns.
macro_rules! reserve_in {
    ($action:literal, $reply:path) => {
        Command::of_unit(&[0x5E, $action, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0x04], |call| {
            report(call, $reply)
        })
        .with_service_action()
        .within_secs(10)
        .needing(Needs::Reservations)
    };
}

pub(super) const COMMANDS: &[Command] = &[
    reserve_in!(0x00, ReportReply::Keys),
    reserve_in!(0x01, ReportReply::Reservation),
    reserve_in!(0x02, ReportReply::Capabilities),
    reserve_in!(0x03, ReportReply::FullStatus),
];

fn report(call: &Call<'_>, reply: fn(u16) -> ReportReply) -> Result<Task, Sense> {
    let reply = reply(call.cdb.word(7));
    Ok(Task::Change(ChangeTask { kind: ChangeKind::Report, reply }))
}

/// The parameter data for a reply.
pub(crate) fn format(reply: ReportReply, report: &Report) -> Vec<u8> {
    let (data, allocation_len) = match reply {
        ReportReply::Status => return Vec::new(),
        ReportReply::Keys(len) => (keys(report), len),
        ReportReply::Reservation(len) => (reservation(report), len),
        ReportReply::Capabilities(len) => (capabilities(report), len),
        ReportReply::FullStatus(len) => (full_status(report), len),
    };
    cut(data, u32::from(allocation_len))
}

/// PRGENERATION, ADDITIONAL LENGTH, and the body.
fn with_header(report: &Report, body: &[u8]) -> Vec<u8> {
    let mut data = Vec::with_capacity(8 + body.len());
    data.extend(report.generation.to_be_bytes());
    data.extend(len_u32(body.len()));
    data.extend(body);
    data
}

fn keys(report: &Report) -> Vec<u8> {
    let keys = report.registrants.iter().flat_map(|registrant| registrant.key.to_be_bytes());
    with_header(report, &keys.collect::<Vec<_>>())
}

fn reservation(report: &Report) -> Vec<u8> {
    let Some(reservation) = report.reservation else { return with_header(report, &[]) };
    let holder = report.registrants.iter().find(|registrant| registrant.holds);
    let key = match holder {
        Some(holder) if !reservation.is_all_registrants() => holder.key,
        _ => 0,
    };
    let mut body = key.to_be_bytes().to_vec();
    // SCOPE (of the logical unit: 0) and TYPE.
    body.extend([0, 0, 0, 0, 0, reservation.to_scsi(), 0, 0]);
    with_header(report, &body)
}

fn capabilities(report: &Report) -> Vec<u8> {
    /// CRH: RESERVE and RELEASE from a registrant or holder succeed and have no effect. ATP_C:
    /// ALL_TG_PT is supported. PTPL_C: persistence through power loss is supported. SIP_C is 0: see
    /// `reserve_out`.
    const PERSISTS: u8 = 1 << 4 | 1 << 2 | 1 << 0;
    /// TMV: the type mask is valid. ALLOW COMMANDS 0: no information on other commands.
    const TYPES_VALID: u8 = 1 << 7;
    /// PTPL_A: persistence is active.
    const PERSISTS_NOW: u8 = 1 << 0;
    /// WR_EX_AR, EX_AC_RO, WR_EX_RO, EX_AC, WR_EX; in the second byte EX_AC_AR.
    const TYPES: [u8; 2] = [0b1110_1010, 0b0000_0001];
    let now = if report.persists { PERSISTS_NOW } else { 0 };
    vec![0, 8, PERSISTS, TYPES_VALID | now, TYPES[0], TYPES[1], 0, 0]
}

fn full_status(report: &Report) -> Vec<u8> {
    let mut body = Vec::new();
    for registrant in &report.registrants {
        describe(&mut body, registrant, report.reservation);
    }
    with_header(report, &body)
}

/// One full status descriptor.
fn describe(body: &mut Vec<u8>, registrant: &Registrant, reservation: Option<ReservationType>) {
    let held = reservation.filter(|_| registrant.holds);
    let port = match &registrant.identity {
        Identity::Iscsi { portal_group, .. } => *portal_group,
        Identity::Nvme { .. } => 0,
    };
    let name = transport_id::of(&registrant.identity);
    body.extend(registrant.key.to_be_bytes());
    body.extend([0; 4]);
    body.extend([u8::from(held.is_some()), held.map_or(0, ReservationType::to_scsi)]); // R_HOLDER
    body.extend([0; 4]);
    body.extend(port.to_be_bytes());
    body.extend(len_u32(name.len()));
    body.extend(name);
}
