//! The configuration of a target session, and its demands.

use std::sync::Arc;

use nearflash_request::{Change, Request, Tag};
use nearflash_units::Nanos;

use super::shared::SessionShared;
use crate::login::LoginDemand;
use crate::params::{DigestWish, Offer, SessionParams};

/// The limits of one connection, and the settings of its portal.
#[derive(Clone, Copy, Debug)]
pub struct SessionConfig {
    /// Whether initiators may log in without CHAP, if the exports have no accounts.
    pub anonymous: bool,
    /// The parameters offered in a login.
    pub offer: Offer,
    /// The time limit for the login, from the start of the connection.
    pub login_timeout: Nanos,
    /// The age of the connection before which a failed authentication is not answered.
    pub refusal_delay: Nanos,
    /// The time of silence after which the initiator is pinged.
    pub ping_interval: Nanos,
    /// The time limit for an answer to the ping.
    pub ping_timeout: Nanos,
    /// Random bytes for the CHAP challenge of this connection, never used twice.
    pub nonce: [u8; NONCE_LEN],
}

/// The length of a nonce, in bytes.
pub const NONCE_LEN: usize = 33;

impl SessionConfig {
    /// The default configuration, without anonymous logins, with this nonce.
    pub fn with_nonce(nonce: [u8; NONCE_LEN]) -> Self {
        Self {
            anonymous: false,
            offer: Offer {
                session: SessionParams {
                    max_connections: 16,
                    initial_r2t: false,
                    max_burst_len: 1 << 20,
                    first_burst_len: 256 << 10,
                    // The tasks of a lost connection are not kept.
                    time_to_retain: 0,
                    ..SessionParams::default()
                },
                receive_len_max: 256 << 10,
                header_digest: DigestWish::PreferNone,
                data_digest: DigestWish::PreferNone,
            },
            login_timeout: Nanos::from_secs(15),
            refusal_delay: Nanos::from_secs(1),
            ping_interval: Nanos::from_secs(15),
            ping_timeout: Nanos::from_secs(15),
            nonce,
        }
    }
}

/// A request of a session to its driver.
#[derive(Clone, Debug)]
pub enum Demand {
    /// By the first core's [`super::Portal`]; answered with [`super::TargetSession::handle_login`].
    Login(Box<LoginDemand>),
    /// By the engine; answered with [`nearflash_session::ServingEnd::handle_completion`].
    Request(Request),
    /// By the control side; answered with [`super::TargetSession::handle_change`].
    Change(Tag, Box<Change>),
}

/// The answer to a login that is granted.
#[derive(Clone, Debug)]
pub struct Granted {
    /// The state that the session's connections share.
    pub session: Arc<SessionShared>,
    /// Its CID.
    pub cid: u16,
    /// The core that drives it from now on.
    pub core: u16,
}
