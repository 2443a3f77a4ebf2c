//! The callers: this machine's operator, or a token.

use std::fmt;
use std::net::SocketAddr;

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use nearflash_api::{ApiError, ErrorCode, TokenScope};

use crate::Face;
use crate::audit::{Audit, HTTP};
use crate::origin;
use crate::refusal::Refusal;

/// The other end of a connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Peer {
    /// A process of this machine, which could open the Unix socket: its user may make every call.
    Local {
        /// Absent if the system does not tell.
        uid: Option<u32>,
    },
    /// A machine of the network, which needs a token.
    Remote(SocketAddr),
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local { uid: Some(uid) } => write!(f, "user {uid}"),
            Self::Local { uid: None } => f.write_str("this machine"),
            Self::Remote(address) => address.fmt(f),
        }
    }
}

/// Who makes a request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Caller {
    /// Its name in the audit.
    pub(crate) name: String,
    pub(crate) peer: Peer,
    pub(crate) scope: TokenScope,
}

/// The caller of a request.
///
/// # Errors
/// When it needs a token, and has none that is valid; on the Unix socket, when another site asks.
pub(crate) fn caller(face: &dyn Face, peer: Peer, headers: &HeaderMap) -> Result<Caller, Refusal> {
    if let Peer::Local { uid } = peer {
        origin::check(headers)?;
        let uid = uid.map_or_else(|| "?".to_owned(), |uid| uid.to_string());
        return Ok(Caller { name: format!("uid {uid}"), peer, scope: TokenScope::Admin });
    }
    let bearer = secret(headers).and_then(|secret| face.bearer(secret));
    let bearer = bearer.ok_or_else(|| {
        let message = "the request has no token that is valid: send 'Authorization: Bearer', with \
                       a token that 'nearflash token create' printed";
        ApiError::new(ErrorCode::TokenRefused, message)
    })?;
    Ok(Caller { name: format!("token {}", bearer.name), peer, scope: bearer.scope })
}

/// The secret of `Authorization: Bearer SECRET`. RFC 6750, 2.1; the scheme's case is free.
fn secret(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (value, None) = (values.next()?, values.next()) else { return None };
    let (scheme, secret) = value.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| secret.trim_matches(' '))
}

impl Caller {
    /// Logs a change that it has asked for.
    pub(crate) fn audit(&self, call: &str, subject: &str, done: Result<(), &ApiError>) {
        let peer = match self.peer {
            Peer::Local { .. } => String::new(),
            Peer::Remote(address) => address.to_string(),
        };
        Audit { through: HTTP, who: &self.name, peer: &peer }.log(call, subject, done);
    }

    /// Checks that a call is in the caller's scope.
    ///
    /// # Errors
    /// When it is not.
    pub(crate) fn check(&self, needed: TokenScope) -> Result<(), Refusal> {
        if self.scope >= needed {
            return Ok(());
        }
        let message = format!(
            "{} has scope '{}', and this request needs '{needed}': use a token with a wider scope",
            self.name, self.scope
        );
        Err(ApiError::new(ErrorCode::ScopeMissing, message).into())
    }
}
