//! The properties of a volume.

use nearflash_direct::client::VolumeInfo as OpenVolume;
use nearflash_direct::wire::Rights;

/// The properties of a volume, as the node reports them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct VolumeInfo {
    /// Its size in bytes.
    pub len: u64,
    /// The size of a logical block, in bytes; a write is atomic for each block.
    pub block_size: u32,
    /// The UUID, which another volume of the same name does not have.
    pub uuid: [u8; 16],
    /// The number of the layout, which grows with every change.
    pub epoch: u32,
    /// Whether some of the volume may be read.
    pub is_readable: bool,
    /// Whether some of the volume may be written.
    pub is_writable: bool,
}

impl From<OpenVolume> for VolumeInfo {
    fn from(open: OpenVolume) -> Self {
        let OpenVolume { bytes, block_size, epoch, uuid, rights, .. } = open;
        let (is_readable, is_writable) = (rights.has(Rights::READ), rights.has(Rights::WRITE));
        Self { len: bytes, block_size, uuid, epoch, is_readable, is_writable }
    }
}
