//! One connection of a simulated initiator: a link, a session over it, and the commands in flight.

use std::collections::BTreeMap;

use nearflash_iscsi::PeerError;
use nearflash_iscsi::initiator::cdb::Cdb;
use nearflash_iscsi::initiator::{
    CommandData, Ending, InitiatorConfig, InitiatorSession, Managing, Sense, Status,
    TaskCompletion, TaskId,
};
use nearflash_request::BufferId;
use nearflash_shard::Door;

use crate::judge::{Answer, Asker, EndingId, Io, StepState};
use crate::line::{Fate, Line, Spoken, Trouble};
use crate::memory::Memory;
use crate::network::{LinkId, Route};
use crate::outside::Outside;

/// A command in flight.
#[derive(Clone, Debug)]
pub(crate) enum Task {
    Io(Io),
    /// A compare-and-write, which is one command here.
    Step(StepState, BufferId),
    /// A reservation command; its sender knows its parameters.
    Rivalry,
}

#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) link: LinkId,
    pub(crate) session: InitiatorSession,
    pub(crate) memory: Memory,
    pub(crate) asker: Asker,
    /// The sequence number of the last command.
    sequence: u32,
    pub(crate) tasks: BTreeMap<TaskId, Task>,
    /// A task management function under way.
    pub(crate) managing: Option<(Managing, EndingId)>,
    /// Received bytes that the session has not taken yet.
    leftover: Vec<u8>,
}

impl Connection {
    pub(crate) fn connect(
        config: InitiatorConfig,
        asker: Asker,
        route: Route,
        outside: &mut Outside,
    ) -> Self {
        let door = Door::Iscsi { anonymous: true };
        let link = outside.network.connect(outside.now, route, door);
        outside.settle_network();
        Self {
            link,
            session: InitiatorSession::new(config),
            memory: Memory::default(),
            asker,
            sequence: 0,
            tasks: BTreeMap::new(),
            managing: None,
            leftover: Vec::new(),
        }
    }

    /// Takes all input that has arrived, and sends as much output as fits.
    pub(crate) fn pump(&mut self, outside: &mut Outside) -> Fate {
        let Self { link, session, memory, leftover, .. } = self;
        let mut line = Line { link: *link, session, memory, leftover, crook: None, take_max: None };
        line.pump(false, outside)
    }

    /// The number of the next command.
    pub(crate) fn next_sequence(&mut self) -> u32 {
        self.sequence += 1;
        self.sequence
    }

    /// Submits a command, if the target accepts one. Returns whether it did.
    pub(crate) fn submit(&mut self, lun: u16, cdb: &Cdb, data: CommandData, task: Task) -> bool {
        let payload = match &data {
            CommandData::Outgoing { buffer, .. } => self.memory.bytes(*buffer),
            _ => &[],
        };
        let id = self.session.submit(lun, cdb, data, payload).expect("there is room");
        let twin = self.tasks.insert(id, task);
        assert!(twin.is_none(), "{id:?} names one command in flight");
        true
    }

    /// The next completed command.
    ///
    /// # Panics
    /// When a command is answered that is not in flight.
    pub(crate) fn poll(&mut self) -> Option<(TaskCompletion, Task)> {
        let completion = self.session.poll_completion()?;
        let task = self.tasks.remove(&completion.id);
        Some((completion, task.expect("every command is answered once")))
    }
}

impl Answer {
    /// The answer that corresponds to a SCSI status and its sense data.
    pub(crate) fn of_scsi(completion: &TaskCompletion) -> Self {
        match (completion.ending, completion.sense) {
            (Ending::Answered(Status::GOOD), _) => Self::Done,
            (Ending::Answered(Status::RESERVATION_CONFLICT), _) => Self::Conflict,
            (Ending::Answered(Status::CHECK_CONDITION), Some(sense)) => Self::of_sense(sense),
            (Ending::Answered(Status::TASK_ABORTED) | Ending::Aborted, _) => Self::Aborted,
            (Ending::Answered(Status::TASK_SET_FULL), _) => Self::Full,
            (Ending::Answered(status), _) => Self::Unexpected(status.0.into()),
            (ending, _) => panic!("{completion:?} ended as {ending:?}"),
        }
    }

    fn of_sense(sense: Sense) -> Self {
        match (sense.key, sense.asc) {
            (0x6, _) => Self::Attention,
            (0xE, 0x1D) => Self::Differs,
            (0x5, 0x21) => Self::BehindTheEnd,
            (0x2..=0x4, _) | (0x7, 0x27) => Self::DeviceFailed,
            (0xB, 0x08) => Self::PathLost,
            (key, asc) => Self::Unexpected(u32::from(key) << 8 | u32::from(asc)),
        }
    }
}

impl Spoken for InitiatorSession {
    fn trouble_of(error: PeerError) -> Trouble {
        match error {
            PeerError::Ended(_) => Trouble::Ended,
            error => Trouble::Broken(error.to_string()),
        }
    }
}
