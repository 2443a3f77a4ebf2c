//! The commands: one table of small handlers, each with the map of the bits of its CDB that it looks
//! at. REPORT SUPPORTED OPERATION CODES tells what stands here.

mod blocks;
mod copy;
mod data_in;
mod defects;
mod inquiry;
pub(crate) mod lba_status;
mod luns;
mod mode;
mod names;
mod opcodes;
mod read_write;
pub(crate) mod reserve_in;
mod reserve_out;
mod unit;
mod unmap;
mod verify;
mod vpd;
mod write_same;

use nearflash_request::Access;

use crate::call::{Asked, Call};
use crate::task::{Action, NO_BLOCKS, RequestTask};
use crate::{Cdb, LogicalUnit, Sense, Task};

/// One command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Command {
    /// CDB usage data: the operation code, the service action in its place, and a 1 for every other
    /// bit that is looked at. As long as the CDB.
    pub(crate) usage: &'static [u8],
    /// Whether the operation code means several commands, told apart by their service action.
    pub(crate) has_service_action: bool,
    /// What it is turned into.
    pub(crate) act: Act,
    /// The same when its parameters have come.
    pub(crate) parameters: Option<Take>,
    /// What reservations have to let pass for it, if no engine request or change says it.
    pub(crate) admit: Option<Access>,
    /// How long it should take at most, in seconds; zero for what is done at once.
    pub(crate) timeout_secs: u32,
    /// Which units have it.
    pub(crate) only: Only,
}

/// Which units have a command.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Only {
    /// All.
    All,
    /// Those that blocks can be unmapped of.
    Unmapping,
}

/// A handler.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    /// Also answers where there is no unit, and with an attention pending.
    Always(fn(&Asked<'_>) -> Result<Task, Sense>),
    /// Of one unit.
    OfUnit(fn(&Call<'_>) -> Result<Task, Sense>),
}

/// A handler of parameters.
pub(crate) type Take = fn(&Call<'_>, &[u8]) -> Result<Task, Sense>;

impl Command {
    const fn always(usage: &'static [u8], act: fn(&Asked<'_>) -> Result<Task, Sense>) -> Self {
        Self {
            usage,
            has_service_action: false,
            act: Act::Always(act),
            parameters: None,
            admit: None,
            timeout_secs: 0,
            only: Only::All,
        }
    }

    const fn of_unit(usage: &'static [u8], act: fn(&Call<'_>) -> Result<Task, Sense>) -> Self {
        Self {
            usage,
            has_service_action: false,
            act: Act::OfUnit(act),
            parameters: None,
            admit: None,
            timeout_secs: 0,
            only: Only::All,
        }
    }

    const fn with_service_action(self) -> Self {
        Self { has_service_action: true, ..self }
    }

    const fn with_parameters(self, parameters: Take) -> Self {
        Self { parameters: Some(parameters), ..self }
    }

    const fn admitted_for(self, access: Access) -> Self {
        Self { admit: Some(access), ..self }
    }

    const fn within_secs(self, timeout_secs: u32) -> Self {
        Self { timeout_secs, ..self }
    }

    const fn only(self, only: Only) -> Self {
        Self { only, ..self }
    }

    /// Whether a unit has it.
    pub(crate) const fn is_of(&self, unit: &LogicalUnit) -> bool {
        unit.unmaps() || matches!(self.only, Only::All)
    }

    /// OPERATION CODE.
    pub(crate) const fn opcode(&self) -> u8 {
        self.usage[0]
    }

    /// SERVICE ACTION.
    pub(crate) const fn service_action(&self) -> Option<u8> {
        if self.has_service_action { Some(self.usage[1] & 0x1F) } else { None }
    }
}

/// All commands, in the order of their codes within each group.
pub(crate) fn all() -> impl Iterator<Item = &'static Command> {
    GROUPS.iter().flat_map(|group| group.iter())
}

const GROUPS: [&[Command]; 13] = [
    read_write::COMMANDS,
    verify::COMMANDS,
    write_same::COMMANDS,
    unmap::COMMANDS,
    unit::COMMANDS,
    inquiry::COMMANDS,
    luns::COMMANDS,
    mode::COMMANDS,
    opcodes::COMMANDS,
    defects::COMMANDS,
    copy::COMMANDS,
    reserve_in::COMMANDS,
    reserve_out::COMMANDS,
];

/// Where the first command of each operation code stands: group and place in it. Reads and writes
/// find theirs with one look.
const FIRST: [Option<(usize, usize)>; 256] = {
    let mut first = [None; 256];
    let mut group = 0;
    while group < GROUPS.len() {
        let mut place = 0;
        while place < GROUPS[group].len() {
            let opcode = GROUPS[group][place].opcode();
            // Not `usize::from`, which is not const.
            let index = opcode as usize;
            if first[index].is_none() {
                first[index] = Some((group, place));
            }
            place += 1;
        }
        group += 1;
    }
    first
};

/// The commands of an operation code, which stand together.
fn of_opcode(opcode: u8) -> impl Iterator<Item = &'static Command> {
    let (group, place) = FIRST[usize::from(opcode)].unwrap_or((0, GROUPS[0].len()));
    GROUPS[group][place..].iter().take_while(move |command| command.opcode() == opcode)
}

/// The command that a CDB is.
pub(crate) fn find(cdb: &Cdb) -> Option<&'static Command> {
    of_opcode(cdb.opcode()).find(|command| {
        command.service_action().is_none_or(|action| action == cdb.service_action())
    })
}

/// Whether an operation code means several commands.
pub(crate) fn has_service_actions(opcode: u8) -> bool {
    of_opcode(opcode).any(|command| command.has_service_action)
}

/// Everything written before is durable.
fn flush(unit: &LogicalUnit) -> RequestTask {
    RequestTask::new(Action::Flush, NO_BLOCKS, unit.block_size)
}

/// What asks for no blocks at all succeeds, if a reservation lets it.
fn nothing(access: Access, unit: &LogicalUnit) -> Task {
    Task::Request(RequestTask::new(Action::Admit(access), NO_BLOCKS, unit.block_size))
}
