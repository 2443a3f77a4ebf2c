//! Streams that are nearly valid: PDUs of the full feature phase, each made from a few bytes, with
//! occasional errors in their fields. Random bytes alone would hardly get past the first header.

use zerocopy::big_endian::{U16, U32};
use zerocopy::{FromZeros, IntoBytes};

use super::target::{FIRST_CMD_SN, Setup, pdu_of};
use crate::Digests;
use crate::pdu::{
    DataOut, FINAL, LogoutReason, LogoutRequest, LunField, NO_TAG, NopOut, OpcodeByte, ScsiCommand,
    SnackRequest, TaskFunction, TaskRequest, TextRequest,
};

/// Operation codes, each with the offset of a byte of its length field.
const COMMANDS: [(u8, usize); 20] = [
    (0x28, 8),
    (0x2A, 8),
    (0x88, 13),
    (0x8A, 13),
    (0x00, 4),
    (0x03, 4),
    (0x12, 4),
    (0x1A, 4),
    (0x15, 4),
    (0x55, 8),
    (0xA0, 9),
    (0x9E, 13),
    (0x42, 8),
    (0x89, 13),
    (0x93, 13),
    (0x41, 8),
    (0x2F, 8),
    (0x5E, 8),
    (0x5F, 8),
    (0xA3, 9),
];

/// The bytes of a recipe that one PDU is made from.
const RECIPE_LEN: usize = 6;

/// A stream of PDUs: each is made from six bytes.
pub fn stream_of(setup: Setup, recipe: &[u8]) -> Vec<u8> {
    stream_after(setup, 0, recipe)
}

/// The maximum number of commands in the stream of such a recipe.
pub const fn commands_in(recipe: &[u8]) -> usize {
    recipe.len() / RECIPE_LEN
}

/// The stream of a session that has already had `commands` commands.
pub fn stream_after(setup: Setup, commands: u32, recipe: &[u8]) -> Vec<u8> {
    let mut maker = Maker {
        digests: Digests { header: setup.header_digest, data: setup.data_digest },
        number: FIRST_CMD_SN.wrapping_add(commands),
        itt: commands,
        stream: Vec::new(),
    };
    for bytes in recipe.chunks_exact(RECIPE_LEN) {
        let [kind, a, b, c, d, spoil] = *bytes else { continue };
        maker.make(kind, [a, b, c, d]);
        maker.spoil(spoil);
    }
    maker.stream
}

struct Maker {
    digests: Digests,
    number: u32,
    itt: u32,
    stream: Vec<u8>,
}

impl Maker {
    fn make(&mut self, kind: u8, detail: [u8; 4]) {
        match kind % 16 {
            0..=6 => self.command(detail),
            7..=10 => self.data_out(detail),
            11 => self.ping(detail),
            12 => self.function(detail),
            13 => self.text(detail),
            14 if detail[0] < 32 => self.logout(detail),
            _ => self.other(detail),
        }
    }

    /// Usually the next number; sometimes one before or after it.
    fn next_number(&mut self, skew: u8) -> U32 {
        let skewed = match skew {
            0..=3 => self.number.wrapping_add(u32::from(skew)),
            4 => self.number.wrapping_sub(1),
            5 => self.number.wrapping_add(1000),
            _ => {
                self.number = self.number.wrapping_add(1);
                self.number.wrapping_sub(1)
            }
        };
        U32::new(skewed)
    }

    fn push(&mut self, header: &[u8], data: &[u8]) {
        let pdu = pdu_of(header, data, self.digests);
        self.stream.extend_from_slice(&pdu);
    }

    fn command(&mut self, [which, amount, len, skew]: [u8; 4]) {
        let (opcode, place) = COMMANDS[usize::from(which) % COMMANDS.len()];
        let writes = matches!(opcode, 0x2A | 0x8A | 0x15 | 0x55 | 0x42 | 0x89 | 0x93 | 0x41 | 0x5F);
        let direction = if writes { ScsiCommand::WRITE } else { ScsiCommand::READ };
        let is_final = if amount & 0x40 == 0 { FINAL } else { 0 };
        self.itt += 1;
        let mut command = ScsiCommand::new(direction | is_final, self.itt);
        command.lun = LunField::new(u16::from(len & 3));
        command.cdb[0] = opcode;
        command.cdb[place] = amount & 0x3F;
        if opcode == 0x9E {
            command.cdb[1] = if amount & 1 == 0 { 0x10 } else { 0x12 };
        }
        let data = if writes { vec![amount; usize::from(len) * 16] } else { Vec::new() };
        command.transfer_len = U32::new(u32::from(amount & 0x3F) * 512 + u32::from(len >> 6));
        if skew == 0xFF {
            command.opcode = OpcodeByte::immediate(command.opcode.opcode());
        }
        command.cmd_sn = self.next_number(skew);
        self.push(command.as_bytes(), &data);
    }

    fn data_out(&mut self, [which, len, offset, number]: [u8; 4]) {
        let solicited = which & 1 == 0;
        let tag = if solicited { u32::from(which >> 1 & 7) } else { NO_TAG };
        let mut data = DataOut::new(LunField::new(0), self.itt, tag);
        data.flags = if which & 0x10 == 0 { FINAL } else { 0 };
        data.data_sn = U32::new(u32::from(number & 3));
        data.offset = U32::new(u32::from(offset) * 16);
        self.push(data.as_bytes(), &vec![which; usize::from(len) * 16]);
    }

    fn ping(&mut self, [tag, len, immediate, skew]: [u8; 4]) {
        let itt = if tag & 3 == 0 { NO_TAG } else { u32::from(tag) };
        let mut ping = NopOut::new(LunField::new(0), itt, NO_TAG);
        if immediate & 1 == 0 {
            ping.opcode = OpcodeByte::new(ping.opcode.opcode());
        }
        ping.cmd_sn = self.next_number(skew);
        self.push(ping.as_bytes(), &vec![tag; usize::from(len)]);
    }

    fn function(&mut self, [function, lun, back, skew]: [u8; 4]) {
        let referenced = self.itt.wrapping_sub(u32::from(back & 3));
        let lun = LunField::new(u16::from(lun & 3));
        let function = TaskFunction(function % 14);
        let mut request = TaskRequest::new(function, lun, 0x8000_0000 | self.itt, referenced);
        request.cmd_sn = self.next_number(skew);
        self.push(request.as_bytes(), &[]);
    }

    fn text(&mut self, [which, flags, tag, skew]: [u8; 4]) {
        const TEXTS: [&[u8]; 6] = [
            b"SendTargets=All\0",
            b"SendTargets=\0MaxRecvDataSegmentLength=512\0",
            b"SendTargets=Nothing\0X-com.example=1\0",
            b"no pair",
            b"",
            b"HeaderDigest=None\0HeaderDigest=CRC32C\0",
        ];
        let tag = if tag & 3 == 0 { 0x7E87_7E87 } else { NO_TAG };
        let mut request = TextRequest::new(flags & 0xC0, u32::from(which), tag);
        request.cmd_sn = self.next_number(skew);
        self.push(request.as_bytes(), TEXTS[usize::from(which) % TEXTS.len()]);
    }

    fn logout(&mut self, [_, reason, cid, skew]: [u8; 4]) {
        let cid = u16::from(cid & 3);
        let mut request = LogoutRequest::new(LogoutReason(reason & 3), 77, cid);
        request.cid = U16::new(cid);
        request.cmd_sn = self.next_number(skew);
        self.push(request.as_bytes(), &[]);
    }

    /// Adds a PDU with an arbitrary opcode, which targets may not support.
    fn other(&mut self, [opcode, len, ..]: [u8; 4]) {
        let mut header = SnackRequest::new_zeroed();
        header.opcode = OpcodeByte(opcode & 0x7F);
        self.push(header.as_bytes(), &vec![opcode; usize::from(len)]);
    }

    /// Changes a byte of the last PDU for some values of `spoil`.
    fn spoil(&mut self, spoil: u8) {
        if spoil < 0xF0 || self.stream.is_empty() {
            return;
        }
        let back = usize::from(spoil & 0xF) * 7 + 1;
        let place = self.stream.len().saturating_sub(back);
        if let Some(byte) = self.stream.get_mut(place) {
            *byte ^= spoil;
        }
    }
}
