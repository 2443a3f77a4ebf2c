//! The names of the keys of both stores. In a cluster's store they stand under `/nearflash/<cluster>/`; in a
//! node's own store they are the keys of one table.
//!
//! Every key has exactly one text: a text that is spelled differently, such as a number with a
//! leading zero, is not a key. So two records never describe one thing.

use std::fmt;
use std::str::FromStr;

use nearflash_device::MirrorKey;
use nearflash_space::Name;
use uuid::Uuid;

/// Largest ordinal of a node. With 64 NVMe controller ids a block, 1,023 nodes share 65,535 ids.
pub const ORDINAL_MAX: u16 = 1023;

/// A key of the store.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Key {
    /// `cluster`: the cluster itself.
    Cluster,
    /// `history`: which of the store's histories this is. It is drawn anew when a restored store is accepted.
    History,
    /// `node/<uuid>`: a node.
    Node(Uuid),
    /// `name/node/<name>`: makes a node's name unique.
    NodeName(Name),
    /// `ordinal/<n>`: makes a node's ordinal unique.
    Ordinal(u16),
    /// `name/volume/<name>`: makes a volume's name unique.
    VolumeName(Name),
    /// `nsid/<subsystem>/<n>`: makes a namespace id unique in its subsystem.
    Nsid(Name, u32),
    /// `slice/<uuid>`: a slice; only its node writes it.
    Slice(Uuid),
    /// `room/<slice>`: changes with every allocation on the slice; in a node's own store, on the device.
    Room(Uuid),
    /// `volume/<uuid>`: a volume.
    Volume(Uuid),
    /// `mirror/<volume>/<number>`: the membership of a mirror.
    Mirror(MirrorKey),
    /// `replicas/<volume>/<number>`: the places of a mirror's replicas.
    Replicas(MirrorKey),
    /// `on/<slice>/<volume>/<number>`: the slice has a replica of the mirror.
    On(Uuid, MirrorKey),
    /// `alive/<node>`: the node runs; ends with an etcd lease. For people and planning only.
    Alive(Uuid),
    /// `seen/<node>`: the node has seen the store up to here. Only the node writes it.
    Seen(Uuid),
    /// `removed/<node>`: the node was removed from the cluster, and must not come back.
    Removed(Uuid),
    /// `users/<volume>/<node>`: the node's last answer to the question who uses the volume.
    Users(Uuid, Uuid),
    /// `device/<name>`: a device of the node.
    Device(Name),
    /// `rights/<volume>`: the reservations of a volume that persist.
    Rights(Uuid),
    /// `credential/<id>`: a credential of direct clients.
    Credential(Name),
    /// `grant/<n>`: a grant.
    Grant(u64),
    /// `chap/<user>`: a CHAP account.
    Chap(Text),
    /// `host/<nqn>`: the keys of an NVMe host.
    Host(Text),
    /// `list/<host>`: the volumes of a host.
    List(Text),
    /// `token/<name>`: a token of the HTTP interface.
    Token(Name),
    /// `zeroed/<volume>/<number>/<ordinal>`: this place of a mirror has been zeroed, durably.
    Zeroed(MirrorKey, u32),
    /// `job/<n>`: a job. A node's own store has those that have not ended.
    Job(u64),
    /// `last/<kind>`: the highest number that was given out.
    Last(Numbered),
    /// `had/<kind>`: there has been one at least once.
    Had(Closing),
    /// `access`: the version of the list of access that the nodes of a cluster share.
    Access,
    /// `removed/volume/<name>`: a volume of this name was removed.
    RemovedVolume(Name),
}

/// Subjects with numbers, of which none is ever reused.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Numbered {
    /// Grants.
    Grant,
    /// Jobs.
    Job,
}

/// Proofs of which the first one closes a node to peers without one.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Closing {
    /// A credential of direct clients.
    Credential,
    /// A CHAP account.
    Account,
    /// The list of a host.
    List,
}

/// A text of any characters as a part of a key. All bytes except `A-Z a-z 0-9 . _ : -` are percent-encoded, so
/// that it has no slash.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Text(Box<str>);

/// Error: a text under the prefix is not the name of a key.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "key '{0}' is not one of this program's: delete it if it was put there by hand, or install the \
     version that wrote it"
)]
pub struct ParseKeyError(Box<str>);

impl ParseKeyError {
    /// The error that this text is not a key of its store.
    pub fn of(text: &str) -> Self {
        Self(text.into())
    }
}

/// The prefix of all keys of a cluster, with the slash at its end.
pub fn prefix(cluster: Uuid) -> String {
    format!("/nearflash/{cluster}/")
}

impl Text {
    /// That text.
    pub fn new(text: &str) -> Self {
        Self(text.into())
    }

    /// The text itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text of a part of a key.
    fn decode(part: &str) -> Option<Self> {
        let mut bytes = Vec::with_capacity(part.len());
        let mut rest = part.bytes();
        while let Some(byte) = rest.next() {
            bytes.push(match byte {
                b'%' => 16 * digit(rest.next()?)? + digit(rest.next()?)?,
                byte => byte,
            });
        }
        Some(Self(String::from_utf8(bytes).ok().filter(|text| !text.is_empty())?.into()))
    }
}

/// The value of a hexadecimal digit in upper case.
fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.bytes().try_for_each(|byte| match byte {
            b'.' | b'_' | b':' | b'-' => write!(f, "{}", char::from(byte)),
            byte if byte.is_ascii_alphanumeric() => write!(f, "{}", char::from(byte)),
            byte => write!(f, "%{byte:02X}"),
        })
    }
}

impl fmt::Display for Numbered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Grant => "grant",
            Self::Job => "job",
        })
    }
}

impl fmt::Display for Closing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Credential => "credential",
            Self::Account => "account",
            Self::List => "list",
        })
    }
}

impl Key {
    /// Whether the cluster's store can have the key.
    pub fn is_of_cluster(&self) -> bool {
        match self {
            Self::Device(_) | Self::Rights(_) | Self::RemovedVolume(_) => false,
            Self::Cluster | Self::History | Self::Node(_) | Self::NodeName(_) => true,
            Self::Ordinal(_) | Self::VolumeName(_) | Self::Nsid(..) | Self::Slice(_) => true,
            Self::Room(_) | Self::Volume(_) | Self::Mirror(_) | Self::Replicas(_) => true,
            Self::On(..) | Self::Alive(_) | Self::Seen(_) | Self::Removed(_) => true,
            Self::Users(..) | Self::Zeroed(..) | Self::Job(_) | Self::Last(Numbered::Job) => true,
            _ => self.is_of_access(),
        }
    }

    /// Whether the key is one of access: who may use which volumes.
    pub fn is_of_access(&self) -> bool {
        let has_no_secret = matches!(self, Self::Access | Self::List(_) | Self::Token(_));
        let is_about = matches!(self, Self::Had(_) | Self::Last(Numbered::Grant));
        has_no_secret || is_about || self.is_secret()
    }

    /// Whether the value has a secret, which the cluster's store has sealed.
    pub fn is_secret(&self) -> bool {
        matches!(self, Self::Credential(_) | Self::Grant(_) | Self::Chap(_) | Self::Host(_))
    }

    /// The key's whole name in the store.
    pub fn path(&self, cluster: Uuid) -> String {
        format!("/nearflash/{cluster}/{self}")
    }

    /// The key that a whole name stands for.
    ///
    /// # Errors
    /// When it is not a key of this cluster.
    pub fn parse(cluster: Uuid, path: &str) -> Result<Self, ParseKeyError> {
        let refused = || ParseKeyError::of(path);
        path.strip_prefix(&prefix(cluster)).ok_or_else(refused)?.parse().map_err(|_| refused())
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cluster => f.write_str("cluster"),
            Self::History => f.write_str("history"),
            Self::Node(node) => write!(f, "node/{node}"),
            Self::NodeName(name) => write!(f, "name/node/{name}"),
            Self::Ordinal(ordinal) => write!(f, "ordinal/{ordinal}"),
            Self::VolumeName(name) => write!(f, "name/volume/{name}"),
            Self::Nsid(subsystem, nsid) => write!(f, "nsid/{subsystem}/{nsid}"),
            Self::Slice(slice) => write!(f, "slice/{slice}"),
            Self::Room(slice) => write!(f, "room/{slice}"),
            Self::Volume(volume) => write!(f, "volume/{volume}"),
            Self::Mirror(mirror) => write!(f, "mirror/{mirror}"),
            Self::Replicas(mirror) => write!(f, "replicas/{mirror}"),
            Self::On(slice, mirror) => write!(f, "on/{slice}/{mirror}"),
            Self::Alive(node) => write!(f, "alive/{node}"),
            Self::Seen(node) => write!(f, "seen/{node}"),
            Self::Removed(node) => write!(f, "removed/{node}"),
            Self::Users(volume, node) => write!(f, "users/{volume}/{node}"),
            Self::Device(device) => write!(f, "device/{device}"),
            Self::Rights(volume) => write!(f, "rights/{volume}"),
            Self::Credential(id) => write!(f, "credential/{id}"),
            Self::Grant(number) => write!(f, "grant/{number}"),
            Self::Chap(user) => write!(f, "chap/{user}"),
            Self::Host(host) => write!(f, "host/{host}"),
            Self::List(host) => write!(f, "list/{host}"),
            Self::Token(name) => write!(f, "token/{name}"),
            Self::Zeroed(mirror, ordinal) => write!(f, "zeroed/{mirror}/{ordinal}"),
            Self::Job(number) => write!(f, "job/{number}"),
            Self::Last(kind) => write!(f, "last/{kind}"),
            Self::Had(kind) => write!(f, "had/{kind}"),
            Self::RemovedVolume(name) => write!(f, "removed/volume/{name}"),
            Self::Access => f.write_str("access"),
        }
    }
}

impl FromStr for Key {
    type Err = ParseKeyError;

    fn from_str(text: &str) -> Result<Self, ParseKeyError> {
        // Uuids and numbers have several spellings, of which only the one that is written counts.
        let key = parse(text).filter(|key| key.to_string() == text);
        key.ok_or_else(|| ParseKeyError::of(text))
    }
}

fn parse(text: &str) -> Option<Key> {
    let parts: Vec<&str> = text.split('/').collect();
    let mirror = |volume: &str, number: &str| {
        Some(MirrorKey { volume: volume.parse().ok()?, number: number.parse().ok()? })
    };
    Some(match parts[..] {
        ["cluster"] => Key::Cluster,
        ["history"] => Key::History,
        ["node", node] => Key::Node(node.parse().ok()?),
        ["name", "node", name] => Key::NodeName(name.parse().ok()?),
        ["ordinal", ordinal] => Key::Ordinal(ordinal.parse().ok()?),
        ["name", "volume", name] => Key::VolumeName(name.parse().ok()?),
        ["nsid", subsystem, nsid] => Key::Nsid(subsystem.parse().ok()?, nsid.parse().ok()?),
        ["slice", slice] => Key::Slice(slice.parse().ok()?),
        ["room", slice] => Key::Room(slice.parse().ok()?),
        ["volume", volume] => Key::Volume(volume.parse().ok()?),
        ["mirror", volume, number] => Key::Mirror(mirror(volume, number)?),
        ["replicas", volume, number] => Key::Replicas(mirror(volume, number)?),
        ["on", slice, volume, number] => Key::On(slice.parse().ok()?, mirror(volume, number)?),
        ["alive", node] => Key::Alive(node.parse().ok()?),
        ["seen", node] => Key::Seen(node.parse().ok()?),
        ["removed", node] => Key::Removed(node.parse().ok()?),
        ["users", volume, node] => Key::Users(volume.parse().ok()?, node.parse().ok()?),
        ["zeroed", volume, number, ordinal] => {
            Key::Zeroed(mirror(volume, number)?, ordinal.parse().ok()?)
        }
        _ => return parse_own(&parts),
    })
}

/// The keys that a node's own store has, too, or alone.
fn parse_own(parts: &[&str]) -> Option<Key> {
    Some(match *parts {
        ["device", device] => Key::Device(device.parse().ok()?),
        ["rights", volume] => Key::Rights(volume.parse().ok()?),
        ["credential", id] => Key::Credential(id.parse().ok()?),
        ["grant", number] => Key::Grant(number.parse().ok()?),
        ["chap", user] => Key::Chap(Text::decode(user)?),
        ["host", host] => Key::Host(Text::decode(host)?),
        ["list", host] => Key::List(Text::decode(host)?),
        ["token", name] => Key::Token(name.parse().ok()?),
        ["job", number] => Key::Job(number.parse().ok()?),
        ["last", "grant"] => Key::Last(Numbered::Grant),
        ["last", "job"] => Key::Last(Numbered::Job),
        ["had", "credential"] => Key::Had(Closing::Credential),
        ["had", "account"] => Key::Had(Closing::Account),
        ["had", "list"] => Key::Had(Closing::List),
        ["removed", "volume", name] => Key::RemovedVolume(name.parse().ok()?),
        ["access"] => Key::Access,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_key() -> impl Strategy<Value = Key> {
        let name = "[a-zA-Z0-9][a-zA-Z0-9._-]{0,62}";
        (any::<u128>(), any::<u128>(), any::<u32>(), name, 0..31u8).prop_map(
            |(first, second, number, name, kind)| {
                let (first, second) = (Uuid::from_u128(first), Uuid::from_u128(second));
                let name: Name = name.parse().unwrap();
                let mirror = MirrorKey { volume: second, number };
                match kind {
                    0 => Key::Cluster,
                    1 => Key::Node(first),
                    2 => Key::NodeName(name),
                    3 => Key::Ordinal(u16::try_from(number % 1024).unwrap()),
                    4 => Key::VolumeName(name),
                    5 => Key::Nsid(name, number),
                    6 => Key::Slice(first),
                    7 => Key::Room(first),
                    8 => Key::Volume(first),
                    9 => Key::Mirror(mirror),
                    10 => Key::Replicas(mirror),
                    11 => Key::On(first, mirror),
                    12 => Key::Removed(first),
                    13 => Key::History,
                    14 => Key::Seen(first),
                    15 => Key::Users(first, second),
                    16 => Key::Device(name),
                    17 => Key::Rights(first),
                    18 => Key::Credential(name),
                    19 => Key::Grant(number.into()),
                    20 => Key::Chap(Text::new(&format!("a+{number}@b"))),
                    21 => Key::Host(Text::new(&format!("nqn.2026-11.ü/%{number}:a b"))),
                    22 => Key::List(Text::new(&format!("iqn.2026-11.test:{number}"))),
                    23 => Key::Token(name),
                    24 => Key::Job(number.into()),
                    25 => Key::Last([Numbered::Grant, Numbered::Job][usize::from(number % 2 == 0)]),
                    26 => Key::RemovedVolume(name),
                    27 => Key::Had(
                        [Closing::Credential, Closing::Account, Closing::List]
                            [usize::try_from(number % 3).unwrap()],
                    ),
                    28 => Key::Zeroed(mirror, number / 2),
                    29 => Key::Access,
                    _ => Key::Alive(first),
                }
            },
        )
    }

    proptest! {
        #[test]
        fn a_key_is_read_back_as_it_was_written(key in any_key(), cluster in any::<u128>()) {
            let cluster = Uuid::from_u128(cluster);
            prop_assert_eq!(Key::parse(cluster, &key.path(cluster)).unwrap(), key);
        }

        #[test]
        fn a_key_has_no_second_spelling(text in "(node|nsid/a|mirror|ordinal|on|grant|host|chap)?/?[0-9a-fA-F%+/-]{0,50}") {
            if let Ok(key) = text.parse::<Key>() {
                prop_assert_eq!(key.to_string(), text);
            }
        }
    }

    #[test]
    fn a_key_of_another_cluster_is_refused() {
        let path = Key::Cluster.path(Uuid::from_u128(1));
        let refused = Key::parse(Uuid::from_u128(2), &path).unwrap_err();
        assert!(refused.to_string().contains(&path));
    }
}
