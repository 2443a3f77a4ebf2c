//! The most frequent headers as words, made from the fields: they go from registers to their place
//! in the output. The copy of a header that is assembled in memory byte by byte must wait for these
//! stores, which is most of the cost of an answer.

use super::{DataOut, DataSegmentLen, LunField, ScsiCommand};

/// Two big-endian fields that follow one another.
#[inline]
pub(crate) fn word(first: u32, second: u32) -> u64 {
    (u64::from(first) << 32 | u64::from(second)).swap_bytes()
}

/// The first word: four bytes, TotalAHSLength (none), DataSegmentLength.
#[inline]
fn start(bytes: [u8; 4], data_len: DataSegmentLen) -> u64 {
    word(u32::from_be_bytes(bytes), data_len.get())
}

#[inline]
fn lun(field: LunField) -> u64 {
    u64::from_le_bytes(field.0)
}

impl ScsiCommand {
    /// The same bytes, for a command without additional headers.
    #[inline]
    pub fn to_words(&self) -> [u64; 6] {
        let [first @ .., _, _, _, _, _, _, _, _] = self.cdb;
        let [_, _, _, _, _, _, _, _, last @ ..] = self.cdb;
        [
            start([self.opcode.0, self.flags, 0, 0], self.data_len),
            lun(self.lun),
            word(self.itt.get(), self.transfer_len.get()),
            word(self.cmd_sn.get(), self.exp_stat_sn.get()),
            u64::from_le_bytes(first),
            u64::from_le_bytes(last),
        ]
    }
}

impl DataOut {
    /// The same bytes.
    #[inline]
    pub fn to_words(&self) -> [u64; 6] {
        [
            start([self.opcode.0, self.flags, 0, 0], self.data_len),
            lun(self.lun),
            word(self.itt.get(), self.ttt.get()),
            word(0, self.exp_stat_sn.get()),
            word(0, self.data_sn.get()),
            word(self.offset.get(), 0),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pdu::HEADER_LEN;
    use zerocopy::FromBytes;

    /// Bytes that all differ, those at `zero` being reserved.
    fn bytes(zero: &[(usize, usize)]) -> [u8; HEADER_LEN] {
        std::array::from_fn(|at| {
            let is_reserved =
                at == 4 || zero.iter().any(|(start, end)| (*start..*end).contains(&at));
            if is_reserved { 0 } else { u8::try_from(at + 1).unwrap() }
        })
    }

    fn joined(words: [u64; 6]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn the_words_of_a_header_are_its_bytes() {
        let command = bytes(&[(2, 4)]);
        assert_eq!(joined(ScsiCommand::read_from_bytes(&command).unwrap().to_words()), command);
        let data_out = bytes(&[(2, 4), (24, 28), (32, 36), (44, 48)]);
        assert_eq!(joined(DataOut::read_from_bytes(&data_out).unwrap().to_words()), data_out);
    }
}
