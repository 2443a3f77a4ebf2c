//! One queue of a simulated host: a link, a session over it, and the commands in flight.

use std::collections::BTreeMap;

use nearflash_nvme::{Command, CommandId};
use nearflash_nvme_tcp::PeerError;
use nearflash_nvme_tcp::host::{CommandData, HostCompletion, HostConfig, HostSession};
use nearflash_shard::Door;
use nearflash_units::Nanos;

use crate::host::pending::Pending;
use crate::judge::{Asker, StepId, StepState};
use crate::line::{Fate, Line, Spoken, Trouble};
use crate::memory::Memory;
use crate::network::{LinkId, Route};
use crate::outside::Outside;

#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) link: LinkId,
    pub(crate) session: HostSession,
    pub(crate) memory: Memory,
    pub(crate) asker: Asker,
    /// The sequence number of the last command.
    pub(crate) sequence: u32,
    pub(crate) pending: BTreeMap<CommandId, Pending>,
    /// Compare-and-writes in flight, whose halves are answered one by one.
    pub(crate) steps: BTreeMap<StepId, StepState>,
    /// It receives nothing until then.
    pub(crate) deaf_until: Nanos,
    /// It receives this many bytes, and then nothing for this long.
    pub(crate) trickle: Option<(usize, Nanos)>,
    /// Received bytes that the session has not taken yet.
    leftover: Vec<u8>,
}

impl Queue {
    pub(crate) fn connect(
        config: HostConfig,
        asker: Asker,
        route: Route,
        outside: &mut Outside,
    ) -> Self {
        let link = outside.network.connect(outside.now, route, Door::NvmeTcp { anonymous: true });
        outside.settle_network();
        Self {
            link,
            session: HostSession::new(config),
            memory: Memory::default(),
            asker,
            sequence: 0,
            pending: BTreeMap::new(),
            steps: BTreeMap::new(),
            deaf_until: Nanos(0),
            trickle: None,
            leftover: Vec::new(),
        }
    }

    /// Takes all input that has arrived, and sends as much output as fits.
    pub(crate) fn pump(&mut self, outside: &mut Outside) -> Fate {
        let Self { link, session, memory, leftover, .. } = self;
        let is_deaf = outside.now < self.deaf_until;
        let take_max = self.trickle.map(|(len, _)| len);
        let mut line = Line { link: *link, session, memory, leftover, crook: None, take_max };
        let fate = line.pump(is_deaf, outside);
        if let Some((_, pause)) = self.trickle.filter(|_| !is_deaf) {
            self.deaf_until = outside.now.plus(pause);
        }
        fate
    }

    /// Whether this many more commands can be submitted.
    pub(crate) fn has_room(&self, entries: u16, commands: usize) -> bool {
        self.session.is_ready()
            && self.session.commands_in_flight() + commands < usize::from(entries)
    }

    /// Submits a command.
    pub(crate) fn submit(&mut self, command: &Command, data: CommandData, pending: Pending) {
        let bytes = match &data {
            CommandData::Outgoing { buffer, .. } => self.memory.bytes(*buffer),
            _ => &[],
        };
        let cid = self.session.submit(command, data, bytes).expect("there is room");
        let twin = self.pending.insert(cid, pending);
        assert!(twin.is_none(), "{cid:?} names one command in flight");
    }

    /// The next completed command.
    ///
    /// # Panics
    /// When a command is answered that is not in flight.
    pub(crate) fn poll(&mut self) -> Option<(HostCompletion, Pending)> {
        let completion = self.session.poll_completion()?;
        let pending = self.pending.remove(&completion.cid);
        Some((completion, pending.expect("every command is answered once")))
    }

    /// The number of the next command.
    pub(crate) fn next_sequence(&mut self) -> u32 {
        self.sequence += 1;
        self.sequence
    }
}

impl Spoken for HostSession {
    fn trouble_of(error: PeerError) -> Trouble {
        Trouble::Broken(error.to_string())
    }
}
