//! The names of the store's keys, all under `/nearflash/<cluster>/`.
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
    /// `room/<slice>`: changes with every allocation on the slice.
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
}

/// Error: a text under the prefix is not the name of a key.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "key '{0}' is not one of this program's: delete it if it was put there by hand, or install the \
     version that wrote it"
)]
pub struct ParseKeyError(Box<str>);

/// The prefix of all keys of a cluster, with the slash at its end.
pub fn prefix(cluster: Uuid) -> String {
    format!("/nearflash/{cluster}/")
}

impl Key {
    /// The key's whole name in the store.
    pub fn path(&self, cluster: Uuid) -> String {
        format!("/nearflash/{cluster}/{self}")
    }

    /// The key that a whole name stands for.
    ///
    /// # Errors
    /// When it is not a key of this cluster.
    pub fn parse(cluster: Uuid, path: &str) -> Result<Self, ParseKeyError> {
        let refused = || ParseKeyError(path.into());
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
        }
    }
}

impl FromStr for Key {
    type Err = ParseKeyError;

    fn from_str(text: &str) -> Result<Self, ParseKeyError> {
        // Uuids and numbers have several spellings, of which only the one that is written counts.
        let key = parse(text).filter(|key| key.to_string() == text);
        key.ok_or_else(|| ParseKeyError(text.into()))
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
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_key() -> impl Strategy<Value = Key> {
        let name = "[a-zA-Z0-9][a-zA-Z0-9._-]{0,62}";
        (any::<u128>(), any::<u128>(), any::<u32>(), name, 0..17u8).prop_map(
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
        fn a_key_has_no_second_spelling(text in "(node|nsid/a|mirror|ordinal|on)?/?[0-9a-fA-F+/-]{0,50}") {
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
