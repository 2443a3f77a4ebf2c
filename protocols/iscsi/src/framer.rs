//! The framing rules of iSCSI PDUs, for both ends.
//!
//! Spec: RFC 7143, 11.2. A PDU consists of its head (basic header, additional headers, header
//! digest), data, padding and data digest. This module knows nothing about commands or the state of
//! a connection.
//!
//! Invariant: no length of a PDU is used before it is checked against its limit.

use nearflash_session::digest::DIGEST_LEN;
use nearflash_session::{Digests, HeadRules, HeadShape, Layout, length};
use zerocopy::FromBytes;

use crate::error::PeerError;
use crate::pdu::{AHS_LEN_MAX, BasicHeader, HEADER_LEN, padding_len};

const HEAD_LEN_MAX: usize = HEADER_LEN + AHS_LEN_MAX + DIGEST_LEN;

/// The framer of one connection's incoming stream.
pub(crate) type Framer = nearflash_session::Framer<Rules, HEAD_LEN_MAX>;

/// The digests and the data length that a framer accepts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// The negotiated digests; none until the full feature phase.
    pub(crate) digests: Digests,
    /// MaxRecvDataSegmentLength that this end declared.
    pub(crate) data_len_max: u32,
}

impl HeadRules for Rules {
    type Error = PeerError;
    const PREFIX_LEN: usize = HEADER_LEN;

    #[inline]
    fn shape(&self, prefix: &[u8]) -> Result<HeadShape, PeerError> {
        let (header, _) =
            BasicHeader::ref_from_prefix(prefix).expect("a prefix holds the whole basic header");
        let len = header.data_len.get();
        if len > self.data_len_max {
            return Err(too_long(header, len, self.data_len_max));
        }
        let ahs_len = header.ahs_len();
        if ahs_len > AHS_LEN_MAX {
            return Err(too_long(header, ahs_len_of_wire(ahs_len), ahs_len_of_wire(AHS_LEN_MAX)));
        }
        let Digests { header: is_digested, data } = self.digests;
        let header_len = HEADER_LEN + ahs_len;
        let head_len = header_len + self.digests.header_len();
        let [behind, ..] = padding_len(length(len)).to_le_bytes();
        let body = Layout { before: 0, behind, is_digested: data && len > 0, data: len };
        Ok(HeadShape { header_len, head_len, is_digested, body })
    }

    #[cold]
    fn damaged(received: u32, computed: u32) -> PeerError {
        PeerError::HeaderDigest { received, computed }
    }
}

#[inline]
pub(crate) fn basic_header(head: &[u8]) -> &[u8; HEADER_LEN] {
    head.first_chunk().expect("every head begins with a basic header")
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
    use nearflash_session::{Head, digest};
    use proptest::prelude::*;

    /// Runs a framer over a stream cut into pieces. Returns basic headers and data, and the error
    /// that ended it.
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
                if !framer.body.take_end(&mut part) {
                    break;
                }
                seen.push(u8::from(framer.body.damage().is_some()));
                match framer.take_head(&mut part) {
                    Ok(Some(Head::InPlace(head))) => seen.extend_from_slice(basic_header(head)),
                    Ok(Some(Head::Gathered)) => {
                        seen.extend_from_slice(basic_header(&framer.gathered()));
                    }
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
        let mut stream = pdu(&[], 2, Digests::BOTH);
        stream[50] ^= 1;
        let mut framer = Framer::new(Rules { digests: Digests::BOTH, data_len_max: 512 });
        assert!(matches!(framer.take_head(&mut &stream[..]), Err(PeerError::HeaderDigest { .. })));
    }

    #[test]
    fn damaged_data_and_damaged_padding_are_noticed() {
        for place in [52, 55, 57] {
            let mut stream = pdu(&[7; 5], 0, Digests::BOTH);
            stream[place] ^= 1;
            let mut framer = Framer::new(Rules { digests: Digests::BOTH, data_len_max: 512 });
            let mut rest = &stream[..];
            framer.take_head(&mut rest).unwrap().unwrap();
            framer.body.take_data(&mut rest);
            assert!(framer.body.take_end(&mut rest) && rest.is_empty());
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
