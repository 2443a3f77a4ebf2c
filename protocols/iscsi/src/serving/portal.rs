//! The sessions of a node: the admission of logins, the connections of each session, and its core.
//!
//! Spec: RFC 7143, 6.3.5 (reinstatement) and 7.2 (session state). Kept on the first core, where
//! connections come in. This module knows nothing about sockets or what the sessions do.
//!
//! A login that replaces an old connection or session is answered when no request of the old one is
//! under way: an old write that is still on its way to the device must not land after a new one. So
//! [`Portal::login`] returns the connections to end first, and is called again when
//! [`Portal::connection_gone`] was called for each.
//!
//! Places: an initiator has a quarter of the sessions of normal kind at most. An account, or an address whose
//! initiators prove nothing, has a half. Discovery sessions have places of their own. A new one takes the place of
//! the oldest one of the address that has the most.
//!
//! Invariants: no two sessions have the same TSIH, and none of normal kind the same initiator, ISID
//! and target; no two connections of a session have the same CID.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use nearflash_request::{Attention, Nexus};
use nearflash_session::{Origin, PlacesUsed, crowded_out};

use super::config::Granted;
use super::exports::PORTAL_GROUP;
use super::shared::SessionShared;
use crate::login::{LoginDemand, SessionKind};
use crate::pdu::LoginStatus;

/// The maximum number of connections of a session, regardless of the negotiated number.
pub const CONNECTIONS_PER_SESSION_MAX: usize = 64;

/// The maximum number of initiators that are remembered after their session: by default, twice the
/// number of sessions. A new session of a forgotten initiator reports a power on, which implies the
/// loss of its nexus.
const REMEMBERED_MAX: usize = 2048;

/// The limits of a node's sessions.
#[derive(Clone, Copy, Debug)]
pub struct PortalConfig {
    /// How many sessions of normal kind there may be.
    pub sessions_max: usize,
    /// How many discovery sessions there may be.
    pub discovery_sessions_max: usize,
    /// How many connections an account, or an address whose initiators prove nothing, may have.
    pub connections_max: usize,
    /// The number of cores over which sessions are distributed.
    pub core_count: u16,
    /// The maximum number of commands of a session under way: 1 to 4096.
    pub window: u32,
    /// TargetPortalGroupTag of the node.
    pub portal_group: u16,
}

impl Default for PortalConfig {
    fn default() -> Self {
        Self {
            sessions_max: 1024,
            discovery_sessions_max: 256,
            connections_max: 8192,
            core_count: 1,
            window: 256,
            portal_group: PORTAL_GROUP,
        }
    }
}

/// A connection of a session, and its core.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ConnectionPlace {
    /// The session's TSIH.
    pub tsih: u16,
    /// The connection's CID.
    pub cid: u16,
    /// The core of all of the session's connections.
    pub core: u16,
}

/// The decision about a login.
#[derive(Clone, Debug)]
pub enum Admission {
    /// The connection is the session's.
    Granted(Granted),
    /// These must be ended first; then the login must be tried again.
    AfterEnd(Vec<ConnectionPlace>),
}

/// A session as a status shows it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SessionStatus {
    /// Its TSIH.
    pub tsih: u16,
    /// The initiator's name.
    pub initiator: Box<str>,
    /// InitiatorAlias.
    pub alias: Option<Box<str>>,
    /// The user of its CHAP account.
    pub account: Option<Box<str>>,
    /// Its target; `None` for a discovery session.
    pub target: Option<Box<str>>,
    /// The CIDs of its connections.
    pub connections: Vec<u16>,
    /// The core of its connections.
    pub core: u16,
}

#[derive(Debug)]
struct Session {
    shared: Arc<SessionShared>,
    status: SessionStatus,
    isid: [u8; 6],
    /// The address of its first connection.
    origin: Origin,
    /// Sessions are numbered in the order in which they began.
    number: u64,
    /// Whether the session is ending, so that no connection may join it.
    is_ending: bool,
}

impl Session {
    fn places(&self) -> impl Iterator<Item = ConnectionPlace> {
        let SessionStatus { tsih, core, .. } = self.status;
        self.status.connections.iter().map(move |&cid| ConnectionPlace { tsih, cid, core })
    }

    fn is_discovery(&self) -> bool {
        self.status.target.is_none()
    }

    /// Whether a login is by the same initiator, to the same target, with the same ISID.
    fn is_of(&self, demand: &LoginDemand) -> bool {
        *self.status.initiator == *demand.initiator
            && self.isid == demand.isid
            && self.status.target.as_deref() == target_of(demand)
    }
}

/// The sessions of a node.
#[derive(Debug)]
pub struct Portal {
    config: PortalConfig,
    sessions: BTreeMap<u16, Session>,
    /// The nexuses whose sessions are over, the latest last.
    remembered: VecDeque<Nexus>,
    /// The TSIH that was given out last.
    last_tsih: u16,
    /// The number of sessions that have begun.
    begun: u64,
    /// The core that got a session last.
    last_core: u16,
}

impl Portal {
    /// No sessions.
    ///
    /// # Panics
    /// When a limit is outside the range that its field of the configuration documents.
    pub fn new(config: PortalConfig) -> Self {
        assert!(config.core_count > 0, "a node has a core");
        assert!((1..=4096).contains(&config.window), "a window is 1 to 4096 commands");
        let sessions_max = config.sessions_max + config.discovery_sessions_max;
        assert!(sessions_max < usize::from(u16::MAX), "a TSIH has 16 bits");
        let last_core = config.core_count - 1;
        let (sessions, remembered) = (BTreeMap::new(), VecDeque::new());
        Self { config, sessions, remembered, last_tsih: 0, begun: 0, last_core }
    }

    /// Decides on the request of an initiator from `origin` for the full feature phase.
    ///
    /// # Errors
    /// The status of the refusal.
    pub fn login(
        &mut self,
        demand: &LoginDemand,
        origin: Origin,
    ) -> Result<Admission, LoginStatus> {
        if demand.tsih != 0 {
            return self.join(demand, origin);
        }
        let is_normal = target_of(demand).is_some();
        let old = self.sessions.values_mut().find(|session| is_normal && session.is_of(demand));
        if let Some(old) = old {
            old.is_ending = true;
            return Ok(Admission::AfterEnd(old.places().collect()));
        }
        if is_normal {
            self.check_share(demand, origin)?;
        } else if let Some(oldest) = self.oldest_discovery()? {
            return Ok(Admission::AfterEnd(oldest));
        }
        Ok(Admission::Granted(self.begin(demand, origin)))
    }

    fn normal(&self) -> impl Iterator<Item = &Session> {
        self.sessions.values().filter(|session| !session.is_discovery())
    }

    /// The sessions of an account, or of an address without an account.
    fn sharing(&self, account: Option<&str>, origin: Origin) -> impl Iterator<Item = &Session> {
        self.normal().filter(move |session| {
            let is_of_origin = account.is_some() || session.origin == origin;
            session.status.account.as_deref() == account && is_of_origin
        })
    }

    /// Checks that there is a place for a session of normal kind, and that it is not the share of others.
    fn check_share(&self, demand: &LoginDemand, origin: Origin) -> Result<(), LoginStatus> {
        let places = self.config.sessions_max;
        let account = demand.account.as_deref();
        let shares = self.sharing(account, origin).count();
        let is_own = |it: &&Session| {
            it.status.account.as_deref() == account && *it.status.initiator == *demand.initiator
        };
        let own = self.normal().filter(is_own).count();
        let is_free = self.normal().count() < places
            && shares < places.div_ceil(2)
            && own < places.div_ceil(4);
        if is_free { Ok(()) } else { Err(LoginStatus::OUT_OF_RESOURCES) }
    }

    /// The connections of the discovery session whose place a new one takes; `None` if there is a free place.
    fn oldest_discovery(&mut self) -> Result<Option<Vec<ConnectionPlace>>, LoginStatus> {
        let discovery = || self.sessions.values().filter(|session| session.is_discovery());
        if discovery().count() < self.config.discovery_sessions_max {
            return Ok(None);
        }
        let able = discovery().filter(|session| !session.is_ending);
        let oldest = crowded_out(able.map(|it| (it.origin, it.number, it.status.tsih)));
        let oldest = oldest.and_then(|tsih| self.sessions.get_mut(&tsih));
        let oldest = oldest.ok_or(LoginStatus::OUT_OF_RESOURCES)?;
        oldest.is_ending = true;
        Ok(Some(oldest.places().collect()))
    }

    /// The use of the places of discovery sessions, or of the others, by the names of initiators.
    pub fn places(&self, is_discovery: bool) -> PlacesUsed {
        let PortalConfig { sessions_max, discovery_sessions_max, .. } = self.config;
        let places = if is_discovery { discovery_sessions_max } else { sessions_max };
        let those = self.sessions.values().filter(|it| it.is_discovery() == is_discovery);
        PlacesUsed::count(places, those.map(|it| &it.status.initiator))
    }

    /// Adds a connection to an existing session. RFC 7143, 6.3.4.
    fn join(&mut self, demand: &LoginDemand, origin: Origin) -> Result<Admission, LoginStatus> {
        let account = demand.account.as_deref();
        let connections = self.sharing(account, origin).map(|it| it.status.connections.len());
        let connections: usize = connections.sum();
        let session = self.sessions.get_mut(&demand.tsih);
        let session = session.filter(|session| session.is_of(demand) && !session.is_ending);
        let session = session.ok_or(LoginStatus::NO_SESSION)?;
        let status = &session.status;
        if status.account.as_deref() != account || status.target.is_none() {
            return Err(LoginStatus::CANNOT_INCLUDE);
        }
        if let Some(old) = session.places().find(|place| place.cid == demand.cid) {
            return Ok(Admission::AfterEnd(vec![old]));
        }
        let agreed = usize::try_from(session.shared.params.max_connections).unwrap_or(usize::MAX);
        let status = &mut session.status;
        let has_share = connections < self.config.connections_max;
        if !has_share || status.connections.len() >= agreed.min(CONNECTIONS_PER_SESSION_MAX) {
            return Err(LoginStatus::TOO_MANY_CONNECTIONS);
        }
        status.connections.push(demand.cid);
        let (shared, core) = (Arc::clone(&session.shared), status.core);
        Ok(Admission::Granted(Granted { session: shared, cid: demand.cid, core }))
    }

    fn begin(&mut self, demand: &LoginDemand, origin: Origin) -> Granted {
        let tsih = self.next_tsih();
        let target: Option<Box<str>> = target_of(demand).map(Into::into);
        let core = if target.is_some() { self.next_core() } else { 0 };
        let PortalConfig { portal_group, window, .. } = self.config;
        let shared = Arc::new(SessionShared::new(tsih, portal_group, window, demand));
        shared.attentions.raise_all(self.told_first(shared.nexus));
        let status = SessionStatus {
            tsih,
            initiator: demand.initiator.as_str().into(),
            alias: demand.initiator_alias.as_deref().map(Into::into),
            account: demand.account.as_deref().map(Into::into),
            target,
            connections: vec![demand.cid],
            core,
        };
        self.begun += 1;
        let (number, isid) = (self.begun, demand.isid);
        let session = Arc::clone(&shared);
        let session = Session { shared: session, status, isid, origin, number, is_ending: false };
        self.sessions.insert(tsih, session);
        Granted { session: shared, cid: demand.cid, core }
    }

    /// The first unit attention. SAM-5, 6.3: power on, or nexus loss after an earlier session.
    fn told_first(&self, nexus: Nexus) -> Attention {
        if self.remembered.contains(&nexus) { Attention::NexusLoss } else { Attention::PowerOn }
    }

    /// A session of that nexus is over.
    fn remember(&mut self, nexus: Nexus) {
        self.remembered.retain(|other| *other != nexus);
        if self.remembered.len() == REMEMBERED_MAX {
            self.remembered.pop_front();
        }
        self.remembered.push_back(nexus);
    }

    /// The next free TSIH: one that was in use recently is not reused soon.
    fn next_tsih(&mut self) -> u16 {
        loop {
            self.last_tsih = self.last_tsih.wrapping_add(1);
            if self.last_tsih != 0 && !self.sessions.contains_key(&self.last_tsih) {
                return self.last_tsih;
            }
        }
    }

    fn next_core(&mut self) -> u16 {
        self.last_core = (self.last_core + 1) % self.config.core_count;
        self.last_core
    }

    /// A granted connection and its requests have ended. Returns the session if that was its last
    /// connection, so that it is over.
    pub fn connection_gone(&mut self, tsih: u16, cid: u16) -> Option<Arc<SessionShared>> {
        let session = self.sessions.get_mut(&tsih)?;
        session.status.connections.retain(|other| *other != cid);
        if !session.status.connections.is_empty() {
            return None;
        }
        let session = self.sessions.remove(&tsih)?;
        if session.shared.is_forgotten() {
            self.remembered.retain(|nexus| *nexus != session.shared.nexus);
        } else if session.status.target.is_some() {
            self.remember(session.shared.nexus);
        }
        Some(session.shared)
    }

    /// Ends sessions, which nobody may join. The caller must end the connections returned.
    pub fn end(&mut self, is_meant: impl Fn(&SessionStatus) -> bool) -> Vec<ConnectionPlace> {
        let mut places = Vec::new();
        for session in self.sessions.values_mut() {
            if is_meant(&session.status) {
                session.is_ending = true;
                places.extend(session.places());
            }
        }
        places
    }

    /// The sessions, for a status.
    pub fn sessions(&self) -> impl Iterator<Item = &SessionStatus> {
        self.sessions.values().map(|session| &session.status)
    }
}

fn target_of(demand: &LoginDemand) -> Option<&str> {
    match &demand.kind {
        SessionKind::Normal { target } => Some(target),
        SessionKind::Discovery => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::params::{ConnectionParams, SessionParams};
    use crate::pdu::Serial;

    fn demand(initiator: &str, isid: u8, tsih: u16, cid: u16) -> LoginDemand {
        LoginDemand {
            initiator: initiator.into(),
            initiator_alias: None,
            account: None,
            isid: [isid; 6],
            tsih,
            cid,
            kind: SessionKind::Normal { target: "iqn.2026-11.io.nearflash:a".into() },
            session: SessionParams { max_connections: 2, ..SessionParams::default() },
            connection: ConnectionParams::default(),
            cmd_sn: Serial(u32::MAX),
        }
    }

    /// The initiator comes from 192.0.2.1.
    fn login(portal: &mut Portal, demand: &LoginDemand) -> Result<Admission, LoginStatus> {
        login_from(portal, demand, 1)
    }

    fn login_from(
        portal: &mut Portal,
        demand: &LoginDemand,
        last: u8,
    ) -> Result<Admission, LoginStatus> {
        portal.login(demand, Origin::of([192, 0, 2, last].into()))
    }

    fn granted(admission: Result<Admission, LoginStatus>) -> Granted {
        let Ok(Admission::Granted(granted)) = admission else { panic!("{admission:?}") };
        granted
    }

    fn ended_first(admission: Result<Admission, LoginStatus>) -> Vec<ConnectionPlace> {
        let Ok(Admission::AfterEnd(places)) = admission else { panic!("{admission:?}") };
        places
    }

    fn portal() -> Portal {
        let limits = PortalConfig { window: 8, ..PortalConfig::default() };
        Portal::new(PortalConfig { core_count: 2, ..limits })
    }

    /// Eight sessions, and three for discovery.
    fn small() -> Portal {
        let limits = PortalConfig {
            sessions_max: 8,
            discovery_sessions_max: 3,
            window: 8,
            ..PortalConfig::default()
        };
        Portal::new(limits)
    }

    #[test]
    fn sessions_are_spread_over_the_cores_and_their_connections_stay_together() {
        let mut portal = portal();
        let one = granted(login(&mut portal, &demand("iqn.a", 1, 0, 0)));
        let two = granted(login(&mut portal, &demand("iqn.a", 2, 0, 0)));
        assert_eq!((one.core, two.core), (0, 1));
        assert_ne!(one.session.tsih, two.session.tsih);
        let tsih = two.session.tsih;
        let joined = granted(login(&mut portal, &demand("iqn.a", 2, tsih, 7)));
        assert_eq!((joined.core, joined.cid, joined.session.tsih), (1, 7, tsih));
        assert_eq!(joined.session.nexus, two.session.nexus);
        assert_ne!(one.session.nexus, two.session.nexus);
        let refused = login(&mut portal, &demand("iqn.a", 2, tsih, 8)).unwrap_err();
        assert_eq!(refused, LoginStatus::TOO_MANY_CONNECTIONS);
    }

    #[test]
    fn a_session_of_the_same_name_takes_its_place_when_the_old_one_is_silent() {
        let mut portal = portal();
        let old = granted(login(&mut portal, &demand("iqn.a", 1, 0, 3))).session;
        let places = ended_first(login(&mut portal, &demand("iqn.a", 1, 0, 3)));
        assert_eq!(places, [ConnectionPlace { tsih: old.tsih, cid: 3, core: 0 }]);
        let refused = login(&mut portal, &demand("iqn.a", 1, old.tsih, 4)).unwrap_err();
        assert_eq!(refused, LoginStatus::NO_SESSION, "nobody joins what ends");
        let ended = portal.connection_gone(old.tsih, 3).unwrap();
        assert_eq!(ended.nexus, old.nexus);
        let new = granted(login(&mut portal, &demand("iqn.a", 1, 0, 3))).session;
        assert_ne!(new.tsih, old.tsih);
        assert_eq!(new.nexus, old.nexus);
    }

    #[test]
    fn a_connection_of_the_same_cid_takes_the_old_ones_place() {
        let mut portal = portal();
        let tsih = granted(login(&mut portal, &demand("iqn.a", 1, 0, 3))).session.tsih;
        granted(login(&mut portal, &demand("iqn.a", 1, tsih, 4)));
        let places = ended_first(login(&mut portal, &demand("iqn.a", 1, tsih, 3)));
        assert_eq!(places.iter().map(|place| place.cid).collect::<Vec<_>>(), [3]);
        assert!(portal.connection_gone(tsih, 3).is_none(), "the session has another");
        granted(login(&mut portal, &demand("iqn.a", 1, tsih, 3)));
    }

    #[test]
    fn another_initiator_or_account_joins_no_session() {
        let mut portal = portal();
        let tsih = granted(login(&mut portal, &demand("iqn.a", 1, 0, 3))).session.tsih;
        let refused = login(&mut portal, &demand("iqn.b", 1, tsih, 4)).unwrap_err();
        assert_eq!(refused, LoginStatus::NO_SESSION);
        let other = LoginDemand { account: Some("eve".into()), ..demand("iqn.a", 1, tsih, 4) };
        assert_eq!(login(&mut portal, &other).unwrap_err(), LoginStatus::CANNOT_INCLUDE);
    }

    #[test]
    fn there_are_only_so_many_sessions_and_no_initiator_or_address_has_all() {
        let mut portal = small();
        let refused = |admission: Result<Admission, LoginStatus>| admission.unwrap_err();
        for isid in 0..2 {
            granted(login(&mut portal, &demand("iqn.a", isid, 0, 0)));
        }
        let third = login_from(&mut portal, &demand("iqn.a", 9, 0, 0), 2);
        assert_eq!(refused(third), LoginStatus::OUT_OF_RESOURCES, "a quarter is an initiator's");
        for name in ["iqn.b", "iqn.c"] {
            granted(login(&mut portal, &demand(name, 0, 0, 0)));
        }
        let fifth = login(&mut portal, &demand("iqn.d", 0, 0, 0));
        assert_eq!(refused(fifth), LoginStatus::OUT_OF_RESOURCES, "a half is an address's");
        for last in 2..=5 {
            granted(login_from(&mut portal, &demand(&format!("iqn.{last}"), 0, 0, 0), last));
        }
        let ninth = login_from(&mut portal, &demand("iqn.e", 0, 0, 0), 6);
        assert_eq!(refused(ninth), LoginStatus::OUT_OF_RESOURCES);
        let places = portal.places(false);
        assert_eq!((places.used, places.places), (8, 8));
        assert_eq!(places.most, Some(("iqn.a".into(), 2)));
    }

    #[test]
    fn an_account_has_half_of_the_sessions_from_wherever_it_comes() {
        let mut portal = small();
        let by = |account: &str, name: &str| LoginDemand {
            account: Some(account.into()),
            ..demand(name, 1, 0, 0)
        };
        for last in 1..=4 {
            granted(login_from(&mut portal, &by("eve", &format!("iqn.{last}")), last));
        }
        let refused = login_from(&mut portal, &by("eve", "iqn.x"), 9).unwrap_err();
        assert_eq!(refused, LoginStatus::OUT_OF_RESOURCES);
        granted(login_from(&mut portal, &by("bob", "iqn.x"), 1));
    }

    #[test]
    fn discovery_sessions_take_no_place_of_others_and_an_address_takes_its_own() {
        let mut portal = small();
        let discovery = LoginDemand { kind: SessionKind::Discovery, ..demand("iqn.a", 1, 0, 0) };
        granted(login_from(&mut portal, &discovery, 2));
        let first = granted(login(&mut portal, &discovery)).session;
        assert_eq!(first.nexus, Nexus::NONE);
        granted(login(&mut portal, &discovery));
        let oldest = ended_first(login(&mut portal, &discovery));
        assert_eq!(oldest, [ConnectionPlace { tsih: first.tsih, cid: 0, core: 0 }]);
        portal.connection_gone(first.tsih, 0);
        granted(login(&mut portal, &discovery));
        granted(login(&mut portal, &demand("iqn.a", 1, 0, 0)));
        assert_eq!(portal.places(true).used, 3);
        assert_eq!(portal.end(|session| session.target.is_none()).len(), 3);
    }

    /// The first unit attention of a login's session.
    fn told(portal: &mut Portal, demand: &LoginDemand) -> Option<Attention> {
        let session = granted(login(portal, demand)).session;
        portal.connection_gone(session.tsih, demand.cid);
        let attentions = &session.attentions;
        let told = [0, 0, 1023].map(|lun| attentions.take(lun));
        assert_eq!((told[0], None), (told[2], told[1]), "of every unit, and nothing else");
        told[0]
    }

    #[test]
    fn a_session_is_told_of_the_nodes_start_or_of_the_end_of_the_one_before() {
        let mut portal = portal();
        assert_eq!(told(&mut portal, &demand("a", 1, 0, 1)), Some(Attention::PowerOn));
        assert_eq!(told(&mut portal, &demand("a", 1, 0, 1)), Some(Attention::NexusLoss));
        assert_eq!(told(&mut portal, &demand("a", 2, 0, 1)), Some(Attention::PowerOn));
    }

    #[test]
    fn a_session_that_ended_because_its_target_began_anew_is_no_loss() {
        let mut portal = portal();
        told(&mut portal, &demand("a", 1, 0, 1));
        let session = granted(login(&mut portal, &demand("a", 1, 0, 1))).session;
        session.forget();
        portal.connection_gone(session.tsih, 1);
        assert_eq!(told(&mut portal, &demand("a", 1, 0, 1)), Some(Attention::PowerOn));
    }

    #[test]
    fn who_is_forgotten_among_many_is_told_of_the_nodes_start_again() {
        let mut portal = portal();
        told(&mut portal, &demand("a", 1, 0, 1));
        for other in 0..REMEMBERED_MAX {
            told(&mut portal, &demand(&format!("other-{other}"), 1, 0, 1));
        }
        assert_eq!(portal.remembered.len(), REMEMBERED_MAX);
        assert_eq!(told(&mut portal, &demand("a", 1, 0, 1)), Some(Attention::PowerOn));
        let last = format!("other-{}", REMEMBERED_MAX - 1);
        assert_eq!(told(&mut portal, &demand(&last, 1, 0, 1)), Some(Attention::NexusLoss));
    }

    #[test]
    fn discovery_is_nothing_that_an_initiator_is_told_of() {
        let mut portal = portal();
        let discovery = LoginDemand { kind: SessionKind::Discovery, ..demand("a", 1, 0, 1) };
        let tsih = granted(login(&mut portal, &discovery)).session.tsih;
        portal.connection_gone(tsih, 1);
        assert!(portal.remembered.is_empty());
    }
}
