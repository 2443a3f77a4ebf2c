//! Open directories. The kernel continues a listing at a number; the file system, behind a name.
//!
//! Number 0 is the start, 1 follows `.`, 2 follows `..`, and each later one a name that was returned.
//! A name keeps its number while its directory is open, so that seekdir(3) finds each place that telldir(3)
//! gave, in any order, whatever was created or removed meanwhile.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use fuser::{Errno, FileHandle};
use nearflash_files_service::{Entry, InodeNumber, Name};

/// The number of entries that are read at a time.
pub(crate) const PAGE_LEN: usize = 256;

/// The number of the first name.
const FIRST: u64 = 2;

/// The names whose numbers outlive rewinddir(3). A program that lists a changing directory again and again
/// would otherwise fill the memory. Every number of a single listing is valid.
const NAMES_KEPT_MAX: usize = 1 << 20;

/// The directories that are open.
#[derive(Debug, Default)]
pub(crate) struct Directories {
    last: AtomicU64,
    open: Mutex<HashMap<u64, Arc<Mutex<Listing>>>>,
}

impl Directories {
    pub(crate) fn open(&self, directory: InodeNumber, parent: InodeNumber) -> FileHandle {
        let handle = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let listing = Arc::new(Mutex::new(Listing::new(directory, parent)));
        self.open.lock().unwrap_or_else(PoisonError::into_inner).insert(handle, listing);
        FileHandle(handle)
    }

    pub(crate) fn get(&self, handle: FileHandle) -> Result<Arc<Mutex<Listing>>, Errno> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.get(&handle.0).cloned().ok_or(Errno::EBADF)
    }

    pub(crate) fn close(&self, handle: FileHandle) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(&handle.0);
    }
}

/// An item of a listing.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Item {
    /// `.`
    Own(InodeNumber),
    /// `..`
    Parent(InodeNumber),
    /// A name.
    Entry(Entry),
}

/// The listing of one open directory.
#[derive(Debug)]
pub(crate) struct Listing {
    directory: InodeNumber,
    /// The directory above it, when it was opened.
    parent: InodeNumber,
    /// The names that were returned, in the order of their numbers.
    numbered: Vec<Name>,
    /// The indices of `numbered`, in the order of the names.
    sorted: Vec<u32>,
    /// The index in `numbered` of the name behind which the listing continues; `None` at the start.
    after: Option<usize>,
    /// The entries that were read behind it.
    ahead: VecDeque<Entry>,
}

impl Listing {
    fn new(directory: InodeNumber, parent: InodeNumber) -> Self {
        let (numbered, sorted) = (Vec::new(), Vec::new());
        Self { directory, parent, numbered, sorted, after: None, ahead: VecDeque::new() }
    }

    /// Continues at `offset`, and passes items with the number that follows each to `add`, until it
    /// returns `true` because the reply is full, or the directory ends. `list` reads the entries
    /// behind a name.
    pub(crate) fn read(
        &mut self,
        offset: u64,
        mut list: impl FnMut(InodeNumber, Option<&Name>) -> Result<Vec<Entry>, Errno>,
        mut add: impl FnMut(u64, Item) -> bool,
    ) -> Result<(), Errno> {
        self.seek(offset)?;
        for (number, item) in [Item::Own(self.directory), Item::Parent(self.parent)]
            .into_iter()
            .enumerate()
            .map(|(at, item)| (at as u64, item))
        {
            if offset <= number && add(number + 1, item) {
                return Ok(());
            }
        }
        loop {
            if self.ahead.is_empty() {
                let after = self.after.map(|index| &self.numbered[index]);
                self.ahead = list(self.directory, after)?.into();
            }
            let Some(entry) = self.ahead.front() else { return Ok(()) };
            let place = self.place_of(&entry.name);
            let index = place.unwrap_or(self.numbered.len());
            let next = FIRST + index as u64 + 1;
            if add(next, Item::Entry(entry.clone())) {
                return Ok(());
            }
            if let Err(place) = place {
                let index = u32::try_from(index).map_err(|_| Errno::EOVERFLOW)?;
                self.sorted.insert(place, index);
                self.numbered.push(entry.name.clone());
            }
            self.ahead.pop_front();
            self.after = Some(index);
        }
    }

    /// The index of a name that was returned; otherwise, its place in `sorted`.
    fn place_of(&self, name: &Name) -> Result<usize, usize> {
        let numbered = |index: u32| &self.numbered[index as usize];
        // Most names follow all others.
        if self.sorted.last().is_none_or(|last| numbered(*last) < name) {
            return Err(self.sorted.len());
        }
        let found = self.sorted.binary_search_by(|index| numbered(*index).cmp(name));
        found.map(|place| self.sorted[place] as usize)
    }

    /// From the start, entries are read again; from another place, those behind its name.
    fn seek(&mut self, offset: u64) -> Result<(), Errno> {
        let place = usize::try_from(offset.saturating_sub(FIRST)).map_err(|_| Errno::EINVAL)?;
        if place > self.numbered.len() {
            return Err(Errno::EINVAL);
        }
        if offset == 0 && self.numbered.len() > NAMES_KEPT_MAX {
            (self.numbered, self.sorted) = (Vec::new(), Vec::new());
        }
        let after = place.checked_sub(1);
        if offset == 0 || after != self.after {
            self.after = after;
            self.ahead.clear();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearflash_files_service::Kind;
    use std::collections::BTreeSet;

    const DIRECTORY: InodeNumber = InodeNumber(1);

    fn name(text: &str) -> Name {
        Name::new(text.as_bytes()).unwrap()
    }

    /// The names from `offset` on, at most `count_max` items, and the number behind the last one.
    fn read(
        listing: &mut Listing,
        names: &BTreeSet<Name>,
        offset: u64,
        count_max: usize,
    ) -> (Vec<String>, u64) {
        let (mut found, mut next) = (Vec::new(), offset);
        let list = |_: InodeNumber, after: Option<&Name>| {
            let behind = names.iter().filter(|name| after.is_none_or(|after| *name > after));
            let entry =
                |name: &Name| Entry { name: name.clone(), inode: InodeNumber(7), kind: Kind::File };
            Ok(behind.take(3).map(entry).collect())
        };
        let add = |number, item| {
            if found.len() == count_max {
                return true;
            }
            next = number;
            found.push(match item {
                Item::Own(_) => ".".to_owned(),
                Item::Parent(_) => "..".to_owned(),
                Item::Entry(entry) => entry.name.to_string(),
            });
            false
        };
        listing.read(offset, list, add).unwrap();
        (found, next)
    }

    #[test]
    fn a_listing_returns_every_name_once_in_replies_of_any_length() {
        let names: BTreeSet<Name> = (0..20).map(|at| name(&format!("{at:02}"))).collect();
        for count_max in 1..25 {
            let (mut listing, mut all, mut offset) =
                (Listing::new(DIRECTORY, DIRECTORY), Vec::new(), 0);
            loop {
                let (found, next) = read(&mut listing, &names, offset, count_max);
                if found.is_empty() {
                    break;
                }
                all.extend(found);
                offset = next;
            }
            let expected: Vec<String> = [".", ".."]
                .map(str::to_owned)
                .into_iter()
                .chain(names.iter().map(Name::to_string))
                .collect();
            assert_eq!(all, expected, "{count_max}");
        }
    }

    #[test]
    fn a_listing_goes_on_although_the_names_that_it_returned_are_removed() {
        let mut names: BTreeSet<Name> = (0..9).map(|at| name(&at.to_string())).collect();
        let mut listing = Listing::new(DIRECTORY, DIRECTORY);
        let (found, next) = read(&mut listing, &names, 0, 5);
        assert_eq!(found, [".", "..", "0", "1", "2"]);
        names.retain(|it| *it > name("2"));
        assert_eq!(read(&mut listing, &names, next, 99).0, ["3", "4", "5", "6", "7", "8"]);
    }

    #[test]
    fn an_earlier_place_is_found_again_and_the_start_shows_new_names() {
        let mut names: BTreeSet<Name> = (1..6).map(|at| name(&at.to_string())).collect();
        let mut listing = Listing::new(DIRECTORY, DIRECTORY);
        let (_, place) = read(&mut listing, &names, 0, 4);
        read(&mut listing, &names, place, 99);
        names.insert(name("0"));
        assert_eq!(read(&mut listing, &names, place, 99).0, ["3", "4", "5"]);
        assert_eq!(read(&mut listing, &names, 0, 3).0, [".", "..", "0"]);
    }

    #[test]
    fn every_place_that_was_returned_is_found_again_in_any_order() {
        let mut names: BTreeSet<Name> = (1..20).map(|at| name(&format!("{:02}", 2 * at))).collect();
        let mut listing = Listing::new(DIRECTORY, DIRECTORY);
        let mut places = vec![0];
        while let (found, place) = read(&mut listing, &names, *places.last().unwrap(), 1)
            && !found.is_empty()
        {
            places.push(place);
        }
        let all = read(&mut listing, &names, 0, 99).0;
        assert_eq!(all.len(), places.len() - 1);
        for step in [1, 7, 13, 20] {
            for at in (0..all.len()).map(|at| at * step % all.len()) {
                let (found, next) = read(&mut listing, &names, places[at], 1);
                assert_eq!((&found[0], next), (&all[at], places[at + 1]), "{step}");
            }
        }
        // New names move no place, and have places of their own.
        names.extend([name("01"), name("05")]);
        assert_eq!(read(&mut listing, &names, places[3], 3).0, ["04", "05", "06"]);
        let (found, between) = read(&mut listing, &names, places[4], 1);
        assert_eq!(
            (found, read(&mut listing, &names, between, 1).0),
            (vec!["05".to_owned()], vec!["06".to_owned()])
        );
        names.remove(&name("06"));
        assert_eq!(read(&mut listing, &names, places[5], 2).0, ["08", "10"]);
        assert_eq!(read(&mut listing, &names, places[9], 1).0, [all[9].clone()]);
        assert_eq!(read(&mut listing, &names, between, 1).0, ["08"]);
    }

    #[test]
    fn a_place_that_was_never_returned_is_refused() {
        let mut listing = Listing::new(DIRECTORY, DIRECTORY);
        let read = listing.read(9, |_, _| Ok(Vec::new()), |_, _| false);
        assert_eq!(read, Err(Errno::EINVAL));
        assert_eq!(Directories::default().get(FileHandle(1)).err(), Some(Errno::EBADF));
    }
}
