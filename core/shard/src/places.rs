//! The places of a core's connections: who gives one up, and who has no more than its share.
//!
//! - A connection whose peer has not proved yet who it is, a *stranger*, has one of a few places. When all are
//!   taken, the oldest stranger of the origin that has the most ends.
//! - When a core has all the connections that it can have, a stranger ends for a new one.
//! - A key of direct clients, and an address without keys, has half of the connections of a core at most. The
//!   places of controllers and sessions are kept by their protocols.

use std::collections::HashMap;
use std::fmt;

use nearflash_direct::PeerError;
use nearflash_nvme::serving::ControllerKind;
use nearflash_session::{Origin, PlacesUsed, crowded_out};
use nearflash_units::Nanos;

use crate::connection::Connection;
use crate::connections::Key;
use crate::door::Peer;
use crate::notice::Notice;
use crate::shard::{CONNECTIONS_MAX, Shard};
use crate::world::World;

/// The maximum number of connections of a core whose peers have not proved yet who they are.
pub const STRANGERS_MAX: usize = 1024;

/// The connections of a core that one key, or one address without keys, may have.
const CLIENT_SHARE: usize = CONNECTIONS_MAX / 2;

/// The time between two notices of the same shortage.
const NOTICE_PERIOD: Nanos = Nanos::from_secs(60);

/// A kind of places.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum PlaceKind {
    /// I/O controllers of NVMe hosts.
    Controllers,
    /// Discovery controllers.
    DiscoveryControllers,
    /// Sessions of iSCSI initiators.
    Sessions,
    /// Their discovery sessions.
    DiscoverySessions,
    /// Connections of every protocol.
    Connections,
    /// Those whose peers have not proved yet who they are.
    Strangers,
}

impl PlaceKind {
    /// Its name in documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Controllers => "nvme-controllers",
            Self::DiscoveryControllers => "nvme-discovery-controllers",
            Self::Sessions => "iscsi-sessions",
            Self::DiscoverySessions => "iscsi-discovery-sessions",
            Self::Connections => "connections",
            Self::Strangers => "unproved-connections",
        }
    }
}

impl fmt::Display for PlaceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[derive(Debug, Default)]
pub(crate) struct Places {
    /// The connections that came as strangers, oldest first. The others leave the list when it is full.
    strangers: Vec<Key>,
    /// The connections of direct clients.
    clients: HashMap<Holder, usize>,
    /// When each shortage was reported.
    reported: HashMap<PlaceKind, Nanos>,
}

/// Those that share the connections of direct clients.
#[derive(Debug, Eq, Hash, PartialEq)]
enum Holder {
    Key(Box<str>),
    Origin(Origin),
}

impl Holder {
    fn of(key: Option<&str>, peer: Peer) -> Self {
        key.map_or_else(|| Self::Origin(peer.origin()), |key| Self::Key(key.into()))
    }
}

impl Places {
    /// A direct client is admitted. Returns whether that is within its share.
    pub(crate) fn take(&mut self, key: Option<&str>, peer: Peer) -> bool {
        let count = self.clients.entry(Holder::of(key, peer)).or_default();
        *count += 1;
        *count <= CLIENT_SHARE
    }

    /// An admitted client is gone.
    pub(crate) fn give_back(&mut self, key: Option<&str>, peer: Peer) {
        let holder = Holder::of(key, peer);
        let Some(count) = self.clients.get_mut(&holder) else { return };
        *count -= 1;
        if *count == 0 {
            self.clients.remove(&holder);
        }
    }

    fn most_clients(&self) -> Option<(Box<str>, usize)> {
        let (holder, count) = self.clients.iter().max_by_key(|(_, count)| **count)?;
        let name = match holder {
            Holder::Key(key) => key.clone(),
            Holder::Origin(origin) => origin.to_string().into(),
        };
        Some((name, *count))
    }

    fn is_due(&mut self, kind: PlaceKind, now: Nanos) -> bool {
        let last = self.reported.get(&kind);
        let is_due = last.is_none_or(|last| now.since(*last) >= NOTICE_PERIOD);
        if is_due {
            self.reported.insert(kind, now);
        }
        is_due
    }
}

impl Shard {
    /// A connection is this core's from now on.
    pub(crate) fn note_stranger<W: World>(&mut self, key: Key, world: &mut W) {
        if !self.connections.get(key).is_some_and(Connection::is_stranger) {
            return;
        }
        if self.places.strangers.len() >= STRANGERS_MAX {
            let connections = &self.connections;
            let stays = |key: &Key| connections.get(*key).is_some_and(Connection::is_stranger);
            self.places.strangers.retain(stays);
        }
        if self.places.strangers.len() >= STRANGERS_MAX {
            self.report_shortage(PlaceKind::Strangers, world);
            self.end_stranger(world);
        }
        self.places.strangers.push(key);
    }

    /// Makes sure that there is a place for one more connection. Returns whether there is.
    pub(crate) fn make_room<W: World>(&mut self, world: &mut W) -> bool {
        if self.connections.len() < CONNECTIONS_MAX {
            return true;
        }
        self.report_shortage(PlaceKind::Connections, world);
        self.end_stranger(world)
    }

    /// Ends the stranger that gives up its place. Returns whether there is one.
    fn end_stranger<W: World>(&mut self, world: &mut W) -> bool {
        let Some(key) = crowded_out(self.strangers()) else { return false };
        self.places.strangers.retain(|other| *other != key);
        self.kill(key, world);
        true
    }

    fn strangers(&self) -> impl Iterator<Item = (Origin, usize, Key)> {
        self.places.strangers.iter().enumerate().filter_map(|(age, key)| {
            let connection = self.connections.get(*key).filter(|it| it.is_stranger())?;
            Some((connection.peer.origin(), age, *key))
        })
    }

    /// A direct client has more connections than its share.
    pub(crate) fn refuse_client<W: World>(&mut self, key: Key, world: &mut W) {
        self.report_shortage(PlaceKind::Connections, world);
        let Some(connection) = self.connections.get_mut(key) else { return };
        let Some(session) = connection.session.direct_mut() else { return };
        let error = session.terminate(PeerError::ShareTaken);
        self.peer_error(key, error.into(), world);
    }

    /// A peer got no place. Reported at most once a minute for each kind.
    pub(crate) fn report_shortage<W: World>(&mut self, kind: PlaceKind, world: &mut W) {
        if !self.places.is_due(kind, world.now()) {
            return;
        }
        if let Some(used) = self.places_used(kind) {
            world.notice(Notice::PlacesTaken { kind, used: Box::new(used) });
        }
    }

    /// The use of the places of a kind; `None` if this core does not keep them.
    pub(crate) fn places_used(&self, kind: PlaceKind) -> Option<PlacesUsed> {
        let controllers = |kind| self.controllers.as_ref().map(|it| it.target().places(kind));
        let sessions =
            |is_discovery| self.controllers.as_ref().map(|_| self.initiators.places(is_discovery));
        match kind {
            PlaceKind::Controllers => controllers(ControllerKind::Io),
            PlaceKind::DiscoveryControllers => controllers(ControllerKind::Discovery),
            PlaceKind::Sessions => sessions(false),
            PlaceKind::DiscoverySessions => sessions(true),
            PlaceKind::Connections => Some(PlacesUsed {
                used: self.connections.len(),
                places: CONNECTIONS_MAX,
                most: self.places.most_clients(),
            }),
            PlaceKind::Strangers => {
                Some(PlacesUsed::count(STRANGERS_MAX, self.strangers().map(|(origin, ..)| origin)))
            }
        }
    }

    /// The use of all places that this core keeps.
    pub(crate) fn all_places_used(&self) -> Vec<(PlaceKind, PlacesUsed)> {
        let kinds = [
            PlaceKind::Controllers,
            PlaceKind::DiscoveryControllers,
            PlaceKind::Sessions,
            PlaceKind::DiscoverySessions,
            PlaceKind::Connections,
            PlaceKind::Strangers,
        ];
        kinds.into_iter().filter_map(|kind| Some((kind, self.places_used(kind)?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_half_of_the_connections_of_a_core_and_gets_its_places_back() {
        let mut places = Places::default();
        let peer = Peer::Process { pid: 1, uid: 7 };
        assert!((0..CLIENT_SHARE).all(|_| places.take(Some("eve"), peer)));
        assert!(!places.take(Some("eve"), peer));
        assert!(places.take(Some("bob"), peer) && places.take(None, peer));
        assert_eq!(places.most_clients(), Some(("eve".into(), CLIENT_SHARE + 1)));
        for _ in 0..2 {
            places.give_back(Some("eve"), peer);
        }
        assert!(places.take(Some("eve"), peer));
        places.give_back(None, peer);
        assert_eq!(places.clients.len(), 2);
    }

    #[test]
    fn a_shortage_is_reported_once_a_minute() {
        let mut places = Places::default();
        let mut due = |kind, secs| places.is_due(kind, Nanos::from_secs(secs));
        let (sessions, strangers) = (PlaceKind::Sessions, PlaceKind::Strangers);
        assert!(due(sessions, 5) && !due(sessions, 64) && due(strangers, 64));
        assert!(due(sessions, 65));
    }
}
