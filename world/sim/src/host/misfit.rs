//! Hosts that misbehave: they send nothing, invalid bytes, or damaged PDUs.
//!
//! No other host notices them, and the node gives them up.

use nearflash_nvme::property::{Configuration, offset};
use nearflash_nvme::{Command, ControllerId, NamespaceId, Nqn, QueueId};
use nearflash_nvme_tcp::Digests;
use nearflash_nvme_tcp::host::{CommandData, HostConfig, HostSession};
use nearflash_nvme_tcp::pdu::DataAlignment;
use nearflash_shard::Door;
use nearflash_units::{Lba, Nanos};
use uuid::Uuid;

use crate::Dice;
use crate::line::{Fate, Line};
use crate::memory::Memory;
use crate::misbehaviour::{Crook, Misbehaviour};
use crate::network::{LinkId, Route, Side};
use crate::node::UNCHECKED;
use crate::outside::Outside;

/// A host that misbehaves.
#[derive(Clone, Copy, Debug)]
pub struct MisfitPlan {
    /// Its kind of misbehaviour.
    pub how: Misbehaviour,
    /// The number of its visits.
    pub visits: u32,
}

/// A queue of such a host.
#[derive(Debug)]
struct Crooked {
    link: LinkId,
    session: HostSession,
    memory: Memory,
    leftover: Vec<u8>,
    crook: Crook,
}

#[derive(Debug)]
pub(crate) struct Misfit {
    how: Misbehaviour,
    number: u32,
    pub(crate) route: Route,
    dice: Dice,
    queues: Vec<Crooked>,
    away_until: Nanos,
    /// The number of visits left.
    visits: u32,
    controller: Option<ControllerId>,
    commands: u32,
    /// Every link that it used, and since when.
    pub(crate) links: Vec<(Nanos, LinkId)>,
}

impl Misfit {
    pub(crate) fn new((number, route): (u32, Route), plan: MisfitPlan, dice: Dice) -> Self {
        Self {
            how: plan.how,
            number,
            route,
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
        let link =
            outside.network.connect(outside.now, self.route, Door::NvmeTcp { anonymous: true });
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
        let how = match self.how {
            // The admin queue stays sound, so that the host reaches its I/O queue.
            Misbehaviour::Damage(_) if queue.is_admin() => Misbehaviour::Damage(0),
            how => how,
        };
        let (session, memory) = (HostSession::new(config), Memory::default());
        let crook = Crook::new(how, self.dice.fork());
        self.queues.push(Crooked { link, session, memory, leftover: Vec::new(), crook });
    }

    /// Takes its next step. Returns when to take another.
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
        if self.queues.iter_mut().any(|queue| queue.pump(outside) == Fate::Lost) {
            self.leave(outside);
            return Some(self.away_until);
        }
        Some(now.plus(Nanos::from_millis(5)))
    }

    /// Closes its connections.
    pub(crate) fn leave(&mut self, outside: &mut Outside) {
        for queue in self.queues.drain(..) {
            outside.network.close(outside.now, queue.link, Side::Caller);
            outside.settle_network();
        }
        self.away_until = outside.now.plus(Nanos::from_millis(self.dice.between(1, 50)));
    }

    /// It never returns.
    pub(crate) fn stop(&mut self) {
        self.visits = 0;
    }

    fn do_io(&mut self, outside: &mut Outside) {
        let admin = &mut self.queues[0];
        if self.controller.is_none() && admin.session.is_ready() {
            self.controller = admin.session.controller();
            let enable = Command::property_set(offset::CONFIGURATION, Configuration::ENABLE.0);
            // A queue that has just become ready has room.
            let _ = admin.session.submit(&enable, CommandData::None, &[]);
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
            CommandData::Outgoing { buffer, len }
        } else {
            CommandData::Incoming { buffer, len }
        };
        let bytes = self.memory.bytes(buffer).to_vec();
        // A full queue does not matter: the command was invalid anyway.
        let _ = self.session.submit(&command, data, &bytes);
    }

    fn pump(&mut self, outside: &mut Outside) -> Fate {
        let Self { link, session, memory, leftover, crook } = self;
        let mut line =
            Line { link: *link, session, memory, leftover, crook: Some(crook), take_max: None };
        let fate = line.pump(false, outside);
        while self.session.poll_completion().is_some() {}
        fate
    }
}
