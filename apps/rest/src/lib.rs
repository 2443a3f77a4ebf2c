//! The HTTP interface of a node: the calls of `apps/api` as resources (REST), with server-sent events
//! and an OpenAPI document.
//!
//! HTTP/1.1, RFC 9110 and RFC 9112; bearer tokens, RFC 6750; conditional requests, RFC 9110, 13;
//! events, HTML Living Standard, 9.2. The table in `routes` says which call each method of a resource
//! makes; the rest of the crate is the same for all of them. A node is a [`Face`]: the crate knows
//! nothing of its catalog, its cores or its files.
//!
//! Invariants: everything runs on one thread, except calls, which may block and run on at most
//! [`CALLS_MAX`] threads. A peer that sends or takes nothing is disconnected. The peers of the
//! network have connections of their own, so that they cannot keep the operator of the machine out.
//! A secret appears in answers only.

mod answers;
mod audit;
mod body;
mod caller;
mod calling;
mod events;
mod handler;
mod host;
mod openapi;
mod origin;
mod page;
mod places;
mod refusal;
mod repeat;
mod routes;
mod schemas;
mod server;
mod shared;
mod timed;
mod tls;

use nearflash_api::{ApiError, RefusalReason, Request, TokenScope};
use zeroize::Zeroizing;

pub use audit::{Audit, CHANGES};
pub use caller::Peer;
pub use calling::CALLS_MAX;
pub use openapi::document as openapi_document;
pub use server::{HttpServer, Listeners};
pub use tls::{Certified, TlsError};

/// A node, as the HTTP interface uses it.
pub trait Face: Send + Sync + 'static {
    /// Executes a call, and returns the document of its answer. It may block.
    ///
    /// With `expected`, a change takes effect only if the generation is still this one.
    ///
    /// # Errors
    /// When the call is refused or fails.
    fn serve(&self, request: Request, expected: Option<u64>)
    -> Result<Zeroizing<String>, ApiError>;

    /// The metrics, as the text of OpenMetrics. It may take some milliseconds.
    fn metrics(&self) -> String;

    /// The generation of the recorded state, which each change increases. It does not block.
    fn generation(&self) -> u64;

    /// The token with this secret, if there is one that has not expired. It does not block.
    fn bearer(&self, secret: &str) -> Option<Bearer>;

    /// Notes a caller that was refused. It does not block.
    fn refused(&self, refused: &RefusedCaller<'_>);

    /// Sets the function to call after each change of the state or of a job. The function does not
    /// block.
    fn on_change(&self, tell: Box<dyn Fn() + Send + Sync>);
}

/// A caller that was refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RefusedCaller<'a> {
    /// The other end of its connection.
    pub peer: Peer,
    /// Its token's name; empty without a valid token.
    pub who: &'a str,
    /// The resource of the request; empty if that is not known.
    pub what: &'a str,
    /// The reason.
    pub reason: RefusalReason,
    /// The reason in words.
    pub text: &'a str,
}

/// A token that a request presented.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Bearer {
    /// Its name.
    pub name: String,
    /// The calls that it permits.
    pub scope: TokenScope,
}

#[cfg(test)]
mod tests;
