//! The host's session on a TCP connection.

use nearflash_nvme::serving::Connected;
use nearflash_nvme::{ControllerId, QueueId, Status};
use nearflash_nvme_tcp::host::{HostConfig, HostSession};
use nearflash_units::Nanos;

use super::error::HostError;
use super::options::Options;
use crate::memory::Memory;
use crate::stream;

/// A TCP connection with the host's session.
pub(super) type Connection = stream::Connection<HostSession, Memory>;

/// Connects the socket, with TLS if the options say so; the first turn sends the session's first
/// bytes.
pub(super) fn open(
    options: &Options,
    config: HostConfig,
    memory: Memory,
    staging_len: usize,
) -> Result<Connection, HostError> {
    let address = options.address;
    let socket = stream::connect_tcp(address, options.timeout.to_duration())
        .map_err(|source| HostError::Unreachable { address, source })?;
    let session = HostSession::new(config);
    #[cfg(feature = "tls")]
    if let Some(tls) = &options.tls {
        let key = tls.key(&options.host.nqn, &options.subsystem)?;
        let secured = stream::connect_tls(socket, &key, options.timeout.to_duration())
            .map_err(|source| HostError::Tls { address, source })?;
        return Ok(Connection::secured(secured, session, memory, staging_len));
    }
    Ok(Connection::new(socket, session, memory, staging_len))
}

/// Turns until `is_done` returns `true`.
pub(super) fn turn_until(
    connection: &mut Connection,
    what: &'static str,
    timeout: Nanos,
    is_done: impl FnMut(&mut Connection) -> bool,
) -> Result<(), HostError> {
    match connection.turn_until(timeout, is_done)? {
        true => Ok(()),
        false => Err(HostError::Silent { what, within: timeout.to_duration() }),
    }
}

/// Waits for the answer to Connect.
pub(super) fn join(connection: &mut Connection, options: &Options) -> Result<(), HostError> {
    let joined = turn_until(connection, "Connect", options.timeout, |connection| {
        connection.session.connect_response().is_some()
    });
    joined.map_err(|error| match error {
        HostError::Closed if !options.uses_tls() => {
            HostError::NotJoined { address: options.address }
        }
        error => error,
    })?;
    let entry = connection.session.connect_response().expect("it was awaited");
    let must_authenticate = entry.dw0.get() & Connected::AUTHENTICATION_REQUIRED != 0;
    let status = match entry.status() {
        status if status.is_success() && must_authenticate => Status::AUTHENTICATION_REQUIRED.dnr(),
        status if status.is_success() => return Ok(()),
        status => status,
    };
    Err(HostError::Refused { subsystem: options.subsystem.clone(), status })
}

/// The parameters of a queue pair's connection, usable on any thread.
#[derive(Clone, Debug)]
pub(super) struct QueueSeat {
    pub(super) options: Options,
    pub(super) controller: ControllerId,
    pub(super) queue: QueueId,
    pub(super) entries_max: u16,
    pub(super) in_capsule_len_max: u32,
}
