//! The division of the direct clients' shared volume: the bytes that each client may write.
//!
//! Around the seam of two extents, stripes of a hundred bytes belong to the clients in turn, so
//! that all of them write every block and none writes a whole one. Between the stripes are words
//! that all clients change by atomic operations. After that, each client has a stretch of its own
//! for longer requests; it begins and ends within blocks.

use std::ops::Range;

/// Shared bytes before and after the seam.
const SHARED_HALF: u64 = 3 * 1024;
/// A stripe and the word after it.
const STRIPE: u64 = 104;
const WORD_LEN: u64 = 8;
/// The length of a client's own stretch; not a multiple of the block length.
const STRETCH: u64 = 70_001;

/// The operation that changes a word.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum WordUse {
    /// Additions of one.
    Sum,
    /// Swaps.
    Chain,
}

/// The layout.
#[derive(Clone, Debug)]
pub(crate) struct Ground {
    /// The seam.
    seam: u64,
    clients: u64,
    /// The longest request.
    pub(crate) len_max: u64,
    pub(crate) block_len: u64,
}

impl Ground {
    pub(crate) fn new(seam: u64, clients: u64, len_max: u64, block_len: u64) -> Self {
        Self { seam, clients: clients.max(1), len_max, block_len }
    }

    fn shared(&self) -> Range<u64> {
        self.seam - SHARED_HALF..self.seam + SHARED_HALF
    }

    fn stripe_count(&self) -> u64 {
        2 * SHARED_HALF / STRIPE
    }

    /// The bytes that only this client writes, in order.
    pub(crate) fn owned(&self, client: u64) -> Vec<Range<u64>> {
        let stripes = (0..self.stripe_count()).filter(|stripe| stripe % self.clients == client);
        let start = self.shared().start;
        let mut owned: Vec<Range<u64>> = stripes
            .map(|stripe| start + stripe * STRIPE)
            .map(|at| at..at + STRIPE - WORD_LEN)
            .collect();
        let stretch = self.shared().end + 1_000 + client * STRETCH;
        owned.push(stretch..stretch + STRETCH);
        owned
    }

    /// Every word that clients change together. They are few, so that clients collide.
    pub(crate) fn words(&self) -> Vec<(u64, WordUse)> {
        let word = |stripe: u64| self.shared().start + stripe * STRIPE + STRIPE - WORD_LEN;
        let middle = self.stripe_count() / 2;
        vec![
            (word(middle - 1), WordUse::Sum),
            (word(middle), WordUse::Chain),
            (word(2), WordUse::Sum),
            (word(2 * middle - 2), WordUse::Chain),
        ]
    }

    /// A stretch of another client, if there is one.
    pub(crate) fn anothers(&self, client: u64) -> Option<Range<u64>> {
        let other = (client + 1) % self.clients;
        (other != client).then(|| self.owned(other).pop().expect("each has a stretch"))
    }

    /// The range that a client reads: the shared part and its own stretch.
    pub(crate) fn readable(&self, client: u64) -> [Range<u64>; 2] {
        let own = self.owned(client).pop().expect("each has a stretch");
        [self.shared(), own]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_byte_belongs_to_two_clients_and_no_word_to_any() {
        let ground = Ground::new(1 << 20, 3, 4096, 512);
        let mut all: Vec<Range<u64>> = (0..3).flat_map(|client| ground.owned(client)).collect();
        for (word, _) in ground.words() {
            assert_eq!(word % 8, 0, "words are aligned");
            all.push(word..word + 8);
        }
        all.sort_by_key(|range| range.start);
        assert!(all.windows(2).all(|pair| pair[0].end <= pair[1].start));
        assert!(all.iter().all(|range| range.end < 2 << 20), "all of it is in the volume");
    }
}
