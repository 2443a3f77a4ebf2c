//! Queues PDUs with small data of the session's own, and the padding and digest after any data, for
//! both ends.

use nearflash_session::Output;
use nearflash_session::digest::{append, digest};

use crate::Digests;
use crate::pdu::padding_len;

/// The longest padding.
const PADDING: [u8; 3] = [0; 3];

/// Queues a PDU: its header, whose lengths are set, and data that fits them.
pub(crate) fn push_small(output: &mut Output, digests: Digests, header: &[u8], data: &[u8]) {
    output.push_bytes(header);
    if digests.header {
        output.push_digest(digest(header));
    }
    push_data(output, digests, data);
}

/// Queues data after its header, if there is any.
#[inline]
pub(crate) fn push_data(output: &mut Output, digests: Digests, data: &[u8]) {
    if !data.is_empty() {
        output.push_bytes(data);
        push_tail(output, digests, data.len(), || digest(data));
    }
}

/// Queues the end of a data segment: its padding, and the digest over both.
#[inline]
pub(crate) fn push_tail(
    output: &mut Output,
    digests: Digests,
    data_len: usize,
    data_digest: impl FnOnce() -> u32,
) {
    let padding = &PADDING[..padding_len(data_len)];
    if !padding.is_empty() {
        output.push_bytes(padding);
    }
    if digests.data {
        output.push_digest(append(data_digest(), padding));
    }
}
