//! The rules of the controller's end, tested with handmade PDUs.

mod authentication;
mod ending;
mod from_host;
mod fused;
mod handshake;
mod headers;
mod queues;
mod reservations;
mod to_host;

use nearflash_nvme::serving::QueueKind;
use nearflash_nvme::{
    Command, CommandId, CompletionEntry, Fused, IoOpcode, NamespaceId, SglDescriptor, Status,
};
use nearflash_request::{
    ChangeKind, ChangeResult, Completion, Expected, Nexus, Operation, Outcome, Payload, Refusal,
};
use nearflash_units::{Lba, Nanos};
use zerocopy::{FromBytes, IntoBytes};

use super::{CHANGES_IN_FLIGHT_MAX, Demand, ServingEnd, SessionConfig, TargetSession};
use crate::check::Stage;
use crate::check::describe::describe;
use crate::check::target::{Bench, ENTRIES, asker, capsule, connect_pdu, data_pdu};
use crate::digest::{Digests, digest};
use crate::error::PeerError;
use crate::pdu::{
    CommonHeader, DataAlignment, DataIds, FatalStatus, InitPdu, PduFlags, PduType, TermReq,
};
use nearflash_session::Receiving;

const NSID: NamespaceId = NamespaceId(1);

fn bench(stage: Stage) -> Bench {
    Bench::new(stage, Digests::NONE, true)
}

impl Bench {
    fn send(&mut self, command: Command, data: &[u8]) {
        let mut stream = Vec::new();
        capsule(&mut stream, command, data, Digests::NONE);
        self.feed(&stream);
    }

    fn sent(&mut self) -> Vec<String> {
        let stream = self.drain_output();
        describe(&stream, Digests::NONE)
    }

    /// Sends data of a command whose R2T was sent.
    fn send_data(&mut self, cid: u16, tag: u16, flags: PduFlags, data: &[u8]) {
        let mut stream = Vec::new();
        let ids = DataIds { command_id: cid, transfer_tag: tag };
        data_pdu(&mut stream, ids, flags, data, Digests::NONE);
        self.feed(&stream);
    }

    /// Provides every buffer that the session requests.
    fn provide_buffers(&mut self) {
        while self.end.provide_buffer() {}
    }
}

fn with_cid(command: Command, cid: u16) -> Command {
    command.with_command_id(CommandId(cid))
}

fn read(cid: u16) -> Command {
    with_cid(Command::read(NSID, Lba(0), 0, 512), cid)
}

fn write(cid: u16) -> Command {
    with_cid(Command::write(NSID, Lba(0), 0, 512), cid)
}

fn compare(cid: u16) -> Command {
    with_cid(Command::compare(NSID, Lba(0), 0, 512), cid)
}

fn in_capsule(command: Command) -> Command {
    command.with_capsule_data(512)
}

// Every state against every PDU.

#[test]
fn every_state_has_an_answer_to_every_pdu() {
    let mut table = String::new();
    for stage in Stage::ALL {
        for pdu_type in PduType::all() {
            let mut bench = bench(stage);
            bench.feed(&sample(pdu_type));
            bench.provide_buffers();
            let demands = bench.demands.iter().map(|demand| match demand {
                Demand::Request(_) => "request",
                Demand::Connect(_) => "connect",
                Demand::Admin(_) => "admin",
                Demand::Change(..) => "change",
                Demand::Authentication(_) => "authentication",
            });
            let mut outcome: Vec<String> = demands.map(str::to_owned).collect();
            outcome.extend(bench.end.error.map(|error| error.to_string()));
            outcome.extend(bench.sent());
            table += &format!("{stage:?} {}: {}\n", pdu_type.name(), outcome.join("; "));
        }
    }
    insta::assert_snapshot!(table);
}

/// A valid PDU of this type.
fn sample(pdu_type: PduType) -> Vec<u8> {
    let mut stream = Vec::new();
    match pdu_type {
        PduType::IC_REQ => {
            let request = InitPdu::request(DataAlignment(0), Digests::NONE.into(), 0);
            stream.extend_from_slice(request.as_bytes());
        }
        PduType::CAPSULE_CMD => capsule(&mut stream, read(6), &[], Digests::NONE),
        PduType::H2C_DATA => {
            let ids = DataIds { command_id: 6, transfer_tag: 0 };
            data_pdu(&mut stream, ids, PduFlags::LAST, &[0; 16], Digests::NONE);
        }
        PduType::H2C_TERM_REQ => {
            let request = TermReq::new(pdu_type, FatalStatus::SEQUENCE, 0, 0);
            stream.extend_from_slice(request.as_bytes());
        }
        _ => {
            let header_len = pdu_type.header_len().unwrap();
            let common = CommonHeader::bare(pdu_type, header_len.try_into().unwrap());
            stream.extend_from_slice(common.as_bytes());
            stream.resize(header_len, 0);
        }
    }
    stream
}
