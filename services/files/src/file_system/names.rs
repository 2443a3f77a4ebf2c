//! Names and attributes.

use nearflash_files::{
    AttributeWrite, Entry, Inode, InodeNumber, Kind, Name, Path, Permissions, Place, Refusal,
    Renaming, Replace,
};
use nearflash_units::{ByteLen, Nanos};

use super::FileSystem;
use super::sealing::{CAPABILITIES, has_privileges};
use crate::FilesError;

/// A new inode.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NewInode {
    /// Its kind.
    pub kind: Kind,
    /// Its owner, and the rights of others.
    pub permissions: Permissions,
    /// The number of a device; 0 for other kinds.
    pub device: u32,
    /// The target of a symbolic link; empty for other kinds.
    pub target: Vec<u8>,
}

/// Changes of attributes; `None` leaves one as it is.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct AttributeChanges {
    /// The permission bits.
    pub mode: Option<u32>,
    /// The owner.
    pub uid: Option<u32>,
    /// The group.
    pub gid: Option<u32>,
    /// The length of a file.
    pub size: Option<ByteLen>,
    /// Time of the last access, since the start of 1970.
    pub accessed_at: Option<Nanos>,
    /// Time of the last change of the contents, since the start of 1970.
    pub modified_at: Option<Nanos>,
}

impl AttributeChanges {
    fn apply(&self, inode: &mut Inode) {
        inode.mode = self.mode.unwrap_or(inode.mode) & nearflash_files::MODE_MASK;
        inode.uid = self.uid.unwrap_or(inode.uid);
        inode.gid = self.gid.unwrap_or(inode.gid);
        inode.accessed_at = self.accessed_at.unwrap_or(inode.accessed_at);
        inode.modified_at = self.modified_at.unwrap_or(inode.modified_at);
    }
}

impl FileSystem {
    /// The inode of a path.
    ///
    /// # Errors
    /// When the path does not exist.
    pub fn stat(&self, path: &Path) -> Result<(InodeNumber, Inode), FilesError> {
        let found = self.view(|tables| nearflash_files::stat(tables, path))?;
        Ok(self.as_open(found))
    }

    /// The inode that a name in a directory names.
    ///
    /// # Errors
    /// When the directory or the name does not exist.
    pub fn lookup(
        &self,
        directory: InodeNumber,
        name: &Name,
    ) -> Result<(InodeNumber, Inode), FilesError> {
        let found =
            self.view(|tables| nearflash_files::lookup(tables, Place::new(directory, name)))?;
        Ok(self.as_open(found))
    }

    /// The inode of this number.
    ///
    /// # Errors
    /// When it does not exist.
    pub fn inode(&self, number: InodeNumber) -> Result<Inode, FilesError> {
        let inode = self.view(|tables| nearflash_files::inode(tables, number))?;
        Ok(self.as_open((number, inode)).1)
    }

    /// An inode with the time of the last write, which the tables get later, and with the size for
    /// programs that have it open.
    fn as_open(&self, (number, mut inode): (InodeNumber, Inode)) -> (InodeNumber, Inode) {
        let Some(file) = self.find_open(number) else { return (number, inode) };
        if let Some(time) = file.modified_at() {
            inode.modified_at = time;
            inode.changed_at = inode.changed_at.max(time);
        }
        inode.size = inode.size.max(ByteLen(file.lost.end()));
        (number, inode)
    }

    /// At most `count_max` entries of a directory in the order of their names' bytes, from the first
    /// behind `after` on.
    ///
    /// # Errors
    /// When the inode is not a directory.
    pub fn list(
        &self,
        directory: InodeNumber,
        after: Option<&Name>,
        count_max: usize,
    ) -> Result<Vec<Entry>, FilesError> {
        self.view(|tables| nearflash_files::list(tables, directory, after, count_max))
    }

    /// Creates an inode of any kind with a name.
    ///
    /// # Errors
    /// When the directory does not exist, the name exists, or the volume is full.
    pub fn create(
        &self,
        directory: InodeNumber,
        name: &Name,
        new: NewInode,
    ) -> Result<(InodeNumber, Inode), FilesError> {
        self.make_room()?;
        self.apply(|change| {
            let inode = Inode::new(new.kind, new.permissions, change.now());
            let inode = Inode { device: new.device, ..inode };
            let place = Place::new(directory, name);
            match new.kind {
                Kind::Symlink => change.symlink(place, inode, &new.target),
                _ => change.create(place, inode, Replace::Never),
            }
        })
    }

    /// Gives an inode a further name.
    ///
    /// # Errors
    /// When the inode or the directory does not exist, the name exists, the inode is a directory, or
    /// the volume is full.
    pub fn link(
        &self,
        number: InodeNumber,
        directory: InodeNumber,
        name: &Name,
    ) -> Result<Inode, FilesError> {
        self.make_room()?;
        let linked = self.apply(|change| change.link(number, Place::new(directory, name)))?;
        Ok(self.as_open((number, linked)).1)
    }

    /// Gives an inode that is open a name, also if it has none. A file that has the name is replaced if
    /// `replace` allows it.
    ///
    /// # Errors
    /// As [`Self::link`], and when the inode is not open.
    pub fn link_open(
        &self,
        number: InodeNumber,
        (directory, name): (InodeNumber, &Name),
        replace: Replace,
    ) -> Result<Inode, FilesError> {
        self.make_room()?;
        let place = Place::new(directory, name);
        let linked = self.apply(|change| change.link_open(number, place, replace))?;
        Ok(self.as_open((number, linked)).1)
    }

    /// Creates a file without a name, which is open: open(2) with O_TMPFILE. [`Self::publish`] gives it one.
    ///
    /// # Errors
    /// When the directory does not exist, or the volume is full.
    pub fn create_nameless(
        &self,
        directory: InodeNumber,
        permissions: Permissions,
    ) -> Result<InodeNumber, FilesError> {
        self.heal()?;
        self.make_room()?;
        let losses = self.disk().losses();
        let number = self.apply(|change| change.create_nameless(directory, permissions))?;
        // From now on, a lost connection counts, also one that is replaced before the first byte.
        self.retained(number)?.mark_written(losses, &Ok(()));
        Ok(number)
    }

    /// Gives an open file of [`Self::create_nameless`] its name: it is complete. The name becomes durable together
    /// with all its bytes, or not at all. A file of several runs moves to one first, if a gap holds it.
    ///
    /// # Errors
    /// As [`Self::link_open`], and when bytes of the file may have been lost.
    pub fn publish(
        &self,
        number: InodeNumber,
        (directory, name): (InodeNumber, &Name),
        replace: Replace,
    ) -> Result<Inode, FilesError> {
        self.heal()?;
        let file = self.open_regular(number)?;
        self.join(&file, self.joined_max())?;
        self.make_room()?;
        let mut state = self.state()?;
        if !file.lost.is_empty() || !file.has_no_loss_to_report(self.disk().losses()) {
            return Err(self.lost());
        }
        let place = Place::new(directory, name);
        let linked =
            self.apply_to(&mut state, |change| change.link_open(number, place, replace))?;
        state.losses.mark_published();
        drop(state);
        Ok(self.as_open((number, linked)).1)
    }

    /// Removes a name that is not a directory's. The inode stays while it is open.
    ///
    /// # Errors
    /// When the name does not exist, or is a directory's.
    pub fn unlink(&self, directory: InodeNumber, name: &Name) -> Result<(), FilesError> {
        self.apply(|change| change.unlink(Place::new(directory, name)))
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// When the name does not exist, is not a directory's, or the directory is not empty.
    pub fn rmdir(&self, directory: InodeNumber, name: &Name) -> Result<(), FilesError> {
        self.apply(|change| change.rmdir(Place::new(directory, name)))
    }

    /// Renames an inode.
    ///
    /// # Errors
    /// As renameat2(2).
    pub fn rename(
        &self,
        from: (InodeNumber, &Name),
        to: (InodeNumber, &Name),
        renaming: Renaming,
    ) -> Result<(), FilesError> {
        self.make_room()?;
        let (from, to) = (Place::new(from.0, from.1), Place::new(to.0, to.1));
        self.apply(|change| change.rename(from, to, renaming))
    }

    /// The target of a symbolic link.
    ///
    /// # Errors
    /// When the inode is not one.
    pub fn link_target(&self, number: InodeNumber) -> Result<Vec<u8>, FilesError> {
        self.view(|tables| nearflash_files::target(tables, number))
    }

    /// Changes attributes.
    ///
    /// # Errors
    /// When the inode does not exist, or the size is changed of an inode that is not a file.
    pub fn change(
        &self,
        number: InodeNumber,
        changes: AttributeChanges,
    ) -> Result<Inode, FilesError> {
        if let Some(size) = changes.size {
            self.resize(number, size)?;
        }
        let change = || {
            let written_at = self.find_open(number).and_then(|file| file.take_modified_at());
            self.apply(|change| {
                change.update(number, |inode| {
                    inode.modified_at = written_at.unwrap_or(inode.modified_at);
                    changes.apply(inode);
                })
            })
        };
        let changed = match changes.mode.is_some_and(has_privileges) {
            true => self.while_unsealed(number, change),
            false => change(),
        };
        changed.map(|inode| self.as_open((number, inode)).1)
    }

    /// truncate(2), also of a file that is not open.
    fn resize(&self, number: InodeNumber, size: ByteLen) -> Result<(), FilesError> {
        match self.inode(number)?.kind {
            Kind::File => {}
            Kind::Directory => return Err(Refusal::IsADirectory(Default::default()).into()),
            _ => return Err(Refusal::NotAFile(number).into()),
        }
        let file = self.retained(number)?;
        let cut = self.truncate(&file, size);
        self.release(number);
        cut
    }

    /// The value of an extended attribute.
    ///
    /// # Errors
    /// When the inode or the attribute does not exist.
    pub fn attribute(&self, number: InodeNumber, name: &[u8]) -> Result<Vec<u8>, FilesError> {
        self.view(|tables| nearflash_files::attribute(tables, number, name))
    }

    /// The names of the extended attributes.
    ///
    /// # Errors
    /// When the inode does not exist.
    pub fn attributes(&self, number: InodeNumber) -> Result<Vec<Vec<u8>>, FilesError> {
        self.view(|tables| nearflash_files::attributes(tables, number))
    }

    /// Sets an extended attribute.
    ///
    /// # Errors
    /// When the inode does not exist, the name or the value is too long, `write` forbids it, or the
    /// volume is full.
    pub fn set_attribute(
        &self,
        number: InodeNumber,
        name: &[u8],
        value: &[u8],
        write: AttributeWrite,
    ) -> Result<(), FilesError> {
        self.make_room()?;
        let change = || self.apply(|change| change.set_attribute(number, name, value, write));
        match name == CAPABILITIES {
            true => self.while_unsealed(number, change),
            false => change(),
        }
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// When the inode or the attribute does not exist.
    pub fn remove_attribute(&self, number: InodeNumber, name: &[u8]) -> Result<(), FilesError> {
        self.apply(|change| change.remove_attribute(number, name))
    }
}
