//! Both ends, connected to each other and to a volume in memory.

use std::ops::Range;
use std::sync::Arc;

use nearflash_request::VolumeId;
use nearflash_scsi::{LogicalUnit, LogicalUnits};
use nearflash_session::check::{Choices, Door, Expected, Link, Requesting, Wire};
use nearflash_units::{Blocks, Nanos};

use super::login::{account, login_config};
use super::target::{origin, unit, volume};
use crate::chap::Account;
use crate::initiator::{
    CommandData, CommandWindow, Ending, InitiatorConfig, InitiatorSession, Status, TaskId, cdb,
};
use crate::login::LoginConfig;
use crate::params::{DigestWish, Offer};
use crate::serving::{
    Admission, Demand, Exports, NONCE_LEN, Portal, PortalConfig, SessionConfig, TargetSession,
};

const BLOCK: usize = 512;
const VOLUME_BLOCKS: usize = 4096;
const TASKS: u16 = 8;
/// Of COMPARE AND WRITE.
const COMPARED_BLOCKS_MAX: usize = 8;

/// One way for two ends to be connected and used.
#[derive(Clone, Copy, Debug)]
pub struct PairScenario {
    /// Selects the operations, the times of answers and the cuts of the streams.
    pub seed: u64,
    /// Header and data digests.
    pub digests: [bool; 2],
    /// Both ends prove themselves.
    pub with_account: bool,
    /// Connections of the session, 1 to 4.
    pub connections: u16,
    /// No data goes out unasked behind a command.
    pub initial_r2t: bool,
    /// Data goes out with a command.
    pub immediate_data: bool,
    /// MaxRecvDataSegmentLength of both ends.
    pub receive_len_max: u32,
    /// How many operations.
    pub operations: usize,
}

struct Pair {
    window: Arc<CommandWindow>,
    portal: Portal,
}

type IscsiWire = Wire<Pair>;

/// For all operations, connections, orders of answers and cuts of the streams: reads return the
/// data that was written, every command is answered once with its status, and all buffers are given
/// back.
pub fn check_pair(scenario: PairScenario) {
    let config = PortalConfig { window: 16, sessions_max: 16, ..PortalConfig::default() };
    let window = Arc::new(CommandWindow::new(u32::MAX - 20));
    let pair = Pair { window, portal: Portal::new(config) };
    let mut wire = Wire::new(pair, scenario.seed, volume(VOLUME_BLOCKS), VOLUME_BLOCKS * BLOCK);
    let exports = exports(scenario);
    for cid in 0..scenario.connections.clamp(1, 4) {
        connect(&mut wire, scenario, &exports, cid);
    }
    hear_attentions(&mut wire);
    wire.run(scenario.operations);
}

fn exports(scenario: PairScenario) -> Arc<Exports> {
    let disk = LogicalUnit {
        volume: VolumeId(0),
        uuid: [7; 16],
        name: "disk".to_owned(),
        blocks: Blocks(u64::try_from(VOLUME_BLOCKS).expect("a small volume")),
        ..unit(0)
    };
    let name = "iqn.2026-11.io.example:disk";
    let units = Arc::new(LogicalUnits::new(name, 1, [disk]));
    let exports = Exports::new([(name.into(), units)], []);
    let accounts = scenario.with_account.then(|| Account::clone(&account()));
    Arc::new(exports.with_accounts(accounts))
}

fn connect(wire: &mut IscsiWire, scenario: PairScenario, exports: &Arc<Exports>, cid: u16) {
    let PairScenario { with_account, receive_len_max, .. } = scenario;
    let [header, data] = scenario.digests;
    let wish = |is_wanted| if is_wanted { DigestWish::Crc } else { DigestWish::None };
    let mut target = SessionConfig::with_nonce([1; NONCE_LEN]);
    target.anonymous = !with_account;
    target.offer.receive_len_max = receive_len_max;
    let mut offer = Offer { header_digest: wish(header), data_digest: wish(data), ..target.offer };
    offer.session.initial_r2t = scenario.initial_r2t;
    offer.session.immediate_data = scenario.immediate_data;
    offer.session.max_connections = 4;
    let window = Arc::clone(&wire.door.window);
    let login = LoginConfig {
        tsih: window.tsih().unwrap_or(0),
        cid,
        account: with_account.then(account),
        offer,
        ..login_config([false, false])
    };
    let initiator = InitiatorSession::new(InitiatorConfig { login, window, task_count: TASKS });
    let local = "127.0.0.1:3260".parse().expect("an address");
    let target = TargetSession::new(target, Arc::clone(exports), local, Nanos(0));
    let link = wire.connect(initiator, target);
    while !wire.links[link].requesting.session.is_ready() {
        wire.turn(link);
    }
}

/// Consumes the POWER ON unit attention that a new session reports once.
fn hear_attentions(wire: &mut IscsiWire) {
    loop {
        let cdb = cdb::test_unit_ready();
        let initiator = &mut wire.links[0].requesting.session;
        initiator.submit(0, &cdb, CommandData::None, &[]).expect("nothing is in flight");
        let completion = loop {
            wire.turn(0);
            if let Some(completion) = wire.links[0].requesting.session.poll_completion() {
                break completion;
            }
        };
        if completion.is_good() {
            return;
        }
        assert_eq!(completion.sense.map(|sense| sense.key), Some(6), "{completion:?}");
    }
}

impl Door for Pair {
    type Requesting = InitiatorSession;
    type Serving = TargetSession;
    type Id = TaskId;
    type Answer = Ending;

    fn submit(wire: &mut IscsiWire, link: usize) -> bool {
        let in_flight = wire.links[link].requesting.session.tasks_in_flight();
        if in_flight == usize::from(TASKS) || !wire.door.window.is_open() {
            return false;
        }
        let blocks = some_blocks(&mut wire.choices);
        if !wire.is_free(&bytes(&blocks)) {
            return false;
        }
        match wire.choices.below(10) {
            0..4 => submit_read(wire, link, blocks),
            4..7 => submit_write(wire, link, blocks),
            7 => submit_unmap(wire, link, blocks),
            8 => submit_flush(wire, link),
            _ => submit_compare_and_write(wire, link, blocks.start),
        }
        true
    }

    fn take_demands(&mut self, link: &mut Link<Self>) {
        let target = &mut link.serving.session;
        while let Some(demand) = target.poll_demand() {
            match demand {
                Demand::Request(request) => link.requests.push(request),
                Demand::Login(demand) => {
                    let admission = self.portal.login(&demand, origin()).expect("there is room");
                    let Admission::Granted(granted) = admission else {
                        panic!("nothing is in the way of a login")
                    };
                    target.handle_login(Ok(granted));
                }
                Demand::Change(_, change) => panic!("nobody asked for {change:?}"),
            }
        }
    }

    fn poll_completion(&mut self, link: &mut Link<Self>) -> Option<(TaskId, Ending)> {
        let completion = link.requesting.session.poll_completion()?;
        Some((completion.id, completion.ending))
    }

    fn unanswered(target: &TargetSession) -> usize {
        target.commands_in_flight()
    }

    fn turn(wire: &mut IscsiWire, link: usize) {
        if wire.links[link].serving.session.concerns_siblings() {
            for (_, other) in wire.links.iter_mut().enumerate().filter(|(at, _)| *at != link) {
                other.serving.session.resume().expect("the initiator is sound");
            }
        }
    }
}

/// Usually a few blocks; rarely many, or beyond the volume's end.
fn some_blocks(choices: &mut Choices) -> Range<usize> {
    let len = match choices.below(16) {
        0 => 1 + choices.below(2048),
        1..8 => 1 << choices.below(6),
        _ => 1 + choices.below(40),
    };
    let start = choices.below(VOLUME_BLOCKS);
    if start + len > VOLUME_BLOCKS && !choices.once_in(4) {
        return VOLUME_BLOCKS - len..VOLUME_BLOCKS;
    }
    start..start + len
}

fn submit_read(wire: &mut IscsiWire, link: usize, blocks: Range<usize>) {
    let (buffer, expected) = wire.reading(link, bytes(&blocks), ending(&blocks));
    let initiator = &mut wire.links[link].requesting.session;
    let id = initiator.read(0, place(&blocks), buffer, len(&blocks)).expect("there is room");
    wire.expect(link, id, expected);
}

fn submit_write(wire: &mut IscsiWire, link: usize, blocks: Range<usize>) {
    let (buffer, expected) = wire.writing(link, bytes(&blocks), ending(&blocks));
    let Requesting { session, memory, .. } = &mut wire.links[link].requesting;
    let data = (buffer, len(&blocks));
    let id = session.write(0, place(&blocks), data, memory.bytes(buffer)).expect("there is room");
    wire.expect(link, id, expected);
}

fn submit_unmap(wire: &mut IscsiWire, link: usize, blocks: Range<usize>) {
    let expected = wire.clearing(bytes(&blocks), ending(&blocks));
    let initiator = &mut wire.links[link].requesting.session;
    let id = initiator.unmap(0, &[place(&blocks)]).expect("there is room");
    wire.expect(link, id, expected);
}

fn submit_flush(wire: &mut IscsiWire, link: usize) {
    let id = wire.links[link].requesting.session.flush(0).expect("there is room");
    wire.expect(link, id, Expected::new(0..0, ending(&(0..0))));
}

/// Compares with the current content two times out of three.
fn submit_compare_and_write(wire: &mut IscsiWire, link: usize, near: usize) {
    let count = 1 + wire.choices.below(COMPARED_BLOCKS_MAX);
    let start = near.min(VOLUME_BLOCKS - count);
    let bytes = bytes(&(start..start + count));
    if !wire.is_free(&bytes) {
        return;
    }
    let buffer = wire.new_bytes(link, 2 * bytes.len());
    let Requesting { session, memory, .. } = &mut wire.links[link].requesting;
    let (compared, written) = memory.bytes_mut(buffer).split_at_mut(bytes.len());
    let model = &mut wire.model[bytes.clone()];
    compared.copy_from_slice(model);
    let status = if wire.choices.once_in(3) {
        compared[bytes.len() - 1] ^= 1;
        Status::CHECK_CONDITION
    } else {
        model.copy_from_slice(written);
        Status::GOOD
    };
    let (lba, _) = place(&(start..start + count));
    let place = (lba, u8::try_from(count).expect("few"));
    let data = (buffer, u32::try_from(2 * bytes.len()).expect("few"));
    let submitted = session.compare_and_write(0, place, data, memory.bytes(buffer));
    let expected = Expected::new(bytes, Ending::Answered(status));
    let expected = Expected { buffer: Some(buffer), ..expected };
    wire.expect(link, submitted.expect("there is room"), expected);
}

fn bytes(blocks: &Range<usize>) -> Range<usize> {
    blocks.start * BLOCK..blocks.end * BLOCK
}

fn len(blocks: &Range<usize>) -> u32 {
    u32::try_from(blocks.len() * BLOCK).expect("a small volume")
}

/// LBA and number of blocks, as in a CDB.
fn place(blocks: &Range<usize>) -> (u64, u32) {
    let start = u64::try_from(blocks.start).expect("a small volume");
    (start, u32::try_from(blocks.len()).expect("a small volume"))
}

/// Of a command on these blocks, which fails past the volume's end.
const fn ending(blocks: &Range<usize>) -> Ending {
    let is_good = blocks.end <= VOLUME_BLOCKS;
    Ending::Answered(if is_good { Status::GOOD } else { Status::CHECK_CONDITION })
}
