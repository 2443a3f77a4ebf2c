//! Who asks, as reservations know it.

use std::fmt;

/// An initiator's port and the target it talks to, or a host and its subsystem: what registers and
/// reserves. It is the same on every connection and after every reconnect, and no other one's.
///
/// The number is derived from names by `nearflash_session::nexus`; nobody reads anything out of it.
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Nexus(pub u128);

impl Nexus {
    /// Who cannot register: direct clients, and everybody before the login. Holds nothing, ever.
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

/// What a command wants of a unit: what reservations allow or refuse.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Access {
    /// Neither reads nor changes the medium, and persistent reservations let it pass: only the
    /// older exclusive reservation (SPC-2 RESERVE) refuses it. TEST UNIT READY is one.
    Look,
    /// Tells something of what the medium holds.
    Read,
    /// Changes how the unit works, or whether what the medium holds is durable: reservations refuse
    /// it as they refuse a write, and a write protection lets it pass. A flush is one.
    Manage,
    /// Changes what the medium holds.
    Write,
}
