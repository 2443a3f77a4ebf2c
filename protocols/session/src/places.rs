//! Places that are scarce: where their holders come from, and who gives one up for a newcomer.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

/// Where a peer that has proved nothing comes from. Peers of one origin share its places.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Origin {
    /// An address of the network. An IPv4 address is the same in both of its forms.
    Address(IpAddr),
    /// A user of this machine.
    User(u32),
}

impl Origin {
    /// The origin of a peer of the network.
    pub fn of(address: IpAddr) -> Self {
        Self::Address(address.to_canonical())
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::User(user) => write!(f, "user {user}"),
        }
    }
}

/// The holder that gives up its place for a newcomer: the oldest of the origin that has the most. Each holder
/// comes with its origin and its age, of which the least is the oldest.
///
/// So an origin that fills all places takes them from itself, and a few peers of another origin keep theirs.
pub fn crowded_out<A, T>(holders: impl Iterator<Item = (Origin, A, T)>) -> Option<T>
where
    A: Copy + Ord,
{
    let mut origins: BTreeMap<Origin, (usize, A, T)> = BTreeMap::new();
    for (origin, age, holder) in holders {
        match origins.get_mut(&origin) {
            None => {
                origins.insert(origin, (1, age, holder));
            }
            Some((count, oldest, of)) => {
                *count += 1;
                if age < *oldest {
                    (*oldest, *of) = (age, holder);
                }
            }
        }
    }
    let most =
        origins.into_values().max_by_key(|(count, age, _)| (*count, std::cmp::Reverse(*age)));
    most.map(|(_, _, holder)| holder)
}

/// The use of the places of one kind.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct PlacesUsed {
    /// The taken ones.
    pub used: usize,
    /// All of them.
    pub places: usize,
    /// The name that has the most, and how many; `None` if none is taken.
    pub most: Option<(Box<str>, usize)>,
}

impl PlacesUsed {
    /// Counts the places of these holders, by name.
    pub fn count<N: Ord + ToString>(places: usize, holders: impl Iterator<Item = N>) -> Self {
        let mut names: BTreeMap<N, usize> = BTreeMap::new();
        let mut used = 0;
        for name in holders {
            used += 1;
            *names.entry(name).or_default() += 1;
        }
        let most = names.into_iter().max_by_key(|(_, count)| *count);
        let most = most.map(|(name, count)| (name.to_string().into(), count));
        Self { used, places, most }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(last: u8) -> Origin {
        Origin::of(IpAddr::from([192, 0, 2, last]))
    }

    #[test]
    fn the_oldest_of_the_origin_with_the_most_gives_way() {
        let holders = [(at(1), 1, 'a'), (at(2), 3, 'b'), (at(2), 2, 'c'), (at(3), 0, 'd')];
        assert_eq!(crowded_out(holders.into_iter()), Some('c'));
        assert_eq!(crowded_out(holders.into_iter().take(2)), Some('a'), "of equals, the oldest");
        assert_eq!(crowded_out(std::iter::empty::<(Origin, u8, char)>()), None);
    }

    #[test]
    fn an_address_is_the_same_in_both_of_its_forms() {
        let mapped: IpAddr = "::ffff:192.0.2.1".parse().unwrap();
        assert_eq!(Origin::of(mapped), at(1));
        assert_eq!(
            (at(1).to_string(), Origin::User(7).to_string()),
            ("192.0.2.1".into(), "user 7".into())
        );
    }

    #[test]
    fn the_use_of_places_names_who_has_the_most() {
        let used = PlacesUsed::count(9, ["a", "b", "b"].into_iter());
        assert_eq!(used, PlacesUsed { used: 3, places: 9, most: Some(("b".into(), 2)) });
        assert_eq!(PlacesUsed::count(9, std::iter::empty::<&str>()).most, None);
    }
}
