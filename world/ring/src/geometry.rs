//! The layout of the shared memory.

/// The length of an entry: a header of the direct protocol.
pub const ENTRY_LEN: usize = 32;

/// An entry of a ring.
pub type Entry = [u8; ENTRY_LEN];

/// The maximum number of entries of a submission ring; its completion ring has twice as many.
pub const ENTRIES_MAX: u32 = 4096;

/// The maximum number of bytes of a data area.
pub const DATA_LEN_MAX: u64 = 256 << 20;

/// The length of the header, and the alignment of every part: payload has the alignment that
/// devices require.
pub(crate) const PAGE_LEN: usize = 4096;

/// Identifies the memory as that of rings.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"nfdrings");
pub(crate) const VERSION: u32 = 1;

// The fields of the header page, by offset. A field that one side writes and the other reads has
// its own pair of cache lines, since processors fetch pairs.
pub(crate) const MAGIC_AT: usize = 0;
pub(crate) const VERSION_AT: usize = 8;
pub(crate) const ENTRIES_AT: usize = 12;
pub(crate) const DATA_OFFSET_AT: usize = 16;
pub(crate) const DATA_LEN_AT: usize = 24;
pub(crate) const NODE_PROCESSOR_AT: usize = 32;
const SUBMISSION_TAIL_AT: usize = 128;
// Next to the tail: the node, which polls the tail, has it in its cache.
pub(crate) const CLIENT_PROCESSOR_AT: usize = 132;
const SUBMISSION_HEAD_AT: usize = 256;
const COMPLETION_TAIL_AT: usize = 384;
const COMPLETION_HEAD_AT: usize = 512;
pub(crate) const NODE_SLEEPS_AT: usize = 640;
pub(crate) const CLIENT_SLEEPS_AT: usize = 768;

/// The location of a ring. Indices count modulo 2^32; an entry's slot is its index modulo
/// `entries`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lane {
    pub(crate) tail_at: usize,
    pub(crate) head_at: usize,
    pub(crate) entries_at: usize,
    /// A power of two.
    pub(crate) entries: u32,
}

impl Lane {
    #[inline]
    pub(crate) fn place(&self, at: u32) -> usize {
        self.entries_at + index((at & (self.entries - 1)).into()) * ENTRY_LEN
    }

    #[cfg(test)]
    pub(crate) fn end(&self) -> usize {
        self.entries_at + index(self.entries.into()) * ENTRY_LEN
    }
}

/// The sizes of rings and data area, always within the bounds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Geometry {
    entries: u32,
    data_len: u64,
}

impl Geometry {
    /// `None` when `entries` is not a power of two up to [`ENTRIES_MAX`], or `data_len` not a
    /// multiple of 4 KiB from 4 KiB to [`DATA_LEN_MAX`].
    pub fn new(entries: u32, data_len: u64) -> Option<Self> {
        let is_sound = entries.is_power_of_two()
            && entries <= ENTRIES_MAX
            && data_len > 0
            && data_len <= DATA_LEN_MAX
            && usize::try_from(data_len).ok()?.is_multiple_of(PAGE_LEN);
        is_sound.then_some(Self { entries, data_len })
    }

    /// The number of entries of the submission ring.
    pub fn entries(self) -> u32 {
        self.entries
    }

    /// The length of the data area, in bytes.
    pub fn data_len(self) -> usize {
        index(self.data_len)
    }

    pub(crate) fn submission_lane(self) -> Lane {
        Lane {
            tail_at: SUBMISSION_TAIL_AT,
            head_at: SUBMISSION_HEAD_AT,
            entries_at: PAGE_LEN,
            entries: self.entries,
        }
    }

    pub(crate) fn completion_lane(self) -> Lane {
        Lane {
            tail_at: COMPLETION_TAIL_AT,
            head_at: COMPLETION_HEAD_AT,
            entries_at: PAGE_LEN + index(self.entries.into()) * ENTRY_LEN,
            entries: 2 * self.entries,
        }
    }

    /// The offset of the data area.
    pub(crate) fn data_offset(self) -> usize {
        (PAGE_LEN + 3 * index(self.entries.into()) * ENTRY_LEN).next_multiple_of(PAGE_LEN)
    }

    /// The length of the whole memory.
    pub(crate) fn total_len(self) -> usize {
        self.data_offset() + self.data_len()
    }
}

pub(crate) fn index(raw: u64) -> usize {
    usize::try_from(raw).expect("bounded by DATA_LEN_MAX")
}

#[cfg(not(loom))]
#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_beyond_the_bounds_are_refused() {
        for (entries, data_len) in [
            (0, 4096),
            (3, 4096),
            (2 * ENTRIES_MAX, 4096),
            (1, 0),
            (1, 4095),
            (1, DATA_LEN_MAX + 4096),
            (1, u64::MAX),
        ] {
            assert_eq!(Geometry::new(entries, data_len), None, "{entries} {data_len}");
        }
    }

    #[test]
    fn the_layout_is_the_one_that_the_document_has() {
        let document = include_str!("../../../docs/direct-protocol.md");
        let places = [
            (MAGIC_AT, "8 | magic, `nfdrings`"),
            (VERSION_AT, "4 | version of this layout: 1"),
            (ENTRIES_AT, "4 | N"),
            (DATA_OFFSET_AT, "8 | offset of the data area"),
            (DATA_LEN_AT, "8 | length of the data area"),
            (SUBMISSION_TAIL_AT, "4 | submission tail"),
            (SUBMISSION_HEAD_AT, "4 | submission head"),
            (COMPLETION_TAIL_AT, "4 | completion tail"),
            (COMPLETION_HEAD_AT, "4 | completion head"),
            (NODE_SLEEPS_AT, "4 | the node sleeps"),
            (CLIENT_SLEEPS_AT, "4 | the client sleeps"),
            (NODE_PROCESSOR_AT, "4 | the node's processor"),
            (CLIENT_PROCESSOR_AT, "4 | the client's processor"),
            (PAGE_LEN, "32 N | submission ring"),
        ];
        for (place, what) in places {
            let row = format!("| {place} | {what}");
            assert!(document.contains(&row), "the document has no row '{row}'");
        }
        let geometry = Geometry::new(128, 4096).unwrap();
        assert_eq!(geometry.completion_lane().entries_at, 4096 + 32 * 128);
        assert_eq!(geometry.completion_lane().entries, 2 * 128);
        assert_eq!(geometry.data_offset(), 4096 + 96 * 128);
        assert_eq!((MAGIC.to_le_bytes(), VERSION), (*b"nfdrings", 1));
        assert!(document.contains("4 KiB to 256 MiB") && DATA_LEN_MAX == 256 << 20);
    }

    proptest! {
        #[test]
        fn parts_of_the_memory_do_not_overlap(shift in 0u32..=12, pages in 1u64..=65_536) {
            let geometry = Geometry::new(1 << shift, pages * 4096).unwrap();
            let (submissions, completions) = (geometry.submission_lane(), geometry.completion_lane());
            prop_assert!(CLIENT_SLEEPS_AT + 4 <= submissions.entries_at);
            prop_assert_eq!(submissions.end(), completions.entries_at);
            prop_assert!(completions.end() <= geometry.data_offset());
            prop_assert!(geometry.data_offset().is_multiple_of(PAGE_LEN));
            prop_assert_eq!(geometry.total_len() - geometry.data_offset(), geometry.data_len());
        }
    }
}
