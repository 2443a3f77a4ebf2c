//! How a login ended. RFC 7143, 11.13.5.

use std::fmt;

/// Status-Class and Status-Detail of a login response.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct LoginStatus {
    /// 0 success, 1 redirection, 2 the initiator's fault, 3 the target's.
    pub class: u8,
    /// What exactly.
    pub detail: u8,
}

impl LoginStatus {
    /// So far, so good.
    pub const SUCCESS: Self = Self::new(0, 0);
    /// The target is elsewhere for now.
    pub const MOVED_TEMPORARILY: Self = Self::new(1, 1);
    /// The target is elsewhere.
    pub const MOVED: Self = Self::new(1, 2);
    /// The initiator did something wrong that has no other status.
    pub const INITIATOR_ERROR: Self = Self::new(2, 0);
    /// The initiator did not prove who it is.
    pub const AUTHENTICATION_FAILURE: Self = Self::new(2, 1);
    /// The initiator may not use this target.
    pub const AUTHORIZATION_FAILURE: Self = Self::new(2, 2);
    /// No such target.
    pub const NOT_FOUND: Self = Self::new(2, 3);
    /// There was one.
    pub const TARGET_REMOVED: Self = Self::new(2, 4);
    /// No version in common.
    pub const UNSUPPORTED_VERSION: Self = Self::new(2, 5);
    /// More connections than were agreed.
    pub const TOO_MANY_CONNECTIONS: Self = Self::new(2, 6);
    /// InitiatorName or TargetName is missing.
    pub const MISSING_PARAMETER: Self = Self::new(2, 7);
    /// A connection that cannot be part of this session.
    pub const CANNOT_INCLUDE: Self = Self::new(2, 8);
    /// No such type of session.
    pub const SESSION_TYPE: Self = Self::new(2, 9);
    /// No session has this TSIH.
    pub const NO_SESSION: Self = Self::new(2, 10);
    /// A request that cannot be where it is in a login.
    pub const INVALID_REQUEST: Self = Self::new(2, 11);
    /// The target failed.
    pub const TARGET_ERROR: Self = Self::new(3, 0);
    /// The target is not in operation.
    pub const SERVICE_UNAVAILABLE: Self = Self::new(3, 1);
    /// No room for more.
    pub const OUT_OF_RESOURCES: Self = Self::new(3, 2);

    const NAMES: &[(Self, &'static str)] = &[
        (Self::SUCCESS, "success"),
        (Self::MOVED_TEMPORARILY, "target moved temporarily"),
        (Self::MOVED, "target moved permanently"),
        (Self::INITIATOR_ERROR, "initiator error"),
        (Self::AUTHENTICATION_FAILURE, "authentication failure"),
        (Self::AUTHORIZATION_FAILURE, "authorization failure"),
        (Self::NOT_FOUND, "target not found"),
        (Self::TARGET_REMOVED, "target removed"),
        (Self::UNSUPPORTED_VERSION, "unsupported version"),
        (Self::TOO_MANY_CONNECTIONS, "too many connections"),
        (Self::MISSING_PARAMETER, "missing parameter"),
        (Self::CANNOT_INCLUDE, "connection cannot be included in the session"),
        (Self::SESSION_TYPE, "session type not supported"),
        (Self::NO_SESSION, "session does not exist"),
        (Self::INVALID_REQUEST, "invalid request during login"),
        (Self::TARGET_ERROR, "target error"),
        (Self::SERVICE_UNAVAILABLE, "service unavailable"),
        (Self::OUT_OF_RESOURCES, "out of resources"),
    ];

    /// Of its two bytes.
    pub const fn new(class: u8, detail: u8) -> Self {
        Self { class, detail }
    }

    /// Whether it is good.
    pub const fn is_success(self) -> bool {
        self.class == 0
    }
}

impl fmt::Display for LoginStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { class, detail } = *self;
        match Self::NAMES.iter().find(|(status, _)| status == self) {
            Some((_, name)) => write!(f, "{name} ({class:02x}{detail:02x}h)"),
            None => write!(f, "status {class:02x}{detail:02x}h"),
        }
    }
}
