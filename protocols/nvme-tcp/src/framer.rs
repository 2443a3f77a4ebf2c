//! The framing rules of NVMe/TCP, for both ends.
//!
//! Spec: NVMe/TCP 1.1, 3.3.1 (digests), 3.6.2.1 (common header). The framer is independent of
//! commands and of the connection's state.
//!
//! Invariant: a PDU's length is checked against its type and the limit before it is used.

use nearflash_session::{Digests, HeadRules, HeadShape, Layout, length, offset};
use zerocopy::FromBytes;

use crate::error::PeerError;
use crate::pdu::{CommonHeader, DataAlignment, HEAD_LEN_MAX, PduFlags, PduType, TermReq};

/// The framer of one connection's incoming stream.
pub(crate) type Framer = nearflash_session::Framer<Rules, HEAD_LEN_MAX>;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) digests: Digests,
    pub(crate) alignment: DataAlignment,
    /// The maximum length of in-capsule data.
    pub(crate) capsule_data_max: usize,
    /// The maximum length of data in a data PDU.
    pub(crate) data_max: usize,
    /// The types that this end receives.
    pub(crate) accepted: Accepted,
}

/// The types that an end receives, each with its header length, so that one lookup returns both.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Accepted([u8; 16]);

impl Accepted {
    pub(crate) fn only(types: &[PduType]) -> Self {
        let mut lens = [0; 16];
        for pdu_type in types {
            let len = pdu_type.header_len().expect("only known types are accepted");
            lens[usize::from(pdu_type.0)] = u8::try_from(len).expect("headers are short");
        }
        Self(lens)
    }

    /// The HLEN of this type; `None` if it is not accepted.
    #[inline]
    fn header_len(&self, pdu_type: PduType) -> Option<u8> {
        self.0.get(usize::from(pdu_type.0)).copied().filter(|len| *len > 0)
    }
}

const COMMON_LEN: usize = size_of::<CommonHeader>();

impl HeadRules for Rules {
    type Error = PeerError;
    const PREFIX_LEN: usize = COMMON_LEN;

    #[inline]
    fn shape(&self, prefix: &[u8]) -> Result<HeadShape, PeerError> {
        let (common, _) = CommonHeader::ref_from_prefix(prefix).expect("a prefix has all of it");
        let pdu = common.pdu_type;
        let Some(header_len) = self.accepted.header_len(pdu) else {
            return Err(refused(pdu, 0));
        };
        if common.header_len != header_len {
            return Err(refused(pdu, offset!(CommonHeader, header_len)));
        }
        let header_len = usize::from(header_len);
        let digests = if pdu.carries_digests() { self.digests } else { Digests::NONE };
        if common.flags.has(PduFlags::HEADER_DIGEST) != digests.header {
            return Err(refused(pdu, offset!(CommonHeader, flags)));
        }
        let head_len = header_len + digests.header_len();
        let body = self.layout(common, head_len)?;
        Ok(HeadShape { header_len, head_len, is_digested: digests.header, body })
    }

    #[cold]
    fn damaged(received: u32, computed: u32) -> PeerError {
        PeerError::HeaderDigest { received, computed }
    }
}

impl Rules {
    /// The layout of the part after a PDU's head.
    #[inline]
    fn layout(&self, common: &CommonHeader, head_len: usize) -> Result<Layout, PeerError> {
        let pdu = common.pdu_type;
        let Some(behind_head) = length(common.pdu_len.get()).checked_sub(head_len) else {
            return Err(refused(pdu, offset!(CommonHeader, pdu_len)));
        };
        match pdu {
            PduType::CAPSULE_CMD if behind_head == 0 => Ok(Layout::default()),
            PduType::CAPSULE_CMD => self.data_layout(common, self.capsule_data_max),
            PduType::H2C_DATA | PduType::C2H_DATA => self.data_layout(common, self.data_max),
            PduType::H2C_TERM_REQ | PduType::C2H_TERM_REQ
                if behind_head <= TermReq::DATA_LEN_MAX =>
            {
                Ok(Layout { data: wire_len(behind_head), ..Layout::default() })
            }
            _ if behind_head == 0 => Ok(Layout::default()),
            _ => Err(refused(pdu, offset!(CommonHeader, pdu_len))),
        }
    }

    /// The layout after the head of a PDU with data: NVMe/TCP 1.1, 3.6.2.1 (PDO, PLEN) and 3.3.1.
    #[inline]
    fn data_layout(&self, common: &CommonHeader, data_max: usize) -> Result<Layout, PeerError> {
        let pdu = common.pdu_type;
        let digests = self.digests;
        if common.flags.has(PduFlags::DATA_DIGEST) != digests.data {
            return Err(refused(pdu, offset!(CommonHeader, flags)));
        }
        let head_len = common.header_len + if digests.header { 4 } else { 0 };
        let data_offset = usize::from(common.data_offset);
        let Some(before) = common.data_offset.checked_sub(head_len) else {
            return Err(refused(pdu, offset!(CommonHeader, data_offset)));
        };
        if !self.alignment.divides(data_offset) {
            return Err(refused(pdu, offset!(CommonHeader, data_offset)));
        }
        let pdu_len = length(common.pdu_len.get());
        let data = pdu_len.saturating_sub(data_offset + digests.data_len());
        if data == 0 {
            return Err(refused(pdu, offset!(CommonHeader, pdu_len)));
        }
        if data > data_max {
            return Err(too_much_data(pdu));
        }
        Ok(Layout { before, behind: 0, is_digested: digests.data, data: wire_len(data) })
    }
}

/// The part of the invalid header that was received, for a termination request.
pub(crate) fn header_at_fault<'a>(framer: &'a Framer, rest: &'a [u8]) -> &'a [u8] {
    let unfinished = framer.unfinished();
    let head = if unfinished.is_empty() { rest } else { unfinished };
    if head.len() < COMMON_LEN {
        return &[];
    }
    let looked_at = framer.rules.shape(head).map_or(COMMON_LEN, |shape| shape.header_len);
    &head[..looked_at.min(head.len()).min(TermReq::DATA_LEN_MAX)]
}

#[cold]
fn refused(pdu: PduType, offset: u32) -> PeerError {
    PeerError::HeaderField { pdu, offset }
}

/// Converts the length of a part of a PDU. PLEN has 32 bits, so it always fits.
#[inline]
fn wire_len(len: usize) -> u32 {
    u32::try_from(len).expect("a PDU is below 4 GiB")
}

/// Data PDUs have a negotiated limit. In a capsule, too much data makes PLEN invalid.
#[cold]
fn too_much_data(pdu: PduType) -> PeerError {
    match pdu {
        PduType::CAPSULE_CMD => refused(pdu, offset!(CommonHeader, pdu_len)),
        _ => PeerError::LimitExceeded(pdu),
    }
}
