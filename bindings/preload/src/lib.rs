//! The library that `nearflash run` preloads into a program: reads and writes of files of a mounted volume
//! go to the node, without the mount and the kernel.
//!
//! It interposes the functions that read and write at an offset ([`hooks`]). A call asks the kernel which
//! file the descriptor is of ([`file`]), and takes a connection of the process ([`pool`]), which has seals of
//! the files that were used last ([`connection`]). If the range lies within the seal, the node carries the
//! call out. Otherwise the real function does, so that a call has the same effect either way.
//!
//! The kernel keeps pages of files that some process maps, copies in the kernel or sends. A read is left to it
//! if the range has pages that were changed. A write is left to it if the range has any page, and is repeated
//! by it if one has come meanwhile: a page that comes later has the new bytes. So functions like mmap(2)
//! need not be interposed, and pages of other processes are noticed, too. Most seals are void as soon as the
//! kernel keeps a page, and then no call looks for pages ([`connection`]'s module `asking`).
//!
//! fdatasync(2) becomes a flush of the volume, if it does not need more than that ([`syncing`]).
//!
//! A read through shared memory makes two system calls, and neither can be left out:
//! - statx: the program may have closed the descriptor and opened another file under its number, in ways that
//!   no interposed function sees. A record of descriptors would give the bytes of another file.
//! - fcntl: the number may be that of a descriptor of the same file that is open for writing alone, where the
//!   kernel refuses the read, or, for a write, one that appends.
//!
//! The library keeps no record of descriptors: programs make and close them in too many ways. It does not
//! interpose functions that use a descriptor's position, which other processes may share.
//!
//! Invariants:
//! - A call never waits for a lock, and holds nothing that another thread or a signal handler waits for.
//! - A read that fails here is done by the real function. A write that may have begun is not: it fails with
//!   EIO.
//! - A connection whose descriptors were closed by the program is never used again, and never closed.
//! - A child does not use the connections of its parent.
#![allow(unsafe_code)] // a C interface; every block says why it is sound

#[cfg(not(target_pointer_width = "64"))]
compile_error!("the functions have offsets of 64 bits under both of their names");

mod connection;
mod errno;
mod file;
mod hooks;
mod life;
mod pool;
mod real;
mod report;
mod syncing;
mod transfer;
mod work;
