//! The files that are open, and where their bytes lie.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

use nearflash_files::{Grower, Inode, InodeNumber, Kind, Refusal, Run, inode, without};
use nearflash_units::{ByteLen, Nanos};

use super::joining::note_split;
use super::{FileSystem, State, time};
use crate::FilesError;
use crate::lost_range::LostRange;

/// An inode that is open.
pub(super) struct OpenFile {
    pub(super) number: InodeNumber,
    pub(super) grower: Grower,
    kind: Kind,
    /// The number of times that it is open.
    count: AtomicU64,
    contents: RwLock<Contents>,
    /// The time of the last write that the tables do not have yet; 0 if they have it.
    modified_at: AtomicU64,
    written: Mutex<Written>,
    pub(super) lost: LostRange,
    /// The smallest size since the file was opened.
    smallest: AtomicU64,
    /// Whether other processes may write to it, through seals.
    is_sealed_for_writing: AtomicBool,
}

/// The writes of an open file that no flush has covered.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Written {
    /// The number of all writes.
    count: u64,
    /// [`crate::Disk::losses`] before the first write that no flush has covered.
    since: Option<u64>,
}

impl Written {
    /// A number of losses that no volume has: a write that has failed may be lost.
    const FAILED: u64 = u64::MAX;

    /// The writes of a closed file that has lost bytes.
    pub(super) const LOST: Self = Self { count: 0, since: Some(Self::FAILED) };

    /// Whether a flush covers the writes, after which the volume has had this number of losses.
    pub(super) fn is_covered(self, losses: u64) -> bool {
        self.since == Some(losses)
    }
}

/// The bytes of an open file. Writers that change no size and no place share the lock.
#[derive(Clone, Debug)]
pub(super) struct Contents {
    pub(super) size: ByteLen,
    pub(super) runs: Vec<Run>,
    /// The group of the last change of the size or the runs.
    pub(super) group: u64,
}

impl OpenFile {
    fn new(number: InodeNumber, inode: &Inode, group: u64, grower: Grower) -> Self {
        let contents = Contents { size: inode.size, runs: inode.runs.clone(), group };
        Self {
            number,
            grower,
            kind: inode.kind,
            count: AtomicU64::new(0),
            contents: RwLock::new(contents),
            modified_at: AtomicU64::new(0),
            written: Mutex::default(),
            lost: LostRange::default(),
            smallest: AtomicU64::new(inode.size.0),
            is_sealed_for_writing: AtomicBool::new(false),
        }
    }

    pub(super) fn written(&self) -> Written {
        *self.written_mut()
    }

    fn written_mut(&self) -> MutexGuard<'_, Written> {
        self.written.lock().expect("nothing panics while it holds the number")
    }

    /// A write, before which the volume had this number of losses, has returned.
    pub(super) fn mark_written(&self, losses: u64, done: &std::io::Result<()>) {
        let mut written = self.written_mut();
        let since = if done.is_ok() { losses } else { Written::FAILED };
        written.count += 1;
        written.since = match written.since {
            Some(earlier) if earlier != losses => Some(earlier),
            _ => Some(since),
        };
        drop(written);
        self.mark_modified();
    }

    /// Whether the next sync has no loss to report, if the volume has had this number of losses.
    pub(super) fn has_no_loss_to_report(&self, losses: u64) -> bool {
        self.written().since.is_none_or(|since| since == losses)
    }

    /// Other processes may write to it from now on, and it counts as written all the time.
    pub(super) fn seal_for_writing(&self, losses: u64) {
        self.is_sealed_for_writing.store(true, Ordering::Relaxed);
        self.written_mut().since.get_or_insert(losses);
    }

    /// Nobody else writes to it any more.
    pub(super) fn unseal(&self) {
        self.is_sealed_for_writing.store(false, Ordering::Relaxed);
        // A flush that is under way may have begun before the last of these writes.
        self.written_mut().count += 1;
    }

    /// The file has this size now.
    pub(super) fn mark_size(&self, size: ByteLen) {
        self.smallest.fetch_min(size.0, Ordering::Relaxed);
    }

    /// The number of bytes that a file of this size got since it was opened.
    pub(super) fn gained(&self, size: ByteLen) -> ByteLen {
        ByteLen(size.0.saturating_sub(self.smallest.load(Ordering::Relaxed)))
    }

    /// Whether several users have it open.
    pub(super) fn is_shared(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 1
    }

    /// The file goes back to earlier contents. Since it had them, its smallest size was `smallest`.
    pub(super) fn go_back(&self, contents: &mut Contents, to: Contents, smallest: ByteLen) {
        let end = contents.size.0.max(self.lost.end());
        // A write may have changed the bytes at a place that is no longer the file's.
        let has_moved = !without(&to.runs, &contents.runs).is_empty();
        let start = if has_moved { 0 } else { smallest.min(to.size).0 };
        let was_cut = start < to.size.0;
        self.lost.add(start..if was_cut { end.max(to.size.0) } else { end });
        self.written_mut().since = Some(Written::FAILED);
        *contents = to;
    }

    /// As [`Self::handle_flushed`], but a loss is left for the next sync of the file to report.
    pub(super) fn handle_swept(&self, written: Written, losses: u64) {
        if written.is_covered(losses) {
            self.handle_flushed(written, losses);
        }
    }

    /// A flush has covered the writes before `written`, if the volume has had as many losses as before
    /// the first of them. Returns whether bytes may be lost.
    pub(super) fn handle_flushed(&self, written: Written, losses: u64) -> bool {
        let mut now = self.written_mut();
        let is_poisoned = now.since == Some(Written::FAILED);
        if now.count == written.count {
            now.since = self.is_sealed_for_writing.load(Ordering::Relaxed).then_some(losses);
        } else if is_poisoned {
            now.since = Some(losses);
        }
        is_poisoned || written.since.is_some_and(|since| since != losses)
    }

    pub(super) fn contents(&self) -> RwLockReadGuard<'_, Contents> {
        self.contents.read().expect("nothing panics while it holds contents")
    }

    pub(super) fn contents_mut(&self) -> RwLockWriteGuard<'_, Contents> {
        self.contents.write().expect("nothing panics while it holds contents")
    }

    /// The group that must be durable so that the bytes of the file are found.
    pub(super) fn group(&self) -> u64 {
        self.contents().group
    }

    /// The file was written now.
    pub(super) fn mark_modified(&self) {
        self.modified_at.store(time(), Ordering::Relaxed);
    }

    /// The time of the last write, if the tables do not have it.
    pub(super) fn modified_at(&self) -> Option<Nanos> {
        Some(self.modified_at.load(Ordering::Relaxed)).filter(|time| *time != 0).map(Nanos)
    }

    /// [`Self::modified_at`], which the caller stores in the tables.
    pub(super) fn take_modified_at(&self) -> Option<Nanos> {
        Some(self.modified_at.swap(0, Ordering::Relaxed)).filter(|time| *time != 0).map(Nanos)
    }
}

impl FileSystem {
    /// An inode is open once more. It stays until [`Self::release`], even without links. The bytes of
    /// an inode can be read and written while it is open.
    ///
    /// # Errors
    /// When the inode does not exist.
    pub fn retain(&self, number: InodeNumber) -> Result<(), FilesError> {
        self.retained(number).map(drop)
    }

    pub(super) fn retained(&self, number: InodeNumber) -> Result<Arc<OpenFile>, FilesError> {
        // No inode is removed while the state is locked.
        let mut state = self.state()?;
        let known = self.find_open(number);
        let file = match known {
            Some(file) => file,
            None => {
                let inode = self.apply_to(&mut state, |change| inode(change.tables(), number))?;
                // Whether earlier changes of the inode are durable is not known.
                let group = state.last_group();
                let grower = state.space.grower();
                let mut file = OpenFile::new(number, &inode, group, grower);
                let closed = state.losses.closed.remove(&number);
                file.written = Mutex::new(closed.unwrap_or_default());
                let file = Arc::new(file);
                let mut open = self.open.write().expect("nothing panics while it holds the map");
                open.insert(number, Arc::clone(&file));
                file
            }
        };
        file.count.fetch_add(1, Ordering::Relaxed);
        Ok(file)
    }

    /// Ends one [`Self::retain`]. With the last one, the file holds no space to grow any more, and an inode
    /// without links is removed. A file that has grown to several runs may move to one later.
    pub fn release(&self, number: InodeNumber) {
        let Ok(mut state) = self.state() else { return };
        let Some(file) = self.find_open(number) else { return };
        if file.count.fetch_sub(1, Ordering::Relaxed) > 1 {
            return;
        }
        self.sealed_was_closed(number);
        state.space.let_go(file.grower);
        let written = file.written();
        let closed = self.close_file(&mut state, &file);
        if let Ok(Some(inode)) = &closed {
            note_split(&mut state.split, number, inode, file.gained(inode.size));
        }
        // A failure leaves an orphan to the next owner.
        let is_kept = closed.map_or(true, |inode| inode.is_some());
        if is_kept && written.since.is_some() {
            state.losses.closed.insert(number, written);
        }
        self.open.write().expect("nothing panics while it holds the map").remove(&number);
    }

    /// Returns the inode, if it has links and stays.
    fn close_file(&self, state: &mut State, file: &OpenFile) -> Result<Option<Inode>, FilesError> {
        let number = file.number;
        let modified_at = file.take_modified_at();
        self.apply_to(state, |change| {
            let mut inode = inode(change.tables(), number)?;
            if inode.links == 0 {
                return change.reap(number).map(|()| None);
            }
            let Some(time) = modified_at else { return Ok(Some(inode)) };
            inode.touch(time);
            inode.modified_at = time;
            change.put(number, &inode).map(|()| Some(inode))
        })
    }

    pub(super) fn open_file(&self, number: InodeNumber) -> Result<Arc<OpenFile>, FilesError> {
        self.find_open(number).ok_or_else(|| Refusal::Stale(number).into())
    }

    pub(super) fn open_regular(&self, number: InodeNumber) -> Result<Arc<OpenFile>, FilesError> {
        let file = self.open_file(number)?;
        if file.kind == Kind::File { Ok(file) } else { Err(Refusal::NotAFile(number).into()) }
    }

    pub(super) fn find_open(&self, number: InodeNumber) -> Option<Arc<OpenFile>> {
        self.open.read().expect("nothing panics while it holds the map").get(&number).cloned()
    }

    pub(super) fn is_open(&self, number: InodeNumber) -> bool {
        self.open.read().expect("nothing panics while it holds the map").contains_key(&number)
    }

    /// The open files with writes that no flush has covered.
    pub(super) fn written_files(&self) -> Vec<(Arc<OpenFile>, Written)> {
        let open = self.open.read().expect("nothing panics while it holds the map");
        let all = open.values().map(|file| (Arc::clone(file), file.written()));
        all.filter(|(_, written)| written.since.is_some()).collect()
    }

    pub(super) fn open_files(&self) -> Vec<(InodeNumber, Arc<OpenFile>)> {
        let open = self.open.read().expect("nothing panics while it holds the map");
        let written = open.iter().filter(|(_, file)| file.modified_at().is_some());
        written.map(|(number, file)| (*number, Arc::clone(file))).collect()
    }
}
