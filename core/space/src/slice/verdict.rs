//! Whether a slice and the cluster's store fit each other.

use std::fmt;

use super::Superblock;

/// The comparison of a slice's incarnations with the one that the cluster's store has.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SliceVerdict {
    /// They fit. Starts at which the store could not be reached have widened the gap.
    Good,
    /// The slice has been restored from an older copy: the store has seen a later incarnation.
    SliceRolledBack {
        /// The incarnation in the store.
        recorded: u64,
        /// The slice's.
        found: u64,
    },
    /// The store has been restored from an older snapshot: it has confirmed a later incarnation before.
    StoreRolledBack {
        /// The incarnation in the store; 0 if it has none.
        recorded: u64,
        /// The incarnation that it has confirmed.
        confirmed: u64,
    },
}

impl fmt::Display for SliceVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Good => f.write_str("the slice and the cluster's store fit each other"),
            Self::SliceRolledBack { recorded, found } => write!(
                f,
                "the slice has been restored from an older copy (incarnation {found}; etcd has seen \
                 {recorded}), and lacks later writes: put the right device in its place"
            ),
            Self::StoreRolledBack { recorded, confirmed } => write!(
                f,
                "etcd has been restored from an older snapshot, or belongs to another cluster (it has \
                 incarnation {recorded} of the slice, and has confirmed {confirmed}): restore its newest \
                 state"
            ),
        }
    }
}

impl Superblock {
    /// Compares the slice, as it was found and before it is opened, with the incarnation that the store
    /// has. `known`: `None` if the store does not know the slice. An opening would hide that it was
    /// rolled back.
    pub fn verdict(&self, known: Option<u64>) -> SliceVerdict {
        let (recorded, confirmed, found) = (known.unwrap_or(0), self.confirmed, self.incarnation);
        if recorded < confirmed {
            SliceVerdict::StoreRolledBack { recorded, confirmed }
        } else if found < recorded {
            SliceVerdict::SliceRolledBack { recorded, found }
        } else {
            SliceVerdict::Good
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    fn verdict(incarnation: u64, confirmed: u64, known: Option<u64>) -> SliceVerdict {
        let nil = Uuid::nil();
        let superblock = Superblock {
            generation: 1,
            cluster: nil,
            slice: nil,
            node: nil,
            incarnation,
            confirmed,
            power_incarnation: 0,
            boot: nil,
        };
        superblock.verdict(known)
    }

    #[test]
    fn a_slice_goes_on_if_the_store_is_between_what_it_confirmed_and_what_the_slice_has() {
        assert_eq!(verdict(0, 0, None), SliceVerdict::Good, "a new slice");
        assert_eq!(verdict(5, 5, Some(5)), SliceVerdict::Good);
        assert_eq!(verdict(8, 5, Some(7)), SliceVerdict::Good, "after starts without the store");
    }

    #[test]
    fn a_slice_that_is_older_than_the_store_was_rolled_back() {
        let expected = SliceVerdict::SliceRolledBack { recorded: 6, found: 5 };
        assert_eq!(verdict(5, 5, Some(6)), expected);
        assert!(expected.to_string().contains("older copy"));
    }

    #[test]
    fn a_store_that_is_older_than_what_it_confirmed_was_rolled_back() {
        let expected = SliceVerdict::StoreRolledBack { recorded: 4, confirmed: 5 };
        assert_eq!(verdict(5, 5, Some(4)), expected);
        let absent = SliceVerdict::StoreRolledBack { recorded: 0, confirmed: 5 };
        assert_eq!(verdict(5, 5, None), absent);
    }
}
