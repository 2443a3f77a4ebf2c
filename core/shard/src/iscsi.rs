//! Initiators: their sessions' logins, where their connections live, and how they end.
//!
//! Spec: RFC 7143, 6.3.5 (reinstatement). A login comes in on the first core, which knows every
//! session. An initiator that comes back replaces its old session and repeats the writes that were
//! not answered. A write of the old session that is still on its way to the device must not land
//! after the repeated one. So the login response waits until no request of the old connections is
//! in flight, as with hosts of NVMe/TCP (`associations.rs`). All connections of a session live on
//! one core.
//!
//! Accounts: a publication gives every core new exports (`serve.rs`), and the first core answers
//! when every session has ended that the new accounts do not admit. Sessions whose target is gone
//! are asked to log out; the answer does not wait for them.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;

use nearflash_engine::CoreId;
use nearflash_iscsi::login::{LoginDemand, SessionKind};
use nearflash_iscsi::pdu::LoginStatus;
use nearflash_iscsi::serving::{
    Admission, ConnectionPlace, Exports, NONCE_LEN, Portal, PortalConfig, SessionConfig,
    SessionStatus, SiblingOutcome, TargetSession,
};
use nearflash_request::Raised;
use nearflash_session::{Origin, PlacesUsed};
use nearflash_units::Nanos;

use crate::claim::Claim;
use crate::connection::{Connection, Phase, Role};
use crate::connections::Key;
use crate::door::Peer;
use crate::guesses::Guesses;
use crate::message::Message;
use crate::notice::{ConnectedInitiator, Notice};
use crate::places::PlaceKind;
use crate::session::PeerError;
use crate::shard::{CONNECTIONS_MAX, Shard};
use crate::world::World;

/// The configuration of initiators' sessions.
#[derive(Clone, Debug)]
pub struct IscsiConfig {
    /// The limits of a session. Each session adds the properties of its listener, and the nonce.
    pub session: SessionConfig,
    /// The maximum number of sessions of normal kind of a node at a time.
    pub sessions_max: usize,
    /// The maximum number of commands of a session under way.
    pub window: u32,
}

/// The usual limits, and nothing to reach.
impl Default for IscsiConfig {
    fn default() -> Self {
        let PortalConfig { sessions_max, window, .. } = PortalConfig::default();
        let session = SessionConfig::with_nonce([0; NONCE_LEN]);
        Self { session, sessions_max, window }
    }
}

/// The iSCSI side of a core.
#[derive(Debug)]
pub(crate) struct Initiators {
    session: SessionConfig,
    exports: Arc<Exports>,
    /// Every session of the node. Only the first core's has any.
    portal: Portal,
    /// The failed proofs.
    guesses: Guesses,
    /// Where the first connection of each session came from, by TSIH.
    peers: HashMap<u16, SocketAddr>,
    /// Logins that replace sessions or connections with requests in flight: at most a login's time.
    held_back: Vec<(Key, Box<LoginDemand>)>,
    /// Changes of the accounts, each with the sessions that must end first.
    ending: Vec<Ending>,
}

/// A change of the accounts that waits for sessions to end.
#[derive(Debug)]
struct Ending {
    number: u64,
    sessions: HashSet<u16>,
    /// The requests that the same publication waits for have ended.
    is_rest_over: bool,
}

impl Initiators {
    pub(crate) fn new(config: IscsiConfig, exports: Arc<Exports>, core_count: u16) -> Self {
        let IscsiConfig { session, sessions_max, window } = config;
        let portal_group = exports.portal_group();
        let portal = PortalConfig {
            sessions_max,
            core_count,
            window,
            portal_group,
            connections_max: usize::from(core_count) * CONNECTIONS_MAX / 2,
            ..PortalConfig::default()
        };
        let portal = Portal::new(portal);
        let (peers, held_back, ending) = (HashMap::new(), Vec::new(), Vec::new());
        let guesses = Guesses::default();
        Self { session, exports, portal, guesses, peers, held_back, ending }
    }

    /// Creates the session of an initiator that has just connected.
    pub(crate) fn session<W: World>(
        &self,
        anonymous: bool,
        local: SocketAddr,
        now: Nanos,
        world: &mut W,
    ) -> TargetSession {
        let mut nonce = [0; NONCE_LEN];
        for part in nonce.chunks_mut(16) {
            part.copy_from_slice(&world.nonce()[..part.len()]);
        }
        let config = SessionConfig { anonymous, nonce, ..self.session };
        TargetSession::new(config, Arc::clone(&self.exports), local, now)
    }

    pub(crate) fn exports(&self) -> &Arc<Exports> {
        &self.exports
    }

    /// The requests that a publication waits for have ended. Returns whether sessions that it waits for
    /// have not.
    pub(crate) fn awaits_sessions(&mut self, number: u64) -> bool {
        let ending = self.ending.iter_mut().find(|ending| ending.number == number);
        ending.is_some_and(|ending| {
            ending.is_rest_over = true;
            true
        })
    }

    /// The number of a publication whose sessions have all ended, after its requests.
    pub(crate) fn poll_ended(&mut self) -> Option<u64> {
        self.ending.retain(|ending| !ending.sessions.is_empty() || ending.is_rest_over);
        let ended = self.ending.iter().position(|ending| ending.sessions.is_empty())?;
        Some(self.ending.swap_remove(ended).number)
    }

    pub(crate) fn connected(&self) -> Vec<ConnectedInitiator> {
        let connected = |status: &SessionStatus| {
            let peer = *self.peers.get(&status.tsih)?;
            Some(ConnectedInitiator { peer, status: status.clone() })
        };
        self.portal.sessions().filter_map(connected).collect()
    }

    pub(crate) fn places(&self, is_discovery: bool) -> PlacesUsed {
        self.portal.places(is_discovery)
    }

    /// A peer made this error.
    pub(crate) fn note_error(&mut self, error: PeerError, peer: Peer, now: Nanos) {
        if error.is_failed_proof() {
            self.guesses.failed(peer.origin(), now);
        }
    }

    /// Decides on a login. Its account may have been removed while it waited.
    fn login(
        &mut self,
        demand: &LoginDemand,
        origin: Origin,
        now: Nanos,
    ) -> Result<Admission, LoginStatus> {
        let (exports, account) = (&self.exports, demand.account.as_deref());
        let may_enter = account.is_none_or(|it| self.guesses.may_enter(origin, it, now));
        if !exports.trusts(account, &demand.initiator) || !may_enter {
            return Err(LoginStatus::AUTHENTICATION_FAILURE);
        }
        let admission = self.portal.login(demand, origin)?;
        if let (Admission::Granted(_), Some(account)) = (&admission, account) {
            self.guesses.entered(origin, account);
        }
        Ok(admission)
    }
}

impl Shard {
    /// An initiator asks to log in.
    pub(crate) fn login<W: World>(&mut self, key: Key, demand: Box<LoginDemand>, world: &mut W) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        let peer = connection.peer;
        let Some(session) = connection.session.iscsi_mut() else { return };
        match self.initiators.login(&demand, peer.origin(), world.now()) {
            Ok(Admission::Granted(granted)) => {
                let (tsih, cid) = (granted.session.tsih, granted.cid);
                let core = CoreId(granted.core);
                connection.nexus = granted.session.nexus;
                session.handle_login(Ok(granted));
                connection.role = Role::Initiator { tsih, cid };
                if let Some(address) = peer.address() {
                    self.initiators.peers.entry(tsih).or_insert(address);
                }
                world.notice(logged_in(&demand, connection));
                let is_proved = demand.account.is_some();
                self.belongs_to(key, demand.initiator.as_str().into(), is_proved);
                self.mark_dirty(key);
                if core != self.config.core {
                    self.hand_over(key, core, world);
                }
            }
            Ok(Admission::AfterEnd(places)) => {
                self.initiators.held_back.push((key, demand));
                self.end_connections(&places, world);
            }
            Err(status) => {
                session.handle_login(Err(status));
                connection.is_refused = true;
                let claim = Box::new(Claim::of_login(&demand));
                world.notice(Notice::LoginRefused { peer, status, claim });
                self.mark_dirty(key);
                if status == LoginStatus::OUT_OF_RESOURCES {
                    let kind = match demand.kind {
                        SessionKind::Normal { .. } => PlaceKind::Sessions,
                        SessionKind::Discovery => PlaceKind::DiscoverySessions,
                    };
                    self.report_shortage(kind, world);
                }
            }
        }
    }

    fn end_connections<W: World>(&mut self, places: &[ConnectionPlace], world: &mut W) {
        for place in places {
            if CoreId(place.core) == self.config.core {
                self.end_connection(*place, world);
            } else {
                world.post(CoreId(place.core), Message::EndConnection(*place));
            }
        }
    }

    /// Ends a connection of an initiator at once; answers not yet sent are dropped.
    pub(crate) fn end_connection<W: World>(&mut self, place: ConnectionPlace, world: &mut W) {
        let role = Role::Initiator { tsih: place.tsih, cid: place.cid };
        for key in self.connections.keys(|connection| connection.role == role) {
            self.kill(key, world);
        }
    }

    /// A connection of a session has closed, and all of its requests have ended.
    pub(crate) fn initiator_gone<W: World>(&mut self, tsih: u16, cid: u16, world: &mut W) {
        if let Some(session) = self.initiators.portal.connection_gone(tsih, cid) {
            self.initiators.peers.remove(&tsih);
            self.initiators.ending.iter_mut().for_each(|ending| {
                ending.sessions.remove(&tsih);
            });
            let (nexus, identity) = (session.nexus, session.identity.clone());
            world.notice(Notice::SessionOver { nexus, identity });
        }
        for (key, demand) in std::mem::take(&mut self.initiators.held_back) {
            self.login(key, demand, world);
        }
    }

    /// Replaces the exports. The first core also ends sessions whose account no longer exists, and
    /// unauthenticated sessions as soon as there is an account.
    pub(crate) fn set_iscsi_exports<W: World>(
        &mut self,
        number: u64,
        exports: Arc<Exports>,
        world: &mut W,
    ) {
        for key in self.connections.keys(|connection| connection.session.iscsi().is_some()) {
            let Some(connection) = self.connections.get_mut(key) else { continue };
            if let Some(session) = connection.session.iscsi_mut() {
                session.set_exports(Arc::clone(&exports));
            }
            self.mark_dirty(key);
        }
        self.initiators.exports = Arc::clone(&exports);
        let portal = &mut self.initiators.portal;
        // These were asked to log out, and nothing joins them any more.
        let is_gone = |target: &str| exports.target(target).is_none();
        portal.end(|session| session.target.as_deref().is_some_and(is_gone));
        let is_trusted = |session: &SessionStatus| {
            exports.trusts(session.account.as_deref(), &session.initiator)
        };
        let places = portal.end(|session| !is_trusted(session));
        // The sessions that an earlier change ended; that change waits for them.
        let ending = self.initiators.ending.iter().flat_map(|ending| &ending.sessions);
        let ending: HashSet<u16> = ending.copied().collect();
        let sessions = places.iter().map(|place| place.tsih);
        let sessions = sessions.filter(|tsih| !ending.contains(tsih)).collect();
        self.initiators.ending.push(Ending { number, sessions, is_rest_over: false });
        self.end_connections(&places, world);
    }

    /// Reports raised conditions to initiators.
    pub(crate) fn raise_to_initiators<W: World>(&mut self, raised: &[Raised], world: &mut W) {
        for key in self.connections.keys(|connection| connection.session.iscsi().is_some()) {
            let Some(connection) = self.connections.get_mut(key) else { continue };
            if let Some(session) = connection.session.iscsi_mut() {
                raised.iter().for_each(|raised| session.raise(raised));
            }
            self.take_demands(key, world);
            self.mark_dirty(key);
        }
    }

    /// Resumes the other connections of the same session, which live on this core too. Progress of
    /// one may unblock the next, or this one, so that several rounds may be needed: each round
    /// begins at least one command, and the session's window bounds how many wait.
    #[cold]
    pub(crate) fn resume_siblings<W: World>(&mut self, key: Key, world: &mut W) {
        let Some(connection) = self.connections.get(key) else { return };
        let Role::Initiator { tsih, .. } = connection.role else { return };
        let is_sibling = |connection: &Connection| {
            matches!(connection.role, Role::Initiator { tsih: other, .. } if other == tsih)
                && connection.phase == Phase::Open
        };
        let mut has_resumed = true;
        while std::mem::take(&mut has_resumed) {
            let siblings = self.connections.keys(is_sibling);
            for sibling in &siblings {
                self.forward_requests(*sibling, &siblings, world);
                has_resumed |= self.resume_initiator(*sibling, world);
            }
        }
    }

    /// Task management functions of a connection reach the others of its session, and are answered
    /// when the earlier commands of those connections have arrived.
    fn forward_requests<W: World>(&mut self, key: Key, siblings: &[Key], world: &mut W) {
        let others = || siblings.iter().filter(|sibling| **sibling != key);
        while let Some(order) = self.initiator(key).and_then(|session| session.sibling_request()) {
            let mut furthest = SiblingOutcome::NotMeant;
            for other in others() {
                if let Some(session) = self.initiator(*other) {
                    furthest = furthest.max(session.handle_sibling_request(&order));
                }
                self.take_demands(*other, world);
                self.mark_dirty(*other);
            }
            if let Some(session) = self.initiator(key) {
                session.handle_sibling_outcome(furthest);
            }
        }
        if !self.initiator(key).is_some_and(|session| session.awaits_others()) {
            return;
        }
        let mut heard = others()
            .map(|other| self.initiator(*other).is_none_or(|session| session.is_acknowledged()));
        if heard.all(|is_acknowledged| is_acknowledged)
            && let Some(session) = self.initiator(key)
        {
            session.lift_fence();
        }
    }

    fn initiator(&mut self, key: Key) -> Option<&mut TargetSession> {
        self.connections.get_mut(key)?.session.iscsi_mut()
    }

    /// Resumes input that waited for other connections. Returns whether those may continue now.
    fn resume_initiator<W: World>(&mut self, key: Key, world: &mut W) -> bool {
        let Some(connection) = self.connections.get_mut(key) else { return false };
        let Some(session) = connection.session.iscsi_mut() else { return false };
        let resumed = session.resume().map_err(PeerError::from);
        let concerned = session.concerns_siblings();
        self.take_demands(key, world);
        if let Err(error) = resumed {
            self.peer_error(key, error, world);
        }
        self.mark_dirty(key);
        concerned
    }
}

fn logged_in(demand: &LoginDemand, connection: &Connection) -> Notice {
    Notice::LoggedIn {
        peer: connection.peer,
        initiator: demand.initiator.as_str().into(),
        target: match &demand.kind {
            SessionKind::Normal { target } => Some(target.as_str().into()),
            SessionKind::Discovery => None,
        },
        account: demand.account.as_deref().map(Into::into),
    }
}
