//! Text keys: `key=value` pairs, each ended by a zero byte, over one PDU or several.
//!
//! Spec: RFC 7143, 6.1 (format) and 6.2 (C bit). This module knows nothing about the meaning of a
//! key.
//!
//! Invariant: text is bounded before it is stored, and each key and value before it is used.

use crate::length;

/// The longest key. RFC 7143, 6.1.
pub const KEY_LEN_MAX: usize = 63;
/// The longest value: 1024 bytes of a CHAP challenge in hexadecimal. RFC 7143, 6.1 and 12.1.3.
pub const VALUE_LEN_MAX: usize = 2 + 2 * 1024;
/// The maximum length of the text that is collected from an initiator in one exchange.
pub const TEXT_LEN_MAX: usize = 16 * 1024;

/// Why text is not valid.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum TextError {
    /// The text is longer than the limit.
    #[error("longer than {0} bytes")]
    TooLong(usize),
    /// The last pair is not ended by a zero byte.
    #[error("the pair at byte {0} has no terminating NUL")]
    Unended(usize),
    /// No `=`, no key before it, or a character that is not allowed in a key.
    #[error("the pair at byte {0} has no valid key")]
    BadKey(usize),
    /// A value that is too long, or is not UTF-8.
    #[error("the pair at byte {0} has no valid value")]
    BadValue(usize),
}

/// The pairs of a complete text, in order. An error ends the iteration.
#[derive(Clone, Debug)]
pub struct Pairs<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Pairs<'a> {
    /// The pairs of `text`.
    pub const fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0 }
    }

    fn parse(pair: &'a [u8], at: usize) -> Result<(&'a str, &'a str), TextError> {
        let equals = pair.iter().position(|byte| *byte == b'=');
        let (key, value) = pair.split_at(equals.ok_or(TextError::BadKey(at))?);
        let is_key = !key.is_empty() && key.len() <= KEY_LEN_MAX && key.iter().all(is_key_byte);
        let key = str::from_utf8(key).ok().filter(|_| is_key).ok_or(TextError::BadKey(at))?;
        let value = &value[1..];
        if value.len() > VALUE_LEN_MAX {
            return Err(TextError::BadValue(at));
        }
        let value = str::from_utf8(value).map_err(|_| TextError::BadValue(at))?;
        Ok((key, value))
    }
}

/// RFC 7143, 6.1: standard-label.
const fn is_key_byte(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'+' | b'@' | b'_' | b'/' | b'#')
}

impl<'a> Iterator for Pairs<'a> {
    type Item = Result<(&'a str, &'a str), TextError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let rest = self.text.get(self.at..).filter(|rest| !rest.is_empty())?;
            let at = self.at;
            let Some(len) = rest.iter().position(|byte| *byte == 0) else {
                self.at = self.text.len();
                return Some(Err(TextError::Unended(at)));
            };
            self.at += len + 1;
            // Some peers pad with zeroes.
            if len == 0 {
                continue;
            }
            let pair = Self::parse(&rest[..len], at);
            if pair.is_err() {
                self.at = self.text.len();
            }
            return Some(pair);
        }
    }
}

/// Collects text that comes in several PDUs.
#[derive(Debug)]
pub struct Gathering {
    text: Vec<u8>,
    len_max: usize,
}

impl Gathering {
    /// Collects at most `len_max` bytes.
    pub const fn new(len_max: usize) -> Self {
        Self { text: Vec::new(), len_max }
    }

    /// Appends a PDU's data.
    ///
    /// # Errors
    /// When the text would exceed its limit.
    pub fn push(&mut self, data: &[u8]) -> Result<(), TextError> {
        if data.len() > self.len_max - self.text.len() {
            return Err(TextError::TooLong(self.len_max));
        }
        self.text.extend_from_slice(data);
        Ok(())
    }

    /// The length collected so far, in bytes.
    pub const fn len(&self) -> usize {
        self.text.len()
    }

    /// Returns the whole text, and begins the next one.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.text)
    }
}

/// Text to send, in as many PDUs as the peer's MaxRecvDataSegmentLength requires.
#[derive(Debug, Default)]
pub struct Outgoing {
    text: Vec<u8>,
    sent: usize,
}

impl Outgoing {
    /// Appends a pair.
    pub fn push(&mut self, key: &str, value: &str) {
        debug_assert!(key.len() <= KEY_LEN_MAX && value.len() <= VALUE_LEN_MAX, "within bounds");
        self.text.extend_from_slice(key.as_bytes());
        self.text.push(b'=');
        self.text.extend_from_slice(value.as_bytes());
        self.text.push(0);
    }

    /// Whether all of it was taken.
    pub const fn is_over(&self) -> bool {
        self.sent == self.text.len()
    }

    /// The bytes not taken yet.
    pub const fn left(&self) -> usize {
        self.text.len() - self.sent
    }

    /// The next PDU's data, and whether more follows (the C bit).
    pub fn next_part(&mut self, len_max: u32) -> (&[u8], bool) {
        let start = self.sent;
        self.sent = (start + length(len_max)).min(self.text.len());
        (&self.text[start..self.sent], self.sent < self.text.len())
    }

    /// Drops the whole text, taken or not, and begins the next one.
    pub fn clear(&mut self) {
        self.text.clear();
        self.sent = 0;
    }
}

/// Checks of text, for tests and fuzzers.
pub fn check_pairs(text: &[u8]) {
    let mut outgoing = Outgoing::default();
    let mut pairs = Vec::new();
    for pair in Pairs::new(text) {
        let Ok((key, value)) = pair else { return };
        assert!(key.len() <= KEY_LEN_MAX && value.len() <= VALUE_LEN_MAX);
        outgoing.push(key, value);
        pairs.push((key, value));
    }
    let again: Result<Vec<_>, _> = Pairs::new(&outgoing.text).collect();
    assert_eq!(again.as_ref(), Ok(&pairs), "what is sent is what was read");
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pairs(text: &[u8]) -> Result<Vec<(&str, &str)>, TextError> {
        Pairs::new(text).collect()
    }

    #[test]
    fn pairs_are_cut_at_zero_bytes_and_at_the_first_equals_sign() {
        let text = b"A=1\0CHAP_R=0b==\0\0TargetAlias=\0";
        assert_eq!(pairs(text), Ok(vec![("A", "1"), ("CHAP_R", "0b=="), ("TargetAlias", "")]));
    }

    #[test]
    fn text_that_is_none_is_refused_by_its_place() {
        assert_eq!(pairs(b"A=1\0B=2"), Err(TextError::Unended(4)));
        assert_eq!(pairs(b"A=1\0B\0"), Err(TextError::BadKey(4)));
        assert_eq!(pairs(b"=1\0"), Err(TextError::BadKey(0)));
        assert_eq!(pairs(b"A B=1\0"), Err(TextError::BadKey(0)));
        assert_eq!(pairs(b"A=\xFF\0"), Err(TextError::BadValue(0)));
        let long = [&b"A="[..], &[b'x'; VALUE_LEN_MAX + 1], b"\0"].concat();
        assert_eq!(pairs(&long), Err(TextError::BadValue(0)));
        let long = [&[b'K'; KEY_LEN_MAX + 1][..], b"=1\0"].concat();
        assert_eq!(pairs(&long), Err(TextError::BadKey(0)));
    }

    #[test]
    fn what_is_gathered_is_bounded() {
        let mut gathering = Gathering::new(10);
        gathering.push(b"A=1234").unwrap();
        assert_eq!(gathering.push(b"56789"), Err(TextError::TooLong(10)));
        gathering.push(b"567\0").unwrap();
        assert_eq!(gathering.take(), b"A=1234567\0");
        assert!(gathering.text.is_empty());
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in prop::collection::vec(any::<u8>(), 0..300)) {
            check_pairs(&text);
        }

        #[test]
        fn text_that_looks_right_reads_back(text in "([A-Z]{1,3}=[a-z,=]{0,5}\0){0,8}") {
            check_pairs(text.as_bytes());
        }

        #[test]
        fn parts_make_the_whole(text in "([A-Z]{1,3}=[a-z]{0,5}\0){1,20}", len in 1u32..40) {
            let mut outgoing = Outgoing::default();
            for pair in Pairs::new(text.as_bytes()) {
                let (key, value) = pair.unwrap();
                outgoing.push(key, value);
            }
            let mut gathering = Gathering::new(TEXT_LEN_MAX);
            loop {
                let (part, continues) = outgoing.next_part(len);
                prop_assert!(part.len() <= length(len));
                gathering.push(part).unwrap();
                if !continues {
                    break;
                }
            }
            prop_assert!(outgoing.is_over());
            prop_assert_eq!(gathering.take(), text.as_bytes());
        }
    }
}
