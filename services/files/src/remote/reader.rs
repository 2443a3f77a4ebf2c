//! Reading by paths through the owner, for clients that may read no block.
//!
//! A file that is open is open for the client at the owner, too. It keeps its bytes when it is removed or
//! replaced, and is read in pieces, each of which is a message.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use nearflash::Client;
use nearflash_files::{Entry, Inode, InodeNumber, Kind, Name, Path, Refusal};
use nearflash_units::{ByteLen, ByteOffset};
use rustix::io::Errno;

use super::RemoteFiles;
use super::paths::named;
use crate::{FileCalls as _, FilesError};

/// The files of a volume whose node owns them, for reading. Every call sees the changes that the node made
/// before it, of any client.
#[derive(Debug)]
pub struct RemoteReader {
    files: RemoteFiles,
    /// The files that are not used any more. The next call closes them: their users may not wait for the node.
    unused: Mutex<Vec<InodeNumber>>,
}

/// A file that was opened for reading. It is closed some time after it was dropped, or with its reader.
#[derive(Debug)]
pub struct RemoteOpenedFile {
    reader: Arc<RemoteReader>,
    path: Path,
    number: InodeNumber,
    inode: Inode,
}

impl Drop for RemoteOpenedFile {
    fn drop(&mut self) {
        let mut unused = self.reader.unused.lock().unwrap_or_else(PoisonError::into_inner);
        unused.push(self.number);
    }
}

impl RemoteReader {
    /// The files of a volume, if its node owns them and lets this client read some of them.
    ///
    /// # Errors
    /// When the node cannot be reached, refuses the volume, or cannot serve its files.
    pub fn open(client: &Client, volume: &str) -> Result<Option<Self>, FilesError> {
        let Some(files) = RemoteFiles::open(client, volume)? else { return Ok(None) };
        let reader = Self::of(files.without_seals());
        // Each grant lets a client pass the root.
        match reader.files.inode(InodeNumber::ROOT) {
            Ok(_) => Ok(Some(reader)),
            Err(error) if error.errno() == Errno::ACCESS => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads these files.
    pub fn of(files: RemoteFiles) -> Self {
        Self { files, unused: Mutex::default() }
    }

    /// The inode of a path.
    ///
    /// # Errors
    /// When the path does not exist, or the owner cannot be asked.
    pub fn stat(&self, path: &Path) -> Result<(InodeNumber, Inode), FilesError> {
        self.files().stat(path)
    }

    /// At most `count_max` entries of a directory with their inodes, in the order of their names' bytes, from
    /// the first behind `after` on. Each inode is as of the time when it was asked for.
    ///
    /// # Errors
    /// When the path is not a directory, or the owner cannot be asked.
    pub fn list(
        &self,
        path: &Path,
        after: Option<&Name>,
        count_max: usize,
    ) -> Result<Vec<(Entry, Inode)>, FilesError> {
        let files = self.files();
        let (directory, _) = files.stat(path)?;
        let (mut listed, mut after) = (Vec::new(), after.cloned());
        while listed.len() < count_max {
            let left = count_max - listed.len();
            let entries = files.list(directory, after.as_ref(), left).map_err(named(path))?;
            let Some(last) = entries.last() else { break };
            after = Some(last.name.clone());
            for entry in entries {
                match files.lookup(directory, &entry.name) {
                    Ok((inode, it)) => listed.push((Entry { inode, kind: it.kind, ..entry }, it)),
                    // It was removed meanwhile.
                    Err(error) if error.errno() == Errno::NOENT => {}
                    Err(error) => return Err(named(&path.join(&entry.name))(error)),
                }
            }
        }
        Ok(listed)
    }

    /// Opens a file for reading.
    ///
    /// # Errors
    /// When the path is not a file, or the owner cannot be asked.
    pub fn open_file(self: &Arc<Self>, path: &Path) -> Result<RemoteOpenedFile, FilesError> {
        let files = self.files();
        let (number, inode) = files.stat(path)?;
        match inode.kind {
            Kind::File => {}
            Kind::Directory => return Err(Refusal::IsADirectory(path.clone()).into()),
            _ => return Err(Refusal::NotAFile(number).into()),
        }
        files.retain(number).map_err(|error| self.stale(path, error))?;
        Ok(RemoteOpenedFile { reader: Arc::clone(self), path: path.clone(), number, inode })
    }

    /// The files, when those that are not used any more are closed.
    fn files(&self) -> &RemoteFiles {
        let unused =
            std::mem::take(&mut *self.unused.lock().unwrap_or_else(PoisonError::into_inner));
        unused.into_iter().for_each(|number| self.files.release(number));
        &self.files
    }

    /// The error of a call on a file that was found under this path.
    fn stale(&self, path: &Path, error: FilesError) -> FilesError {
        match error.errno() {
            Errno::STALE => {
                FilesError::Stale { volume: self.files.volume().to_owned(), path: path.clone() }
            }
            _ => named(path)(error),
        }
    }
}

impl RemoteOpenedFile {
    /// The path under which it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its number.
    pub fn number(&self) -> InodeNumber {
        self.number
    }

    /// Its inode when it was opened.
    pub fn inode(&self) -> &Inode {
        &self.inode
    }

    /// Fills `bytes` from `offset` of the file.
    ///
    /// # Errors
    /// When the range is not within the file, no grant covers it any more, the owner cannot be asked, or the
    /// file was cut. The contents of `bytes` are then not those of the file.
    pub fn read_at(&self, bytes: &mut [u8], offset: ByteOffset) -> Result<(), FilesError> {
        let reader = &*self.reader;
        let end = offset.checked_add(ByteLen::of(bytes));
        if end.is_none_or(|end| end.0 > self.inode.size.0) {
            let failed = FilesError::disk(reader.files.volume());
            return Err(failed(io::ErrorKind::UnexpectedEof.into()));
        }
        let read = reader.files().read(self.number, bytes, offset);
        let len = read.map_err(|error| reader.stale(&self.path, error))?;
        if len == bytes.len() {
            return Ok(());
        }
        let (volume, path) = (reader.files.volume().to_owned(), self.path.clone());
        Err(FilesError::Stale { volume, path })
    }
}
