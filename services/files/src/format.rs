//! Formatting a volume, and finding the superblock of a formatted one.

use std::io;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use nearflash_device::OnDiskError;
use nearflash_files::{
    OWNER_BLOCK_OFFSET, Permissions, Run, SUPERBLOCK_LEN, SUPERBLOCK_OFFSETS, Superblock, Support,
};
use nearflash_media::what_it_holds;
use nearflash_units::{ByteLen, ByteOffset, MIB, Nanos};

use crate::disk::lost;
use crate::metadata::{Backend, Metadata, write_superblock};
use crate::store::{self, Batch};
use crate::{BLOCK, Disk, DiskProperties, FilesError};

/// The smallest volume that can hold files.
pub const VOLUME_LEN_MIN: ByteLen = ByteLen(16 * MIB);

/// The permission bits of new directories.
pub(crate) const DIRECTORY_MODE: u32 = 0o755;

/// The first run of the metadata: an eighth of the volume, within these bounds.
const METADATA_LEN_MIN: u64 = 4 * MIB;
const METADATA_LEN_MAX: u64 = 16 * MIB;

/// The parts of a volume that are read to see whether it is blank, at its start and its end.
const PROBE_LEN: ByteLen = ByteLen(MIB);

/// How a volume is formatted.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct FormatOptions {
    /// Whether a volume that is not blank is erased.
    pub force: bool,
}

/// Formats a volume for files. Its superblock is written last, so that an interrupted format leaves
/// a volume that is not formatted.
///
/// # Errors
/// When the volume is too small, not writable or not blank, or cannot be written.
pub fn format(disk: Arc<dyn Disk>, options: FormatOptions) -> Result<(), FilesError> {
    let properties = disk.properties();
    let DiskProperties { name, len, .. } = &properties;
    if *len < VOLUME_LEN_MIN {
        return Err(FilesError::TooSmall { volume: name.clone(), len: *len });
    }
    if !properties.is_writable {
        return Err(FilesError::NotWritable { volume: name.clone() });
    }
    let losses = disk.losses();
    let tail_offset = ByteOffset(len.0 - PROBE_LEN.0);
    let failed = FilesError::disk(name);
    // Before the contents: a volume that cannot hold files is not to be erased with `force`.
    disk.check_holder().map_err(&failed)?;
    if !options.force {
        refuse_contents(&*disk, &properties)?;
    }
    // A part of a block: if the node refuses this, nothing has been erased.
    disk.write_at(&[0; 512], ByteOffset(0)).map_err(&failed)?;
    // The term of the owner block stays, so that no earlier owner takes itself for the present one.
    let kept = ByteLen(if holds_files(&*disk)? { BLOCK.bytes().into() } else { 0 });
    let behind = ByteOffset(OWNER_BLOCK_OFFSET.0 + kept.0);
    disk.write_zeroes(ByteOffset(0), ByteLen(OWNER_BLOCK_OFFSET.0)).map_err(&failed)?;
    disk.write_zeroes(behind, ByteLen(PROBE_LEN.0 - behind.0)).map_err(&failed)?;
    disk.write_zeroes(tail_offset, PROBE_LEN).map_err(&failed)?;
    disk.flush().map_err(&failed)?;
    let superblock = empty(&properties);
    let metadata = Arc::new(Metadata::new(Arc::clone(&disk), superblock, false));
    fill(Arc::clone(&metadata)).map_err(|error| FilesError::store(name, error))?;
    let superblock = metadata.superblock();
    for generation in [1, 2] {
        let copy = Superblock { generation, ..superblock.clone() };
        write_superblock(&*disk, &copy).map_err(&failed)?;
    }
    if disk.losses() == losses { Ok(()) } else { Err(failed(lost())) }
}

/// The permissions of an inode that this process creates.
pub(crate) fn permissions(mode: u32) -> Permissions {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    Permissions { mode, uid, gid }
}

/// Creates the database with the root directory.
fn fill(metadata: Arc<Metadata>) -> Result<(), redb::Error> {
    let database = store::open(Backend::new(metadata))?;
    let transaction = database.begin_write()?;
    let mut batch = Batch::new(&transaction)?;
    nearflash_files::format(&mut batch, permissions(DIRECTORY_MODE), now())?;
    drop(batch);
    Ok(transaction.commit()?)
}

/// The superblock of a volume whose metadata is still empty.
fn empty(properties: &DiskProperties) -> Superblock {
    let area = Superblock::area(properties.len).expect("the volume is larger than the minimum");
    let metadata_len = (properties.len.0 / 8).clamp(METADATA_LEN_MIN, METADATA_LEN_MAX);
    let count = BLOCK.blocks_in(ByteLen(metadata_len / MIB * MIB));
    Superblock {
        generation: 0,
        volume: properties.uuid,
        volume_len: properties.len,
        compatible: 0,
        write_incompatible: 0,
        incompatible: 0,
        metadata_len: ByteLen(0),
        metadata_runs: vec![Run { start: area.start, count }],
    }
}

/// Refuses a volume that is not blank, and names what it holds.
fn refuse_contents(disk: &dyn Disk, properties: &DiskProperties) -> Result<(), FilesError> {
    let DiskProperties { name, len, .. } = properties;
    let failed = FilesError::disk(name);
    let mut head = vec![0; PROBE_LEN.to_usize()];
    let mut tail = head.clone();
    disk.read_at(&mut head, ByteOffset(0)).map_err(&failed)?;
    disk.read_at(&mut tail, ByteOffset(len.0 - PROBE_LEN.0)).map_err(&failed)?;
    let copies = copies(disk).map_err(&failed)?;
    let found = match copies.iter().all(|copy| *copy == Err(OnDiskError::Absent)) {
        true => what_it_holds(&head, &tail, len.0),
        false => Some("files of nearflash"),
    };
    match found {
        None => Ok(()),
        Some(found) => Err(FilesError::NotBlank { volume: name.clone(), found }),
    }
}

/// Whether a copy of the superblock is sound.
pub(crate) fn holds_files(disk: &dyn Disk) -> Result<bool, FilesError> {
    let copies = copies(disk).map_err(FilesError::disk(&disk.properties().name))?;
    Ok(copies.iter().any(Result::is_ok))
}

/// Both copies of the superblock.
fn copies(disk: &dyn Disk) -> io::Result<[Result<Superblock, OnDiskError>; 2]> {
    let mut copies = [const { Err(OnDiskError::Absent) }; 2];
    for (copy, offset) in copies.iter_mut().zip(SUPERBLOCK_OFFSETS) {
        let mut bytes = [0; SUPERBLOCK_LEN];
        disk.read_at(&mut bytes, offset)?;
        *copy = Superblock::decode(&bytes);
    }
    Ok(copies)
}

/// The superblock of a formatted volume.
///
/// # Errors
/// When the volume is not formatted, shorter than it was, a copy of another, or of a later version.
pub(crate) fn superblock(disk: &dyn Disk) -> Result<Superblock, FilesError> {
    let DiskProperties { name: volume, uuid, len, .. } = disk.properties();
    if len < VOLUME_LEN_MIN {
        return Err(FilesError::NotFormatted { volume });
    }
    let [first, second] = copies(disk).map_err(FilesError::disk(&volume))?;
    let superblock = match Superblock::choose(first, second) {
        Ok(superblock) => superblock,
        Err(OnDiskError::Absent) => return Err(FilesError::NotFormatted { volume }),
        Err(OnDiskError::Version { found, .. }) => {
            return Err(FilesError::Format { volume, found });
        }
        Err(error) => return Err(FilesError::Superblock { volume, error }),
    };
    if superblock.volume != uuid {
        return Err(FilesError::Copied { volume, original: superblock.volume });
    }
    if superblock.volume_len > len {
        return Err(FilesError::Shrunk { volume, len, expected: superblock.volume_len });
    }
    if superblock.support() == Support::None {
        return Err(FilesError::Features { volume });
    }
    Ok(superblock)
}

/// The time of this machine.
pub(crate) fn now() -> Nanos {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Nanos(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}
