//! Splits a byte stream into headers and the data that follows them.
//!
//! A PDU is its head (header and header digest) and its body: padding, data, padding, data digest.
//! A head that is complete in the received bytes is read in place. A head that the transport has
//! split is gathered in an array. Data is never gathered: [`Body`] counts the rest of it, and the
//! session determines its destination.
//!
//! The framer knows a protocol's headers only through [`HeadRules`].
//!
//! Invariants: the rules check each length of a PDU before it is used; the heads, bodies and errors
//! do not depend on how the stream is split.

use crate::digest::{self, DIGEST_LEN};

/// The rules of a protocol's heads.
pub trait HeadRules {
    /// The error for a head that breaks the rules.
    type Error;
    /// The length of the part of a header that determines the length of its PDU.
    const PREFIX_LEN: usize;

    /// The layout of a PDU that begins with `prefix`.
    ///
    /// # Errors
    /// When no PDU can begin with it.
    fn shape(&self, prefix: &[u8]) -> Result<HeadShape, Self::Error>;

    /// The error for a header whose digest does not match.
    fn damaged(received: u32, computed: u32) -> Self::Error;
}

/// The layout of a PDU.
#[derive(Clone, Copy, Debug)]
pub struct HeadShape {
    /// The header, without its digest.
    pub header_len: usize,
    /// The head: the header, and the four bytes of its digest where there is room for one.
    pub head_len: usize,
    /// The header's digest is checked.
    pub is_digested: bool,
    /// The layout of the body.
    pub body: Layout,
}

/// The layout of a PDU's body. Lengths are in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Layout {
    /// Padding before the data; the digest does not cover it.
    pub before: u8,
    /// Padding after the data; the digest covers it.
    pub behind: u8,
    /// A digest comes last.
    pub is_digested: bool,
    /// Data.
    pub data: u32,
}

/// The rest of a PDU after its head.
#[derive(Clone, Copy, Debug, Default)]
pub struct Body {
    data: usize,
    before: u8,
    behind: u8,
    digest: u8,
    is_digested: bool,
    /// The digest's bytes as they came.
    received: [u8; DIGEST_LEN],
    /// The digest of the bytes so far.
    computed: u32,
}

impl Body {
    /// Begins a PDU's body.
    #[inline]
    pub fn begin(&mut self, layout: Layout) {
        self.data = crate::length(layout.data);
        self.before = layout.before;
        self.behind = layout.behind;
        self.is_digested = layout.is_digested;
        self.digest = if layout.is_digested { 4 } else { 0 };
        self.computed = 0;
    }

    /// Whether nothing is left.
    pub const fn is_over(&self) -> bool {
        self.data == 0 && self.before | self.behind | self.digest == 0
    }

    /// The length of the data that has not been taken yet.
    pub const fn data_left(&self) -> usize {
        self.data
    }

    /// Whether data is next.
    pub const fn data_is_next(&self) -> bool {
        self.before == 0 && self.data > 0
    }

    /// Passes over padding before the data.
    #[inline]
    pub fn skip_padding(&mut self, rest: &mut &[u8]) {
        if self.before > 0 {
            self.before -= take_up_to(rest, self.before).1;
        }
    }

    /// Takes the next data in `rest`, counts it, and adds it to the digest.
    #[inline]
    pub fn take_data<'a>(&mut self, rest: &mut &'a [u8]) -> &'a [u8] {
        let (data, after) = rest.split_at(self.data.min(rest.len()));
        *rest = after;
        self.count_data(data);
        data
    }

    /// Records that these bytes were data.
    ///
    /// # Panics
    /// When less data is left, which is a bug of the caller.
    #[inline]
    pub fn count_data(&mut self, data: &[u8]) {
        let is_next = self.before == 0 && data.len() <= self.data;
        assert!(is_next, "only as much data as is left is received");
        self.data -= data.len();
        if self.is_digested {
            self.computed = digest::append(self.computed, data);
        }
    }

    /// Takes padding and digest after the data, as far as they have arrived. Returns whether the
    /// body is complete.
    #[inline]
    pub fn take_end(&mut self, rest: &mut &[u8]) -> bool {
        let has_more = self.behind | self.digest > 0;
        if has_more && self.before == 0 && self.data == 0 {
            self.take_padding_and_digest(rest);
        }
        self.is_over()
    }

    fn take_padding_and_digest(&mut self, rest: &mut &[u8]) {
        let (padding, len) = take_up_to(rest, self.behind);
        self.behind -= len;
        self.computed = digest::append(self.computed, padding);
        while self.behind == 0 && self.digest > 0 {
            let Some((byte, after)) = rest.split_first() else { return };
            self.received[DIGEST_LEN - usize::from(self.digest)] = *byte;
            self.digest -= 1;
            *rest = after;
        }
    }

    /// The received and the computed digest, if they differ. Only for a complete body.
    #[inline]
    pub fn damage(&self) -> Option<(u32, u32)> {
        let received = u32::from_le_bytes(self.received);
        (self.is_digested && received != self.computed).then_some((received, self.computed))
    }
}

fn take_up_to<'a>(rest: &mut &'a [u8], len: u8) -> (&'a [u8], u8) {
    let (part, after) = rest.split_at(usize::from(len).min(rest.len()));
    *rest = after;
    (part, u8::try_from(part.len()).expect("no more than was asked for"))
}

/// A head, and where it is.
#[derive(Debug)]
pub enum Head<'a> {
    /// In the bytes received.
    InPlace(&'a [u8]),
    /// In [`Framer::gathered`].
    Gathered,
}

/// The framer of one connection's incoming stream. No head is longer than `MAX` bytes.
#[derive(Debug)]
pub struct Framer<R, const MAX: usize> {
    /// The rules of the protocol's heads.
    pub rules: R,
    /// The body of the PDU whose head was taken last.
    pub body: Body,
    head: [u8; MAX],
    filled: usize,
}

impl<R: HeadRules, const MAX: usize> Framer<R, MAX> {
    /// At the beginning of a stream.
    pub fn new(rules: R) -> Self {
        Self { rules, body: Body::default(), head: [0; MAX], filled: 0 }
    }

    /// Whether a PDU has been received in part only.
    pub const fn is_midway(&self) -> bool {
        self.filled > 0 || !self.body.is_over()
    }

    /// The head gathered from parts; valid after [`Head::Gathered`] until the next call.
    pub const fn gathered(&self) -> [u8; MAX] {
        self.head
    }

    /// The bytes received of an incomplete head.
    pub fn unfinished(&self) -> &[u8] {
        &self.head[..self.filled]
    }

    /// Takes the next head from `rest`; `None` when it is incomplete. [`Self::body`] follows it.
    ///
    /// # Errors
    /// When the rules refuse it, or it is damaged.
    #[inline]
    pub fn take_head<'a>(&mut self, rest: &mut &'a [u8]) -> Result<Option<Head<'a>>, R::Error> {
        if self.filled == 0 && rest.len() >= R::PREFIX_LEN {
            let shape = self.rules.shape(rest)?;
            if let Some((head, after)) = rest.split_at_checked(shape.head_len) {
                check_digest::<R>(head, shape)?;
                *rest = after;
                self.body.begin(shape.body);
                return Ok(Some(Head::InPlace(head)));
            }
        }
        self.gather(rest)
    }

    /// The slow path of [`Self::take_head`]: the transport has split the head.
    #[cold]
    fn gather<'a>(&mut self, rest: &mut &[u8]) -> Result<Option<Head<'a>>, R::Error> {
        if !self.fill(rest, R::PREFIX_LEN) {
            return Ok(None);
        }
        let shape = self.rules.shape(&self.head[..self.filled])?;
        if !self.fill(rest, shape.head_len) {
            return Ok(None);
        }
        check_digest::<R>(&self.head[..shape.head_len], shape)?;
        self.filled = 0;
        self.body.begin(shape.body);
        Ok(Some(Head::Gathered))
    }

    /// Moves bytes into the array until it holds `len`, which the rules bound.
    fn fill(&mut self, rest: &mut &[u8], len: usize) -> bool {
        let wanted = len.saturating_sub(self.filled);
        let (part, after) = rest.split_at(wanted.min(rest.len()));
        self.head[self.filled..self.filled + part.len()].copy_from_slice(part);
        self.filled += part.len();
        *rest = after;
        self.filled >= len
    }
}

#[inline]
fn check_digest<R: HeadRules>(head: &[u8], shape: HeadShape) -> Result<(), R::Error> {
    if !shape.is_digested {
        return Ok(());
    }
    let (header, received) = head.split_at(shape.header_len);
    let received = received.first_chunk().expect("the digest stands behind the header");
    let (received, computed) = (u32::from_le_bytes(*received), digest::digest(header));
    if received == computed { Ok(()) } else { Err(R::damaged(received, computed)) }
}

#[cfg(test)]
mod tests;
