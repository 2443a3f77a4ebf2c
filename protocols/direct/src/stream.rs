//! Cuts the byte stream into headers and segments of payload, for both ends.
//!
//! A header that lies whole in the bytes received is read where it is; one that the transport cut in
//! two is gathered. Payload is never gathered: [`Body`] counts what is left of a segment, and the
//! session says where it goes.
//!
//! Knows nothing of requests or of the state of a connection.

use crate::digest::{self, DIGEST_LEN, Digests};
use crate::error::PeerError;
use crate::wire::HEADER_LEN;

/// Where the digest stands in a header.
pub(crate) const DIGEST_OFFSET: usize = HEADER_LEN - DIGEST_LEN;

/// What is left of a segment of payload and of the digest behind it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Body {
    data: usize,
    digest: usize,
    /// The digest's bytes as they came.
    received: [u8; DIGEST_LEN],
    /// Of the data so far.
    computed: u32,
}

impl Body {
    /// Begins a segment.
    #[inline]
    pub(crate) fn begin(&mut self, len: usize, digests: Digests) {
        *self = Self { data: len, digest: digests.data_len(), ..Self::default() };
    }

    /// Whether nothing is left.
    #[inline]
    pub(crate) const fn is_over(&self) -> bool {
        self.data | self.digest == 0
    }

    /// How much payload is left.
    #[inline]
    pub(crate) const fn data_left(&self) -> usize {
        self.data
    }

    /// The next payload in `rest`, counted and taken into the digest.
    #[inline]
    pub(crate) fn take_data<'a>(&mut self, rest: &mut &'a [u8]) -> &'a [u8] {
        let (data, after) = rest.split_at(self.data.min(rest.len()));
        *rest = after;
        self.count_data(data);
        data
    }

    /// These bytes were payload.
    ///
    /// # Panics
    /// When there is less left: the caller's fault.
    #[inline]
    pub(crate) fn count_data(&mut self, data: &[u8]) {
        assert!(data.len() <= self.data, "only as much payload as is left is received");
        self.data -= data.len();
        if self.digest > 0 {
            self.computed = digest::append(self.computed, data);
        }
    }

    /// Takes what there is of the digest, once the data is over.
    #[inline]
    pub(crate) fn take_digest(&mut self, rest: &mut &[u8]) {
        if self.data > 0 {
            return;
        }
        while self.digest > 0 {
            let Some((byte, after)) = rest.split_first() else { return };
            self.received[DIGEST_LEN - self.digest] = *byte;
            self.digest -= 1;
            *rest = after;
        }
    }

    /// Whether the segment is what was sent. Only for one that is over.
    #[inline]
    pub(crate) fn is_sound(&self, digests: Digests) -> bool {
        !digests.data || u32::from_le_bytes(self.received) == self.computed
    }
}

/// A header, and where it is.
#[derive(Debug)]
pub(crate) enum Head<'a> {
    /// In the bytes received: it is read where it lies.
    InPlace(&'a [u8; HEADER_LEN]),
    /// Put together from parts.
    Gathered([u8; HEADER_LEN]),
}

impl Head<'_> {
    #[inline]
    pub(crate) const fn bytes(&self) -> &[u8; HEADER_LEN] {
        match self {
            Self::InPlace(head) => head,
            Self::Gathered(head) => head,
        }
    }
}

/// The incoming stream of one connection.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) digests: Digests,
    pub(crate) body: Body,
    head: [u8; HEADER_LEN],
    filled: usize,
}

impl Stream {
    pub(crate) fn new() -> Self {
        Self { digests: Digests::NONE, body: Body::default(), head: [0; HEADER_LEN], filled: 0 }
    }

    /// Whether part of a message was received, and part of it not.
    pub(crate) const fn is_midway(&self) -> bool {
        self.filled > 0 || !self.body.is_over()
    }

    /// Begins a segment of payload.
    #[inline]
    pub(crate) fn begin_body(&mut self, len: usize) {
        self.body.begin(len, self.digests);
    }

    /// Whether the segment that is over is what was sent.
    #[inline]
    pub(crate) fn body_is_sound(&self) -> bool {
        self.body.is_sound(self.digests)
    }

    /// Takes the next header off `rest`: `None` when it is not whole yet (all of `rest` is kept
    /// then).
    #[inline]
    pub(crate) fn take_head<'a>(
        &mut self,
        rest: &mut &'a [u8],
    ) -> Result<Option<Head<'a>>, PeerError> {
        let head = match rest.split_first_chunk::<HEADER_LEN>() {
            Some((head, after)) if self.filled == 0 => {
                *rest = after;
                Head::InPlace(head)
            }
            _ => match self.gather(rest) {
                Some(head) => Head::Gathered(head),
                None => return Ok(None),
            },
        };
        if self.digests.header {
            check_digest(head.bytes())?;
        }
        Ok(Some(head))
    }

    #[cold]
    fn gather(&mut self, rest: &mut &[u8]) -> Option<[u8; HEADER_LEN]> {
        let (part, after) = rest.split_at(rest.len().min(HEADER_LEN - self.filled));
        self.head[self.filled..self.filled + part.len()].copy_from_slice(part);
        self.filled += part.len();
        *rest = after;
        if self.filled < HEADER_LEN {
            return None;
        }
        self.filled = 0;
        Some(self.head)
    }
}

fn check_digest(head: &[u8; HEADER_LEN]) -> Result<(), PeerError> {
    let (header, received) = head.split_at(DIGEST_OFFSET);
    let received = u32::from_le_bytes(received.try_into().expect("four bytes are left"));
    let computed = digest::digest(header);
    if received == computed { Ok(()) } else { Err(PeerError::HeaderDigest { received, computed }) }
}

/// A header with its digest in place, if there is to be one.
#[inline]
pub(crate) fn seal(mut words: [u64; 4], digests: Digests) -> [u64; 4] {
    if digests.header {
        let digest = digest::digest(&bytes_of(words)[..DIGEST_OFFSET]);
        words[3] |= u64::from(digest) << 32;
    }
    words
}

/// A header in words as it is on the wire.
#[inline]
pub(crate) fn bytes_of(words: [u64; 4]) -> [u8; HEADER_LEN] {
    let mut bytes = [0; HEADER_LEN];
    for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}
