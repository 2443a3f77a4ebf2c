//! A host and a target session, connected to each other and to a volume in memory.

use std::ops::Range;
use std::sync::Arc;

use nearflash_nvme::serving::{Connected, QueueKind};
use nearflash_nvme::{
    Command, CommandId, CompletionEntry, ControllerId, DsmRange, Fused, NamespaceId,
    NamespaceTable, Nqn, QueueId, Status,
};
use nearflash_request::{BlockRange, BufferId};
use nearflash_session::check::{Door, Expected, Link, Wire};
use nearflash_units::{Blocks, Lba, Nanos};
use zerocopy::IntoBytes;

use super::target::{asker, namespaces, volume};
use crate::digest::Digests;
use crate::host::{CommandData, HostConfig, HostSession, RequestingEnd};
use crate::pdu::DataAlignment;
use crate::serving::{Demand, ServingEnd, SessionConfig, TargetSession};

const NSID: NamespaceId = NamespaceId(1);
const VOLUME_BLOCKS: usize = 576;
const RUN_BLOCKS_MAX: usize = 48;
const BLOCK_LEN: usize = 512;
const ENTRIES: u16 = 16;

/// The parameters of a connection and its workload.
#[derive(Clone, Copy, Debug)]
pub struct PairScenario {
    /// The seed for the operations, the order of completions and the segmentation of the streams.
    pub seed: u64,
    /// The digests that both ends request.
    pub digests: Digests,
    /// Whether SQ flow control is enabled.
    pub flow_control: bool,
    /// The maximum in-capsule data for both ends. Below 512 every write needs an R2T.
    pub in_capsule_len_max: u32,
    /// HPDA and CPDA.
    pub alignment: u8,
    /// The number of operations.
    pub operations: usize,
}

struct Pair {
    namespaces: Arc<NamespaceTable>,
}

type NvmeWire = Wire<Pair>;

/// Runs random operations, with completions in random order and random segmentation of the streams.
/// Reads return the data written, every command completes once with its expected status, and all
/// buffers are returned.
pub fn check_pair(scenario: PairScenario) {
    let pair = Pair { namespaces: namespaces(VOLUME_BLOCKS) };
    let mut wire = Wire::new(pair, scenario.seed, volume(VOLUME_BLOCKS), VOLUME_BLOCKS * BLOCK_LEN);
    let (host, target) = (host_config(scenario), target_config(scenario));
    wire.connect(HostSession::new(host), TargetSession::new(target, Nanos(0)));
    while !wire.links[0].requesting.session.is_ready() {
        wire.turn(0);
        assert!(!wire.links[0].requesting.session.is_closing(), "the host is admitted");
    }
    let target = &mut wire.links[0].serving.session;
    assert_eq!(target.handle_timeout(Nanos(u64::MAX)), Ok(()), "the handshake is over");
    wire.run(scenario.operations);
}

fn target_config(scenario: PairScenario) -> SessionConfig {
    SessionConfig {
        in_capsule_len_max: scenario.in_capsule_len_max,
        h2c_data_len_max: 4096,
        digests: scenario.digests,
        alignment: DataAlignment(scenario.alignment),
        ..SessionConfig::default()
    }
}

fn host_config(scenario: PairScenario) -> HostConfig {
    HostConfig {
        digests: scenario.digests,
        alignment: DataAlignment(scenario.alignment),
        queue: QueueId(1),
        sq_entries: ENTRIES,
        flow_control: scenario.flow_control,
        in_capsule_len_max: scenario.in_capsule_len_max,
        controller: ControllerId(1),
        keep_alive_ms: 0,
        host_id: uuid::Uuid::nil(),
        host: Nqn::new("nqn.2026-11.io.nearflash:host").expect("a name"),
        subsystem: subsystem(),
    }
}

fn subsystem() -> Nqn {
    Nqn::new("nqn.2026-11.io.nearflash:data").expect("a name")
}

impl Door for Pair {
    type Requesting = HostSession;
    type Serving = TargetSession;
    type Id = CommandId;
    type Answer = Status;

    fn submit(wire: &mut NvmeWire, link: usize) -> bool {
        let room = usize::from(ENTRIES) - 1 - wire.links[0].requesting.session.commands_in_flight();
        let count = 1 + wire.choices.below(RUN_BLOCKS_MAX);
        let first = wire.choices.below(VOLUME_BLOCKS - count);
        let run = Run { first, count };
        if room < 2 || !wire.is_free(&run.bytes()) {
            return false;
        }
        match wire.choices.below(9) {
            0..=2 => submit_read(wire, link, run),
            3 | 4 => submit_write(wire, link, run),
            5 => submit_compare(wire, link, run),
            6 => submit_compare_and_write(wire, link, run),
            7 => submit_clear(wire, link, run),
            _ => submit_flush(wire, link),
        }
        true
    }

    fn take_demands(&mut self, link: &mut Link<Self>) {
        let target = &mut link.serving.session;
        while let Some(demand) = target.poll_demand() {
            match demand {
                Demand::Request(request) => link.requests.push(request),
                Demand::Connect(demand) => {
                    assert_eq!(demand.data.subsystem.get(), Ok(subsystem()));
                    let cid = demand.command.command_id();
                    let entry = CompletionEntry::with_result(cid, Status::SUCCESS, 1);
                    let (nexus, identity) = asker();
                    let connected = Connected {
                        controller: ControllerId(1),
                        queue: demand.command.as_connect().queue,
                        sq_entries: ENTRIES.into(),
                        disable_sq_flow_control: false,
                        kind: QueueKind::Io,
                        namespaces: Arc::clone(&self.namespaces),
                        nexus,
                        identity,
                        authentication: None,
                    };
                    target.handle_connected(entry, Some(connected));
                }
                Demand::Change(_, change) => panic!("no command for it: {change:?}"),
                Demand::Admin(demand) => panic!("no admin queue: {demand:?}"),
                Demand::Authentication(step) => panic!("it need not authenticate: {step:?}"),
            }
        }
    }

    fn poll_completion(&mut self, link: &mut Link<Self>) -> Option<(CommandId, Status)> {
        let completion = link.requesting.session.poll_completion()?;
        Some((completion.cid, completion.entry.status().code()))
    }

    fn unanswered(target: &TargetSession) -> usize {
        target.commands_in_flight()
    }
}

fn submit_command(
    wire: &mut NvmeWire,
    link: usize,
    command: Command,
    data: CommandData,
    expected: Expected<Status>,
) {
    let host = &mut wire.links[link].requesting;
    let bytes = match &data {
        CommandData::Outgoing { buffer, .. } => host.memory.bytes(*buffer),
        _ => &[],
    };
    let cid = host.session.submit(&command, data, bytes).expect("there is room");
    wire.expect(link, cid, expected);
}

fn submit_from_host(
    wire: &mut NvmeWire,
    link: usize,
    command: Command,
    (buffer, expected): (BufferId, Expected<Status>),
) {
    let len = u32::try_from(expected.bytes.len()).expect("a run is small");
    submit_command(wire, link, command, CommandData::Outgoing { buffer, len }, expected);
}

fn submit_read(wire: &mut NvmeWire, link: usize, run: Run) {
    let (buffer, expected) = wire.reading(link, run.bytes(), Status::SUCCESS);
    let command = Command::read(NSID, run.lba(), run.zero_based(), run.len());
    submit_command(wire, link, command, CommandData::Incoming { buffer, len: run.len() }, expected);
}

fn submit_write(wire: &mut NvmeWire, link: usize, run: Run) {
    let from_host = wire.writing(link, run.bytes(), Status::SUCCESS);
    submit_from_host(wire, link, run.write(), from_host);
}

/// A buffer for a Compare, and whether it equals the volume's contents.
fn fill_compared(wire: &mut NvmeWire, link: usize, run: Run) -> (BufferId, bool) {
    let buffer = wire.new_bytes(link, run.bytes().len());
    let compared = wire.links[link].requesting.memory.bytes_mut(buffer);
    let model = &wire.model[run.bytes()];
    if wire.choices.once_in(2) {
        compared.copy_from_slice(model);
    }
    (buffer, compared == model)
}

fn submit_compare(wire: &mut NvmeWire, link: usize, run: Run) {
    let (buffer, is_equal) = fill_compared(wire, link, run);
    let status = if is_equal { Status::SUCCESS } else { Status::COMPARE_FAILURE };
    let expected = Expected { buffer: Some(buffer), ..Expected::new(run.bytes(), status) };
    submit_from_host(wire, link, run.compare(), (buffer, expected));
}

fn submit_compare_and_write(wire: &mut NvmeWire, link: usize, run: Run) {
    let (buffer, is_equal) = fill_compared(wire, link, run);
    let status = if is_equal { Status::SUCCESS } else { Status::COMPARE_FAILURE };
    let first = Expected { buffer: Some(buffer), ..Expected::new(run.bytes(), status) };
    let second = if is_equal {
        wire.writing(link, run.bytes(), Status::SUCCESS)
    } else {
        let buffer = wire.new_bytes(link, run.bytes().len());
        let expected = Expected::new(run.bytes(), Status::ABORTED_FUSED_FAILED);
        (buffer, Expected { buffer: Some(buffer), ..expected })
    };
    submit_from_host(wire, link, run.compare().with_fused(Fused::First), (buffer, first));
    submit_from_host(wire, link, run.write().with_fused(Fused::Second), second);
}

fn submit_clear(wire: &mut NvmeWire, link: usize, run: Run) {
    let expected = wire.clearing(run.bytes(), Status::SUCCESS);
    if wire.choices.once_in(2) {
        let command = Command::write_zeroes(NSID, run.lba(), run.zero_based());
        return submit_command(wire, link, command, CommandData::None, expected);
    }
    // Two ranges, the second of which may be empty.
    let half = run.count.div_ceil(2);
    let ranges = [(run.first, half), (run.first + half, run.count - half)].map(|(first, count)| {
        let start = Run { first, ..run }.lba();
        let count = Blocks(u64::try_from(count).expect("few blocks"));
        DsmRange::from_range(BlockRange { start, count }).expect("few blocks")
    });
    let data = CommandData::SmallOutgoing(ranges.as_bytes().to_vec());
    submit_command(wire, link, Command::deallocate(NSID, 1), data, expected);
}

fn submit_flush(wire: &mut NvmeWire, link: usize) {
    let all = wire.choices.once_in(2);
    let command = Command::flush(if all { NamespaceId::ALL } else { NSID });
    let expected = Expected::new(0..0, Status::SUCCESS);
    submit_command(wire, link, command, CommandData::None, expected);
}

/// A run of blocks.
#[derive(Clone, Copy, Debug)]
struct Run {
    first: usize,
    count: usize,
}

impl Run {
    fn len(self) -> u32 {
        u32::try_from(self.count * BLOCK_LEN).expect("a run is small")
    }

    fn zero_based(self) -> u16 {
        u16::try_from(self.count - 1).expect("a run is small")
    }

    fn lba(self) -> Lba {
        Lba(u64::try_from(self.first).expect("the volume is small"))
    }

    fn bytes(self) -> Range<usize> {
        self.first * BLOCK_LEN..(self.first + self.count) * BLOCK_LEN
    }

    fn write(self) -> Command {
        Command::write(NSID, self.lba(), self.zero_based(), self.len())
    }

    fn compare(self) -> Command {
        Command::compare(NSID, self.lba(), self.zero_based(), self.len())
    }
}
