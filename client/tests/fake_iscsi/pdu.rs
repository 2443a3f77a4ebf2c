//! The PDUs of the fake target: 48 bytes, and a data segment.

use std::io::{self, Read, Write};
use std::net::TcpStream;

pub(super) mod opcode {
    pub(crate) const NOP_OUT: u8 = 0x00;
    pub(crate) const COMMAND: u8 = 0x01;
    pub(crate) const LOGIN: u8 = 0x03;
    pub(crate) const TEXT: u8 = 0x04;
    pub(crate) const DATA_OUT: u8 = 0x05;
    pub(crate) const LOGOUT: u8 = 0x06;
    pub(crate) const NOP_IN: u8 = 0x20;
    pub(crate) const RESPONSE: u8 = 0x21;
    pub(crate) const LOGIN_RESPONSE: u8 = 0x23;
    pub(crate) const TEXT_RESPONSE: u8 = 0x24;
    pub(crate) const DATA_IN: u8 = 0x25;
    pub(crate) const LOGOUT_RESPONSE: u8 = 0x26;
    pub(crate) const R2T: u8 = 0x31;
}

/// A basic header segment.
#[derive(Clone)]
pub(super) struct Header(pub(super) [u8; 48]);

impl Header {
    pub(super) fn new(opcode: u8) -> Self {
        Self([0; 48]).with_byte(0, opcode)
    }

    pub(super) fn with_byte(mut self, at: usize, value: u8) -> Self {
        self.0[at] = value;
        self
    }

    pub(super) fn with_word(mut self, at: usize, value: u32) -> Self {
        self.0[at..at + 4].copy_from_slice(&value.to_be_bytes());
        self
    }

    pub(super) fn byte(&self, at: usize) -> u8 {
        self.0[at]
    }

    pub(super) fn word(&self, at: usize) -> u32 {
        u32::from_be_bytes(self.0[at..at + 4].try_into().unwrap())
    }

    pub(super) fn opcode(&self) -> u8 {
        self.0[0] & 0x3F
    }

    pub(super) fn is_immediate(&self) -> bool {
        self.0[0] & 0x40 != 0
    }

    fn data_len(&self) -> usize {
        usize::try_from(self.word(4) & 0x00FF_FFFF).unwrap()
    }

    /// Operation code, first block and number of blocks of a 16-byte CDB.
    pub(super) fn cdb_range(&self) -> (u8, usize, usize) {
        let lba = u64::from_be_bytes(self.0[34..42].try_into().unwrap());
        let (lba, count) = (usize::try_from(lba), usize::try_from(self.word(42)));
        (self.0[32], lba.unwrap_or(0).min(1 << 30), count.unwrap())
    }
}

/// The stream of PDUs.
pub(super) struct Stream {
    stream: TcpStream,
    /// Whether headers and data have digests.
    pub(super) has_digests: bool,
    /// The initiator's MaxRecvDataSegmentLength.
    pub(super) data_len_max: usize,
}

impl Stream {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self { stream, has_digests: false, data_len_max: 8192 }
    }

    pub(super) fn local_port(&self) -> u16 {
        self.stream.local_addr().unwrap().port()
    }

    pub(super) fn receive(&mut self) -> io::Result<(Header, Vec<u8>)> {
        let mut header = Header([0; 48]);
        self.stream.read_exact(&mut header.0)?;
        self.check_digest(&header.0)?;
        assert_eq!(header.byte(4), 0, "no additional headers");
        let mut data = vec![0; header.data_len().next_multiple_of(4)];
        self.stream.read_exact(&mut data)?;
        if !data.is_empty() {
            self.check_digest(&data)?;
        }
        data.truncate(header.data_len());
        Ok((header, data))
    }

    fn check_digest(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.has_digests {
            let mut digest = [0; 4];
            self.stream.read_exact(&mut digest)?;
            assert_eq!(digest, crc32c::crc32c(bytes).to_le_bytes(), "the digest is right");
        }
        Ok(())
    }

    /// Encodes a PDU with its length, padding and digests.
    pub(super) fn encode(&self, header: Header, data: &[u8]) -> Vec<u8> {
        let header = header.with_word(4, u32::try_from(data.len()).unwrap());
        let mut bytes = header.0.to_vec();
        if self.has_digests {
            bytes.extend(crc32c::crc32c(&header.0).to_le_bytes());
        }
        let mut padded = data.to_vec();
        padded.resize(data.len().next_multiple_of(4), 0);
        if self.has_digests && !padded.is_empty() {
            padded.extend(crc32c::crc32c(&padded).to_le_bytes());
        }
        bytes.extend(padded);
        bytes
    }

    pub(super) fn send(&mut self, header: Header, data: &[u8]) -> io::Result<()> {
        let bytes = self.encode(header, data);
        self.send_bytes(&bytes)
    }

    pub(super) fn send_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }
}
