//! Asking a mount for the seal of a file.
//!
//! A seal without pages is void before the kernel keeps a page, so calls that use it need not look for
//! pages: the read with which the kernel fills a page goes to the mount, and the mount revokes the seal
//! before it answers. When the node confirms the revocation, no request of the seal is under way. A later
//! read or write of the seal has no effect, and goes through the mount, as every call on pages does.
//!
//! That leaves pages from the time before the seal. The kernel adds a page to those of the file first, and
//! then asks the mount for its bytes. So a page whose read did not void the seal is found afterwards, if it
//! is still there. Then a seal is asked for that does not depend on pages.

use std::os::fd::BorrowedFd;

use nearflash::direct::{HANDOVER_LEN, Handover, Rights, SEAL_IOCTL, SEAL_WITHOUT_PAGES_IOCTL};
use rustix::io::Errno;
use rustix::ioctl::{Getter, Opcode, ioctl};
use rustix::process::{Resource, getrlimit};

use super::Wanted;

/// The file is not one of a mount with seals.
#[derive(Clone, Copy, Debug)]
pub(super) struct Foreign;

/// A seal for a call, and whether it is void when the kernel keeps pages; `None` if the mount refuses one.
pub(super) fn handover(wanted: &Wanted<'_>) -> Result<Option<(Handover, bool)>, Foreign> {
    let file = &wanted.file;
    // A mount of an older version does not know the first command.
    if file.has_no_pages()
        && let Ok(Some(given)) = asked::<{ SEAL_WITHOUT_PAGES_IOCTL as Opcode }>(file.fd)
        && allows(&given, wanted)
        && file.has_no_pages()
    {
        return Ok(Some((given, true)));
    }
    match asked::<{ SEAL_IOCTL as Opcode }>(file.fd) {
        Err(Errno::NOTTY | Errno::INVAL | Errno::NOSYS) => Err(Foreign),
        asked => Ok(asked.ok().flatten().filter(|it| allows(it, wanted)).map(|it| (it, false))),
    }
}

/// The mount's answer; `None` if it is of another layout.
fn asked<const COMMAND: Opcode>(fd: BorrowedFd<'_>) -> Result<Option<Handover>, Errno> {
    // SAFETY: the kernel stores at most the bytes that the command's number names.
    let command = unsafe { Getter::<COMMAND, [u8; HANDOVER_LEN]>::new() };
    // SAFETY: as above; any bytes are valid.
    let bytes = unsafe { ioctl(fd, command) }?;
    Ok(Handover::decode(&bytes))
}

/// Whether a call may use the seal.
fn allows(handover: &Handover, wanted: &Wanted<'_>) -> bool {
    let needed = if wanted.work.is_write { Rights::WRITE } else { Rights::READ };
    // The kernel checks the limit of sizes at each write.
    let is_limited = wanted.work.is_write && getrlimit(Resource::Fsize).current.is_some();
    handover.seal.terms().rights.has(needed)
        && handover.seal.terms().object == wanted.file.file.inode
        && !is_limited
}
