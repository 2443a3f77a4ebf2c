//! The namespaces that a controller's I/O queues access, as an immutable table.
//!
//! Invariant: a table is built once, shared by [`std::sync::Arc`] and replaced as a whole. A lookup
//! is one array access.

use nearflash_request::{Support, VolumeId};
use nearflash_units::{BlockSize, Blocks, ByteLen};

use crate::NamespaceId;

/// The largest namespace number (NN and MNAN), for which tables and logs are sized.
pub const NAMESPACE_ID_MAX: u32 = 1024;

/// The properties of a namespace that decoding an I/O command needs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct NamespaceEntry {
    /// The volume that the namespace exports.
    pub volume: VolumeId,
    /// The logical block size.
    pub block_size: BlockSize,
    /// The number of logical blocks.
    pub blocks: Blocks,
    /// The commands that it has.
    pub support: Support,
    /// Writes are refused.
    pub write_protected: bool,
}

/// The namespaces of a subsystem by number, and the limits of their commands.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NamespaceTable {
    /// Indexed by namespace number minus 1.
    entries: Box<[Option<NamespaceEntry>]>,
    transfer_len_max: ByteLen,
}

impl NamespaceTable {
    /// A table of these namespaces. No command transfers more than `transfer_len_max` bytes (MDTS).
    ///
    /// # Panics
    /// If a number is not from 1 to [`NAMESPACE_ID_MAX`].
    pub fn new(
        namespaces: impl IntoIterator<Item = (NamespaceId, NamespaceEntry)>,
        transfer_len_max: ByteLen,
    ) -> Self {
        let mut entries = Vec::new();
        for (nsid, entry) in namespaces {
            assert!((1..=NAMESPACE_ID_MAX).contains(&nsid.0), "{nsid:?} is no namespace's number");
            let place = index(nsid).expect("it is not 0");
            entries.resize(entries.len().max(place + 1), None);
            entries[place] = Some(entry);
        }
        Self { entries: entries.into(), transfer_len_max }
    }

    /// The namespace with this number, if it is active.
    pub fn get(&self, nsid: NamespaceId) -> Option<&NamespaceEntry> {
        self.entries.get(index(nsid)?)?.as_ref()
    }

    /// All active namespaces, in order. A Flush of all namespaces uses it.
    pub fn iter(&self) -> impl Iterator<Item = (NamespaceId, &NamespaceEntry)> {
        let numbers = (1..=NAMESPACE_ID_MAX).map(NamespaceId);
        numbers.zip(&self.entries).filter_map(|(nsid, entry)| Some((nsid, entry.as_ref()?)))
    }

    /// The maximum data length of one command.
    pub fn transfer_len_max(&self) -> ByteLen {
        self.transfer_len_max
    }
}

fn index(nsid: NamespaceId) -> Option<usize> {
    usize::try_from(nsid.0.checked_sub(1)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(volume: u32) -> NamespaceEntry {
        NamespaceEntry {
            volume: VolumeId(volume),
            block_size: BlockSize::B512,
            blocks: Blocks(8),
            support: Support::ALL,
            write_protected: false,
        }
    }

    #[test]
    fn a_namespace_is_found_by_its_number_and_no_other() {
        let namespaces = [(NamespaceId(3), entry(30)), (NamespaceId(1), entry(10))];
        let table = NamespaceTable::new(namespaces, ByteLen(4096));
        assert_eq!(table.get(NamespaceId(1)).map(|entry| entry.volume), Some(VolumeId(10)));
        assert_eq!(table.get(NamespaceId(3)).map(|entry| entry.volume), Some(VolumeId(30)));
        for absent in [0, 2, 4, u32::MAX] {
            assert_eq!(table.get(NamespaceId(absent)), None, "{absent}");
        }
        let listed: Vec<_> = table.iter().map(|(nsid, _)| nsid.0).collect();
        assert_eq!(listed, [1, 3]);
    }
}
