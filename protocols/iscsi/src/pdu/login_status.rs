//! The result of a login. RFC 7143, 11.13.5.

use std::fmt;

use nearflash_session::codes;

/// Status-Class (0 success, 1 redirection, 2 initiator error, 3 target error) and Detail.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct LoginStatus(u16);

codes! { LoginStatus {
    SUCCESS = 0x0000, "success";
    MOVED_TEMPORARILY = 0x0101, "target moved temporarily";
    MOVED = 0x0102, "target moved permanently";
    /// The initiator did something wrong that has no other status.
    INITIATOR_ERROR = 0x0200, "initiator error";
    AUTHENTICATION_FAILURE = 0x0201, "authentication failure";
    /// The initiator may not use this target.
    AUTHORIZATION_FAILURE = 0x0202, "authorization failure";
    NOT_FOUND = 0x0203, "target not found";
    TARGET_REMOVED = 0x0204, "target removed";
    UNSUPPORTED_VERSION = 0x0205, "unsupported version";
    /// More connections than were agreed.
    TOO_MANY_CONNECTIONS = 0x0206, "too many connections";
    /// InitiatorName or TargetName is missing.
    MISSING_PARAMETER = 0x0207, "missing parameter";
    /// A connection that cannot be part of this session.
    CANNOT_INCLUDE = 0x0208, "connection cannot be included in the session";
    SESSION_TYPE = 0x0209, "session type not supported";
    NO_SESSION = 0x020a, "session does not exist";
    INVALID_REQUEST = 0x020b, "invalid request during login";
    TARGET_ERROR = 0x0300, "target error";
    /// The target is not in operation.
    SERVICE_UNAVAILABLE = 0x0301, "service unavailable";
    OUT_OF_RESOURCES = 0x0302, "out of resources";
} }

impl LoginStatus {
    /// A status of this class and detail.
    pub const fn new(class: u8, detail: u8) -> Self {
        Self(u16::from_be_bytes([class, detail]))
    }

    /// Status-Class.
    pub const fn class(self) -> u8 {
        self.0.to_be_bytes()[0]
    }

    /// Status-Detail.
    pub const fn detail(self) -> u8 {
        self.0.to_be_bytes()[1]
    }

    /// Whether the class is success.
    pub const fn is_success(self) -> bool {
        self.class() == 0
    }
}

impl fmt::Display for LoginStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.known() {
            Some((_, name)) => write!(f, "{name} ({:04x}h)", self.0),
            None => write!(f, "status {:04x}h", self.0),
        }
    }
}
