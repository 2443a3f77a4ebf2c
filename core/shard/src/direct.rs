//! Direct clients: their connections, exports and identities.
//!
//! Revocation: a publication gives every core new exports (`serve.rs`). Requests that wait in front
//! of the engine are checked again, by the new exports. Each core answers when the requests have
//! ended that its engine had begun on volumes whose access rights have changed.

use std::net::SocketAddr;
use std::sync::Arc;

use nearflash_direct::Face;
use nearflash_direct::serving::{Exports, SessionConfig, TargetSession};
use nearflash_direct::wire::{NONCE_LEN, SALT_LEN};
use nearflash_engine::{CoreId, Reserve};
use nearflash_request::VolumeId;
use nearflash_units::Nanos;

use crate::claim::Claim;
use crate::connection::{Client, Connection, Role};
use crate::connections::Key;
use crate::door::Door;
use crate::notice::{ConnectedClient, Notice};
use crate::session::Session;
use crate::shard::Shard;
use crate::tls::TlsIdentity;
use crate::world::World;

/// Clients that a core's status lists; others are only counted.
pub(crate) const CLIENTS_LISTED_MAX: usize = 1024;

/// The users of a volume that a core lists, which are as many as a message to people needs.
pub const USERS_MAX: usize = 16;

/// The configuration of direct sessions.
#[derive(Clone, Debug)]
pub struct DirectConfig {
    /// The limits of a session. Each session adds the properties of its listener, and the nonce.
    pub session: SessionConfig,
    /// The salt of seal keys: random, another one for each start of the node, and the same for all its
    /// cores.
    pub salt: [u8; SALT_LEN],
}

/// The usual limits, and nothing to reach.
impl Default for DirectConfig {
    fn default() -> Self {
        let session = SessionConfig::with_nonce([0; NONCE_LEN]);
        Self { session, salt: [0; SALT_LEN] }
    }
}

/// The direct side of a core.
#[derive(Debug)]
pub(crate) struct Clients {
    config: DirectConfig,
    pub(crate) exports: Arc<Exports>,
    /// On the first core: the number of accepted clients, to spread them over the cores.
    accepted: u16,
}

impl Clients {
    pub(crate) fn new(config: DirectConfig, exports: Arc<Exports>) -> Self {
        Self { config, exports, accepted: 0 }
    }

    /// Creates the session of a client that has just connected.
    pub(crate) fn session<W: World>(
        &self,
        anonymous: bool,
        local: bool,
        now: Nanos,
        world: &mut W,
    ) -> TargetSession {
        let config =
            SessionConfig { anonymous, local, nonce: world.nonce(), ..self.config.session };
        TargetSession::new(config, Arc::clone(&self.exports), now)
    }

    /// The core of the next client: each in turn.
    pub(crate) fn next_core(&mut self, core_count: u16) -> CoreId {
        let core = self.accepted % core_count;
        self.accepted = (core + 1) % core_count;
        CoreId(core)
    }
}

impl Shard {
    /// Replaces the exports. Returns the volumes on which the rights of any client have changed.
    pub(crate) fn set_direct_exports<W: World>(
        &mut self,
        exports: Arc<Exports>,
        world: &mut W,
    ) -> Box<[VolumeId]> {
        let mut changed = exports.changed_since(&self.clients.exports).into_vec();
        for key in self.connections.keys(|connection| connection.role == Role::Direct) {
            let Some(connection) = self.connections.get_mut(key) else { continue };
            if let Some(session) = connection.session.direct_mut() {
                // A seal can end although the rights of no credential on its volume have changed.
                let ended = session.set_exports(Arc::clone(&exports));
                changed.extend(ended);
            }
            self.cancel_disallowed(key, world);
            // The session may have output now, or have ended.
            self.mark_dirty(key);
        }
        self.clients.exports = exports;
        changed.into()
    }

    /// Ends the requests of a client that have not begun and are no longer allowed.
    pub(crate) fn cancel_disallowed<W: World>(&mut self, key: Key, world: &mut W) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        let Some(session) = connection.session.direct_mut() else { return };
        let is_meant = |tag| !session.is_still_allowed(tag);
        self.engine.cancel_waiting(key.to_owner(), is_meant, world.pool());
    }

    /// Before a client's first bytes, its session learns which key TLS has proved.
    #[inline]
    pub(crate) fn note_tls<W: World>(&mut self, key: Key, world: &W) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        let socket = connection.socket;
        if let Some(session) = connection.session.direct_mut()
            && let Some(TlsIdentity::Direct(identity)) = world.tls_identity(socket)
        {
            session.set_tls_identity(&identity);
        }
    }

    /// Reports a client once it is connected, and learns whether it is another node.
    #[inline]
    pub(crate) fn announce<W: World>(&mut self, key: Key, world: &mut W) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        let face = connection.session.direct().and_then(TargetSession::face);
        if let Some(face) = face.filter(|_| connection.face != face) {
            connection.face = Some(face);
            let reserve = match face {
                Face::Replica => Reserve::Replica,
                Face::Primary => Reserve::Primary,
            };
            self.engine.accounts().set_reserve(connection.account(), reserve);
        }
        if connection.client.is_some() {
            return;
        }
        let Some(session) = connection.session.direct().filter(|session| session.is_ready()) else {
            return;
        };
        let name: Option<Box<str>> = session.key().map(Into::into);
        let (peer, is_secured) = (connection.peer, session.is_secured());
        connection.client = Some(Client { key: name.clone() });
        if !self.places.take(name.as_deref(), peer) {
            return self.refuse_client(key, world);
        }
        world.notice(Notice::ClientConnected { peer, key: name.clone(), is_secured });
        if let Some(name) = name {
            self.belongs_to(key, name, true);
        }
    }

    /// Reports a volume that a client has asked for and may not use.
    #[cold]
    pub(crate) fn report_refused<W: World>(&self, key: Key, volume: &str, world: &mut W) {
        if let Some(connection) = self.connections.get(key) {
            let claim = Box::new(Claim::of_volume(&connection.session, volume));
            world.notice(Notice::VolumeRefused { peer: connection.peer, claim });
        }
    }

    /// The number of connected clients, and the first [`CLIENTS_LISTED_MAX`] of them.
    pub(crate) fn connected_clients(&self) -> (usize, Vec<ConnectedClient>) {
        let listed = self.direct_sessions().take(CLIENTS_LISTED_MAX).map(connected_client);
        (self.direct_sessions().count(), listed.collect())
    }

    /// The clients that have a volume open, up to [`USERS_MAX`].
    pub(crate) fn users_of(&self, volume: VolumeId) -> Box<[ConnectedClient]> {
        let users = self.direct_sessions().filter(|(_, session)| session.has_open(volume));
        users.take(USERS_MAX).map(connected_client).collect()
    }

    fn direct_sessions(&self) -> impl Iterator<Item = (&Connection, &TargetSession)> {
        let all = self.connections.iter();
        all.filter_map(|(_, connection)| Some((connection, connection.session.direct()?)))
    }
}

fn connected_client((connection, session): (&Connection, &TargetSession)) -> ConnectedClient {
    ConnectedClient {
        peer: connection.peer,
        key: session.key().map(Into::into),
        is_ready: session.is_ready(),
        requests_in_flight: session.requests_in_flight(),
    }
}

/// Creates the session of a new connection.
pub(crate) fn session_of<W: World>(
    shard: &Shard,
    door: Door,
    local: SocketAddr,
    world: &mut W,
) -> Session {
    let now = world.now();
    match door {
        Door::NvmeTcp { anonymous } => {
            let config =
                nearflash_nvme_tcp::serving::SessionConfig { anonymous, ..shard.config.session };
            Session::NvmeTcp(nearflash_nvme_tcp::serving::TargetSession::new(config, now))
        }
        Door::Direct { anonymous, local } => {
            Session::Direct(shard.clients.session(anonymous, local, now, world))
        }
        Door::Iscsi { anonymous } => {
            Session::Iscsi(shard.initiators.session(anonymous, local, now, world))
        }
    }
}
