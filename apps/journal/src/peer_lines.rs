//! The lines of the log about peers. Peers decide how many there are, so these are at most so many in a minute about
//! one address, and at most so many in all. Those that are held back are counted, and a line tells their number.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

use nearflash_shard::Peer;

/// The time for which lines are counted.
const WINDOW: Duration = Duration::from_secs(60);

/// The lines of one topic about one source in that time.
const PER_SOURCE_MAX: u32 = 16;

/// The lines of one kind about all sources in that time.
const PER_KIND_MAX: u32 = 256;

/// The sources and topics that are told apart in that time.
const COUNTED_MAX: usize = 1024;

/// The lines that tell what was held back in that time. The rest is in one more line for each kind.
const HELD_LINES_MAX: usize = 16;

/// The place that a peer comes from.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Source {
    /// An IPv4 address.
    Address(IpAddr),
    /// The network with that prefix of 64 bits: a machine has all of its addresses.
    Network(Ipv6Addr),
    /// A user of this machine.
    User(u32),
    /// Not known any more: only the bound on all lines of a kind holds.
    Unknown,
}

impl Source {
    /// That of an address.
    pub fn of_address(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V6(address) if !address.is_loopback() => {
                let [a, b, c, d, ..] = address.segments();
                Self::Network(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
            }
            address => Self::Address(address),
        }
    }
}

impl From<SocketAddr> for Source {
    fn from(peer: SocketAddr) -> Self {
        Self::of_address(peer.ip())
    }
}

impl From<Peer> for Source {
    fn from(peer: Peer) -> Self {
        match peer {
            Peer::Address(address) => address.into(),
            Peer::Process { uid, .. } => Self::User(uid),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Network(prefix) => write!(f, "{prefix}/64"),
            Self::User(uid) => write!(f, "user {uid}"),
            Self::Unknown => f.write_str("other addresses"),
        }
    }
}

/// A kind of lines, each with a bound of its own: refusals hold back no line about a host that connects.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Kind {
    /// A peer was not let in.
    Refused,
    /// A connection ended for a fault.
    Closed,
    /// A peer has come.
    Connected,
    /// A peer has gone.
    Gone,
}

impl Kind {
    const COUNT: usize = 4;

    /// The words with which its lines begin.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Refused => "login refused",
            Self::Closed => "connection closed",
            Self::Connected => "connected",
            Self::Gone => "gone",
        }
    }

    const fn index(self) -> usize {
        match self {
            Self::Refused => 0,
            Self::Closed => 1,
            Self::Connected => 2,
            Self::Gone => 3,
        }
    }
}

/// The topic of lines: those of one topic from one source are alike.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Topic {
    /// The kind that it belongs to.
    pub kind: Kind,
    /// The protocol; empty if the kind tells enough.
    pub protocol: &'static str,
    /// The reason of a refusal; empty for other kinds.
    pub reason: &'static str,
}

impl Topic {
    /// The only topic of a kind.
    pub const fn plain(kind: Kind) -> Self {
        Self { kind, protocol: "", reason: "" }
    }
}

/// Lines that were held back.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Held {
    /// `None` for those of many sources.
    pub source: Option<Source>,
    /// The topic.
    pub topic: Topic,
    /// The number of lines.
    pub count: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    written: u32,
    held: u64,
}

/// The lines of the present minute.
#[derive(Debug, Default)]
pub struct Rates {
    /// The end of the minute; `None` before its first line.
    until: Option<Instant>,
    counted: BTreeMap<(Source, Topic), Counted>,
    written: [u32; Kind::COUNT],
    /// Those held back from sources that are not told apart.
    others: [u64; Kind::COUNT],
}

impl Rates {
    /// Whether a further line may be written. It is counted.
    pub fn admit(&mut self, now: Instant, source: Source, topic: Topic) -> bool {
        self.until.get_or_insert(now + WINDOW);
        let kind = topic.kind.index();
        let is_known = self.counted.contains_key(&(source, topic));
        if !is_known && self.counted.len() >= COUNTED_MAX {
            self.others[kind] += 1;
            return false;
        }
        let counted = self.counted.entry((source, topic)).or_default();
        let is_too_much = counted.written >= PER_SOURCE_MAX && source != Source::Unknown;
        if is_too_much || self.written[kind] >= PER_KIND_MAX {
            counted.held += 1;
            return false;
        }
        counted.written += 1;
        self.written[kind] += 1;
        true
    }

    /// Ends the minute, if it is over or `is_last`: the lines that it has held back, most first.
    pub fn due(&mut self, now: Instant, is_last: bool) -> Vec<Held> {
        if self.until.is_none_or(|until| now < until && !is_last) {
            return Vec::new();
        }
        let Self { counted, mut others, .. } = std::mem::take(self);
        let counted = counted.into_iter().filter(|(_, counted)| counted.held > 0);
        let mut held: Vec<Held> = counted
            .map(|((source, topic), Counted { held: count, .. })| Held {
                source: Some(source),
                topic,
                count,
            })
            .collect();
        held.sort_by_key(|held| std::cmp::Reverse(held.count));
        for rest in held.drain(HELD_LINES_MAX.min(held.len())..) {
            others[rest.topic.kind.index()] += rest.count;
        }
        for kind in [Kind::Refused, Kind::Closed, Kind::Connected, Kind::Gone] {
            let (topic, count) = (Topic::plain(kind), others[kind.index()]);
            if count > 0 {
                held.push(Held { source: None, topic, count });
            }
        }
        held
    }
}

/// The direct clients that are connected, by machine or process and by key. A program makes several connections, also
/// one after the other, and the log has one line for all of them.
#[derive(Debug, Default)]
pub struct Present(BTreeMap<ClientName, Client>);

type ClientName = (IpAddr, u32, Box<str>);

#[derive(Debug, Default)]
struct Client {
    connections: usize,
    /// When the last connection ended, and its peer.
    left: Option<(Instant, Peer)>,
}

/// A client is gone when it has had no connection for this time.
const LINGER: Duration = Duration::from_secs(5);

impl Present {
    /// A connection has come. Returns whether it is that of a new client.
    pub fn came(&mut self, peer: Peer, key: &str) -> bool {
        let client = self.0.entry(client(peer, key)).or_default();
        let is_new = client.connections == 0 && client.left.is_none();
        client.connections += 1;
        client.left = None;
        is_new
    }

    /// A connection has gone.
    pub fn went(&mut self, now: Instant, peer: Peer, key: &str) {
        let Some(client) = self.0.get_mut(&client(peer, key)) else { return };
        client.connections = client.connections.saturating_sub(1);
        if client.connections == 0 {
            client.left = Some((now, peer));
        }
    }

    /// The clients that are gone, each with its last peer and its key.
    pub fn gone(&mut self, now: Instant, is_last: bool) -> Vec<(Peer, Box<str>)> {
        let mut gone = Vec::new();
        self.0.retain(|(.., key), client| {
            let left = client.left.filter(|(at, _)| is_last || now >= *at + LINGER);
            gone.extend(left.map(|(_, peer)| (peer, key.clone())));
            left.is_none()
        });
        gone
    }
}

fn client(peer: Peer, key: &str) -> (IpAddr, u32, Box<str>) {
    match peer {
        Peer::Address(address) => (address.ip().to_canonical(), 0, key.into()),
        Peer::Process { pid, .. } => (Ipv4Addr::UNSPECIFIED.into(), pid, key.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRONG: Topic = Topic { kind: Kind::Refused, protocol: "direct", reason: "not-proved" };

    fn source(last: u8) -> Source {
        Source::of_address([192, 0, 2, last].into())
    }

    fn written(rates: &mut Rates, now: Instant, source: Source, topic: Topic, count: u32) -> u32 {
        (0..count).map(|_| u32::from(rates.admit(now, source, topic))).sum()
    }

    #[test]
    fn one_address_cannot_fill_the_log_and_its_further_lines_are_told_as_a_number() {
        let (now, mut rates) = (Instant::now(), Rates::default());
        assert_eq!(written(&mut rates, now, source(1), WRONG, 600), PER_SOURCE_MAX);
        assert_eq!(written(&mut rates, now, source(2), WRONG, 3), 3, "another address");
        let connected = Topic::plain(Kind::Connected);
        assert_eq!(written(&mut rates, now, source(1), connected, 3), 3, "another topic");
        assert_eq!(rates.due(now + WINDOW / 2, false), []);
        let count = u64::from(600 - PER_SOURCE_MAX);
        let held = Held { source: Some(source(1)), topic: WRONG, count };
        assert_eq!(rates.due(now + WINDOW, false), [held]);
        assert_eq!(rates.due(now + WINDOW, true), [], "it is told once");
        assert_eq!(written(&mut rates, now + WINDOW, source(1), WRONG, 1), 1, "a new minute");
    }

    #[test]
    fn many_addresses_cannot_fill_the_log_either_nor_hold_back_other_kinds() {
        let (now, mut rates) = (Instant::now(), Rates::default());
        let all = (0..2_000_u32).map(Source::User);
        let count: u32 = all.map(|source| written(&mut rates, now, source, WRONG, 1)).sum();
        assert_eq!(count, PER_KIND_MAX);
        let connected = Topic::plain(Kind::Connected);
        rates.counted.pop_last();
        assert_eq!(written(&mut rates, now, source(1), connected, 1), 1);
        let held = rates.due(now, true);
        assert_eq!(held.len(), HELD_LINES_MAX + 1);
        assert_eq!(held.last().unwrap().source, None);
        let told: u64 = held.iter().map(|held| held.count).sum();
        assert_eq!(told, u64::from(2_000 - PER_KIND_MAX) - 1);
    }

    #[test]
    fn the_connections_of_one_client_are_one_client_also_one_after_the_other() {
        let (now, mut present) = (Instant::now(), Present::default());
        let peer = |port| Peer::Address(SocketAddr::from(([192, 0, 2, 7], port)));
        assert!(present.came(peer(1), "app"));
        assert!(!present.came(peer(2), "app"));
        assert!(present.came(peer(3), "other"));
        assert!(present.came(Peer::Process { pid: 7, uid: 1 }, "app"));
        assert!(present.came(Peer::Process { pid: 8, uid: 1 }, "app"));
        present.went(now, peer(1), "app");
        present.went(now, peer(2), "app");
        assert!(!present.came(peer(4), "app"), "it comes back at once");
        assert_eq!(present.gone(now + LINGER, false), []);
        present.went(now, peer(4), "app");
        assert_eq!(present.gone(now + LINGER / 2, false), []);
        assert_eq!(present.gone(now + LINGER, false), [(peer(4), "app".into())]);
        assert!(present.came(peer(5), "app"), "it is a new one");
        present.went(now, peer(3), "other");
        assert_eq!(present.gone(now, true), [(peer(3), "other".into())]);
        assert_eq!(present.0.len(), 3);
    }

    #[test]
    fn a_source_is_an_address_a_network_of_ipv6_or_a_user() {
        let of = |text: &str| Source::of_address(text.parse().unwrap()).to_string();
        assert_eq!(of("192.0.2.7"), "192.0.2.7");
        assert_eq!(of("::ffff:192.0.2.7"), "192.0.2.7");
        assert_eq!(of("2001:db8:1:2:3::4"), "2001:db8:1:2::/64");
        assert_eq!(of("::1"), "::1");
        assert_eq!(Source::from(Peer::Process { pid: 3, uid: 1000 }).to_string(), "user 1000");
    }
}
