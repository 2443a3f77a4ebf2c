//! The lengths of an exchange, and counting of whole messages in a stream.

use nearflash_units::ByteLen;

/// Lengths of the headers around a payload.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Headers {
    /// Header of a request.
    pub request_len: ByteLen,
    /// Header of an answer.
    pub answer_len: ByteLen,
}

impl Headers {
    /// NVMe/TCP: a command capsule has an 8-byte common header and a 64-byte submission queue
    /// entry; the C2HData header and a response capsule are 24 bytes each.
    pub const NVME_TCP: Self = Self { request_len: ByteLen(72), answer_len: ByteLen(24) };
    /// Direct: 32 bytes each.
    pub const DIRECT: Self = Self { request_len: ByteLen(32), answer_len: ByteLen(32) };
    /// iSCSI: a SCSI Command PDU, a Data-In header with the status, and a SCSI Response PDU are one
    /// basic header segment each.
    pub const ISCSI: Self = Self { request_len: ByteLen(48), answer_len: ByteLen(48) };
}

/// Lengths of a request and its answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Exchange {
    /// Length of a request.
    pub request_len: ByteLen,
    /// Length of an answer.
    pub answer_len: ByteLen,
}

impl Exchange {
    /// A read of `payload`.
    pub fn read(headers: Headers, payload: ByteLen) -> Self {
        let Headers { request_len, answer_len } = headers;
        Self { request_len, answer_len: ByteLen(answer_len.0 + payload.0) }
    }

    /// A write of `payload`, which is sent with the request.
    pub fn write(headers: Headers, payload: ByteLen) -> Self {
        let Headers { request_len, answer_len } = headers;
        Self { request_len: ByteLen(request_len.0 + payload.0), answer_len }
    }

    /// A write of `payload` to a replica, which answers twice: it has the bytes, and it has written
    /// them.
    pub fn replica_write(headers: Headers, payload: ByteLen) -> Self {
        let Self { request_len, answer_len } = Self::write(headers, payload);
        Self { request_len, answer_len: ByteLen(2 * answer_len.0) }
    }
}

/// Counts messages of one length in a stream of bytes.
#[derive(Debug)]
pub(crate) struct MessageCounter {
    message_len: usize,
    partial: usize,
}

impl MessageCounter {
    pub(crate) fn new(message_len: ByteLen) -> Self {
        Self { message_len: message_len.to_usize(), partial: 0 }
    }

    /// The number of messages that `received` more bytes complete.
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
    fn an_nvme_tcp_read_of_4_kib_is_72_bytes_answered_by_4120() {
        let exchange = Exchange::read(Headers::NVME_TCP, ByteLen(4096));
        assert_eq!(exchange.request_len, ByteLen(72));
        assert_eq!(exchange.answer_len, ByteLen(4120));
    }

    #[test]
    fn an_nvme_tcp_write_of_4_kib_is_4168_bytes_answered_by_24() {
        let exchange = Exchange::write(Headers::NVME_TCP, ByteLen(4096));
        assert_eq!(exchange.request_len, ByteLen(4168));
        assert_eq!(exchange.answer_len, ByteLen(24));
    }

    #[test]
    fn a_direct_read_of_512_bytes_is_32_bytes_answered_by_544() {
        let exchange = Exchange::read(Headers::DIRECT, ByteLen(512));
        assert_eq!((exchange.request_len, exchange.answer_len), (ByteLen(32), ByteLen(544)));
    }

    #[test]
    fn a_replica_answers_a_write_with_two_headers() {
        let exchange = Exchange::replica_write(Headers::DIRECT, ByteLen(4096));
        assert_eq!((exchange.request_len, exchange.answer_len), (ByteLen(4128), ByteLen(64)));
    }

    #[test]
    fn an_iscsi_read_of_4_kib_is_48_bytes_answered_by_4144() {
        let exchange = Exchange::read(Headers::ISCSI, ByteLen(4096));
        assert_eq!((exchange.request_len, exchange.answer_len), (ByteLen(48), ByteLen(4144)));
    }

    proptest! {
        /// The count does not depend on how the stream is cut.
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
