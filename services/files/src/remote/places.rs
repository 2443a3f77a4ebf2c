//! Where a client has found inodes last.
//!
//! An owner lets a client with grants on directories use an inode that the client has found within. Another owner,
//! or the same one after the client was away, knows nothing of that: the client looks the name up again.

use std::collections::HashMap;

use nearflash_files::{InodeNumber, Name};

/// The inodes that are not open and whose places are kept: programs open what they have just looked up.
const CLOSED_MAX: usize = 1024;

/// The directory and the name of each inode.
#[derive(Debug, Default)]
pub(super) struct Places(HashMap<InodeNumber, (InodeNumber, Name)>);

impl Places {
    /// An inode has this name in this directory. `open` are the open ones, which are not forgotten.
    pub(super) fn found<V>(
        &mut self,
        number: InodeNumber,
        (directory, name): (InodeNumber, &Name),
        open: &HashMap<InodeNumber, V>,
    ) {
        if self.0.len() >= open.len().saturating_add(CLOSED_MAX) && !self.0.contains_key(&number) {
            self.0.retain(|number, _| open.contains_key(number));
        }
        self.0.insert(number, (directory, name.clone()));
    }

    /// The inode of the first name has the second one now. With `is_exchange`, the reverse holds, too.
    pub(super) fn renamed(
        &mut self,
        from: (InodeNumber, &Name),
        to: (InodeNumber, &Name),
        is_exchange: bool,
    ) {
        for (directory, name) in self.0.values_mut() {
            let next = match (*directory, &*name) {
                place if place == from => to,
                place if is_exchange && place == to => from,
                _ => continue,
            };
            (*directory, *name) = (next.0, next.1.clone());
        }
    }

    /// The place of an inode, if it is known.
    pub(super) fn of(&self, number: InodeNumber) -> Option<(InodeNumber, &Name)> {
        self.0.get(&number).map(|(directory, name)| (*directory, name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: InodeNumber = InodeNumber::ROOT;

    fn name(text: &str) -> Name {
        Name::new(text.as_bytes()).unwrap()
    }

    #[test]
    fn an_inode_keeps_its_last_place_while_it_is_open_whatever_else_is_found() {
        let (mut places, open) = (Places::default(), HashMap::from([(InodeNumber(7), 1_u64)]));
        places.found(InodeNumber(7), (ROOT, &name("old")), &open);
        places.found(InodeNumber(7), (ROOT, &name("f")), &open);
        for number in 100..5000 {
            places.found(InodeNumber(number), (ROOT, &name("g")), &open);
            assert_eq!(places.of(InodeNumber(number)), Some((ROOT, &name("g"))));
            assert!(places.0.len() <= CLOSED_MAX + 1);
        }
        assert_eq!(places.of(InodeNumber(7)), Some((ROOT, &name("f"))));
    }

    #[test]
    fn a_rename_changes_the_place_and_an_exchange_changes_both() {
        let (mut places, open) = (Places::default(), HashMap::<_, u64>::new());
        let (one, other) = (InodeNumber(7), InodeNumber(8));
        let (here, there) = ((ROOT, &name("a")), (InodeNumber(2), &name("b")));
        places.found(one, here, &open);
        places.found(other, there, &open);
        places.renamed(here, there, true);
        assert_eq!((places.of(one), places.of(other)), (Some(there), Some(here)));
        places.renamed(here, (ROOT, &name("c")), false);
        assert_eq!((places.of(one), places.of(other)), (Some(there), Some((ROOT, &name("c")))));
    }
}
