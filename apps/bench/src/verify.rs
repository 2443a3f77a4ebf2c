//! Verifiable blocks, which show where and by which run they were written, and whether they are
//! intact.
//!
//! Every operation's payload begins with a header: magic, CRC-32C of everything behind it, its own
//! offset, and the seed of the run. The rest is pseudo-random data derived from seed and offset.
//! This identifies blocks that are misdirected, from another run, torn, or corrupt.

use nearflash_units::ByteOffset;

use crate::workload::{mix, splitmix64};

/// Length of magic, CRC, offset and seed.
pub const HEADER_LEN: usize = 24;

const MAGIC: u32 = u32::from_le_bytes(*b"NFv1");
const CRC_AT: std::ops::Range<usize> = 4..8;
const OFFSET_AT: std::ops::Range<usize> = 8..16;
const SEED_AT: std::ops::Range<usize> = 16..24;

/// The fault of a block that was read.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum Mismatch {
    /// No header: never written, or overwritten by something else.
    #[error("offset {}: no verify header, so nothing was written here by --verify", .offset.0)]
    NoHeader { offset: ByteOffset },
    /// The block belongs to another offset.
    #[error("offset {}: holds the block written to offset {}", .offset.0, .found.0)]
    Misdirected { offset: ByteOffset, found: ByteOffset },
    /// The block belongs to another run.
    #[error(
        "offset {}: written by a run with --randseed {found}: \
         read it with that seed, or write it again", .offset.0
    )]
    OtherSeed { offset: ByteOffset, found: u64 },
    /// The block is corrupt.
    #[error("offset {}: crc32c is {computed:#010x}, the header says {expected:#010x}", .offset.0)]
    Corrupt { offset: ByteOffset, expected: u32, computed: u32 },
}

/// Makes a payload verifiable.
///
/// # Panics
/// When the payload is shorter than [`HEADER_LEN`], which no block is.
pub fn fill(payload: &mut [u8], offset: ByteOffset, seed: u64) {
    assert!(payload.len() >= HEADER_LEN, "a block holds its verify header");
    let (header, body) = payload.split_at_mut(HEADER_LEN);
    header[..4].copy_from_slice(&MAGIC.to_le_bytes());
    header[OFFSET_AT].copy_from_slice(&offset.0.to_le_bytes());
    header[SEED_AT].copy_from_slice(&seed.to_le_bytes());
    let mut state = mix(offset.0) ^ seed;
    for chunk in body.chunks_mut(8) {
        let noise = splitmix64(&mut state).to_le_bytes();
        chunk.copy_from_slice(&noise[..chunk.len()]);
    }
    let crc = crc32c::crc32c(&payload[OFFSET_AT.start..]);
    payload[CRC_AT].copy_from_slice(&crc.to_le_bytes());
}

/// Verifies a payload.
///
/// # Errors
/// The fault of the block.
pub fn check(payload: &[u8], offset: ByteOffset, seed: u64) -> Result<(), Mismatch> {
    if payload.len() < HEADER_LEN || payload[..4] != MAGIC.to_le_bytes() {
        return Err(Mismatch::NoHeader { offset });
    }
    let mut crc = [0; 4];
    crc.copy_from_slice(&payload[CRC_AT]);
    let expected = u32::from_le_bytes(crc);
    let computed = crc32c::crc32c(&payload[OFFSET_AT.start..]);
    if expected != computed {
        return Err(Mismatch::Corrupt { offset, expected, computed });
    }
    let found = ByteOffset(read_u64(&payload[OFFSET_AT]));
    if found != offset {
        return Err(Mismatch::Misdirected { offset, found });
    }
    let found = read_u64(&payload[SEED_AT]);
    if found != seed {
        return Err(Mismatch::OtherSeed { offset, found });
    }
    Ok(())
}

fn read_u64(bytes: &[u8]) -> u64 {
    let mut raw = [0; 8];
    raw.copy_from_slice(bytes);
    u64::from_le_bytes(raw)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const AT: ByteOffset = ByteOffset(8192);

    fn block() -> Vec<u8> {
        let mut block = vec![0xA5; 4096];
        fill(&mut block, AT, 7);
        block
    }

    #[test]
    fn what_was_written_is_accepted() {
        assert_eq!(check(&block(), AT, 7), Ok(()));
    }

    #[test]
    fn a_block_of_another_place_or_run_is_named_as_that() {
        let found = ByteOffset(8192);
        let offset = ByteOffset(0);
        assert_eq!(check(&block(), offset, 7), Err(Mismatch::Misdirected { offset, found }));
        assert_eq!(check(&block(), AT, 8), Err(Mismatch::OtherSeed { offset: AT, found: 7 }));
    }

    #[test]
    fn a_block_never_written_has_no_header() {
        assert_eq!(check(&[0; 4096], AT, 7), Err(Mismatch::NoHeader { offset: AT }));
    }

    proptest! {
        #[test]
        fn any_bent_bit_is_caught_and_its_offset_named(bit in 0usize..4096 * 8) {
            let mut block = block();
            block[bit / 8] ^= 1 << (bit % 8);
            let mismatch = check(&block, AT, 7).unwrap_err();
            prop_assert!(mismatch.to_string().starts_with("offset 8192:"), "{}", mismatch);
        }

        #[test]
        fn half_of_another_block_is_caught(other in 0u64..1000, cut in 1usize..4095) {
            let mut torn = block();
            let mut new = vec![0; 4096];
            fill(&mut new, AT, 1000 + other);
            torn[..cut].copy_from_slice(&new[..cut]);
            // The magic is the same in both.
            prop_assume!(torn != block());
            prop_assert!(check(&torn, AT, 7).is_err());
        }
    }
}
