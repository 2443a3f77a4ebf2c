//! What a target session is told, and what it asks for.

use std::sync::Arc;

use nearflash_request::{Change, Request, Tag};
use nearflash_units::Nanos;

use super::shared::SessionShared;
use crate::login::LoginDemand;
use crate::params::{DigestWish, Offer, SessionParams};

/// The limits of one connection, and its door's.
#[derive(Clone, Copy, Debug)]
pub struct SessionConfig {
    /// Initiators without a CHAP account are let in, as long as the exports name none.
    pub anonymous: bool,
    /// What is offered in a login.
    pub offer: Offer,
    /// How long an initiator may take from the connection's first byte until it is in.
    pub login_timeout: Nanos,
    /// An initiator that fails to prove who it is is not told so before its connection is so old.
    pub refusal_delay: Nanos,
    /// An initiator that has said nothing for this long is asked whether it is there.
    pub ping_interval: Nanos,
    /// How long it may take to say something then.
    pub ping_timeout: Nanos,
    /// Drawn at random for this connection, and never used twice: the CHAP challenge.
    pub nonce: [u8; NONCE_LEN],
}

/// Bytes of a nonce.
pub const NONCE_LEN: usize = 33;

impl SessionConfig {
    /// A door that serves whom the exports let in, with this nonce.
    pub fn with_nonce(nonce: [u8; NONCE_LEN]) -> Self {
        Self {
            anonymous: false,
            offer: Offer {
                session: SessionParams {
                    max_connections: 16,
                    initial_r2t: false,
                    max_burst_len: 1 << 20,
                    first_burst_len: 256 << 10,
                    // What a lost connection had under way is not kept.
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

/// What a session wants done.
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
    /// What the connection shares with the session's others.
    pub session: Arc<SessionShared>,
    /// Its CID.
    pub cid: u16,
    /// The core that it lives on from now on.
    pub core: u16,
}
