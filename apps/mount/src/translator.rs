//! The operations of the kernel, each as one call of the file system.
//!
//! `fuser` has one trait for all operations. An operation that is missing here is answered with ENOSYS,
//! for which the kernel has an equivalent of its own: access(2) is checked by `default_permissions`,
//! locks are local, lseek(2) sees data everywhere, and copy_file_range(2) copies through the kernel.

mod attributes;
mod contents;
mod extended;
mod init;
mod names;
mod opened;
mod sealing;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, Filesystem, FopenFlags, Generation, INodeNo,
    IoctlFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyOpen, ReplyStatfs,
    ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use nearflash::direct::Url;
use nearflash_files_service::{Inode, InodeNumber};

use crate::attributes::{attributes, file_type, is_privileged, number};
use crate::directories::{Directories, Item, Listing, PAGE_LEN};
use crate::gate::Gate;
use crate::options::Cache;

pub(crate) use extended::WAITING_PLACE;

/// Inode numbers are never used again.
const GENERATION: Generation = Generation(0);

/// The contents, names and attributes that the kernel keeps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept {
    pub(crate) cache: Cache,
    /// Whether other machines may change the files.
    pub(crate) is_shared: bool,
    /// The time for which names and attributes are kept.
    pub(crate) attributes_for: Duration,
}

/// Answers the kernel.
#[derive(Debug)]
pub(crate) struct Translator {
    files: Arc<Gate>,
    cache: Cache,
    /// Whether other machines may change the files.
    is_shared: bool,
    /// The time for which the kernel keeps names and attributes without asking.
    attributes_for: Duration,
    /// The value of the attribute that `nearflash umount` reads, once it is known.
    waiting_place: Arc<OnceLock<String>>,
    directories: Directories,
    /// The inodes that the kernel knows and that had a set-user-ID or set-group-ID bit when it learnt
    /// their attributes: a write looks for these bits at no others.
    privileged: RwLock<HashSet<InodeNumber>>,
    /// The node, for processes that get a seal; `None` when none get one.
    sealing_place: Option<Url>,
}

impl Translator {
    pub(crate) fn new(files: Arc<Gate>, kept: Kept, url: &Url) -> Self {
        let (directories, privileged) = (Directories::default(), RwLock::default());
        let Kept { cache, is_shared, attributes_for } = kept;
        let sealing_place = sealing::place(url, cache);
        let waiting_place = Arc::default();
        Self {
            files,
            cache,
            is_shared,
            attributes_for,
            waiting_place,
            directories,
            privileged,
            sealing_place,
        }
    }

    /// Where the name of the socket is put at which `nearflash umount` waits.
    pub(crate) fn waiting_place(&self) -> Arc<OnceLock<String>> {
        Arc::clone(&self.waiting_place)
    }

    /// The attributes of an inode, for the kernel.
    fn shown(&self, number: InodeNumber, inode: &Inode) -> FileAttr {
        if is_privileged(inode) {
            self.privileged.write().unwrap_or_else(PoisonError::into_inner).insert(number);
        }
        attributes(number, inode)
    }

    fn reply_entry(&self, reply: ReplyEntry, found: Result<(InodeNumber, Inode), Errno>) {
        match found {
            Ok((number, inode)) => {
                reply.entry(&self.attributes_for, &self.shown(number, &inode), GENERATION)
            }
            Err(error) => reply.error(error),
        }
    }

    fn reply_attributes(&self, reply: ReplyAttr, number: InodeNumber, inode: Result<Inode, Errno>) {
        match inode {
            Ok(inode) => reply.attr(&self.attributes_for, &self.shown(number, &inode)),
            Err(error) => reply.error(error),
        }
    }

    fn listing(&self, handle: FileHandle) -> Result<Arc<Mutex<Listing>>, Errno> {
        self.directories.get(handle)
    }

    fn open_directory(&self, directory: InodeNumber) -> Result<FileHandle, Errno> {
        let inode = self.files.call(|files| {
            let inode = files.inode(directory)?;
            files.retain(directory).map(|()| inode)
        })?;
        Ok(self.directories.open(directory, inode.parent))
    }

    /// Passes the items of a directory from `offset` on to `add`.
    fn list(
        &self,
        handle: FileHandle,
        offset: u64,
        add: impl FnMut(u64, Item) -> bool,
    ) -> Result<(), Errno> {
        let listing = self.listing(handle)?;
        let mut listing = listing.lock().unwrap_or_else(PoisonError::into_inner);
        let list = |directory: InodeNumber, after: Option<&_>| {
            self.files.call(|files| files.list(directory, after, PAGE_LEN))
        };
        listing.read(offset, list, add)
    }
}

fn reply_empty(reply: ReplyEmpty, done: Result<(), Errno>) {
    match done {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}

fn reply_extended(reply: ReplyXattr, len_max: u32, value: Result<Vec<u8>, Errno>) {
    match value {
        Err(error) => reply.error(error),
        // A value has 64 KiB at most, and so have the names of all attributes.
        Ok(value) if len_max == 0 => match u32::try_from(value.len()) {
            Ok(len) => reply.size(len),
            Err(_) => reply.error(Errno::E2BIG),
        },
        Ok(value) if value.len() > len_max as usize => reply.error(Errno::ERANGE),
        Ok(value) => reply.data(&value),
    }
}

/// The name of an item, and the inode that it names.
fn named(item: &Item) -> (&OsStr, InodeNumber) {
    use std::os::unix::ffi::OsStrExt as _;
    match item {
        Item::Own(number) => (OsStr::new("."), *number),
        Item::Parent(number) => (OsStr::new(".."), *number),
        Item::Entry(entry) => (OsStr::from_bytes(entry.name.as_bytes()), entry.inode),
    }
}

impl Filesystem for Translator {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        init::configure(config, self.cache);
        Ok(())
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.lookup_name(parent, name) {
            // The kernel remembers for a while that the name does not exist.
            Err(Errno::ENOENT) => reply.entry(&self.attributes_for, &init::no_entry(), GENERATION),
            found => self.reply_entry(reply, found),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let number = number(ino);
        self.reply_attributes(reply, number, self.files.call(|files| files.inode(number)));
    }

    fn setattr(
        &self,
        request: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        accessed_at: Option<TimeOrNow>,
        modified_at: Option<TimeOrNow>,
        _changed_at: Option<SystemTime>,
        handle: Option<FileHandle>,
        _created_at: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let number = number(ino);
        let changes = attributes::changes(mode, (uid, gid), size, (accessed_at, modified_at));
        self.reply_attributes(reply, number, self.change(request, (number, handle), changes));
    }

    fn readlink(&self, _request: &Request, ino: INodeNo, reply: ReplyData) {
        match self.files.call(|files| files.link_target(number(ino))) {
            Ok(target) => reply.data(&target),
            Err(error) => reply.error(error),
        }
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        device: u32,
        reply: ReplyEntry,
    ) {
        self.reply_entry(reply, self.make_node(request, (parent, name), mode, device));
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        self.reply_entry(reply, self.make_directory(request, (parent, name), mode));
    }

    fn unlink(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        reply_empty(reply, self.remove_name(parent, name));
    }

    fn rmdir(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        reply_empty(reply, self.remove_directory(parent, name));
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        self.reply_entry(reply, self.make_symlink(request, (parent, name), target));
    }

    fn rename(
        &self,
        _request: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        reply_empty(reply, self.rename_entry((parent, name), (new_parent, new_name), flags));
    }

    fn link(
        &self,
        _request: &Request,
        ino: INodeNo,
        new_parent: INodeNo,
        new_name: &OsStr,
        reply: ReplyEntry,
    ) {
        self.reply_entry(reply, self.add_link(ino, new_parent, new_name));
    }

    fn open(&self, _request: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        match self.files.call(|files| files.retain(number(ino))) {
            Ok(()) => reply.opened(opened::handle(flags.0), self.open_flags()),
            Err(error) => reply.error(error),
        }
    }

    fn read(
        &self,
        _request: &Request,
        ino: INodeNo,
        _handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        self.read_contents((number(ino), owner), offset, size, reply);
    }

    fn write(
        &self,
        _request: &Request,
        ino: INodeNo,
        _handle: FileHandle,
        offset: u64,
        bytes: &[u8],
        write_flags: WriteFlags,
        flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.write_contents(number(ino), offset, bytes, write_flags, flags) {
            // A request has 1 MiB at most.
            Ok(()) => reply.written(u32::try_from(bytes.len()).unwrap_or(u32::MAX)),
            Err(error) => reply.error(error),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        // Writes are never delayed here, so close(2) has nothing to do; the kernel does not ask again.
        reply.error(Errno::ENOSYS);
    }

    fn release(
        &self,
        _request: &Request,
        ino: INodeNo,
        _handle: FileHandle,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        reply_empty(reply, self.release_inode(number(ino)));
    }

    fn fsync(
        &self,
        _request: &Request,
        ino: INodeNo,
        _handle: FileHandle,
        is_data_only: bool,
        reply: ReplyEmpty,
    ) {
        reply_empty(reply, self.files.call(|files| files.sync(number(ino), is_data_only)));
    }

    fn opendir(&self, _request: &Request, ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        match self.open_directory(number(ino)) {
            Ok(handle) => reply.opened(handle, FopenFlags::empty()),
            Err(error) => reply.error(error),
        }
    }

    fn readdir(
        &self,
        _request: &Request,
        _ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let listed = self.list(handle, offset, |next, item| {
            let (name, number) = named(&item);
            let kind = match &item {
                Item::Entry(entry) => file_type(entry.kind),
                Item::Own(_) | Item::Parent(_) => fuser::FileType::Directory,
            };
            reply.add(INodeNo(number.0), next, kind, name)
        });
        match listed {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }

    fn readdirplus(
        &self,
        _request: &Request,
        _ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let inode = |number| self.files.call(|files| files.inode(number));
        let listed = self.list(handle, offset, |next, item| {
            // An entry that was removed meanwhile is left out.
            let (name, number) = named(&item);
            inode(number).is_ok_and(|inode| {
                let attributes = self.shown(number, &inode);
                reply.add(attributes.ino, next, name, &self.attributes_for, &attributes, GENERATION)
            })
        });
        match listed {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }

    fn releasedir(
        &self,
        _request: &Request,
        ino: INodeNo,
        handle: FileHandle,
        _flags: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.directories.close(handle);
        reply_empty(reply, self.release_inode(number(ino)));
    }

    fn fsyncdir(
        &self,
        _request: &Request,
        ino: INodeNo,
        _handle: FileHandle,
        is_data_only: bool,
        reply: ReplyEmpty,
    ) {
        reply_empty(reply, self.files.call(|files| files.sync(number(ino), is_data_only)));
    }

    fn statfs(&self, _request: &Request, _ino: INodeNo, reply: ReplyStatfs) {
        self.report_usage(reply);
    }

    fn setxattr(
        &self,
        _request: &Request,
        ino: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        reply_empty(reply, self.set_extended(number(ino), name, value, flags));
    }

    fn getxattr(&self, _: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        reply_extended(reply, size, self.extended(number(ino), name));
    }

    fn listxattr(&self, _request: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        reply_extended(reply, size, self.extended_names(number(ino)));
    }

    fn removexattr(&self, _request: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        reply_empty(reply, self.remove_extended(number(ino), name));
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        open_flags: i32,
        reply: ReplyCreate,
    ) {
        match self.create_and_open(request, (parent, name), mode) {
            Ok((number, inode)) => {
                let attributes = self.shown(number, &inode);
                let flags = self.open_flags();
                let handle = opened::handle(open_flags);
                reply.created(&self.attributes_for, &attributes, GENERATION, handle, flags);
            }
            Err(error) => reply.error(error),
        }
    }

    fn ioctl(
        &self,
        _request: &Request,
        ino: INodeNo,
        handle: FileHandle,
        _flags: IoctlFlags,
        command: u32,
        _input: &[u8],
        output_len: u32,
        reply: ReplyIoctl,
    ) {
        match self.command(number(ino), handle, command, output_len) {
            Ok(output) => reply.ioctl(0, &output),
            Err(error) => reply.error(error),
        }
    }

    fn fallocate(
        &self,
        _request: &Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        len: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        reply_empty(reply, self.allocate((number(ino), handle), (offset, len), mode));
    }
}
