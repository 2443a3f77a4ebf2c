//! fdatasync(2): a flush of the volume by the node, if that is all that it needs ([`Connection::sync`]).

use libc::c_int;
use rustix::fs::OFlags;

use crate::connection::{Connection, Trouble};
use crate::errno::Kept;
use crate::file::{self, Known};
use crate::life;
use crate::pool::{self, Taken};
use crate::report::{Way, count};

/// Whether the node has made the bytes of the file durable. If not, the real function is to do so.
pub(crate) fn sync(fd: c_int) -> bool {
    match with_connection(fd, Connection::sync) {
        Some(Ok(())) => {
            count(Way::OneSided);
            true
        }
        Some(Err(Trouble::Through(way))) => {
            count(way);
            false
        }
        // A flush of which it is unknown whether it took effect is repeated.
        Some(Err(Trouble::Foreign | Trouble::Unknown)) | None => false,
    }
}

/// The real function has succeeded.
pub(crate) fn was_synced(fd: c_int) {
    with_connection(fd, Connection::was_synced);
}

fn with_connection<T>(
    fd: c_int,
    call: impl FnOnce(&mut Connection, &Known<'_>, OFlags) -> T,
) -> Option<T> {
    if pool::is_inside() {
        return None;
    }
    let file = file::known(fd)?;
    let flags = file.flags()?;
    if flags.contains(OFlags::PATH) || flags & OFlags::ACCMODE == OFlags::RDONLY {
        return None;
    }
    let life = life::current()?;
    let mut taken = Taken::new(life)?;
    let _kept = Kept::new();
    let connection = Connection::renewed(taken.connection(), life).ok()?;
    Some(call(connection, &file, flags))
}
