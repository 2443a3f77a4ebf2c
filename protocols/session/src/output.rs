//! The output of a session, in stream order: header bytes that it owns, and payload that it only
//! refers to.
//!
//! This module depends neither on protocols nor on the way of sending. Consecutive headers form one
//! chunk, so a thousand small answers are sent as one.

use std::collections::VecDeque;

use nearflash_request::{BufferId, Payload};

use crate::digest::{Digests, digest};
use crate::length as memory_len;

/// A part of the stream, to be sent after the one before it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[allow(missing_docs, reason = "the names say what the fields are")]
pub enum Chunk<'a> {
    /// These bytes.
    Bytes(&'a [u8]),
    /// Bytes of a pool buffer.
    Buffer {
        buffer: BufferId,
        /// From where in it.
        offset: usize,
        len: usize,
    },
    /// So many zero bytes.
    Zeroes(usize),
}

impl Chunk<'_> {
    /// The number of its bytes.
    pub const fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Buffer { len, .. } | Self::Zeroes(len) => *len,
        }
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Source {
    /// No payload.
    Nothing,
    Buffer(BufferId),
    /// A part of a buffer; another part of the same buffer follows.
    Lent(BufferId),
    Zeroes,
}

impl Source {
    #[inline]
    fn of(payload: Payload) -> Self {
        match payload {
            Payload::Buffer(buffer) => Self::Buffer(buffer),
            Payload::Zeroes => Self::Zeroes,
            other => panic!("a read that succeeded has payload, not {other:?}"),
        }
    }
}

/// The unsent rest of some header bytes and of the payload after them.
#[derive(Clone, Copy, Debug)]
struct Part {
    /// The number of bytes of `Output::bytes` that come first.
    bytes_len: u32,
    source: Source,
    /// Where the payload continues in its buffer.
    offset: u32,
    len: u32,
}

/// Sent bytes are removed from the front of `Output::bytes` once there are this many.
const SENT_LEN_MAX: usize = 32 * 1024;

/// The queue of parts.
#[derive(Debug, Default)]
pub struct Output {
    /// Header bytes, those already sent still in front.
    bytes: Vec<u8>,
    bytes_sent: usize,
    parts: VecDeque<Part>,
    len: usize,
    /// The position in the connection's stream at which the queue begins.
    position: u64,
}

impl Output {
    /// The number of bytes left to send.
    #[inline]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing is left to send.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The number of runs of bytes and payload.
    #[inline]
    pub fn part_count(&self) -> usize {
        self.parts.len()
    }

    /// The memory of its own bytes, in bytes.
    #[inline]
    pub const fn bytes_len(&self) -> usize {
        self.bytes.len()
    }

    /// The number of sent bytes of the connection's stream.
    #[inline]
    pub const fn position(&self) -> u64 {
        self.position
    }

    /// The position in the connection's stream at which the queue ends.
    #[inline]
    pub fn end_position(&self) -> u64 {
        self.position + stream_len(self.len)
    }

    /// Appends bytes.
    #[inline]
    pub fn push_bytes(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.bytes.extend_from_slice(bytes);
        self.count_bytes(bytes.len());
    }

    /// Appends a header as words, which are stored from registers directly into their place. A
    /// struct would be built in memory first and then copied.
    #[inline]
    pub fn push_words<const N: usize>(&mut self, words: [u64; N]) {
        self.append_words(words);
        self.count_bytes(N * size_of::<u64>());
    }

    /// Appends a header with its digest, followed by the payload of a read: `len` bytes from
    /// `offset` on.
    ///
    /// # Panics
    /// When there is no payload, because the read has not succeeded.
    #[inline]
    pub fn push_header_and_payload<const N: usize>(
        &mut self,
        words: [u64; N],
        digests: Digests,
        payload: Payload,
        (offset, len): (u32, u32),
    ) {
        debug_assert!(len > 0, "an empty part would never be sent");
        let starts_part = self.parts.back().is_none_or(|part| part.source != Source::Nothing);
        if digests.header || !starts_part {
            self.push_header(words, digests);
            return self.push_source(Source::of(payload), offset, len);
        }
        self.append_words(words);
        let header_len = N * size_of::<u64>();
        self.len += header_len + memory_len(len);
        let (bytes_len, source) = (part_len(header_len), Source::of(payload));
        self.parts.push_back(Part { bytes_len, source, offset, len });
    }

    #[inline]
    fn append_words<const N: usize>(&mut self, words: [u64; N]) {
        let start = self.bytes.len();
        self.bytes.resize(start + N * size_of::<u64>(), 0);
        let places = self.bytes[start..].chunks_exact_mut(size_of::<u64>());
        for (place, word) in places.zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
    }

    /// Appends a header, and its digest if headers have one.
    #[inline]
    pub fn push_header<const N: usize>(&mut self, words: [u64; N], digests: Digests) {
        self.push_words(words);
        if digests.header {
            let header_digest = digest(self.last_bytes(N * size_of::<u64>()));
            self.push_digest(header_digest);
        }
    }

    /// Appends a digest as it is on the wire.
    #[inline]
    pub fn push_digest(&mut self, digest: u32) {
        self.push_bytes(&digest.to_le_bytes());
    }

    /// The last `len` appended bytes, which must not be payload.
    #[inline]
    pub fn last_bytes(&self, len: usize) -> &[u8] {
        let start = self.bytes.len() - len;
        &self.bytes[start..]
    }

    #[inline]
    fn count_bytes(&mut self, len: usize) {
        self.len += len;
        match self.parts.back_mut() {
            Some(part) if part.source == Source::Nothing => part.bytes_len += part_len(len),
            _ => {
                let (bytes_len, source) = (part_len(len), Source::Nothing);
                self.parts.push_back(Part { bytes_len, source, offset: 0, len: 0 });
            }
        }
    }

    /// Appends `len` bytes of a buffer.
    #[inline]
    pub fn push_buffer(&mut self, buffer: BufferId, offset: u32, len: u32) {
        self.push_source(Source::Buffer(buffer), offset, len);
    }

    /// Appends `len` bytes of a buffer of which a later [`Self::push_buffer`] appends another part.
    /// The buffer is not returned before that part is sent.
    #[inline]
    pub fn push_part_of_buffer(&mut self, buffer: BufferId, offset: u32, len: u32) {
        self.push_source(Source::Lent(buffer), offset, len);
    }

    /// Appends zero bytes.
    #[inline]
    pub fn push_zeroes(&mut self, len: u32) {
        self.push_source(Source::Zeroes, 0, len);
    }

    /// Appends the payload of a read, as [`Self::push_header_and_payload`] does.
    #[inline]
    pub fn push_payload(&mut self, payload: Payload, (offset, len): (u32, u32)) {
        self.push_source(Source::of(payload), offset, len);
    }

    #[inline]
    fn push_source(&mut self, source: Source, offset: u32, len: u32) {
        debug_assert!(len > 0, "an empty part would never be sent");
        self.len += memory_len(len);
        match self.parts.back_mut() {
            Some(part) if part.source == Source::Nothing => {
                (part.source, part.offset, part.len) = (source, offset, len);
            }
            _ => self.parts.push_back(Part { bytes_len: 0, source, offset, len }),
        }
    }

    /// The chunks to send, in order.
    #[inline]
    pub fn chunks(&self) -> impl Iterator<Item = Chunk<'_>> {
        let bytes = &self.bytes[self.bytes_sent..];
        Chunks { bytes, parts: self.parts.iter(), payload: None }
    }

    /// Records that `sent` bytes of the chunks were sent. Passes buffers whose part was sent to
    /// `released`.
    ///
    /// # Panics
    /// When more was sent than is queued, which is a bug of the caller.
    #[inline]
    pub fn advance(&mut self, sent: usize, released: &mut impl FnMut(BufferId)) {
        assert!(sent <= self.len, "no more is sent than there is");
        self.position += stream_len(sent);
        if sent == self.len {
            return self.clear(released);
        }
        self.len -= sent;
        let mut left = sent;
        while left > 0 {
            let part = self.parts.front_mut().expect("the parts add up to the length");
            let of_bytes = left.min(memory_len(part.bytes_len));
            self.bytes_sent += of_bytes;
            part.bytes_len -= part_len(of_bytes);
            left -= of_bytes;
            let of_payload = left.min(memory_len(part.len));
            part.offset += part_len(of_payload);
            part.len -= part_len(of_payload);
            left -= of_payload;
            if part.bytes_len > 0 || part.len > 0 {
                break;
            }
            if let Source::Buffer(buffer) = part.source {
                released(buffer);
            }
            self.parts.pop_front();
        }
        self.forget_sent_bytes();
    }

    /// Drops everything, and passes every buffer to `released`.
    #[inline]
    pub fn clear(&mut self, released: &mut impl FnMut(BufferId)) {
        for part in self.parts.drain(..) {
            if let Source::Buffer(buffer) = part.source {
                released(buffer);
            }
        }
        self.bytes.clear();
        self.bytes_sent = 0;
        self.len = 0;
    }

    /// Drops the sent bytes from the front. It moves at most as many bytes as were sent since the
    /// last time, so the cost per sent byte is constant.
    fn forget_sent_bytes(&mut self) {
        if self.bytes_sent >= SENT_LEN_MAX && self.bytes_sent * 2 >= self.bytes.len() {
            self.bytes.drain(..self.bytes_sent);
            self.bytes_sent = 0;
        }
    }
}

/// The remaining chunks of an output.
struct Chunks<'a> {
    bytes: &'a [u8],
    parts: std::collections::vec_deque::Iter<'a, Part>,
    /// After the header bytes that were appended last.
    payload: Option<Chunk<'a>>,
}

impl<'a> Iterator for Chunks<'a> {
    type Item = Chunk<'a>;

    #[inline]
    fn next(&mut self) -> Option<Chunk<'a>> {
        if let Some(payload) = self.payload.take() {
            return Some(payload);
        }
        let part = self.parts.next()?;
        let (offset, len) = (memory_len(part.offset), memory_len(part.len));
        let payload = match part.source {
            Source::Nothing => None,
            Source::Buffer(buffer) | Source::Lent(buffer) => {
                Some(Chunk::Buffer { buffer, offset, len })
            }
            Source::Zeroes => Some(Chunk::Zeroes(len)),
        };
        if part.bytes_len == 0 {
            return payload;
        }
        let (chunk, rest) = self.bytes.split_at(memory_len(part.bytes_len));
        self.bytes = rest;
        self.payload = payload;
        Some(Chunk::Bytes(chunk))
    }
}

#[inline]
fn part_len(len: usize) -> u32 {
    u32::try_from(len).expect("a part is below 4 GiB: queues are bounded far below")
}

#[inline]
fn stream_len(len: usize) -> u64 {
    u64::try_from(len).expect("usize is at most 64 bits wide")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn flat(output: &Output) -> Vec<u8> {
        let mut all = Vec::new();
        for chunk in output.chunks() {
            match chunk {
                Chunk::Bytes(bytes) => all.extend_from_slice(bytes),
                // A buffer stands for its number, repeated.
                Chunk::Buffer { buffer, len, .. } => {
                    all.extend(std::iter::repeat_n(u8::try_from(buffer.0).unwrap(), len));
                }
                Chunk::Zeroes(len) => all.extend(std::iter::repeat_n(0, len)),
            }
        }
        all
    }

    #[test]
    fn headers_that_follow_one_another_are_one_chunk() {
        let mut output = Output::default();
        output.push_bytes(&[1; 24]);
        output.push_bytes(&[2; 24]);
        output.push_zeroes(10);
        assert_eq!(output.chunks().count(), 2);
        assert_eq!(output.len(), 58);
    }

    #[test]
    fn a_buffer_is_given_back_when_its_last_byte_is_sent() {
        let mut output = Output::default();
        output.push_bytes(&[1; 24]);
        output.push_buffer(BufferId(7), 0, 4096);
        let mut back = Vec::new();
        output.advance(24 + 4095, &mut |buffer| back.push(buffer));
        assert_eq!(back, []);
        let last = output.chunks().next();
        assert_eq!(last, Some(Chunk::Buffer { buffer: BufferId(7), offset: 4095, len: 1 }));
        output.advance(1, &mut |buffer| back.push(buffer));
        assert_eq!(back, [BufferId(7)]);
        assert_eq!((output.len(), output.position()), (0, 24 + 4096));
    }

    #[test]
    fn a_buffer_in_parts_is_given_back_once_with_its_last_part() {
        for cleared in [false, true] {
            let mut output = Output::default();
            output.push_part_of_buffer(BufferId(7), 0, 4096);
            output.push_bytes(&[1; 48]);
            output.push_buffer(BufferId(7), 4096, 100);
            let mut back = Vec::new();
            output.advance(4096, &mut |buffer| back.push(buffer));
            assert_eq!(back, []);
            let last = output.chunks().last();
            assert_eq!(last, Some(Chunk::Buffer { buffer: BufferId(7), offset: 4096, len: 100 }));
            if cleared {
                output.clear(&mut |buffer| back.push(buffer));
            } else {
                output.advance(148, &mut |buffer| back.push(buffer));
            }
            assert_eq!(back, [BufferId(7)]);
        }
    }

    #[test]
    fn a_header_with_payload_is_the_same_as_one_after_the_other() {
        let payload = Payload::Buffer(BufferId(7));
        for digests in [Digests::NONE, Digests::BOTH] {
            let (mut both, mut each) = (Output::default(), Output::default());
            for round in 0..3 {
                both.push_header_and_payload([round, 2], digests, payload, (4, 90));
                each.push_header([round, 2], digests);
                each.push_payload(payload, (4, 90));
                if round == 1 {
                    both.push_bytes(&[3; 5]);
                    each.push_bytes(&[3; 5]);
                }
            }
            assert_eq!(flat(&both), flat(&each));
            assert_eq!((both.len(), both.part_count()), (each.len(), each.part_count()));
        }
    }

    #[test]
    fn clearing_gives_every_buffer_back() {
        let mut output = Output::default();
        output.push_buffer(BufferId(1), 0, 10);
        output.push_buffer(BufferId(2), 0, 10);
        let mut back = Vec::new();
        output.advance(10, &mut |buffer| back.push(buffer));
        output.clear(&mut |buffer| back.push(buffer));
        assert_eq!(back, [BufferId(1), BufferId(2)]);
        assert_eq!(output.len(), 0);
    }

    proptest! {
        /// The stream does not depend on the lengths of the sends, and the output's own memory is
        /// bounded.
        #[test]
        fn sending_in_parts_sends_the_same_stream(
            pushes in prop::collection::vec((0u8..3, 1u32..100, 1u8..255), 1..60),
            sends in prop::collection::vec(1usize..200, 1..60),
        ) {
            let mut whole = Output::default();
            let mut parts = Output::default();
            let mut sent = Vec::new();
            let mut send_lens = sends.iter().cycle();
            for (kind, len, value) in pushes {
                for output in [&mut whole, &mut parts] {
                    match kind {
                        0 => output.push_bytes(&vec![value; memory_len(len)]),
                        1 => output.push_buffer(BufferId(value.into()), 0, len),
                        _ => output.push_zeroes(len),
                    }
                }
                let len = parts.len().min(*send_lens.next().unwrap());
                sent.extend_from_slice(&flat(&parts)[..len]);
                parts.advance(len, &mut |_| {});
                prop_assert_eq!(parts.end_position(), whole.end_position());
            }
            sent.extend_from_slice(&flat(&parts));
            prop_assert_eq!(sent, flat(&whole));
        }
    }
}
