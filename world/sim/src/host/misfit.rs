//! Hosts that misbehave: that say nothing, that say nonsense, that damage what they say.
//!
//! What they do must not be noticed by anybody else, and must end.

use nearflash_nvme::property::{Configuration, offset};
use nearflash_nvme::{Command, ControllerId, NamespaceId, Nqn, QueueId};
use nearflash_nvme_tcp::host::{HostConfig, HostData, HostSession};
use nearflash_nvme_tcp::pdu::DataAlignment;
use nearflash_nvme_tcp::{Digests, Receiving};
use nearflash_shard::{Received, Sent};
use nearflash_units::{Lba, Nanos};
use uuid::Uuid;

use crate::Dice;
use crate::memory::Memory;
use crate::network::{LinkId, Side};
use crate::node::UNCHECKED;
use crate::outside::Outside;

/// How a host misbehaves.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Misbehaviour {
    /// Sends so many bytes of a valid stream, then nothing, and waits.
    Silence(usize),
    /// Sends bytes at random, after so many valid ones.
    Noise(usize),
    /// Does I/O, and one bit in so many thousand is wrong.
    Damage(u32),
}

impl Misbehaviour {
    /// From the seed.
    pub fn draw(dice: &mut Dice) -> Self {
        match dice.between(0, 2) {
            0 => Self::Silence(dice.len(0, 200)),
            1 => Self::Noise(dice.pick(&[0, 128, 200])),
            _ => Self::Damage(dice.pick(&[1, 20])),
        }
    }
}

/// A host that misbehaves.
#[derive(Clone, Copy, Debug)]
pub struct MisfitPlan {
    /// How.
    pub how: Misbehaviour,
    /// How often it comes.
    pub visits: u32,
}

/// A queue of such a host.
#[derive(Debug)]
struct Crooked {
    link: LinkId,
    session: HostSession,
    memory: Memory,
    /// Thousandths of its sends in which a bit is wrong.
    damage_permille: u32,
    /// Bytes that it may send.
    sends_left: usize,
}

#[derive(Debug)]
pub(crate) struct Misfit {
    how: Misbehaviour,
    number: u32,
    dice: Dice,
    queues: Vec<Crooked>,
    away_until: Nanos,
    /// How often it still comes.
    visits: u32,
    controller: Option<ControllerId>,
    commands: u32,
    /// Every link that it used, and since when.
    pub(crate) links: Vec<(Nanos, LinkId)>,
}

impl Misfit {
    pub(crate) fn new(number: u32, plan: MisfitPlan, dice: Dice) -> Self {
        Self {
            how: plan.how,
            number,
            dice,
            queues: Vec::new(),
            away_until: Nanos(0),
            visits: plan.visits,
            controller: None,
            commands: 0,
            links: Vec::new(),
        }
    }

    fn connect(&mut self, queue: QueueId, outside: &mut Outside) {
        let link = outside.network.connect(outside.now);
        outside.settle_network();
        self.links.push((outside.now, link));
        let name = format!("nqn.2026-11.io.nearflash:misfit-{}", self.number);
        let config = HostConfig {
            digests: Digests { header: self.dice.coin(), data: self.dice.coin() },
            alignment: DataAlignment(0),
            queue,
            sq_entries: 8,
            flow_control: true,
            in_capsule_len_max: self.dice.pick(&[0, 4096]),
            controller: self.controller.unwrap_or(ControllerId::DYNAMIC),
            keep_alive_ms: if queue.is_admin() { 2_000 } else { 0 },
            host_id: Uuid::from_u128(u128::from(self.number) + 1_000),
            host: Nqn::new(&name).expect("a name"),
            subsystem: Nqn::new(UNCHECKED).expect("a name"),
        };
        let damage_permille = match self.how {
            Misbehaviour::Damage(permille) if !queue.is_admin() => permille,
            _ => 0,
        };
        let sends_left = match self.how {
            Misbehaviour::Silence(len) | Misbehaviour::Noise(len) => len,
            Misbehaviour::Damage(_) => usize::MAX,
        };
        let (session, memory) = (HostSession::new(config), Memory::default());
        self.queues.push(Crooked { link, session, memory, damage_permille, sends_left });
    }

    /// Does what it does. Returns when to look again.
    pub(crate) fn look(&mut self, outside: &mut Outside) -> Option<Nanos> {
        let now = outside.now;
        if self.queues.is_empty() {
            if now < self.away_until {
                return Some(self.away_until);
            }
            if self.visits == 0 {
                return None;
            }
            self.visits -= 1;
            self.controller = None;
            self.commands = 40;
            self.connect(QueueId::ADMIN, outside);
        }
        if matches!(self.how, Misbehaviour::Damage(_)) {
            self.do_io(outside);
        }
        let noisy = matches!(self.how, Misbehaviour::Noise(_));
        let is_lost = |queue: &mut Crooked| !queue.pump(noisy, &mut self.dice, outside);
        if self.queues.iter_mut().any(is_lost) {
            self.leave(outside);
            return Some(self.away_until);
        }
        Some(now.plus(Nanos::from_millis(5)))
    }

    /// Gives up its connections.
    pub(crate) fn leave(&mut self, outside: &mut Outside) {
        for queue in self.queues.drain(..) {
            outside.network.close(outside.now, queue.link, Side::Host);
            outside.settle_network();
        }
        self.away_until = outside.now.plus(Nanos::from_millis(self.dice.between(1, 50)));
    }

    /// Never comes back.
    pub(crate) fn stop(&mut self) {
        self.visits = 0;
    }

    fn do_io(&mut self, outside: &mut Outside) {
        let admin = &mut self.queues[0];
        if self.controller.is_none() && admin.session.is_ready() {
            self.controller = admin.session.controller();
            let enable = Command::property_set(offset::CONFIGURATION, Configuration::ENABLE.0);
            // A queue that has just become ready has room.
            let _ = admin.session.submit(&enable, HostData::None, &[]);
        }
        let enabled = self.controller.is_some() && self.queues[0].session.commands_in_flight() == 0;
        if enabled && self.queues.len() == 1 {
            self.connect(QueueId(1), outside);
        }
        let Some(queue) = self.queues.get_mut(1) else { return };
        if self.commands > 0 && queue.session.is_ready() {
            self.commands -= 1;
            queue.write_or_read(&mut self.dice);
        }
    }
}

impl Crooked {
    fn write_or_read(&mut self, dice: &mut Dice) {
        let (nsid, lba) = (NamespaceId(1), Lba(dice.between(0, 20)));
        let len = 4096;
        let buffer = self.memory.take(4096);
        let is_write = dice.coin();
        let command = if is_write {
            Command::write(nsid, lba, 0, len)
        } else {
            Command::read(nsid, lba, 0, len)
        };
        let data = if is_write {
            HostData::FromHost { buffer, len }
        } else {
            HostData::ToHost { buffer, len }
        };
        let bytes = self.memory.bytes(buffer).to_vec();
        // A full queue is no matter: it was nonsense anyway.
        let _ = self.session.submit(&command, data, &bytes);
    }

    /// Whether the connection lives.
    fn pump(&mut self, noisy: bool, dice: &mut Dice, outside: &mut Outside) -> bool {
        let lives = self.receive(outside);
        while let Some(part) = self.session.wants_payload() {
            let bytes =
                self.memory.bytes(part.buffer)[part.offset..part.offset + part.len].to_vec();
            self.session.provide_payload(&bytes);
        }
        while self.session.poll_completion().is_some() {}
        lives && self.send(noisy, dice, outside) && !self.session.is_closing()
    }

    fn receive(&mut self, outside: &mut Outside) -> bool {
        loop {
            let now = outside.now;
            let mut bytes = vec![0; outside.network.unread_by_host(self.link).clamp(1, 16 * 1024)];
            let received = outside.network.receive(now, self.link, Side::Host, &mut bytes);
            outside.settle_network();
            match received {
                Received::Bytes(len) if self.feed(&bytes[..len]) => {}
                Received::Nothing => return true,
                Received::Bytes(_) | Received::Closed => return false,
            }
        }
    }

    /// Whether the session still understands the node.
    fn feed(&mut self, bytes: &[u8]) -> bool {
        let mut rest = bytes;
        while !rest.is_empty() {
            match self.session.receiving() {
                Receiving::Paused => return false,
                Receiving::Bytes => match self.session.handle_input(rest) {
                    Ok(taken) => rest = &rest[taken..],
                    Err(_) => return false,
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
        true
    }

    fn send(&mut self, noisy: bool, dice: &mut Dice, outside: &mut Outside) -> bool {
        let mut bytes = Vec::new();
        for chunk in self.session.output() {
            self.memory.append(&mut bytes, chunk);
        }
        bytes.truncate(self.sends_left.min(16 * 1024));
        if bytes.is_empty() {
            if !noisy {
                return true;
            }
            bytes =
                std::iter::repeat_with(|| dice.roll().to_le_bytes()).take(8).flatten().collect();
            return outside_send(outside, self.link, &bytes).is_some();
        }
        let clean = bytes.len();
        for byte in &mut bytes {
            if self.damage_permille > 0 && dice.between(0, 99_999) < u64::from(self.damage_permille)
            {
                *byte ^= 1 << dice.between(0, 7);
            }
        }
        let Some(sent) = outside_send(outside, self.link, &bytes) else { return false };
        self.session.advance_output(sent.min(clean));
        self.sends_left -= sent;
        true
    }
}

fn outside_send(outside: &mut Outside, link: LinkId, bytes: &[u8]) -> Option<usize> {
    let sent = outside.network.send(outside.now, link, Side::Host, bytes);
    outside.settle_network();
    match sent {
        Sent::Bytes(len) => Some(len),
        Sent::Closed => None,
    }
}
