//! Opcodes of the three command sets, as open enumerations: an unknown opcode decodes and is
//! refused in one place.

/// The opcode of all Fabrics commands. Byte 4 of the command is its type. NVMe Base 2.0, 6.
pub const FABRICS_OPCODE: u8 = 0x7F;

/// Admin command set. NVMe Base 2.0, 5.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct AdminOpcode(pub u8);

#[allow(missing_docs, reason = "the names are the specification's")]
impl AdminOpcode {
    pub const GET_LOG_PAGE: Self = Self(0x02);
    pub const IDENTIFY: Self = Self(0x06);
    pub const ABORT: Self = Self(0x08);
    pub const SET_FEATURES: Self = Self(0x09);
    pub const GET_FEATURES: Self = Self(0x0A);
    pub const ASYNC_EVENT_REQUEST: Self = Self(0x0C);
    pub const KEEP_ALIVE: Self = Self(0x18);
}

/// NVM command set. NVM Command Set 1.0, 3.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct IoOpcode(pub u8);

#[allow(missing_docs, reason = "the names are the specification's")]
impl IoOpcode {
    pub const FLUSH: Self = Self(0x00);
    pub const WRITE: Self = Self(0x01);
    pub const READ: Self = Self(0x02);
    pub const COMPARE: Self = Self(0x05);
    pub const WRITE_ZEROES: Self = Self(0x08);
    pub const DATASET_MANAGEMENT: Self = Self(0x09);
    pub const VERIFY: Self = Self(0x0C);
    pub const RESERVATION_REGISTER: Self = Self(0x0D);
    pub const RESERVATION_REPORT: Self = Self(0x0E);
    pub const RESERVATION_ACQUIRE: Self = Self(0x11);
    pub const RESERVATION_RELEASE: Self = Self(0x15);

    /// Those of reservations.
    pub const RESERVATIONS: [Self; 4] = [
        Self::RESERVATION_REGISTER,
        Self::RESERVATION_REPORT,
        Self::RESERVATION_ACQUIRE,
        Self::RESERVATION_RELEASE,
    ];
}

/// Fabrics command type, FCTYPE. NVMe Base 2.0, 6.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct FabricsType(pub u8);

#[allow(missing_docs, reason = "the names are the specification's")]
impl FabricsType {
    pub const PROPERTY_SET: Self = Self(0x00);
    pub const CONNECT: Self = Self(0x01);
    pub const PROPERTY_GET: Self = Self(0x04);
    pub const AUTHENTICATION_SEND: Self = Self(0x05);
    pub const AUTHENTICATION_RECEIVE: Self = Self(0x06);
    pub const DISCONNECT: Self = Self(0x08);
}
