//! The writes of open files that the owner did not carry out, and how many of them it has been told of.
//!
//! The owner changes the time of a file when it is told. That happens once in a while, and before each call
//! for which the time matters. So no write waits for the owner.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use nearflash_files::InodeNumber;

/// The writes of the open files.
#[derive(Default)]
pub(super) struct Writes {
    files: RwLock<HashMap<InodeNumber, Arc<FileWrites>>>,
}

#[derive(Default)]
struct FileWrites {
    count: AtomicU64,
    /// The number of those of which the owner was told. Locked while it is being told, so that it never changes
    /// the time after a call that has seen or set it.
    told: Mutex<u64>,
}

impl Writes {
    /// A file was written.
    pub(super) fn add(&self, number: InodeNumber) {
        let known = self.of(number);
        let file = known.unwrap_or_else(|| {
            let mut files = self.files.write().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(files.entry(number).or_default())
        });
        file.count.fetch_add(1, Ordering::AcqRel);
    }

    /// Tells the owner of the writes of a file, with `tell`, unless it knows all of them. Returns whether it did
    /// not.
    pub(super) fn tell(&self, number: InodeNumber, tell: impl FnOnce()) -> bool {
        let Some(file) = self.of(number) else { return false };
        let mut told = file.told.lock().unwrap_or_else(PoisonError::into_inner);
        let count = file.count.load(Ordering::Acquire);
        let is_news = *told < count;
        if is_news {
            tell();
            *told = count;
        }
        is_news
    }

    /// The files with writes.
    pub(super) fn numbers(&self) -> Vec<InodeNumber> {
        self.files.read().unwrap_or_else(PoisonError::into_inner).keys().copied().collect()
    }

    /// A file is closed.
    pub(super) fn forget(&self, number: InodeNumber) {
        self.files.write().unwrap_or_else(PoisonError::into_inner).remove(&number);
    }

    fn of(&self, number: InodeNumber) -> Option<Arc<FileWrites>> {
        self.files.read().unwrap_or_else(PoisonError::into_inner).get(&number).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: InodeNumber = InodeNumber(1);

    fn is_told(writes: &Writes) -> bool {
        let mut is_told = false;
        let is_news = writes.tell(ONE, || is_told = true);
        assert_eq!(is_news, is_told);
        is_told
    }

    #[test]
    fn the_owner_is_told_once_of_all_writes_so_far() {
        let writes = Writes::default();
        assert!(!is_told(&writes), "it was not written");
        writes.add(ONE);
        writes.add(ONE);
        assert_eq!(writes.numbers(), [ONE]);
        assert!(is_told(&writes) && !is_told(&writes));
        writes.add(ONE);
        writes.tell(ONE, || writes.add(ONE));
        assert!(is_told(&writes), "of a write that came meanwhile");
        writes.add(ONE);
        writes.forget(ONE);
        assert!(!is_told(&writes) && writes.numbers().is_empty());
    }
}
