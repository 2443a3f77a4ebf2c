//! The identity to which registrations and reservations belong.

use std::fmt;

/// An initiator port with its target, or a host with its subsystem: the owner of registrations and
/// reservations. It is unique, and the same on every connection and after every reconnect.
///
/// `nearflash_session::nexus` derives the number from names. The number has no structure.
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Nexus(pub u128);

impl Nexus {
    /// A party that cannot register or reserve: a direct client, or any initiator before login.
    pub const NONE: Self = Self(0);
}

/// As 32 hexadecimal digits.
impl fmt::Display for Nexus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for Nexus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Nexus({self})")
    }
}

/// The kind of access that a command needs, by which reservations allow or refuse it.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Access {
    /// Neither reads nor changes the medium. Persistent reservations allow it; only the older
    /// exclusive reservation (SPC-2 RESERVE) refuses it. Example: TEST UNIT READY.
    Look,
    /// Reveals contents of the medium.
    Read,
    /// Changes the unit's behavior or the durability of its contents. Reservations refuse it like a
    /// write; write protection allows it. Example: a flush.
    Manage,
    /// Changes the contents of the medium.
    Write,
}
