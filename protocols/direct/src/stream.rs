//! Splits the byte stream into headers, for both ends. The session begins the segments of payload,
//! because only it knows the number that a header announces.
//!
//! This module depends neither on requests nor on the state of a connection.

use nearflash_session::digest::{self, DIGEST_LEN};
use nearflash_session::{Digests, HeadRules, HeadShape, Layout, Output};

use crate::error::PeerError;
use crate::wire::HEADER_LEN;

pub(crate) const DIGEST_OFFSET: usize = HEADER_LEN - DIGEST_LEN;

/// The incoming stream of one connection.
pub(crate) type Stream = nearflash_session::Framer<Rules, HEADER_LEN>;

/// The digests agreed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) digests: Digests,
}

impl HeadRules for Rules {
    type Error = PeerError;
    const PREFIX_LEN: usize = HEADER_LEN;

    #[inline]
    fn shape(&self, _: &[u8]) -> Result<HeadShape, PeerError> {
        Ok(HeadShape {
            header_len: DIGEST_OFFSET,
            head_len: HEADER_LEN,
            is_digested: self.digests.header,
            body: Layout::default(),
        })
    }

    #[cold]
    fn damaged(received: u32, computed: u32) -> PeerError {
        PeerError::HeaderDigest { received, computed }
    }
}

/// The state at the beginning, before anything is agreed.
pub(crate) fn new() -> Stream {
    Stream::new(Rules { digests: Digests::NONE })
}

/// Begins a segment of payload, which is not empty.
#[inline]
pub(crate) fn begin_segment(stream: &mut Stream, len: u32) {
    let is_digested = stream.rules.digests.data;
    stream.body.begin(Layout { is_digested, data: len, ..Layout::default() });
}

#[inline]
pub(crate) fn header(head: &[u8]) -> &[u8; HEADER_LEN] {
    head.first_chunk().expect("every head has this length")
}

/// A header with its digest, if headers have one.
#[inline]
pub(crate) fn seal(mut words: [u64; 4], digests: Digests) -> [u64; 4] {
    if digests.header {
        let digest = digest::digest(&bytes_of(words)[..DIGEST_OFFSET]);
        words[3] |= u64::from(digest) << 32;
    }
    words
}

/// Queues a message of the session: a header, and its small payload if there is any.
pub(crate) fn push_message(
    output: &mut Output,
    header: [u64; 4],
    payload: &[u8],
    digests: Digests,
) {
    output.push_words(seal(header, digests));
    if !payload.is_empty() {
        output.push_bytes(payload);
        if digests.data {
            output.push_digest(digest::digest(payload));
        }
    }
}

/// The words of a header, as sent on the wire.
#[inline]
pub(crate) fn bytes_of(words: [u64; 4]) -> [u8; HEADER_LEN] {
    let mut bytes = [0; HEADER_LEN];
    for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}
