//! The initiator's session on a TCP connection, and its login.

use std::io;
use std::sync::Arc;

use nearflash_iscsi::chap::Challenge;
use nearflash_iscsi::initiator::{CommandWindow, InitiatorConfig, InitiatorSession};
use nearflash_iscsi::login::{Established, LoginConfig, SessionKind};
use nearflash_iscsi::params::{DigestWish, Offer, SessionParams};
use nearflash_units::Nanos;
use rustix::rand::{GetRandomFlags, getrandom};

use super::error::InitiatorError;
use super::options::Options;
use crate::memory::Memory;
use crate::stream;

/// MaxRecvDataSegmentLength: one PDU answers a read of up to this length.
const RECEIVE_LEN_MAX: u32 = 1 << 20;
/// FirstBurstLength and MaxBurstLength to offer; the target may lower them.
const BURST_LEN_MAX: u32 = 1 << 20;

/// A TCP connection with the initiator's session.
pub(super) type Connection = stream::Connection<InitiatorSession, Memory>;

/// The parameters that the connections of one session share.
#[derive(Clone, Debug)]
pub(super) struct SessionSeat {
    pub(super) isid: [u8; 6],
    pub(super) kind: SessionKind,
    pub(super) window: Arc<CommandWindow>,
}

impl SessionSeat {
    /// A new session. `isid` distinguishes the sessions of this initiator.
    pub(super) fn new(isid: [u8; 6], kind: SessionKind) -> Self {
        Self { isid, kind, window: Arc::new(CommandWindow::new(1)) }
    }

    /// The name of the target in errors of the login.
    fn name(&self, options: &Options) -> String {
        match &self.kind {
            SessionKind::Normal { target } => target.clone(),
            SessionKind::Discovery => options.address.to_string(),
        }
    }
}

/// A random ISID for a session, with the type "random". RFC 7143, 11.12.5.
pub(super) fn draw_isid() -> io::Result<[u8; 6]> {
    const RANDOM: u8 = 0b10 << 6;
    let [a, b, c, d, e] = draw()?;
    Ok([RANDOM, a, b, c, d, e])
}

fn draw<const N: usize>() -> io::Result<[u8; N]> {
    let (mut bytes, mut filled) = ([0; N], 0);
    while filled < N {
        filled += getrandom(&mut bytes[filled..], GetRandomFlags::empty())?;
    }
    Ok(bytes)
}

/// Connects, and logs in as connection `cid` of a session.
pub(super) fn log_in(
    options: &Options,
    seat: &SessionSeat,
    cid: u16,
    task_count: u16,
    (memory, staging_len): (Memory, usize),
) -> Result<(Connection, Established), InitiatorError> {
    let address = options.address;
    let socket = stream::connect_tcp(address, options.timeout.to_duration())
        .map_err(|source| InitiatorError::Unreachable { address, source })?;
    let login = login_config(options, seat, cid)?;
    let config = InitiatorConfig { login, window: Arc::clone(&seat.window), task_count };
    let session = InitiatorSession::new(config);
    let mut connection = Connection::new(socket, session, memory, staging_len);
    let name = seat.name(options);
    turn_until(&mut connection, "the login", options.timeout, |connection| {
        connection.session.is_ready()
    })
    .map_err(|error| error.of_login(options, &name))?;
    let established = *connection.session.established().expect("the login is over");
    if established.connection.digests != options.digests {
        return Err(InitiatorError::NoDigests { target: name });
    }
    Ok((connection, established))
}

fn login_config(
    options: &Options,
    seat: &SessionSeat,
    cid: u16,
) -> Result<LoginConfig, InitiatorError> {
    let wish = |wanted| if wanted { DigestWish::Crc } else { DigestWish::None };
    let session = SessionParams {
        max_connections: u32::from(options.connections),
        initial_r2t: false,
        immediate_data: true,
        first_burst_len: BURST_LEN_MAX,
        max_burst_len: BURST_LEN_MAX,
        ..SessionParams::default()
    };
    let [identifier] = draw()?;
    Ok(LoginConfig {
        initiator: options.initiator.clone(),
        initiator_alias: None,
        isid: seat.isid,
        tsih: seat.window.tsih().unwrap_or(0),
        cid,
        kind: seat.kind.clone(),
        account: options.account.clone(),
        challenge: Challenge { identifier, bytes: draw()? },
        offer: Offer {
            session,
            receive_len_max: RECEIVE_LEN_MAX,
            header_digest: wish(options.digests.header),
            data_digest: wish(options.digests.data),
        },
    })
}

/// Turns until `is_done` returns `true`.
pub(super) fn turn_until(
    connection: &mut Connection,
    what: &'static str,
    timeout: Nanos,
    is_done: impl FnMut(&mut Connection) -> bool,
) -> Result<(), InitiatorError> {
    match connection.turn_until(timeout, is_done)? {
        true => Ok(()),
        false => Err(InitiatorError::Silent { what, within: timeout.to_duration() }),
    }
}
