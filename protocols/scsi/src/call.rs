//! A command: what the table says of it, and what its handler sees.

use nearflash_request::{Access, Attention};

use crate::task::{Action, NO_BLOCKS, RequestTask};
use crate::{Attentions, Cdb, CopyRecords, LogicalUnit, LogicalUnits, Sense, Task};

/// A command, and where it has come to.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The command block.
    pub cdb: &'a Cdb,
    /// The unit that it is for; `None` if there is no unit of that number.
    pub unit: Option<&'a LogicalUnit>,
    /// All units of the target.
    pub units: &'a LogicalUnits,
    /// What the session has not been told yet.
    pub attentions: &'a Attentions,
    /// The session's copies.
    pub copies: &'a CopyRecords,
}

/// The same, for a handler: the unit is there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'a> {
    pub(crate) cdb: &'a Cdb,
    pub(crate) unit: &'a LogicalUnit,
    pub(crate) units: &'a LogicalUnits,
    pub(crate) copies: &'a CopyRecords,
    /// Every command there is, in groups.
    pub(crate) table: &'static [&'static [Command]],
}

impl Call<'_> {
    /// Everything written before is durable.
    pub(crate) fn flush(&self) -> Task {
        Task::Request(RequestTask::new(Action::Flush, NO_BLOCKS, self.unit.block_size))
    }

    /// What asks for no blocks at all succeeds, if a reservation lets it.
    pub(crate) fn nothing(&self, access: Access) -> Task {
        Task::Request(RequestTask::new(Action::Admit(access), NO_BLOCKS, self.unit.block_size))
    }
}

/// REPORT LUNS tells what the units are, so that no attention needs to. SPC-4, 6.33.
pub(crate) fn units_are_told(asked: &Asked<'_>) {
    asked.attentions.withdraw_all(Attention::UnitsChanged);
}

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
    pub(crate) const fn always(
        usage: &'static [u8],
        act: fn(&Asked<'_>) -> Result<Task, Sense>,
    ) -> Self {
        Self::bare(usage, Act::Always(act))
    }

    pub(crate) const fn of_unit(
        usage: &'static [u8],
        act: fn(&Call<'_>) -> Result<Task, Sense>,
    ) -> Self {
        Self::bare(usage, Act::OfUnit(act))
    }

    const fn bare(usage: &'static [u8], act: Act) -> Self {
        Self {
            usage,
            has_service_action: false,
            act,
            parameters: None,
            admit: None,
            timeout_secs: 0,
            only: Only::All,
        }
    }

    pub(crate) const fn with_service_action(self) -> Self {
        Self { has_service_action: true, ..self }
    }

    pub(crate) const fn with_parameters(self, parameters: Take) -> Self {
        Self { parameters: Some(parameters), ..self }
    }

    pub(crate) const fn admitted_for(self, access: Access) -> Self {
        Self { admit: Some(access), ..self }
    }

    pub(crate) const fn within_secs(self, timeout_secs: u32) -> Self {
        Self { timeout_secs, ..self }
    }

    pub(crate) const fn only(self, only: Only) -> Self {
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
