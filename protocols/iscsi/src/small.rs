//! Queues PDUs with small data of the session's own, for both ends.

use nearflash_session::Output;
use nearflash_session::digest::{append, digest};

use crate::Digests;
use crate::pdu::padding_len;

const PADDING: [u8; 4] = [0; 4];

/// Queues a PDU: its header, whose lengths are set, and data that fits them.
pub(crate) fn push_small(output: &mut Output, digests: Digests, header: &[u8], data: &[u8]) {
    output.push_bytes(header);
    if digests.header {
        output.push_bytes(&digest(header).to_le_bytes());
    }
    if data.is_empty() {
        return;
    }
    let padding = &PADDING[..padding_len(data.len())];
    output.push_bytes(data);
    output.push_bytes(padding);
    if digests.data {
        output.push_bytes(&append(digest(data), padding).to_le_bytes());
    }
}
