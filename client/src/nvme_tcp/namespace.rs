//! A namespace as its controller describes it.

use nearflash_nvme::NamespaceId;
use nearflash_units::{BlockSize, Blocks, ByteLen};

/// A namespace and its geometry.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Namespace {
    /// NSID.
    pub id: NamespaceId,
    /// The number of its blocks.
    pub blocks: Blocks,
    /// The size of a block.
    pub block_size: BlockSize,
}

impl Namespace {
    /// Its size in bytes.
    pub fn len(&self) -> ByteLen {
        self.block_size.len(self.blocks).unwrap_or(ByteLen(u64::MAX))
    }

    /// Whether it has no blocks.
    pub fn is_empty(&self) -> bool {
        self.blocks == Blocks(0)
    }
}
