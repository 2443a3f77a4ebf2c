//! Tests of the target with raw PDUs.

mod bad;
mod commands;
mod data;
mod login;
mod rights;
mod series;
mod sessions;
mod tasks;

use nearflash_request::{Completion, Outcome, Payload, Request};
use nearflash_session::Head;
use zerocopy::big_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::Demand;
use super::ServingEnd;
use crate::Digests;
use crate::check::Setup;
use crate::check::target::{Bench, FIRST_CMD_SN};
use crate::framer::{Framer, Rules, basic_header};
use crate::pdu::{
    DataIn, DataOut, FINAL, HEADER_LEN, LunField, Opcode, OpcodeByte, R2t, ScsiCommand,
    ScsiResponse,
};

const PLAIN: Setup = Setup { header_digest: false, data_digest: false, keys: "" };
/// Immediate data, and unsolicited data behind it: 1024 bytes at most, and 2048 for an R2T.
const UNSOLICITED: Setup = Setup {
    keys: "InitialR2T=No&ImmediateData=Yes&FirstBurstLength=1024&MaxBurstLength=2048&",
    ..PLAIN
};

/// A PDU of the target's.
#[derive(Debug)]
struct Pdu {
    header: [u8; HEADER_LEN],
    data: Vec<u8>,
}

impl Pdu {
    fn opcode(&self) -> Opcode {
        OpcodeByte(self.header[0]).opcode()
    }

    fn of<T: FromBytes + KnownLayout + Immutable>(&self) -> &T {
        T::ref_from_bytes(&self.header).unwrap()
    }

    /// A number in the header.
    fn number(&self, at: usize) -> u32 {
        u32::from_be_bytes(self.header[at..at + 4].try_into().unwrap())
    }

    fn itt(&self) -> u32 {
        self.number(16)
    }

    fn stat_sn(&self) -> u32 {
        self.number(24)
    }
}

/// All output, cut into PDUs; digests are checked.
fn said(bench: &mut Bench) -> Vec<Pdu> {
    cut(&bench.drain_output(), bench.digests)
}

fn cut(stream: &[u8], digests: Digests) -> Vec<Pdu> {
    let mut framer = Framer::new(Rules { digests, data_len_max: 1 << 20 });
    let mut rest = stream;
    let mut pdus = Vec::new();
    while !rest.is_empty() {
        let Some(Head::InPlace(head)) = framer.take_head(&mut rest).unwrap() else {
            panic!("half a PDU")
        };
        let header = *basic_header(head);
        let data = framer.body.take_data(&mut rest).to_vec();
        assert!(framer.body.take_end(&mut rest) && framer.body.damage().is_none());
        pdus.push(Pdu { header, data });
    }
    pdus
}

/// The only PDU sent.
fn said_once(bench: &mut Bench) -> Pdu {
    let mut pdus = said(bench);
    assert_eq!(pdus.len(), 1, "{pdus:?}");
    pdus.remove(0)
}

fn opcodes(pdus: &[Pdu]) -> Vec<Opcode> {
    pdus.iter().map(Pdu::opcode).collect()
}

/// The number of the `index`th command of a session, from 0.
fn number(index: u32) -> U32 {
    U32::new(FIRST_CMD_SN.wrapping_add(index))
}

/// A command of ten bytes: operation code, address, count; number and tag are `index`.
fn command(index: u32, direction: u8, cdb: [u8; 10], expected: u32) -> ScsiCommand {
    let mut command = ScsiCommand::new(FINAL | direction, index);
    command.cdb[..10].copy_from_slice(&cdb);
    command.transfer_len = U32::new(expected);
    command.cmd_sn = number(index);
    command
}

fn read(index: u32, lba: u8, count: u8) -> ScsiCommand {
    let cdb = [0x28, 0, 0, 0, 0, lba, 0, 0, count, 0];
    command(index, ScsiCommand::READ, cdb, u32::from(count) * 512)
}

fn write(index: u32, lba: u8, count: u8) -> ScsiCommand {
    let cdb = [0x2A, 0, 0, 0, 0, lba, 0, 0, count, 0];
    command(index, ScsiCommand::WRITE, cdb, u32::from(count) * 512)
}

fn test_unit_ready(index: u32) -> ScsiCommand {
    command(index, 0, [0; 10], 0)
}

fn data_out(itt: u32, ttt: u32, number: u32, offset: u32, flags: u8) -> DataOut {
    let mut data = DataOut::new(LunField::new(0), itt, ttt);
    data.flags = flags;
    data.data_sn = U32::new(number);
    data.offset = U32::new(offset);
    data
}

/// The one request that was handed out.
fn handed_out(bench: &mut Bench) -> Request {
    let mut demands = std::mem::take(&mut bench.demands);
    assert_eq!(demands.len(), 1, "{demands:?}");
    let Some(Demand::Request(request)) = demands.pop() else { panic!("no request") };
    request
}

fn status(pdu: &Pdu) -> u8 {
    assert_eq!(pdu.opcode(), Opcode::SCSI_RESPONSE, "{pdu:?}");
    pdu.of::<ScsiResponse>().status
}

/// Key, code and qualifier of the sense data.
fn sense(pdu: &Pdu) -> [u8; 3] {
    assert_eq!(status(pdu), 2, "{pdu:?}");
    assert_eq!(usize::from(u16::from_be_bytes([pdu.data[0], pdu.data[1]])), pdu.data.len() - 2);
    [pdu.data[4], pdu.data[14], pdu.data[15]]
}

fn answer_with(bench: &mut Bench, request: &Request, outcome: Outcome) {
    let done = Completion { tag: request.tag, outcome, payload: Payload::None };
    bench.end.session.handle_completion(done, &[]);
}
