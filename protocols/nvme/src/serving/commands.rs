//! The table of admin commands, and the handlers that have no module of their own.
//!
//! Spec: NVMe Base 2.0, 5. Each command is a row in [`COMMANDS`].

use super::admin::{Admin, Answer, EVENT_REQUESTS_MAX, Reply};
use super::state::ControllerKind;
use super::{Action, features, identify, logs, properties};
use crate::{AdminOpcode, Command, CommandId, CompletionEntry, FabricsType, QueueId, Status};

type Handler = fn(&mut Admin<'_>) -> Result<Reply, Status>;

/// An admin command: its opcode, whether discovery controllers support it, its handler.
struct Row(AdminOpcode, bool, Handler);

const COMMANDS: [Row; 7] = [
    Row(AdminOpcode::GET_LOG_PAGE, true, |admin| logs::get_log_page(admin).map(Reply::Now)),
    Row(AdminOpcode::IDENTIFY, true, |admin| identify::identify(admin).map(Reply::Now)),
    Row(AdminOpcode::ABORT, false, abort),
    Row(AdminOpcode::SET_FEATURES, true, features::set_features),
    Row(AdminOpcode::GET_FEATURES, true, features::get_features),
    Row(AdminOpcode::ASYNC_EVENT_REQUEST, true, async_event_request),
    Row(AdminOpcode::KEEP_ALIVE, true, keep_alive),
];

const FABRICS_COMMANDS: [(FabricsType, Handler); 4] = [
    (FabricsType::PROPERTY_SET, |admin| properties::set(admin).map(Reply::Now)),
    (FabricsType::PROPERTY_GET, |admin| properties::get(admin).map(Reply::Now)),
    // The queue is already connected.
    (FabricsType::CONNECT, |_| Err(Status::COMMAND_SEQUENCE_ERROR.dnr())),
    // Disconnect only deletes I/O queues.
    (FabricsType::DISCONNECT, |_| Err(Status::DISCONNECT_INVALID_QUEUE_TYPE.dnr())),
];

pub(super) fn supported_opcodes(kind: ControllerKind) -> Vec<AdminOpcode> {
    let known = COMMANDS.iter().filter(|row| row.1 || kind == ControllerKind::Io);
    known.map(|row| row.0).collect()
}

pub(super) fn dispatch(admin: &mut Admin<'_>) -> Result<Reply, Status> {
    let handler = find_handler(admin.command, admin.controller.kind)?;
    if !admin.command.uses_sgl() {
        return Err(Status::INVALID_FIELD.dnr());
    }
    if !admin.command.is_fabrics() && !admin.controller.status.is_ready() {
        return Err(Status::COMMAND_SEQUENCE_ERROR.dnr());
    }
    handler(admin)
}

fn find_handler(command: &Command, kind: ControllerKind) -> Result<Handler, Status> {
    let found = if command.is_fabrics() {
        let row = FABRICS_COMMANDS.iter().find(|(known, _)| *known == command.fabrics_type());
        row.map(|(_, handler)| *handler)
    } else {
        let row = COMMANDS.iter().find(|row| row.0.0 == command.opcode);
        row.filter(|row| row.1 || kind == ControllerKind::Io).map(|row| row.2)
    };
    found.ok_or(Status::INVALID_OPCODE.dnr())
}

/// NVMe Base 2.0, 5.1. I/O commands are not aborted, since they complete soon.
fn abort(admin: &mut Admin<'_>) -> Result<Reply, Status> {
    const NOT_ABORTED: u32 = 1;
    let [queue_low, queue_high, command_low, command_high] =
        admin.command.cdw10.get().to_le_bytes();
    let queue = QueueId(u16::from_le_bytes([queue_low, queue_high]));
    let aborted = CommandId(u16::from_le_bytes([command_low, command_high]));
    let waiting = &mut admin.controller.event_requests;
    let place = waiting.iter().position(|waiting| *waiting == aborted);
    let Some(place) = place.filter(|_| queue.is_admin()) else {
        return Ok(Reply::Now(Answer::result(NOT_ABORTED)));
    };
    waiting.remove(place);
    let completion = CompletionEntry::new(aborted, Status::ABORT_REQUESTED);
    admin.actions.push_back(Action::respond(admin.controller.id, completion));
    Ok(Reply::Now(Answer::result(0)))
}

/// NVMe Base 2.0, 5.2.
fn async_event_request(admin: &mut Admin<'_>) -> Result<Reply, Status> {
    let waiting = &mut admin.controller.event_requests;
    if waiting.len() >= usize::from(EVENT_REQUESTS_MAX) {
        return Err(Status::ASYNC_EVENT_LIMIT_EXCEEDED.dnr());
    }
    waiting.push_back(admin.command.command_id());
    Ok(Reply::Later)
}

/// NVMe Base 2.0, 5.18. Every command restarts the keep-alive timer, so there is nothing to do.
fn keep_alive(_: &mut Admin<'_>) -> Result<Reply, Status> {
    Ok(Reply::Now(Answer::default()))
}
