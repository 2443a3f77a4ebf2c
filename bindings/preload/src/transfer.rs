//! One call: whether the node can carry it out, and its bytes.

use libc::c_int;
use rustix::fs::OFlags;

use crate::connection::{Connection, Trouble, Wanted};
use crate::errno::Kept;
use crate::pool::Taken;
use crate::report::{Way, count};
use crate::work::Work;
use crate::{file, life, pool};

/// Carries the call out without the kernel. Returns its length or errno; `None` when the real function is to
/// carry it out.
pub(crate) fn transfer(work: Work<'_>) -> Option<Result<usize, c_int>> {
    if pool::is_inside() {
        return None;
    }
    let file = file::known(work.fd)?;
    let wanted = Wanted { file, flags: file.flags()?, work };
    let life = life::current()?;
    match carried_out(&wanted, life) {
        Ok(()) => {
            count(Way::OneSided);
            Some(Ok(work.memory.len()))
        }
        Err(Trouble::Foreign) => None,
        Err(Trouble::Through(way)) => {
            count(way);
            None
        }
        Err(Trouble::Unknown) => {
            count(Way::Lost);
            Some(Err(libc::EIO))
        }
    }
}

fn carried_out(wanted: &Wanted<'_>, life: u64) -> Result<(), Trouble> {
    check_mode(wanted.flags, wanted.work.is_write)?;
    let mut taken = Taken::new(life).ok_or(Trouble::Through(Way::Busy))?;
    let _kept = Kept::new();
    let connection = Connection::renewed(taken.connection(), life)?;
    connection.carry_out(wanted)
}

/// Whether calls through a descriptor with these flags have the same effect without the kernel.
fn check_mode(flags: OFlags, is_write: bool) -> Result<(), Trouble> {
    let mode = flags & OFlags::ACCMODE;
    if flags.contains(OFlags::PATH) {
        return Err(Trouble::Foreign);
    }
    match is_write {
        // The kernel refuses.
        true if mode == OFlags::RDONLY => Err(Trouble::Foreign),
        false if mode == OFlags::WRONLY => Err(Trouble::Foreign),
        true if flags.contains(OFlags::APPEND) => Err(Trouble::Through(Way::Append)),
        true if flags.contains(OFlags::SYNC) => Err(Trouble::Through(Way::Synchronous)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_the_kernel_would_refuse_are_left_to_it() {
        assert_eq!(check_mode(OFlags::RDONLY, true), Err(Trouble::Foreign));
        assert_eq!(check_mode(OFlags::WRONLY, false), Err(Trouble::Foreign));
        let append = OFlags::RDWR | OFlags::APPEND;
        assert_eq!(check_mode(append, true), Err(Trouble::Through(Way::Append)));
        assert_eq!(check_mode(append, false), Ok(()));
        let synchronous = Err(Trouble::Through(Way::Synchronous));
        assert_eq!(check_mode(OFlags::RDWR | OFlags::SYNC, true), synchronous);
        assert_eq!(check_mode(OFlags::RDWR | crate::work::DSYNC, true), Ok(()));
    }
}
