//! Seals of open files: capabilities with which other processes read and write the bytes of a file
//! without this one.
//!
//! A seal maps whole blocks within the size of a file. It is void before anything else happens to a
//! block of it: a change that frees or moves blocks, or that lowers the size, revokes first, under the
//! exclusive lock of the contents. A file that grows keeps its seals. An inode that was closed may be
//! removed, so its seals are void before a commit releases the blocks of removed inodes.
//!
//! Only the inodes for which seals were given are revoked, and they are known in memory alone: an owner
//! voids the seals of all earlier owners when it begins. The versions of seals are those of this owner,
//! and grow with each revocation, of any inode.
//!
//! Bytes that are written through a seal do not pass this process. Its holder says that it has written:
//! [`FileSystem::mark_written`]. A flush of the volume makes these bytes durable, so [`FileSystem::sync`]
//! does. While a seal allows to write, the file counts as written: a loss of connections is reported.
//!
//! A seal may end when the kernel is about to keep pages of its file ([`FileSystem::seal_without_pages`]), so
//! its holder need not look for pages. A mount sees the read with which the kernel fills a page, and calls
//! [`FileSystem::keep_pages`] before it answers. Pages that were there before the seal was given are the
//! holder's concern.
//!
//! The lock of this module is taken last.

use std::collections::HashMap;
use std::sync::MutexGuard;

use nearflash::direct::{Bearer, Rights, Seal};
use nearflash_files::{InodeNumber, Refusal, Run, attribute};
use nearflash_units::{Blocks, ByteLen};

use super::FileSystem;
use crate::disk::SealedRuns;
use crate::{BLOCK, FilesError};

/// The permission bits that a write clears: set-user-ID and set-group-ID.
const PRIVILEGES: u32 = 0o6000;
/// The extended attribute that a write removes.
pub(super) const CAPABILITIES: &[u8] = b"security.capability";

/// A seal of a file, and how far it reaches.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SealedFile {
    /// The seal. Its object is the inode's number, with the UUID of the volume.
    pub seal: Seal,
    /// The bearer of a holder that has no credential.
    pub bearer: Bearer,
    /// The length of the file that it covers: the size, cut to whole blocks.
    pub reach: ByteLen,
}

/// The inodes with seals that may be in use.
#[derive(Debug)]
pub(super) struct Sealed {
    inodes: HashMap<InodeNumber, Record>,
    /// The version of new seals. No seal of the last version is given.
    version: u32,
}

#[derive(Clone, Copy, Debug)]
struct Record {
    /// The version of the last seal.
    version: u32,
    /// Whether the inode was closed since.
    is_closed: bool,
    /// Whether a seal ends when the kernel keeps pages.
    is_without_pages: bool,
}

impl Default for Sealed {
    fn default() -> Self {
        Self { inodes: HashMap::new(), version: 1 }
    }
}

impl FileSystem {
    /// A seal for the bytes of an open file. It allows no more than `rights`, until the file is cut, moved
    /// or removed.
    ///
    /// # Errors
    /// When the inode is not an open file, has no whole block, or is to be written and has privileges that
    /// a write must clear; or when the volume has no seals.
    pub fn seal(&self, number: InodeNumber, rights: Rights) -> Result<SealedFile, FilesError> {
        self.seal_as(number, rights, false)
    }

    /// [`Self::seal`], until [`Self::keep_pages`] at the latest.
    ///
    /// # Errors
    /// As [`Self::seal`].
    pub fn seal_without_pages(
        &self,
        number: InodeNumber,
        rights: Rights,
    ) -> Result<SealedFile, FilesError> {
        self.seal_as(number, rights, true)
    }

    fn seal_as(
        &self,
        number: InodeNumber,
        rights: Rights,
        is_without_pages: bool,
    ) -> Result<SealedFile, FilesError> {
        let seals = self.disk().seals().ok_or_else(|| self.no_seal("its node has no seals"))?;
        let file = self.open_regular(number)?;
        // Held until the inode is known to be sealed, so that no change misses that.
        let contents = file.contents();
        if rights.has(Rights::WRITE) && self.is_privileged(number)? {
            return Err(self.no_seal("a write must clear its set-user-ID bit or capabilities"));
        }
        if !file.lost.is_empty() {
            return Err(self.no_seal("it has lost bytes with a connection: open it again"));
        }
        let (runs, reach) = covered(&contents.runs, contents.size);
        if runs.is_empty() {
            return Err(self.no_seal("it has no whole block"));
        }
        let version = {
            let mut sealed = self.sealed();
            let version = sealed.version;
            if version == u32::MAX {
                return Err(self.no_seal("the mount has given its last one: mount again"));
            }
            // Earlier seals may be in use, too.
            let was = sealed.inodes.get(&number).is_some_and(|record| record.is_without_pages);
            let is_without_pages = is_without_pages || was;
            sealed.inodes.insert(number, Record { version, is_closed: false, is_without_pages });
            version
        };
        if rights.has(Rights::WRITE) {
            file.seal_for_writing(self.disk().losses());
        }
        let runs = SealedRuns { object: number.0, version, rights, runs };
        let seal = seals.mint(&runs).map_err(FilesError::disk(self.volume()))?;
        let bearer = seals.bearer().map_err(FilesError::disk(self.volume()))?;
        Ok(SealedFile { seal, bearer, reach })
    }

    /// An open file was written through a seal just now.
    ///
    /// # Errors
    /// When the inode is not an open file.
    pub fn mark_written(&self, number: InodeNumber) -> Result<(), FilesError> {
        self.open_regular(number).map(|file| file.mark_modified())
    }

    /// The size of an open file, if it is durable together with the places of all bytes. A flush of the volume
    /// then does all that [`Self::sync`] would for the data alone. That holds until the size changes, or the
    /// seals that were given before are void.
    ///
    /// # Errors
    /// When the inode is not an open file; when the size or the place of its bytes is not durable, or a byte
    /// has no place yet; or when writes may have been lost, which [`Self::sync`] is to report.
    pub fn durable_size(&self, number: InodeNumber) -> Result<ByteLen, FilesError> {
        let file = self.open_regular(number)?;
        let contents = file.contents();
        let has_place = covers(&contents.runs, contents.size);
        let state = self.state()?;
        let losses = self.disk().losses();
        let is_whole =
            self.is_whole(&state) && file.lost.is_empty() && file.has_no_loss_to_report(losses);
        if has_place && is_whole && state.durable >= contents.group {
            return Ok(contents.size);
        }
        Err(self.no_seal("its size and the places of its bytes are not durable yet"))
    }

    /// The kernel is about to keep pages of a file. When this returns, no seal that was given without pages
    /// can be used, and nothing that one allowed is under way.
    ///
    /// # Errors
    /// When the inode is not an open file, or the node cannot be reached.
    pub fn keep_pages(&self, number: InodeNumber) -> Result<(), FilesError> {
        let record = self.sealed().inodes.get(&number).copied();
        match record.is_some_and(|record| record.is_without_pages) {
            true => self.while_unsealed(number, || Ok(())),
            false => Ok(()),
        }
    }

    /// Voids the seals of an inode. When this returns, nothing that they allowed is under way, and none can
    /// be used. The caller holds the exclusive lock of its contents, or the inode is closed.
    pub(super) fn unseal(&self, number: InodeNumber) -> Result<(), FilesError> {
        let version = {
            let mut sealed = self.sealed();
            if !sealed.inodes.contains_key(&number) {
                return Ok(());
            }
            sealed.version = sealed.version.saturating_add(1);
            sealed.version
        };
        let seals = self.disk().seals().expect("a sealed inode has seals");
        seals.revoke(number.0, version).map_err(FilesError::disk(self.volume()))?;
        let file = self.find_open(number);
        let mut sealed = self.sealed();
        // A closed inode may have been opened and sealed again meanwhile.
        if sealed.inodes.get(&number).is_some_and(|record| record.version < version) {
            sealed.inodes.remove(&number);
            if let Some(file) = file {
                file.unseal();
            }
        }
        Ok(())
    }

    /// Voids the seals of all inodes that were closed.
    pub(super) fn unseal_closed(&self) -> Result<(), FilesError> {
        let closed: Vec<InodeNumber> = {
            let sealed = self.sealed();
            let closed = sealed.inodes.iter().filter(|(_, record)| record.is_closed);
            closed.map(|(number, _)| *number).collect()
        };
        closed.into_iter().try_for_each(|number| self.unseal(number))
    }

    /// Voids the seals of an inode, and keeps others from being given until `change` has ended.
    pub(super) fn while_unsealed<T>(
        &self,
        number: InodeNumber,
        change: impl FnOnce() -> Result<T, FilesError>,
    ) -> Result<T, FilesError> {
        let file = self.retained(number)?;
        let changed = {
            let _contents = file.contents_mut();
            self.unseal(number).and_then(|()| change())
        };
        self.release(number);
        changed
    }

    /// Voids all seals. When this returns, nothing is under way that one of them allowed that was given
    /// before.
    ///
    /// # Errors
    /// When the node cannot be reached.
    pub fn unseal_all(&self) -> Result<(), FilesError> {
        self.unseal_closed()?;
        let sealed: Vec<InodeNumber> = self.sealed().inodes.keys().copied().collect();
        sealed.into_iter().try_for_each(|number| match self.while_unsealed(number, || Ok(())) {
            // It was closed meanwhile, and perhaps removed.
            Err(FilesError::Refused(_)) => self.unseal(number),
            done => done,
        })
    }

    /// The last user of an inode has closed it.
    pub(super) fn sealed_was_closed(&self, number: InodeNumber) {
        if let Some(record) = self.sealed().inodes.get_mut(&number) {
            record.is_closed = true;
        }
    }

    fn sealed(&self) -> MutexGuard<'_, Sealed> {
        self.sealed.lock().expect("nothing panics while it holds the sealed inodes")
    }

    fn is_privileged(&self, number: InodeNumber) -> Result<bool, FilesError> {
        let has_bits = has_privileges(self.inode(number)?.mode);
        match self.view(|tables| attribute(tables, number, CAPABILITIES)) {
            Ok(_) => Ok(true),
            Err(FilesError::Refused(Refusal::NoAttribute(_))) => Ok(has_bits),
            Err(error) => Err(error),
        }
    }

    fn no_seal(&self, reason: &'static str) -> FilesError {
        FilesError::NoSeal { volume: self.volume().to_owned(), reason }
    }
}

/// Whether a write must clear bits of this mode.
pub(super) const fn has_privileges(mode: u32) -> bool {
    mode & PRIVILEGES != 0
}

/// The runs of the whole blocks within the size, and their length.
fn covered(runs: &[Run], size: ByteLen) -> (Vec<Run>, ByteLen) {
    let mut left = size.0 / u64::from(BLOCK.bytes());
    let mut kept = Vec::new();
    for run in runs {
        let count = run.count.0.min(left);
        if count > 0 {
            kept.push(Run { start: run.start, count: Blocks(count) });
        }
        left -= count;
    }
    let reach = kept.iter().map(|run| run.len().0).sum();
    (kept, ByteLen(reach))
}

/// Whether each byte within the size has a place.
fn covers(runs: &[Run], size: ByteLen) -> bool {
    runs.iter().map(|run| run.len().0).sum::<u64>() >= size.0
}

#[cfg(test)]
mod tests {
    use nearflash_units::{Lba, MIB};

    use super::*;

    #[test]
    fn a_seal_covers_the_whole_blocks_within_the_size() {
        let run = |start, count| Run { start: Lba(start), count: Blocks(count) };
        let runs = [run(512, 256), run(4096, 300)];
        let of = |size| covered(&runs, ByteLen(size));
        assert_eq!(of(0), (vec![], ByteLen(0)));
        assert_eq!(of(4095), (vec![], ByteLen(0)));
        assert_eq!(of(8193), (vec![run(512, 2)], ByteLen(8192)));
        assert_eq!(of(MIB + 4096), (vec![runs[0], run(4096, 1)], ByteLen(MIB + 4096)));
        let all = ByteLen(MIB + 300 * 4096);
        assert_eq!(of(1 << 40), (runs.to_vec(), all), "space ends before the size");
    }
}
