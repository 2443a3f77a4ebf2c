//! Cuts the TCP byte stream into headers and what follows them, for both ends.
//!
//! Spec: RFC 7143, 11.2. A PDU is its head (basic header, additional headers, header digest), data,
//! padding and data digest. Heads that lie whole in the bytes received are looked at where they are;
//! only heads that TCP cut in two are gathered in an array. Data is never gathered: [`Framer::body`]
//! counts what is left of it, and the session says where it goes.
//!
//! Knows nothing of commands or of the state of a connection.
//!
//! Invariants: no length of a PDU is believed before it is checked against its limit; however TCP
//! cuts the stream, the same heads, bodies and errors come out.

use nearflash_session::digest::{self, DIGEST_LEN};
use zerocopy::FromBytes;

use crate::digest::Digests;
use crate::error::PeerError;
use crate::length;
use crate::pdu::{AHS_LEN_MAX, BasicHeader, HEADER_LEN, padding_len};

/// What a framer accepts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// The digests agreed; none until the full feature phase.
    pub(crate) digests: Digests,
    /// MaxRecvDataSegmentLength that this end declared.
    pub(crate) data_len_max: u32,
}

/// What is left of a PDU behind its head.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Body {
    /// Data.
    data: usize,
    /// Padding behind it.
    pad: usize,
    /// Data digest.
    digest: usize,
    /// The digest's bytes as they came.
    received: [u8; DIGEST_LEN],
    /// The digest of the data and padding so far.
    computed: u32,
    /// Whether there is a data digest.
    is_digested: bool,
}

impl Body {
    /// Begins a PDU's body.
    #[inline]
    fn begin(&mut self, data_len: usize, digests: Digests) {
        self.data = data_len;
        self.pad = padding_len(data_len);
        self.is_digested = digests.data && data_len > 0;
        self.digest = if self.is_digested { DIGEST_LEN } else { 0 };
        self.computed = 0;
    }

    /// Whether nothing is left.
    #[inline]
    pub(crate) const fn is_over(&self) -> bool {
        self.data | self.pad | self.digest == 0
    }

    /// How much data is left: before any is taken, all of the PDU's.
    #[inline]
    pub(crate) const fn data_left(&self) -> usize {
        self.data
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
        assert!(data.len() <= self.data, "only as much data as is left is received");
        self.data -= data.len();
        if self.is_digested {
            self.computed = digest::append(self.computed, data);
        }
    }

    /// Takes what there is of padding and data digest, once the data is over.
    #[inline]
    pub(crate) fn take_end(&mut self, rest: &mut &[u8]) {
        if self.data > 0 {
            return;
        }
        if self.pad > 0 {
            let (padding, after) = rest.split_at(self.pad.min(rest.len()));
            *rest = after;
            self.pad -= padding.len();
            if self.is_digested {
                self.computed = digest::append(self.computed, padding);
            }
        }
        while self.pad == 0 && self.digest > 0 {
            let Some((byte, after)) = rest.split_first() else { return };
            self.received[DIGEST_LEN - self.digest] = *byte;
            self.digest -= 1;
            *rest = after;
        }
    }

    /// The digest received and the one computed, when they differ. Only for a body that is over.
    #[inline]
    pub(crate) fn damage(&self) -> Option<(u32, u32)> {
        let received = u32::from_le_bytes(self.received);
        (self.is_digested && received != self.computed).then_some((received, self.computed))
    }
}

/// A head, and where it is.
#[derive(Debug)]
pub(crate) enum Head<'a> {
    /// In the bytes received: the basic header.
    InPlace(&'a [u8; HEADER_LEN]),
    /// In [`Framer::gathered`].
    Gathered,
}

const HEAD_LEN_MAX: usize = HEADER_LEN + AHS_LEN_MAX + DIGEST_LEN;

/// The framer of one connection's incoming stream.
#[derive(Debug)]
pub(crate) struct Framer {
    pub(crate) rules: Rules,
    pub(crate) body: Body,
    head: [u8; HEAD_LEN_MAX],
    filled: usize,
}

impl Framer {
    pub(crate) fn new(rules: Rules) -> Self {
        Self { rules, body: Body::default(), head: [0; HEAD_LEN_MAX], filled: 0 }
    }

    /// Whether part of a PDU was received, and part of it not.
    pub(crate) const fn is_midway(&self) -> bool {
        self.filled > 0 || !self.body.is_over()
    }

    /// The basic header gathered from parts; valid after [`Head::Gathered`] until the next call.
    pub(crate) fn gathered(&self) -> [u8; HEADER_LEN] {
        *self.head.first_chunk().expect("the array holds a header")
    }

    /// Takes the next head off `rest`: `None` when it is not whole yet (all of `rest` is kept then).
    /// Afterwards [`Self::body`] is what follows it.
    #[inline]
    pub(crate) fn take_head<'a>(
        &mut self,
        rest: &mut &'a [u8],
    ) -> Result<Option<Head<'a>>, PeerError> {
        if self.filled == 0
            && let Some((basic, behind)) = rest.split_first_chunk::<HEADER_LEN>()
        {
            let header = BasicHeader::ref_from_bytes(basic).expect("of that length");
            let (data_len, ahs_len) = self.check(header)?;
            if ahs_len == 0 && !self.rules.digests.header {
                *rest = behind;
                self.body.begin(data_len, self.rules.digests);
                return Ok(Some(Head::InPlace(basic)));
            }
            let header_len = HEADER_LEN + ahs_len;
            let head_len = header_len + self.rules.digests.header_len();
            if let Some((head, after)) = rest.split_at_checked(head_len) {
                self.check_digest(head, header_len)?;
                *rest = after;
                self.body.begin(data_len, self.rules.digests);
                return Ok(Some(Head::InPlace(basic)));
            }
        }
        self.gather(rest)
    }

    /// The slow path of [`Self::take_head`]: TCP cut the head.
    #[cold]
    fn gather<'a>(&mut self, rest: &mut &'a [u8]) -> Result<Option<Head<'a>>, PeerError> {
        if !self.fill(rest, HEADER_LEN) {
            return Ok(None);
        }
        let (header, _) =
            BasicHeader::read_from_prefix(&self.head).expect("the array holds a header");
        let (data_len, ahs_len) = self.check(&header)?;
        let header_len = HEADER_LEN + ahs_len;
        let head_len = header_len + self.rules.digests.header_len();
        if !self.fill(rest, head_len) {
            return Ok(None);
        }
        self.check_digest(&self.head[..head_len], header_len)?;
        self.filled = 0;
        self.body.begin(data_len, self.rules.digests);
        Ok(Some(Head::Gathered))
    }

    /// Moves bytes into the array until it holds `len`, which is at most the array's: additional
    /// headers are bounded.
    fn fill(&mut self, rest: &mut &[u8], len: usize) -> bool {
        let wanted = len.saturating_sub(self.filled);
        let (part, after) = rest.split_at(wanted.min(rest.len()));
        self.head[self.filled..self.filled + part.len()].copy_from_slice(part);
        self.filled += part.len();
        *rest = after;
        self.filled >= len
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

    /// Lengths of data and additional headers, both within their limits.
    #[inline]
    fn check(&self, header: &BasicHeader) -> Result<(usize, usize), PeerError> {
        let len = header.data_len.get();
        if len > self.rules.data_len_max {
            return Err(too_long(header, len, self.rules.data_len_max));
        }
        let ahs_len = header.ahs_len();
        if ahs_len > AHS_LEN_MAX {
            return Err(too_long(header, ahs_len_of_wire(ahs_len), ahs_len_of_wire(AHS_LEN_MAX)));
        }
        Ok((length(len), ahs_len))
    }
}

#[cold]
fn too_long(header: &BasicHeader, len: u32, max: u32) -> PeerError {
    PeerError::TooLong { opcode: header.opcode.opcode(), len, max }
}

#[cold]
fn ahs_len_of_wire(len: usize) -> u32 {
    u32::try_from(len).expect("additional headers are at most 1020 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What came out of a stream: basic headers, data, and how it ended.
    fn run(stream: &[u8], rules: Rules, cuts: &[usize]) -> (Vec<u8>, Option<PeerError>) {
        let mut framer = Framer::new(rules);
        let mut seen = Vec::new();
        let mut cuts = cuts.iter().copied().cycle();
        let mut rest = stream;
        while !rest.is_empty() {
            let (mut part, after) = rest.split_at(cuts.next().unwrap().clamp(1, rest.len()));
            rest = after;
            loop {
                seen.extend_from_slice(framer.body.take_data(&mut part));
                framer.body.take_end(&mut part);
                if !framer.body.is_over() {
                    break;
                }
                seen.push(u8::from(framer.body.damage().is_some()));
                match framer.take_head(&mut part) {
                    Ok(Some(Head::InPlace(head))) => seen.extend_from_slice(head),
                    Ok(Some(Head::Gathered)) => seen.extend_from_slice(&framer.gathered()),
                    Ok(None) => break,
                    Err(error) => return (seen, Some(error)),
                }
                if framer.body.is_over() {
                    continue;
                }
            }
        }
        // How often a body was over depends on the cuts; what came out does not.
        (seen.into_iter().filter(|byte| *byte > 1).collect(), None)
    }

    fn pdu(data: &[u8], ahs_words: u8, digests: Digests) -> Vec<u8> {
        let mut stream = vec![0x20; HEADER_LEN];
        stream[4] = ahs_words;
        stream[5..8].copy_from_slice(&u32::try_from(data.len()).unwrap().to_be_bytes()[1..]);
        stream.extend(std::iter::repeat_n(0xA5, usize::from(ahs_words) * 4));
        if digests.header {
            stream.extend_from_slice(&digest::digest(&stream.clone()).to_le_bytes());
        }
        let mut padded = data.to_vec();
        padded.resize(data.len().next_multiple_of(4), 0);
        stream.extend_from_slice(&padded);
        if digests.data && !data.is_empty() {
            stream.extend_from_slice(&digest::digest(&padded).to_le_bytes());
        }
        stream
    }

    const BOTH: Digests = Digests { header: true, data: true };

    #[test]
    fn a_longer_data_segment_than_declared_is_refused_before_any_of_it() {
        let mut framer = Framer::new(Rules { digests: Digests::NONE, data_len_max: 512 });
        let stream = pdu(&[7; 513], 0, Digests::NONE);
        let error = framer.take_head(&mut &stream[..HEADER_LEN]).unwrap_err();
        assert_eq!(
            error,
            PeerError::TooLong { opcode: crate::pdu::Opcode::NOP_IN, len: 513, max: 512 }
        );
    }

    #[test]
    fn more_additional_headers_than_the_bound_are_refused() {
        let mut framer = Framer::new(Rules { digests: Digests::NONE, data_len_max: 512 });
        let stream = pdu(&[], 65, Digests::NONE);
        assert!(matches!(
            framer.take_head(&mut &stream[..]),
            Err(PeerError::TooLong { len: 260, max: 256, .. })
        ));
    }

    #[test]
    fn a_damaged_header_is_noticed() {
        let mut stream = pdu(&[], 2, BOTH);
        stream[50] ^= 1;
        let mut framer = Framer::new(Rules { digests: BOTH, data_len_max: 512 });
        assert!(matches!(framer.take_head(&mut &stream[..]), Err(PeerError::HeaderDigest { .. })));
    }

    #[test]
    fn damaged_data_and_damaged_padding_are_noticed() {
        for place in [52, 55, 57] {
            let mut stream = pdu(&[7; 5], 0, BOTH);
            stream[place] ^= 1;
            let mut framer = Framer::new(Rules { digests: BOTH, data_len_max: 512 });
            let mut rest = &stream[..];
            framer.take_head(&mut rest).unwrap().unwrap();
            framer.body.take_data(&mut rest);
            framer.body.take_end(&mut rest);
            assert!(framer.body.is_over() && rest.is_empty());
            assert!(framer.body.damage().is_some(), "byte {place}");
        }
    }

    proptest! {
        #[test]
        fn however_the_stream_is_cut_the_same_comes_out(
            pdus in prop::collection::vec((prop::collection::vec(2u8.., 0..600), 0u8..70), 1..8),
            cuts in prop::collection::vec(1usize..100, 1..8),
            (header, data) in any::<(bool, bool)>(),
        ) {
            let digests = Digests { header, data };
            let rules = Rules { digests, data_len_max: 512 };
            let stream: Vec<u8> =
                pdus.iter().flat_map(|(data, ahs)| pdu(data, *ahs, digests)).collect();
            let (whole, whole_error) = run(&stream, rules, &[stream.len()]);
            let (parts, parts_error) = run(&stream, rules, &cuts);
            prop_assert_eq!(whole_error, parts_error);
            if whole_error.is_none() {
                prop_assert_eq!(whole, parts);
            }
        }
    }
}
