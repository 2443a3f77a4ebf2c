//! A command: its entry in the table, and the context of its handler.

use nearflash_request::{Access, Support};

use crate::task::{Action, NO_BLOCKS, RequestTask};
use crate::{Attentions, Cdb, CopyRecords, LogicalUnit, LogicalUnits, Sense, Task};

/// A command and its context.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The command block.
    pub cdb: &'a Cdb,
    /// The unit that the command addresses; `None` if no unit has this number.
    pub unit: Option<&'a LogicalUnit>,
    /// All units of the target.
    pub units: &'a LogicalUnits,
    /// The session's pending unit attention conditions.
    pub attentions: &'a Attentions,
    /// The session's third-party copies.
    pub copies: &'a CopyRecords,
}

/// The context of a handler. The unit exists.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'a> {
    pub(crate) cdb: &'a Cdb,
    pub(crate) unit: &'a LogicalUnit,
    pub(crate) units: &'a LogicalUnits,
    pub(crate) copies: &'a CopyRecords,
    /// All commands, in groups.
    pub(crate) table: &'static [&'static [Command]],
}

impl Call<'_> {
    /// A task that makes all completed writes durable.
    pub(crate) fn flush(&self) -> Task {
        Task::Request(RequestTask::new(Action::Flush, NO_BLOCKS, self.unit.block_size))
    }

    /// The task of a command for zero blocks: it succeeds unless a reservation conflicts.
    pub(crate) fn nothing(&self, access: Access) -> Task {
        Task::Request(RequestTask::new(Action::Admit(access), NO_BLOCKS, self.unit.block_size))
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Command {
    /// CDB usage data: opcode, service action, and a 1 for every other evaluated bit.
    pub(crate) usage: &'static [u8],
    /// Whether the operation code has several commands, distinguished by their service action.
    pub(crate) has_service_action: bool,
    pub(crate) act: Act,
    /// The handler of its parameter list, if it has one.
    pub(crate) parameters: Option<Take>,
    /// The access that reservations must allow, if no engine request or change checks it.
    pub(crate) admit: Option<Access>,
    /// The recommended timeout in seconds; zero for a command that completes immediately.
    pub(crate) timeout_secs: u32,
    /// The units that support it.
    pub(crate) needs: Needs,
}

/// The property that a unit must have so that it supports a command.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Needs {
    /// Every unit supports it.
    Nothing,
    Unmapping,
    /// Operations that read and write blocks as one step: [`Support::compound`].
    Compound,
    /// [`Support::reservations`].
    Reservations,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    /// Also executed if there is no unit or a unit attention is pending.
    Always(fn(&Asked<'_>) -> Result<Task, Sense>),
    /// Executed on a unit.
    OfUnit(fn(&Call<'_>) -> Result<Task, Sense>),
}

/// A handler of a parameter list.
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
            needs: Needs::Nothing,
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

    pub(crate) const fn needing(self, needs: Needs) -> Self {
        Self { needs, ..self }
    }

    pub(crate) const fn is_of(&self, unit: &LogicalUnit) -> bool {
        let Support { compound, reservations } = unit.support;
        match self.needs {
            Needs::Nothing => true,
            Needs::Unmapping => unit.unmaps(),
            Needs::Compound => compound,
            Needs::Reservations => reservations,
        }
    }

    pub(crate) const fn opcode(&self) -> u8 {
        self.usage[0]
    }

    pub(crate) const fn service_action(&self) -> Option<u8> {
        if self.has_service_action { Some(self.usage[1] & 0x1F) } else { None }
    }
}
