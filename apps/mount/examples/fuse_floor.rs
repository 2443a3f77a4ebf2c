//! A file system that answers from memory: the floor of every FUSE file system on this machine.
//!
//! ```text
//! fuse_floor DIR [--threads N] [--clone-fd]
//! ```
//!
//! It mounts one file, `file`, of 1 GiB on DIR, and ends when DIR is unmounted. Reads return the same
//! bytes, and writes are forgotten. `scripts/bench-mount` compares the mount of a volume with it.

use std::ffi::OsStr;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, UNIX_EPOCH};

use clap::Parser;
use fuser::{
    Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request, WriteFlags,
};

const FILE: INodeNo = INodeNo(2);
const FILE_LEN: u64 = 1 << 30;
const REQUEST_LEN_MAX: u32 = 1 << 20;
const TTL: Duration = Duration::from_secs(3600);

#[derive(Parser)]
struct Args {
    dir: PathBuf,
    /// The number of threads that answer
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// A descriptor of /dev/fuse for each thread
    #[arg(long)]
    clone_fd: bool,
}

struct Floor {
    bytes: Vec<u8>,
}

fn attributes(number: INodeNo) -> FileAttr {
    let is_file = number == FILE;
    FileAttr {
        ino: number,
        size: if is_file { FILE_LEN } else { 0 },
        blocks: if is_file { FILE_LEN / 512 } else { 0 },
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind: if is_file { FileType::RegularFile } else { FileType::Directory },
        perm: 0o777,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

impl Filesystem for Floor {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // A kernel without one of these is slower, and works.
        for flag in [InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP, InitFlags::FUSE_HANDLE_KILLPRIV_V2] {
            let _ = config.add_capabilities(flag);
        }
        let _ = config.set_max_write(REQUEST_LEN_MAX);
        Ok(())
    }

    fn lookup(&self, _request: &Request, _parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match name == "file" {
            true => reply.entry(&TTL, &attributes(FILE), Generation(0)),
            false => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(
        &self,
        _request: &Request,
        number: INodeNo,
        _: Option<FileHandle>,
        reply: ReplyAttr,
    ) {
        reply.attr(&TTL, &attributes(number));
    }

    fn open(&self, _request: &Request, _number: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let flags = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
        reply.opened(FileHandle(0), flags);
    }

    fn read(
        &self,
        _request: &Request,
        _number: INodeNo,
        _handle: FileHandle,
        _offset: u64,
        size: u32,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let len = usize::try_from(size).unwrap_or(usize::MAX).min(self.bytes.len());
        reply.data(&self.bytes[..len]);
    }

    fn write(
        &self,
        _request: &Request,
        _number: INodeNo,
        _handle: FileHandle,
        _offset: u64,
        bytes: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        reply.written(u32::try_from(bytes.len()).expect("a request has at most 1 MiB"));
    }

    fn fsync(
        &self,
        _request: &Request,
        _number: INodeNo,
        _handle: FileHandle,
        _is_data_only: bool,
        reply: ReplyEmpty,
    ) {
        reply.ok();
    }

    fn readdir(
        &self,
        _request: &Request,
        _number: INodeNo,
        _handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        if offset == 0 {
            let _is_full = reply.add(FILE, 1, FileType::RegularFile, "file");
        }
        reply.ok();
    }
}

fn main() -> io::Result<()> {
    let args = Args::parse();
    let mut config = Config::default();
    config.mount_options =
        vec![MountOption::FSName("fuse_floor".to_owned()), MountOption::DefaultPermissions];
    config.n_threads = Some(args.threads);
    config.clone_fd = args.clone_fd;
    let bytes = vec![0xA5; usize::try_from(REQUEST_LEN_MAX).expect("it fits")];
    fuser::mount(Floor { bytes }, &args.dir, &config)
}
