//! The PDUs of NVMe/TCP as structs over bytes.
//!
//! Spec: NVMe/TCP 1.1, 3.6.2. Every PDU begins with the common header and continues with a header
//! of fixed length for its type. If the type has data, a header digest, padding, the data and a
//! data digest follow. This module is independent of sessions, queues and commands.

mod words;

use nearflash_nvme::{Command, CompletionEntry};
use nearflash_session::{codes, wire};
use zerocopy::little_endian::{U16, U32};

use crate::digest::{DIGEST_LEN, Digests};

wire! {
    /// The PDU type, open: an unknown value is refused in one place. NVMe/TCP 1.1, 3.6.2.1.
    pub struct PduType(pub u8);
}

codes! { PduType {
    /// Initialize connection request, from the host.
    IC_REQ = 0x00, "ICReq";
    /// Initialize connection response, from the controller.
    IC_RESP = 0x01, "ICResp";
    /// The host terminates the connection.
    H2C_TERM_REQ = 0x02, "H2CTermReq";
    /// The controller terminates the connection.
    C2H_TERM_REQ = 0x03, "C2HTermReq";
    /// A command, optionally with its data.
    CAPSULE_CMD = 0x04, "CapsuleCmd";
    /// A completion queue entry.
    CAPSULE_RESP = 0x05, "CapsuleResp";
    /// Data from the host that an R2T requested.
    H2C_DATA = 0x06, "H2CData";
    /// Data to the host.
    C2H_DATA = 0x07, "C2HData";
    /// Ready to transfer: a request for data from the host.
    R2T = 0x09, "R2T";
} }

impl PduType {
    /// The HLEN of a PDU of this type; `None` for an unknown type.
    pub const fn header_len(self) -> Option<usize> {
        match self {
            Self::IC_REQ | Self::IC_RESP => Some(128),
            Self::CAPSULE_CMD => Some(72),
            Self::H2C_TERM_REQ
            | Self::C2H_TERM_REQ
            | Self::CAPSULE_RESP
            | Self::H2C_DATA
            | Self::C2H_DATA
            | Self::R2T => Some(24),
            _ => None,
        }
    }

    /// Whether a PDU can have digests. NVMe/TCP 1.1, 3.3.1: those that begin or end cannot.
    pub const fn carries_digests(self) -> bool {
        !matches!(self, Self::IC_REQ | Self::IC_RESP | Self::H2C_TERM_REQ | Self::C2H_TERM_REQ)
    }

    /// The short name, for messages.
    pub fn name(self) -> &'static str {
        self.known().map_or("unknown", |(_, name)| name)
    }
}

wire! {
    /// The FLAGS field. The meaning of the bits depends on the PDU type.
    pub struct PduFlags(pub u8);
}

impl PduFlags {
    /// HDGSTF: a header digest follows the header.
    pub const HEADER_DIGEST: Self = Self(1 << 0);
    /// DDGSTF: a data digest follows the data.
    pub const DATA_DIGEST: Self = Self(1 << 1);
    /// LAST_PDU: the last data PDU of its R2T or command.
    pub const LAST: Self = Self(1 << 2);
    /// SUCCESS: the command succeeded, and no response capsule follows.
    pub const SUCCESS: Self = Self(1 << 3);

    /// Whether all of `flags` are set.
    pub const fn has(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// The union of both sets of flags.
    #[must_use]
    pub const fn with(self, flags: Self) -> Self {
        Self(self.0 | flags.0)
    }
}

wire! {
    /// PDU common header, CH. NVMe/TCP 1.1, 3.6.2.1.
    pub struct CommonHeader: [u8; 8] {
        pub pdu_type: PduType = "The PDU type",
        pub flags: PduFlags = "The flags, which depend on the type",
        /// HLEN: the length of this header and the type's own, without the digest.
        pub header_len: u8,
        pub data_offset: u8 = "PDO: the offset of the data from the start of the PDU",
        pub pdu_len: U32 = "PLEN: the length of the whole PDU, including digests and padding",
    }
}

impl CommonHeader {
    /// The header of a PDU without data or digests.
    pub const fn bare(pdu_type: PduType, header_len: u8) -> Self {
        Self {
            pdu_type,
            flags: PduFlags(0),
            header_len,
            data_offset: 0,
            pdu_len: U32::from_bytes([header_len, 0, 0, 0]),
        }
    }

    /// Sets FLAGS and PLEN of a PDU without data.
    #[inline]
    pub(crate) fn digested(mut self, digests: Digests) -> Self {
        if digests.header {
            self.flags = self.flags.with(PduFlags::HEADER_DIGEST);
            self.pdu_len = U32::new(u32::from(self.header_len) + 4);
        }
        self
    }

    /// Sets FLAGS, PDO and PLEN of a PDU with `data_len` bytes of data. Returns the length of the
    /// padding before the data.
    #[inline]
    pub(crate) fn lay_out(
        &mut self,
        digests: Digests,
        alignment: DataAlignment,
        data_len: u32,
    ) -> usize {
        let head_len = usize::from(self.header_len) + digests.header_len();
        if digests.header {
            self.flags = self.flags.with(PduFlags::HEADER_DIGEST);
        }
        if digests.data {
            self.flags = self.flags.with(PduFlags::DATA_DIGEST);
        }
        let data_offset = alignment.data_offset(head_len);
        self.data_offset = u8::try_from(data_offset).expect("alignments are at most 128 bytes");
        let digest_len = if digests.data { 4 } else { 0 };
        self.pdu_len = U32::new(u32::from(self.data_offset) + data_len + digest_len);
        data_offset - head_len
    }
}

/// The longest padding: after a header of 24 bytes, for an alignment of 128 bytes.
pub(crate) const PADDING: [u8; 128] = [0; 128];

wire! {
    /// The DGST field of ICReq and ICResp: the digests to enable.
    pub struct DigestBits(pub u8);
}

impl DigestBits {
    /// HDGST_ENABLE.
    pub const HEADER: u8 = 1 << 0;
    /// DDGST_ENABLE.
    pub const DATA: u8 = 1 << 1;
}

/// Reserved bits are ignored.
impl From<DigestBits> for Digests {
    fn from(bits: DigestBits) -> Self {
        Self { header: bits.0 & DigestBits::HEADER != 0, data: bits.0 & DigestBits::DATA != 0 }
    }
}

impl From<Digests> for DigestBits {
    fn from(digests: Digests) -> Self {
        let header = if digests.header { Self::HEADER } else { 0 };
        let data = if digests.data { Self::DATA } else { 0 };
        Self(header | data)
    }
}

wire! {
    /// A data alignment, as in HPDA and CPDA: 0's based, in dwords, at most 31.
    pub struct DataAlignment(pub u8);
}

impl DataAlignment {
    /// The largest valid value: 128 bytes.
    pub const MAX: Self = Self(31);

    /// Whether the value is valid.
    pub const fn is_valid(self) -> bool {
        self.0 <= Self::MAX.0
    }

    /// The alignment in bytes: 4 to 128 for valid values.
    pub const fn bytes(self) -> usize {
        // A widening cast: `From` is not usable in a const function.
        (self.0 as usize + 1) * 4
    }

    /// Whether `data_offset` is aligned. Most alignments are powers of two, which need no division.
    #[inline]
    pub(crate) const fn divides(self, data_offset: usize) -> bool {
        let bytes = self.bytes();
        if bytes.is_power_of_two() {
            data_offset & (bytes - 1) == 0
        } else {
            data_offset.is_multiple_of(bytes)
        }
    }

    /// The offset of data after `head_len` bytes of header and digest.
    pub const fn data_offset(self, head_len: usize) -> usize {
        head_len.next_multiple_of(self.bytes())
    }
}

wire! {
    /// ICReq and ICResp. NVMe/TCP 1.1, 3.6.2.2 and 3.6.2.3.
    pub struct InitPdu: [u8; 128] {
        pub common: CommonHeader = "HLEN and PLEN are 128",
        pub format_version: U16 = "PFV: only 0 is defined",
        /// HPDA or CPDA: the alignment of the data that the other end sends.
        pub alignment: DataAlignment,
        pub digests: DigestBits = "The digests that the host requests, or those in use",
        /// MAXR2T, 0's based: the maximum number of outstanding R2Ts per command. Or MAXH2CDATA: the
        /// maximum data in one H2CData, a multiple of 4 and at least 4096.
        pub limit: U32,
        reserved: [u8; 112],
    }
}

impl InitPdu {
    /// The ICReq with which a host opens a connection.
    pub fn request(alignment: DataAlignment, digests: DigestBits, max_r2t: u32) -> Self {
        Self::new(PduType::IC_REQ, alignment, digests, max_r2t)
    }

    /// The ICResp of a controller.
    pub fn response(alignment: DataAlignment, digests: DigestBits, max_h2c_data: u32) -> Self {
        Self::new(PduType::IC_RESP, alignment, digests, max_h2c_data)
    }

    fn new(pdu: PduType, alignment: DataAlignment, digests: DigestBits, limit: u32) -> Self {
        let common = CommonHeader::bare(pdu, 128);
        let (format_version, limit) = (U16::ZERO, U32::new(limit));
        Self { common, format_version, alignment, digests, limit, reserved: [0; 112] }
    }
}

wire! {
    /// FES: why a connection is terminated, open. NVMe/TCP 1.1, 3.6.2.4 and 3.6.2.5.
    pub struct FatalStatus(pub U16);
}

impl FatalStatus {
    /// A header field is invalid; FEI is its byte offset.
    pub const INVALID_HEADER_FIELD: Self = Self(U16::from_bytes([1, 0]));
    /// The PDU is out of sequence.
    pub const SEQUENCE: Self = Self(U16::from_bytes([2, 0]));
    /// The header digest is wrong; FEI is the digest received.
    pub const HEADER_DIGEST: Self = Self(U16::from_bytes([3, 0]));
    /// Data outside the range of the command or R2T.
    pub const DATA_OUT_OF_RANGE: Self = Self(U16::from_bytes([4, 0]));
    /// More data in a PDU than MAXH2CDATA (from the host), or more R2Ts than MAXR2T (to it).
    pub const LIMIT_EXCEEDED: Self = Self(U16::from_bytes([5, 0]));
    /// A parameter is not supported; FEI is its byte offset.
    pub const UNSUPPORTED_PARAMETER: Self = Self(U16::from_bytes([6, 0]));
}

wire! {
    /// H2CTermReq and C2HTermReq; the invalid header follows. NVMe/TCP 1.1, 3.6.2.4 and 3.6.2.5.
    pub struct TermReq: [u8; 24] {
        pub common: CommonHeader = "HLEN is 24, PLEN 24 to 152",
        pub status: FatalStatus = "FES",
        pub information: U32 = "FEI, unaligned",
        reserved: [u8; 10],
    }
}

impl TermReq {
    /// The maximum length of the data after the header.
    pub const DATA_LEN_MAX: usize = 128;

    /// A termination request that `data_len` bytes of the invalid PDU follow.
    pub fn new(pdu_type: PduType, status: FatalStatus, information: u32, data_len: u8) -> Self {
        let mut common = CommonHeader::bare(pdu_type, 24);
        common.pdu_len = U32::new(24 + u32::from(data_len));
        Self { common, status, information: U32::new(information), reserved: [0; 10] }
    }
}

wire! {
    /// CapsuleCmd. NVMe/TCP 1.1, 3.6.2.6.
    pub struct CapsuleCmd: [u8; 72] {
        pub common: CommonHeader = "HLEN is 72",
        pub command: Command = "CCSQE: the command",
    }

    /// CapsuleResp. NVMe/TCP 1.1, 3.6.2.7.
    pub struct CapsuleResp: [u8; 24] {
        pub common: CommonHeader = "HLEN is 24",
        pub entry: CompletionEntry = "RCCQE: the completion queue entry",
    }

    /// H2CData, C2HData and R2T. NVMe/TCP 1.1, 3.6.2.8 to 3.6.2.10.
    pub struct DataPdu: [u8; 24] {
        pub common: CommonHeader = "HLEN is 24",
        pub command_id: U16 = "CCCID: the command's identifier",
        /// TTAG of the R2T and of the data that it requests; reserved in C2HData.
        pub transfer_tag: U16,
        pub data_offset: U32 = "DATAO or R2TO: the offset in the command's data",
        pub data_len: U32 = "DATAL or R2TL: the length of the data in this PDU or requested",
        reserved: [u8; 4],
    }
}

impl DataPdu {
    /// The header for `data_len` bytes at `data_offset` of the command's data.
    #[inline]
    pub fn new(common: CommonHeader, ids: DataIds, data_offset: u32, data_len: u32) -> Self {
        Self {
            common,
            command_id: U16::new(ids.command_id),
            transfer_tag: U16::new(ids.transfer_tag),
            data_offset: U32::new(data_offset),
            data_len: U32::new(data_len),
            reserved: [0; 4],
        }
    }

    /// An R2T that requests `data_len` bytes at `data_offset`.
    pub fn r2t(ids: DataIds, data_offset: u32, data_len: u32) -> Self {
        Self::new(CommonHeader::bare(PduType::R2T, 24), ids, data_offset, data_len)
    }
}

/// The command, and its R2T, to which data belongs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DataIds {
    /// CCCID.
    pub command_id: u16,
    /// TTAG; 0 in C2HData.
    pub transfer_tag: u16,
}

/// The longest header of any type, including its digest.
pub const HEAD_LEN_MAX: usize = 128 + DIGEST_LEN;

#[cfg(test)]
mod tests {
    use zerocopy::IntoBytes;

    use super::*;

    #[test]
    fn an_alignment_is_zero_based_dwords() {
        assert_eq!(DataAlignment(0).bytes(), 4);
        assert_eq!(DataAlignment::MAX.bytes(), 128);
        assert!(!DataAlignment(32).is_valid());
        assert_eq!(DataAlignment(0).data_offset(72), 72);
        assert_eq!(DataAlignment(31).data_offset(28), 128);
    }

    #[test]
    fn a_data_pdu_lies_on_the_wire_as_the_specification_draws_it() {
        let mut common = CommonHeader::bare(PduType::C2H_DATA, 24);
        common.flags = PduFlags::LAST.with(PduFlags::SUCCESS);
        common.data_offset = 24;
        common.pdu_len = U32::new(24 + 0x1000);
        let ids = DataIds { command_id: 0x1234, transfer_tag: 0 };
        let pdu = DataPdu::new(common, ids, 0, 0x1000);
        let wire = [
            0x07, 0x0C, 24, 24, 0x18, 0x10, 0, 0, 0x34, 0x12, 0, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0,
            0, 0, 0,
        ];
        assert_eq!(pdu.as_bytes(), wire);
    }

    #[test]
    fn the_information_of_a_term_req_is_at_byte_ten() {
        let pdu = TermReq::new(PduType::C2H_TERM_REQ, FatalStatus::HEADER_DIGEST, 0xA1B2_C3D4, 8);
        assert_eq!(pdu.as_bytes()[4..14], [32, 0, 0, 0, 3, 0, 0xD4, 0xC3, 0xB2, 0xA1]);
    }

    #[test]
    fn the_header_lengths_are_the_sizes_of_the_structs() {
        let sizes = [
            (PduType::IC_REQ, size_of::<InitPdu>()),
            (PduType::IC_RESP, size_of::<InitPdu>()),
            (PduType::H2C_TERM_REQ, size_of::<TermReq>()),
            (PduType::C2H_TERM_REQ, size_of::<TermReq>()),
            (PduType::CAPSULE_CMD, size_of::<CapsuleCmd>()),
            (PduType::CAPSULE_RESP, size_of::<CapsuleResp>()),
            (PduType::H2C_DATA, size_of::<DataPdu>()),
            (PduType::C2H_DATA, size_of::<DataPdu>()),
            (PduType::R2T, size_of::<DataPdu>()),
        ];
        for (pdu_type, size) in sizes {
            assert_eq!(pdu_type.header_len(), Some(size), "{}", pdu_type.name());
        }
    }
}
