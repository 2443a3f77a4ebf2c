//! How many bytes an exchange moves, and the arithmetic of whole messages in a stream.

use nearflash_units::ByteLen;

/// A command capsule: an 8-byte common header and a 64-byte submission queue entry.
const COMMAND_CAPSULE_LEN: u64 = 72;
/// The header of C2HData, and a response capsule: both are 24 bytes.
const ANSWER_HEADER_LEN: u64 = 24;

/// Lengths of one request and its answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Exchange {
    /// From the client.
    pub request_len: ByteLen,
    /// From the server.
    pub answer_len: ByteLen,
}

impl Exchange {
    /// A read of `payload`.
    pub fn read(payload: ByteLen) -> Self {
        Self {
            request_len: ByteLen(COMMAND_CAPSULE_LEN),
            answer_len: ByteLen(ANSWER_HEADER_LEN + payload.0),
        }
    }

    /// A write of `payload`, carried in the capsule.
    pub fn write(payload: ByteLen) -> Self {
        Self {
            request_len: ByteLen(COMMAND_CAPSULE_LEN + payload.0),
            answer_len: ByteLen(ANSWER_HEADER_LEN),
        }
    }
}

/// Counts whole messages of one length in a stream of bytes.
#[derive(Debug)]
pub(crate) struct MessageCounter {
    message_len: usize,
    partial: usize,
}

impl MessageCounter {
    pub(crate) fn new(message_len: ByteLen) -> Self {
        Self { message_len: message_len.to_usize(), partial: 0 }
    }

    /// How many messages became whole with `received` more bytes.
    #[inline]
    pub(crate) fn take(&mut self, received: usize) -> usize {
        self.partial += received;
        if self.partial < self.message_len {
            return 0;
        }
        let whole = self.partial / self.message_len;
        self.partial -= whole * self.message_len;
        whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_4_kib_read_is_72_bytes_answered_by_4120() {
        let exchange = Exchange::read(ByteLen(4096));
        assert_eq!(exchange.request_len, ByteLen(72));
        assert_eq!(exchange.answer_len, ByteLen(4120));
    }

    #[test]
    fn a_4_kib_write_is_4168_bytes_answered_by_24() {
        let exchange = Exchange::write(ByteLen(4096));
        assert_eq!(exchange.request_len, ByteLen(4168));
        assert_eq!(exchange.answer_len, ByteLen(24));
    }

    proptest! {
        /// However the stream is cut, as many messages are counted as fit in it.
        #[test]
        fn cutting_the_stream_changes_no_count(
            message_len in 1u64..5000,
            pieces in prop::collection::vec(0usize..10_000, 0..50),
        ) {
            let mut counter = MessageCounter::new(ByteLen(message_len));
            let counted: usize = pieces.iter().map(|piece| counter.take(*piece)).sum();
            let total: usize = pieces.iter().sum();
            prop_assert_eq!(counted, total / ByteLen(message_len).to_usize());
        }
    }
}
