//! The purpose of a ring entry, packed into the 64 bits that its completion returns.

/// The purpose of a ring entry.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Token {
    /// A device operation, by its slot; `generation` distinguishes it from an earlier operation in
    /// the same slot.
    Device { slot: u32, generation: u16 },
    /// A watch on a socket; `generation` distinguishes it from an earlier watch on the same number.
    Watch { socket: u32, generation: u32 },
    /// An accept on the listener with this index.
    Accept(u32),
    /// Another core sent a message while this one slept.
    Wake,
    /// The bell of a ring; `generation` as for a watch.
    Bell { ring: u32, generation: u32 },
    /// An entry whose completion is ignored (the removal of a watch).
    Ignored,
}

const KIND_SHIFT: u32 = 56;
const GENERATION_SHIFT: u32 = 32;
/// Generations are modulo 2^24.
pub(crate) const GENERATION_MASK: u32 = (1 << (KIND_SHIFT - GENERATION_SHIFT)) - 1;

impl Token {
    #[inline]
    pub(crate) fn pack(self) -> u64 {
        let (kind, generation, index) = match self {
            Self::Device { slot, generation } => (1u64, generation.into(), slot),
            Self::Watch { socket, generation } => (2, generation & GENERATION_MASK, socket),
            Self::Accept(listener) => (3, 0, listener),
            Self::Wake => (4, 0, 0),
            Self::Bell { ring, generation } => (5, generation & GENERATION_MASK, ring),
            Self::Ignored => (6, 0, 0),
        };
        kind << KIND_SHIFT | u64::from(generation) << GENERATION_SHIFT | u64::from(index)
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the fields are cut out by their width")]
    pub(crate) fn unpack(raw: u64) -> Self {
        let generation = (raw >> GENERATION_SHIFT) as u32 & GENERATION_MASK;
        let index = raw as u32;
        match raw >> KIND_SHIFT {
            1 => Self::Device { slot: index, generation: generation as u16 },
            2 => Self::Watch { socket: index, generation },
            3 => Self::Accept(index),
            4 => Self::Wake,
            5 => Self::Bell { ring: index, generation },
            _ => Self::Ignored,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_comes_back_as_it_was() {
        for token in [
            Token::Device { slot: u32::MAX, generation: u16::MAX },
            Token::Watch { socket: 7, generation: GENERATION_MASK },
            Token::Accept(3),
            Token::Wake,
            Token::Bell { ring: 9, generation: 1 },
            Token::Ignored,
        ] {
            assert_eq!(Token::unpack(token.pack()), token);
        }
    }
}
