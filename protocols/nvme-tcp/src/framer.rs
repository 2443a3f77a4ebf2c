//! Cuts the TCP byte stream into headers and what follows them, for both ends.
//!
//! Spec: NVMe/TCP 1.1, 3.3.1 (digests), 3.6.2.1 (common header). A PDU is its head (header and header
//! digest), padding, data and data digest. Heads that lie whole in the bytes received are looked at
//! where they are; only heads that TCP cut in two are gathered in an array. Data is never gathered:
//! [`Framer::body`] counts what is left of it, and the session says where it goes.
//!
//! Knows nothing of commands or of the state of a connection.
//!
//! Invariants: no length of a PDU is believed before it is checked against its type and the limit;
//! however TCP cuts the stream, the same heads, bodies and errors come out.

use zerocopy::FromBytes;

use crate::digest::{self, DIGEST_LEN, Digests};
use crate::error::PeerError;
use crate::pdu::{CommonHeader, DataAlignment, HEAD_LEN_MAX, PduFlags, PduType, TermReq};

/// What a framer accepts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// The digests agreed.
    pub(crate) digests: Digests,
    /// How data must be aligned.
    pub(crate) alignment: DataAlignment,
    /// The most data in a capsule.
    pub(crate) capsule_data_max: usize,
    /// The most data in a data PDU.
    pub(crate) data_max: usize,
    /// The types that this end receives.
    pub(crate) accepted: Accepted,
}

/// The types that an end receives, each with its header's length: one look says both.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Accepted([u8; 16]);

impl Accepted {
    /// These and no others.
    pub(crate) fn only(types: &[PduType]) -> Self {
        let mut lens = [0; 16];
        for pdu_type in types {
            let len = pdu_type.header_len().expect("only known types are accepted");
            lens[usize::from(pdu_type.0)] = u8::try_from(len).expect("headers are short");
        }
        Self(lens)
    }

    /// HLEN of that type; `None` when it is not accepted.
    #[inline]
    fn header_len(&self, pdu_type: PduType) -> Option<u8> {
        self.0.get(usize::from(pdu_type.0)).copied().filter(|len| *len > 0)
    }
}

/// What is left of a PDU behind its head.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Body {
    /// Padding before the data.
    pad: usize,
    /// Data.
    data: usize,
    /// Data digest.
    digest: usize,
    /// The digest's bytes as they came.
    received: [u8; DIGEST_LEN],
    /// The digest of the data so far.
    computed: u32,
}

/// How a PDU's body is laid out: two words, so that they stay in registers.
#[derive(Clone, Copy, Debug, Default)]
struct Layout {
    pad: u32,
    data: u32,
}

impl Body {
    /// Begins a PDU's body.
    #[inline]
    fn begin(&mut self, layout: Layout, digests: Digests) {
        self.pad = memory_len(layout.pad);
        self.data = memory_len(layout.data);
        self.digest = if layout.data > 0 { digests.data_len() } else { 0 };
        self.computed = 0;
    }

    /// Whether nothing is left.
    #[inline]
    pub(crate) const fn is_over(&self) -> bool {
        self.pad | self.data | self.digest == 0
    }

    /// How much data is left.
    #[inline]
    pub(crate) const fn data_left(&self) -> usize {
        self.data
    }

    /// Whether data is next.
    #[inline]
    pub(crate) const fn data_is_next(&self) -> bool {
        self.pad == 0 && self.data > 0
    }

    /// Passes over padding.
    #[inline]
    pub(crate) fn skip_padding(&mut self, rest: &mut &[u8]) {
        let len = self.pad.min(rest.len());
        *rest = &rest[len..];
        self.pad -= len;
    }

    /// The next data in `rest`, counted and taken into the digest.
    #[inline]
    pub(crate) fn take_data<'a>(&mut self, rest: &mut &'a [u8]) -> &'a [u8] {
        let (data, after) = rest.split_at(self.data.min(rest.len()));
        *rest = after;
        self.count_data(data);
        data
    }

    /// These bytes were data.
    ///
    /// # Panics
    /// When there is less data left: the caller's fault.
    #[inline]
    pub(crate) fn count_data(&mut self, data: &[u8]) {
        assert!(
            self.pad == 0 && data.len() <= self.data,
            "only as much data as is left is received"
        );
        self.data -= data.len();
        if self.digest > 0 {
            self.computed = digest::append(self.computed, data);
        }
    }

    /// Takes what there is of the data digest, once the data is over.
    #[inline]
    pub(crate) fn take_digest(&mut self, rest: &mut &[u8]) {
        if self.pad > 0 || self.data > 0 {
            return;
        }
        while self.digest > 0 {
            let Some((byte, after)) = rest.split_first() else { return };
            self.received[DIGEST_LEN - self.digest] = *byte;
            self.digest -= 1;
            *rest = after;
        }
    }

    /// Whether the data is what was sent. Only for a body that is over.
    #[inline]
    pub(crate) fn is_sound(&self, digests: Digests) -> bool {
        !digests.data || u32::from_le_bytes(self.received) == self.computed
    }
}

/// A head, and where it is.
#[derive(Debug)]
pub(crate) enum Head<'a> {
    /// In the bytes received.
    InPlace(&'a [u8]),
    /// In [`Framer::gathered`].
    Gathered,
}

/// The framer of one connection's incoming stream.
#[derive(Debug)]
pub(crate) struct Framer {
    pub(crate) rules: Rules,
    pub(crate) body: Body,
    head: [u8; HEAD_LEN_MAX],
    filled: usize,
}

const COMMON_LEN: usize = size_of::<CommonHeader>();

impl Framer {
    pub(crate) fn new(rules: Rules) -> Self {
        Self { rules, body: Body::default(), head: [0; HEAD_LEN_MAX], filled: 0 }
    }

    /// Whether part of a PDU was received, and part of it not.
    pub(crate) const fn is_midway(&self) -> bool {
        self.filled > 0 || !self.body.is_over()
    }

    /// The header gathered from parts; valid after [`Head::Gathered`] until the next call.
    pub(crate) fn gathered(&self) -> [u8; HEAD_LEN_MAX] {
        self.head
    }

    /// Takes the next head off `rest`: `None` when it is not whole yet (all of `rest` is kept then).
    /// Afterwards [`Self::body`] is what follows it.
    #[inline]
    pub(crate) fn take_head<'a>(
        &mut self,
        rest: &mut &'a [u8],
    ) -> Result<Option<Head<'a>>, PeerError> {
        if self.filled == 0
            && let Ok((common, _)) = CommonHeader::ref_from_prefix(rest)
        {
            let layout = self.check(common)?;
            let header_len = usize::from(common.header_len);
            let digests = self.digests_of(common.pdu_type);
            let head_len = header_len + digests.header_len();
            if let Some((head, after)) = rest.split_at_checked(head_len) {
                self.check_digest(head, header_len)?;
                *rest = after;
                self.body.begin(layout, digests);
                return Ok(Some(Head::InPlace(head)));
            }
        }
        self.gather(rest)
    }

    /// The header at fault for a termination request: as much of it as was looked at.
    pub(crate) fn header_at_fault<'a>(&'a self, rest: &'a [u8]) -> &'a [u8] {
        let head = if self.filled > 0 { &self.head[..self.filled] } else { rest };
        let Ok((common, _)) = CommonHeader::ref_from_prefix(head) else { return &[] };
        let looked_at = match self.check(common) {
            Ok(_) => usize::from(common.header_len),
            Err(_) => COMMON_LEN,
        };
        &head[..looked_at.min(head.len()).min(TermReq::DATA_LEN_MAX)]
    }

    /// The slow path of [`Self::take_head`]: TCP cut the head.
    #[cold]
    fn gather<'a>(&mut self, rest: &mut &'a [u8]) -> Result<Option<Head<'a>>, PeerError> {
        if !self.fill(rest, COMMON_LEN) {
            return Ok(None);
        }
        let (common, _) =
            CommonHeader::read_from_prefix(&self.head).expect("the array holds a common header");
        let layout = self.check(&common)?;
        let header_len = usize::from(common.header_len);
        let digests = self.digests_of(common.pdu_type);
        let head_len = header_len + digests.header_len();
        if !self.fill(rest, head_len) {
            return Ok(None);
        }
        self.check_digest(&self.head[..head_len], header_len)?;
        self.filled = 0;
        self.body.begin(layout, digests);
        Ok(Some(Head::Gathered))
    }

    /// Moves bytes into the array until it holds `len`. `len` is at most the array's: headers have
    /// the length of their type, of which the longest fits.
    fn fill(&mut self, rest: &mut &[u8], len: usize) -> bool {
        let wanted = len.saturating_sub(self.filled);
        let (part, after) = rest.split_at(wanted.min(rest.len()));
        self.head[self.filled..self.filled + part.len()].copy_from_slice(part);
        self.filled += part.len();
        *rest = after;
        self.filled >= len
    }

    #[inline]
    fn digests_of(&self, pdu_type: PduType) -> Digests {
        if pdu_type.carries_digests() { self.rules.digests } else { Digests::NONE }
    }

    #[inline]
    fn check_digest(&self, head: &[u8], header_len: usize) -> Result<(), PeerError> {
        // A head longer than its header has the four digest bytes behind it.
        let (header, received) = head.split_at(header_len);
        let Ok(received) = <[u8; DIGEST_LEN]>::try_from(received) else { return Ok(()) };
        let received = u32::from_le_bytes(received);
        let computed = digest::digest(header);
        if received == computed {
            Ok(())
        } else {
            Err(PeerError::HeaderDigest { received, computed })
        }
    }

    /// Whether a PDU that begins so can be, and what follows its head.
    #[inline]
    fn check(&self, common: &CommonHeader) -> Result<Layout, PeerError> {
        let pdu = common.pdu_type;
        let Some(header_len) = self.rules.accepted.header_len(pdu) else {
            return Err(refused(pdu, 0));
        };
        if common.header_len != header_len {
            return Err(refused(pdu, CommonHeader::HEADER_LEN_OFFSET));
        }
        let header_len = usize::from(header_len);
        let digests = self.digests_of(pdu);
        if common.flags.has(PduFlags::HEADER_DIGEST) != digests.header {
            return Err(refused(pdu, CommonHeader::FLAGS_OFFSET));
        }
        let head_len = header_len + digests.header_len();
        let pdu_len = memory_len(common.pdu_len.get());
        let Some(behind_head) = pdu_len.checked_sub(head_len) else {
            return Err(refused(pdu, CommonHeader::PDU_LEN_OFFSET));
        };
        match pdu {
            PduType::CAPSULE_CMD if behind_head == 0 => Ok(Layout::default()),
            PduType::CAPSULE_CMD => self.check_data(common, self.rules.capsule_data_max),
            PduType::H2C_DATA | PduType::C2H_DATA => self.check_data(common, self.rules.data_max),
            PduType::H2C_TERM_REQ | PduType::C2H_TERM_REQ
                if behind_head <= TermReq::DATA_LEN_MAX =>
            {
                Ok(Layout { pad: 0, data: wire_len(behind_head) })
            }
            _ if behind_head == 0 => Ok(Layout::default()),
            _ => Err(refused(pdu, CommonHeader::PDU_LEN_OFFSET)),
        }
    }

    /// What follows the head of a PDU with data: NVMe/TCP 1.1, 3.6.2.1 (PDO, PLEN) and 3.3.1.
    #[inline]
    fn check_data(&self, common: &CommonHeader, data_max: usize) -> Result<Layout, PeerError> {
        let pdu = common.pdu_type;
        let digests = self.rules.digests;
        if common.flags.has(PduFlags::DATA_DIGEST) != digests.data {
            return Err(refused(pdu, CommonHeader::FLAGS_OFFSET));
        }
        let head_len = usize::from(common.header_len) + digests.header_len();
        let data_offset = usize::from(common.data_offset);
        let is_aligned = self.rules.alignment.divides(data_offset);
        if data_offset < head_len || !is_aligned {
            return Err(refused(pdu, CommonHeader::DATA_OFFSET_OFFSET));
        }
        let pdu_len = memory_len(common.pdu_len.get());
        let data = pdu_len.saturating_sub(data_offset + digests.data_len());
        if data == 0 {
            return Err(refused(pdu, CommonHeader::PDU_LEN_OFFSET));
        }
        if data > data_max {
            return Err(too_much_data(pdu));
        }
        Ok(Layout { pad: wire_len(data_offset - head_len), data: wire_len(data) })
    }
}

#[cold]
fn refused(pdu: PduType, offset: u32) -> PeerError {
    PeerError::HeaderField { pdu, offset }
}

#[inline]
fn memory_len(len: u32) -> usize {
    usize::try_from(len).expect("usize is at least 32 bits wide")
}

/// Of a part of a PDU, whose own length is 32 bits.
#[inline]
fn wire_len(len: usize) -> u32 {
    u32::try_from(len).expect("a PDU is below 4 GiB")
}

/// Data PDUs have an agreed limit; capsules one that a header field breaks.
#[cold]
fn too_much_data(pdu: PduType) -> PeerError {
    match pdu {
        PduType::CAPSULE_CMD => refused(pdu, CommonHeader::PDU_LEN_OFFSET),
        _ => PeerError::LimitExceeded { pdu },
    }
}
