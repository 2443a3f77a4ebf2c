//! One queue of a simulated host: a link, a session over it, and the commands in flight.

use std::collections::BTreeMap;

use nearflash_nvme::{Command, CommandId};
use nearflash_nvme_tcp::host::{HostCompletion, HostConfig, HostData, HostSession};
use nearflash_nvme_tcp::{PeerError, Receiving};
use nearflash_shard::{Received, Sent};
use nearflash_units::Nanos;

use crate::host::memory::Memory;
use crate::host::pending::{Pending, StepId, StepState};
use crate::network::{LinkId, Side};
use crate::outside::Outside;
use crate::stamp::Writer;

/// Whether a queue lives on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Fate {
    Lives,
    Lost,
}

/// Bytes looked at in one send.
const SEND_LEN_MAX: usize = 64 * 1024;

#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) link: LinkId,
    pub(crate) session: HostSession,
    pub(crate) memory: Memory,
    pub(crate) writer: Writer,
    /// Counts the commands.
    pub(crate) sequence: u32,
    pub(crate) pending: BTreeMap<CommandId, Pending>,
    /// Compare-and-writes in flight, whose halves are answered one by one.
    pub(crate) steps: BTreeMap<StepId, StepState>,
    /// It receives nothing until then.
    pub(crate) deaf_until: Nanos,
    /// Received, and not taken by the session yet.
    leftover: Vec<u8>,
}

impl Queue {
    pub(crate) fn connect(config: HostConfig, writer: Writer, outside: &mut Outside) -> Self {
        let link = outside.network.connect(outside.now);
        outside.settle_network();
        Self {
            link,
            session: HostSession::new(config),
            memory: Memory::default(),
            writer,
            sequence: 0,
            pending: BTreeMap::new(),
            steps: BTreeMap::new(),
            deaf_until: Nanos(0),
            leftover: Vec::new(),
        }
    }

    /// Takes all that has arrived, and sends all that there is room for.
    pub(crate) fn pump(&mut self, outside: &mut Outside) -> Fate {
        if outside.now >= self.deaf_until && self.receive(outside) == Fate::Lost {
            return Fate::Lost;
        }
        while let Some(part) = self.session.wants_payload() {
            let bytes = &self.memory.bytes(part.buffer)[part.offset..part.offset + part.len];
            let bytes = bytes.to_vec();
            self.session.provide_payload(&bytes);
        }
        let fate = self.send(outside);
        if self.session.is_closing() { Fate::Lost } else { fate }
    }

    fn receive(&mut self, outside: &mut Outside) -> Fate {
        loop {
            let now = outside.now;
            let mut bytes = vec![0; outside.network.unread_by_host(self.link).clamp(1, 16 * 1024)];
            let received = outside.network.receive(now, self.link, Side::Host, &mut bytes);
            outside.settle_network();
            match received {
                Received::Bytes(len) => self.feed(&bytes[..len]),
                Received::Nothing => return Fate::Lives,
                Received::Closed => return Fate::Lost,
            }
        }
    }

    fn feed(&mut self, bytes: &[u8]) {
        let mut input = std::mem::take(&mut self.leftover);
        input.extend_from_slice(bytes);
        let mut rest = &input[..];
        while !rest.is_empty() {
            match self.session.receiving() {
                Receiving::Paused => break,
                Receiving::Bytes => match self.session.handle_input(rest) {
                    Ok(taken) => rest = &rest[taken..],
                    Err(error) => self.refuse(error),
                },
                Receiving::Payload { buffer, offset, len } => {
                    let (payload, behind) = rest.split_at(len.min(rest.len()));
                    let place = offset..offset + payload.len();
                    self.memory.bytes_mut(buffer)[place].copy_from_slice(payload);
                    self.session.handle_payload(payload);
                    rest = behind;
                }
            }
        }
        self.leftover = rest.to_vec();
    }

    /// The node has no reason to end a connection that keeps the protocol with an error, and never
    /// breaks the protocol itself.
    fn refuse(&self, error: PeerError) {
        panic!("{:?}: the node broke the protocol: {error}", self.link);
    }

    fn send(&mut self, outside: &mut Outside) -> Fate {
        while self.session.output_len() > 0 {
            let mut bytes = Vec::new();
            for chunk in self.session.output() {
                self.memory.append(&mut bytes, chunk);
                if bytes.len() >= SEND_LEN_MAX {
                    break;
                }
            }
            let sent = outside.network.send(outside.now, self.link, Side::Host, &bytes);
            outside.settle_network();
            match sent {
                Sent::Bytes(0) => return Fate::Lives,
                Sent::Bytes(len) => {
                    outside.note("host sends", &[u64::from(self.link.0)]);
                    outside.trace.note_bytes(&bytes[..len]);
                    self.session.advance_output(len);
                }
                Sent::Closed => return Fate::Lost,
            }
        }
        Fate::Lives
    }

    /// Whether so many commands more can be submitted.
    pub(crate) fn has_room(&self, entries: u16, commands: usize) -> bool {
        self.session.is_ready()
            && self.session.commands_in_flight() + commands < usize::from(entries)
    }

    /// Submits a command.
    pub(crate) fn submit(&mut self, command: &Command, data: HostData, pending: Pending) {
        let bytes = match &data {
            HostData::FromHost { buffer, .. } => self.memory.bytes(*buffer),
            _ => &[],
        };
        let cid = self.session.submit(command, data, bytes).expect("there is room");
        let twin = self.pending.insert(cid, pending);
        assert!(twin.is_none(), "{cid:?} names one command in flight");
    }

    /// The next command that is over, and what it was.
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
