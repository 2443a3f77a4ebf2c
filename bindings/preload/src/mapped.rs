//! The files that this process has mapped. The kernel keeps pages of them, so all calls go through it.
//!
//! A file is entered before it is mapped, and mapped when no call that began before is under way.
//! Files are told apart by [`FileId::key`], so another file may be taken for a mapped one, which is slower
//! and right.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::file::FileId;

/// The number of files that are remembered. If more are mapped, every file counts as mapped.
const FILES_MAX: usize = 4096;

static KEYS: [AtomicU64; FILES_MAX] = [const { AtomicU64::new(0) }; FILES_MAX];
static HAS_ANY: AtomicBool = AtomicBool::new(false);
static IS_FULL: AtomicBool = AtomicBool::new(false);

fn places(key: u64) -> impl Iterator<Item = &'static AtomicU64> {
    let start = usize::try_from(key % 4096).unwrap_or(0);
    KEYS[start..].iter().chain(&KEYS[..start])
}

/// The file is going to be mapped.
pub(crate) fn enter(file: FileId) {
    let key = file.key();
    HAS_ANY.store(true, Ordering::SeqCst);
    for place in places(key) {
        match place.compare_exchange(0, key, Ordering::SeqCst, Ordering::SeqCst) {
            Ok(_) => return,
            Err(known) if known == key => return,
            Err(_) => {}
        }
    }
    IS_FULL.store(true, Ordering::SeqCst);
}

/// Whether the file may be mapped.
pub(crate) fn contains(file: FileId) -> bool {
    if !HAS_ANY.load(Ordering::SeqCst) {
        return false;
    }
    if IS_FULL.load(Ordering::SeqCst) {
        return true;
    }
    let key = file.key();
    for place in places(key) {
        match place.load(Ordering::SeqCst) {
            0 => return false,
            known if known == key => return true,
            _ => {}
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_mapped_stays_so_and_too_many_make_all_so() {
        let file = |inode| FileId { mount: 3, inode };
        assert!(!contains(file(1)));
        enter(file(1));
        assert!(contains(file(1)) && !contains(file(2)));
        (0..5000).for_each(|inode| enter(file(inode)));
        assert!((0..6000).all(|inode| contains(file(inode))));
    }
}
