//! The most frequent headers as little-endian words, built from the fields in registers and stored
//! as words. A header that is written to memory byte by byte and then copied as a whole stalls on
//! store forwarding, which would be most of the cost of a completion.

use super::{CapsuleCmd, CapsuleResp, CommonHeader, DataPdu};

impl CommonHeader {
    #[inline]
    const fn to_word(self) -> u64 {
        let [len0, len1, len2, len3] = self.pdu_len.get().to_le_bytes();
        u64::from_le_bytes([
            self.pdu_type.0,
            self.flags.0,
            self.header_len,
            self.data_offset,
            len0,
            len1,
            len2,
            len3,
        ])
    }
}

impl CapsuleCmd {
    #[inline]
    pub(crate) fn to_words(self) -> [u64; 9] {
        let Self { common, command } = self;
        let start = u32::from_le_bytes([
            command.opcode,
            command.flags,
            command.cid.get().to_le_bytes()[0],
            command.cid.get().to_le_bytes()[1],
        ]);
        let [reserved0, reserved1, reserved2] = command.sgl.reserved;
        let identifier = [reserved0, reserved1, reserved2, command.sgl.identifier];
        [
            common.to_word(),
            word(start, command.nsid.get()),
            word(command.cdw2.get(), command.cdw3.get()),
            command.metadata.get(),
            command.sgl.address.get(),
            word(command.sgl.length.get(), u32::from_le_bytes(identifier)),
            word(command.cdw10.get(), command.cdw11.get()),
            word(command.cdw12.get(), command.cdw13.get()),
            word(command.cdw14.get(), command.cdw15.get()),
        ]
    }
}

impl CapsuleResp {
    /// The bytes of the PDU as words.
    #[inline]
    pub(crate) fn to_words(self) -> [u64; 3] {
        let Self { common, entry } = self;
        let queue = u32::from(entry.sq_id.get()) << 16 | u32::from(entry.sq_head.get());
        let end = u32::from(entry.status.get()) << 16 | u32::from(entry.cid.get());
        [common.to_word(), word(entry.dw0.get(), entry.dw1.get()), word(queue, end)]
    }
}

impl DataPdu {
    /// The bytes of the PDU as words.
    #[inline]
    pub(crate) fn to_words(self) -> [u64; 3] {
        let ids = u32::from(self.transfer_tag.get()) << 16 | u32::from(self.command_id.get());
        let reserved = u32::from_le_bytes(self.reserved);
        [
            self.common.to_word(),
            word(ids, self.data_offset.get()),
            word(self.data_len.get(), reserved),
        ]
    }
}

fn word(low: u32, high: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::FromBytes;

    #[test]
    fn the_words_of_a_header_are_its_bytes() {
        let bytes: [u8; 72] = std::array::from_fn(|index| u8::try_from(index).unwrap());
        let joined = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let capsule: Vec<u8> = joined(&CapsuleCmd::read_from_bytes(&bytes).unwrap().to_words());
        assert_eq!(capsule, bytes);
        let response: Vec<u8> =
            joined(&CapsuleResp::read_from_bytes(&bytes[..24]).unwrap().to_words());
        assert_eq!(response, bytes[..24]);
        let data: Vec<u8> = joined(&DataPdu::read_from_bytes(&bytes[..24]).unwrap().to_words());
        assert_eq!(data, bytes[..24]);
    }
}
