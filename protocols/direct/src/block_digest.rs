//! Digests of blocks, by which two nodes find out which blocks of a replica differ.
//!
//! A block whose digests are equal is not copied. So the digest is cryptographic, and has a random key that
//! the asking end draws for each comparison of a volume: nobody who writes blocks can choose two with equal
//! digests. All messages have one length, so a prefix is as good a key as HMAC's.

use sha2::{Digest, Sha256};

use crate::wire::{BLOCK_DIGEST_LEN, DIGEST_BLOCK_LEN, DIGEST_KEY_LEN};

/// The digest of a block.
pub type BlockDigest = [u8; BLOCK_DIGEST_LEN as usize];

/// The digest of a block: the first bytes of the SHA-256 of the key and the block.
///
/// # Panics
/// When the block has another length, which is a bug of the caller.
pub fn block_digest(key: &[u8; DIGEST_KEY_LEN], block: &[u8]) -> BlockDigest {
    assert_eq!(block.len(), crate::length(DIGEST_BLOCK_LEN), "digests are of whole blocks");
    let digest: [u8; 32] = Sha256::new().chain_update(key).chain_update(block).finalize().into();
    *digest.first_chunk().expect("a part of it")
}

/// The length of the digests of a range of so many bytes, which is whole blocks.
pub const fn digests_len(len: u32) -> u32 {
    len / DIGEST_BLOCK_LEN * BLOCK_DIGEST_LEN
}

/// Whether one request can ask for the digests of a range of so many bytes.
pub(crate) const fn has_digests(len: u32) -> bool {
    len > 0 && len <= crate::wire::DIGEST_LEN_MAX && len.is_multiple_of(DIGEST_BLOCK_LEN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_depends_on_the_key_and_on_every_byte() {
        let (key, block) = ([7; DIGEST_KEY_LEN], vec![0; 4096]);
        let digest = block_digest(&key, &block);
        assert_eq!(digest, block_digest(&key, &block));
        assert_ne!(digest, block_digest(&[8; DIGEST_KEY_LEN], &block));
        for at in [0, 2048, 4095] {
            let mut other = block.clone();
            other[at] ^= 1;
            assert_ne!(digest, block_digest(&key, &other));
        }
    }

    #[test]
    fn only_whole_blocks_of_a_mebibyte_at_most_have_digests() {
        let lens = [0, 512, 4095, 4096, 4608, 1 << 20, (1 << 20) + 4096];
        assert_eq!(lens.map(has_digests), [false, false, false, true, false, true, false]);
        assert_eq!(digests_len(256 << 10), 1024);
    }
}
