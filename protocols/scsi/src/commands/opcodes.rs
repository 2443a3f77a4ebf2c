//! REPORT SUPPORTED OPERATION CODES, REPORT SUPPORTED TASK MANAGEMENT FUNCTIONS, REPORT TARGET PORT
//! GROUPS.
//!
//! Spec: SPC-4, 6.35 to 6.37.

use super::data_in::{answer, len_u16, len_u32};
use crate::call::{Call, Command};
use crate::{Sense, Task};

pub(super) const COMMANDS: &[Command] = &[
    Command::of_unit(&[0xA3, 0xEA, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0x04], port_groups)
        .with_service_action(),
    Command::of_unit(
        &[0xA3, 0x0C, 0x87, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0x04],
        operation_codes,
    )
    .with_service_action(),
    Command::of_unit(
        &[0xA3, 0x0D, 0x80, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0x04],
        task_management,
    )
    .with_service_action(),
];

fn all(call: &Call<'_>) -> impl Iterator<Item = &'static Command> {
    call.table.iter().flat_map(|group| group.iter())
}

fn supported(call: &Call<'_>) -> impl Iterator<Item = &'static Command> {
    all(call).filter(|command| command.is_of(call.unit))
}

fn operation_codes(call: &Call<'_>) -> Result<Task, Sense> {
    let cdb = call.cdb;
    let timeouts = cdb.bit(2, 7); // RCTD
    let (opcode, service_action) = (cdb.byte(3), cdb.word(4));
    let named = |command: &&Command| {
        let action = command.service_action().map_or(0, u16::from);
        command.opcode() == opcode && action == service_action
    };
    let mut of_opcode = all(call).filter(|command| command.opcode() == opcode);
    let has_actions = of_opcode.any(|command| command.has_service_action);
    let data = match cdb.byte(2) & 0x7 {
        0b000 => list(call, timeouts),
        0b001 if has_actions => return Err(Sense::cdb_field(2, 2)),
        0b001 => one(supported(call).find(|command| command.opcode() == opcode), timeouts),
        0b010 if !has_actions => return Err(Sense::cdb_field(2, 2)),
        0b010 | 0b011 => one(supported(call).find(named), timeouts),
        _ => return Err(Sense::cdb_field(2, 2)),
    };
    Ok(answer(data, cdb.double(6)))
}

/// All commands, each with its operation code, service action and CDB length.
fn list(call: &Call<'_>, timeouts: bool) -> Vec<u8> {
    /// SERVACTV: the service action is valid.
    const HAS_ACTION: u8 = 1 << 0;
    /// CTDP: a timeouts descriptor follows.
    const HAS_TIMEOUTS: u8 = 1 << 1;
    let mut body = Vec::new();
    for command in supported(call) {
        let action = command.service_action();
        let flags = (u8::from(action.is_some()) * HAS_ACTION) | (u8::from(timeouts) * HAS_TIMEOUTS);
        body.extend([command.opcode(), 0, 0, action.unwrap_or(0), 0, flags]);
        body.extend(len_u16(command.usage.len()));
        if timeouts {
            body.extend(timeouts_of(command));
        }
    }
    let mut data = len_u32(body.len()).to_vec();
    data.extend(body);
    data
}

/// One command with its CDB usage data.
fn one(command: Option<&Command>, timeouts: bool) -> Vec<u8> {
    /// SUPPORT: supported as in the standard, or not supported.
    const AS_STANDARD: u8 = 0b011;
    const NOT_SUPPORTED: u8 = 0b001;
    let Some(command) = command else { return vec![0, NOT_SUPPORTED, 0, 0] };
    let has_timeouts = u8::from(timeouts) << 7; // CTDP
    let mut data = vec![0, has_timeouts | AS_STANDARD];
    data.extend(len_u16(command.usage.len()));
    data.extend(command.usage);
    if timeouts {
        data.extend(timeouts_of(command));
    }
    data
}

/// The timeouts descriptor. The nominal processing timeout is not specified.
fn timeouts_of(command: &Command) -> [u8; 12] {
    let [a, b, c, d] = command.timeout_secs.to_be_bytes();
    [0, 10, 0, 0, 0, 0, 0, 0, a, b, c, d]
}

/// ABORT TASK, ABORT TASK SET, LOGICAL UNIT RESET and TARGET RESET.
fn task_management(call: &Call<'_>) -> Result<Task, Sense> {
    /// ATS, ATSS, LURS and TRS. SPC-4 made TRS obsolete, but iSCSI uses it.
    const FUNCTIONS: u8 = 1 << 7 | 1 << 6 | 1 << 3 | 1 << 1;
    let allocation_len = call.cdb.double(6);
    if allocation_len < 4 {
        return Err(Sense::cdb_field(6, 7));
    }
    let extended = call.cdb.bit(2, 7); // REPD
    let mut data = vec![FUNCTIONS, 0, 0, if extended { 12 } else { 0 }];
    data.resize(if extended { 16 } else { 4 }, 0);
    Ok(answer(data, allocation_len))
}

/// A group with one port for each node that serves the unit, in the active/optimized state.
fn port_groups(call: &Call<'_>) -> Result<Task, Sense> {
    /// AO_SUP: active/optimized is the only supported state.
    const STATES: u8 = 1 << 0;
    let group = |number: u16| {
        let [high, low] = number.to_be_bytes();
        [0, STATES, high, low, 0, 0, 0, 1, 0, 0, high, low]
    };
    let groups: Vec<u8> =
        call.units.portal_groups_of(call.unit).into_iter().flat_map(group).collect();
    // PARAMETER DATA FORMAT shares its byte with the service action.
    let header: &[u8] = match call.cdb.byte(1) >> 5 {
        0 => &[],
        1 => &[1 << 4, 0, 0, 0], // FORMAT TYPE; no transition time
        _ => return Err(Sense::cdb_field(1, 7)),
    };
    let mut data = len_u32(header.len() + groups.len()).to_vec();
    data.extend(header);
    data.extend(groups);
    Ok(answer(data, call.cdb.double(6)))
}
