//! Opcodes of requests and answers.

use std::fmt;

use nearflash_session::codes;

/// The opcode of a header. Unknown values also decode, and are refused in one place.
///
/// Bit 6 indicates that `len` bytes of payload follow a request, so that an unknown request can be
/// skipped. Bit 7 indicates an answer.
#[derive(Clone, Copy, Eq, Hash, PartialEq)]
pub struct Opcode(pub u8);

codes! { Opcode {
    /// Bytes of a volume to the client.
    READ = 0x01;
    /// Bytes of a volume from the client.
    WRITE = 0x42;
    /// Makes every request that was answered before durable on stable media.
    FLUSH = 0x03;
    /// The contents of a range are no longer needed.
    DISCARD = 0x04;
    /// Zeroes blocks, without payload.
    ZERO = 0x07;
    /// Replaces a word if it has the expected value.
    COMPARE_AND_SWAP = 0x45;
    /// Adds to a word.
    FETCH_ADD = 0x46;
    /// Digests of blocks, on the replica face of a mirror.
    DIGEST = 0x4A;
    /// The client identifies itself, and requests features.
    HELLO = 0x50;
    /// The client proves that it knows its secret.
    PROVE = 0x51;
    /// A volume's name becomes a handle.
    OPEN = 0x52;
    /// Closes a handle.
    CLOSE = 0x13;
    /// Nothing: is anybody there?
    PING = 0x14;
    /// Attaches rings in shared memory. Unix sockets only.
    ATTACH = 0x55;
    /// Ends earlier connections of the client before the answer.
    CLAIM = 0x57;
    /// The key under which the client may mint seals for a volume.
    SEAL_KEY = 0x18;
    /// A seal becomes a handle.
    OPEN_SEALED = 0x59;
    /// Seals of older versions are void before the answer.
    REVOKE = 0x5A;
    /// A message for the owner of the files of a volume, whose contents the session does not know.
    FILES = 0x5B;
    /// The connection ends, and why.
    GOODBYE = 0x16;
} }

impl Opcode {
    /// Bit 6 of a request: payload follows it.
    pub const PAYLOAD: u8 = 0x40;
    /// Bit 7: an answer.
    pub const ANSWER: u8 = 0x80;

    /// Whether payload follows a request of this opcode.
    pub const fn has_payload(self) -> bool {
        self.0 & Self::PAYLOAD != 0
    }

    /// The longest payload of a message of the session with this opcode, and of its answer.
    pub(crate) fn payload_len_max(self) -> u32 {
        match self.asked().unwrap_or(self) {
            Self::FILES => super::FILES_LEN_MAX,
            _ => super::SMALL_LEN_MAX,
        }
    }

    /// The opcode of the answer to a request with this opcode.
    #[must_use]
    pub const fn answer(self) -> Self {
        Self(self.0 | Self::ANSWER)
    }

    /// The opcode of the request that this answers; `None` for a request.
    pub const fn asked(self) -> Option<Self> {
        if self.0 & Self::ANSWER != 0 { Some(Self(self.0 & !Self::ANSWER)) } else { None }
    }

    /// Its name in the protocol's document, of requests and answers alike.
    pub fn name(self) -> &'static str {
        let asked = self.asked().unwrap_or(self);
        asked.known().map_or("unknown", |(name, _)| name)
    }
}

impl fmt::Debug for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let answer = if self.asked().is_some() { " answer" } else { "" };
        write!(f, "{}{answer} ({:#04x})", self.name(), self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opcodes_are_distinct_and_leave_the_answers_bit_free() {
        let mut all: Vec<u8> = Opcode::all().map(|opcode| opcode.0).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), Opcode::KNOWN.len());
        assert!(all.iter().all(|opcode| opcode & Opcode::ANSWER == 0));
    }

    #[test]
    fn an_answer_names_what_was_asked() {
        for opcode in Opcode::all() {
            assert_eq!(opcode.asked(), None);
            assert_eq!(opcode.answer().asked(), Some(opcode));
            assert_eq!(opcode.answer().name(), opcode.name());
        }
    }
}
