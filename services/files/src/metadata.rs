//! The metadata store of a volume as one file: the metadata runs in their order. It has the blocks of a `redb`
//! database, and their checksums (`nearflash-guarded`).
//!
//! The superblock has the length of that file. It is durable before `redb` relies on a new length.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use nearflash_files::{METADATA_RUNS_MAX, Run, Superblock};
use nearflash_units::{ByteLen, ByteOffset};
use redb::StorageBackend;

use crate::Disk;
use crate::disk::lost;

/// The superblock of an open volume, and the runs that it lists.
#[derive(Debug)]
pub(crate) struct Metadata {
    disk: Arc<dyn Disk>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    superblock: Superblock,
    /// Whether changes are written. They are not while a volume is formatted, whose superblock is
    /// written last.
    is_written: bool,
    /// Whether the last superblock that was written is durable. A loss of power may damage those that
    /// are not, so only one copy is in this state.
    is_durable: bool,
    /// [`Disk::losses`] when the metadata that was written was known to be on the volume.
    losses: u64,
}

impl State {
    /// Writes the superblock with a new generation, but does not make it durable.
    fn write(&mut self, disk: &dyn Disk) -> io::Result<()> {
        if !self.is_written {
            return Ok(());
        }
        if !self.is_durable {
            self.flush(disk)?;
        }
        self.superblock.generation += 1;
        self.is_durable = false;
        disk.write_at(&self.superblock.encode(), self.superblock.offset())
    }

    /// Fails if writes may have been lost: the flush would not cover them.
    fn flush(&mut self, disk: &dyn Disk) -> io::Result<()> {
        disk.flush()?;
        if disk.losses() == self.losses { Ok(()) } else { Err(lost()) }
    }
}

impl Metadata {
    pub(crate) fn new(disk: Arc<dyn Disk>, superblock: Superblock, is_written: bool) -> Self {
        let losses = disk.losses();
        let state = Mutex::new(State { superblock, is_written, is_durable: true, losses });
        Self { disk, state }
    }

    pub(crate) fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// The superblock as it is now.
    pub(crate) fn superblock(&self) -> Superblock {
        self.state().superblock.clone()
    }

    /// Whether a further run can be listed.
    pub(crate) fn has_room_for_run(&self) -> bool {
        self.state().superblock.metadata_runs.len() < METADATA_RUNS_MAX
    }

    /// Adds a run, and makes that durable.
    pub(crate) fn add_run(&self, run: Run) -> io::Result<()> {
        self.change(|superblock| superblock.metadata_runs.push(run))
    }

    /// Changes the superblock, and makes that durable. If this fails, the volume has the old
    /// superblock or the new one, and the process must not write any more.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Superblock)) -> io::Result<()> {
        let mut state = self.state();
        change(&mut state.superblock);
        state.write(&*self.disk)?;
        if state.is_written {
            state.flush(&*self.disk)?;
        }
        state.is_durable = true;
        Ok(())
    }

    /// Shortens the store. This need not be durable at once: as with a file, `redb` opens a store that
    /// is longer than its header says.
    fn shorten(&self, len: ByteLen) -> io::Result<()> {
        let mut state = self.state();
        state.superblock.metadata_len = len;
        state.write(&*self.disk)
    }

    fn flush(&self) -> io::Result<()> {
        let mut state = self.state();
        state.flush(&*self.disk)?;
        state.is_durable = true;
        Ok(())
    }

    /// Makes the superblock durable again after this number of losses. The caller opens the store again.
    pub(crate) fn settle(&self, losses: u64) -> io::Result<()> {
        let mut state = self.state();
        state.losses = losses;
        if !state.is_durable {
            // To its own place: the other one has the last copy that is known to be durable.
            self.disk.write_at(&state.superblock.encode(), state.superblock.offset())?;
        }
        state.flush(&*self.disk)?;
        state.is_durable = true;
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds the superblock")
    }

    /// Reads bytes of the store.
    pub(crate) fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let runs = self.superblock().metadata_runs;
        let end = offset.checked_add(ByteLen::of(out).0);
        if end.is_none_or(|end| end > runs_len(&runs).0) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        read_runs(&*self.disk, &runs, out, ByteOffset(offset))
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let runs = self.superblock().metadata_runs;
        write_runs(&*self.disk, &runs, data, ByteOffset(offset))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let superblock = self.superblock();
        let old = superblock.metadata_len.0;
        if len > superblock.metadata_capacity().0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        if len <= old {
            return self.shorten(ByteLen(len));
        }
        zero_runs(&*self.disk, &superblock.metadata_runs, old, len)?;
        self.change(|superblock| superblock.metadata_len = ByteLen(len))
    }
}

pub(crate) fn runs_len(runs: &[Run]) -> ByteLen {
    ByteLen(runs.iter().map(|run| run.len().0).sum())
}

/// Fills `bytes` from `offset` of the concatenated runs; what lies behind them is zero.
pub(crate) fn read_runs(
    disk: &dyn Disk,
    runs: &[Run],
    bytes: &mut [u8],
    offset: ByteOffset,
) -> io::Result<()> {
    let held = runs_len(runs).0.saturating_sub(offset.0).min(ByteLen::of(bytes).0);
    let (mut rest, behind) = bytes.split_at_mut(ByteLen(held).to_usize());
    behind.fill(0);
    for (place, len) in places(runs, offset.0, ByteLen(held))? {
        let (part, others) = rest.split_at_mut(len.to_usize());
        disk.read_at(part, place)?;
        rest = others;
    }
    Ok(())
}

/// Writes `bytes` at `offset` of the concatenated runs.
pub(crate) fn write_runs(
    disk: &dyn Disk,
    runs: &[Run],
    bytes: &[u8],
    offset: ByteOffset,
) -> io::Result<()> {
    let mut rest = bytes;
    for (place, len) in places(runs, offset.0, ByteLen::of(bytes))? {
        let (part, others) = rest.split_at(len.to_usize());
        disk.write_at(part, place)?;
        rest = others;
    }
    Ok(())
}

/// Writes zeroes from `start` to `end` of the concatenated runs.
pub(crate) fn zero_runs(disk: &dyn Disk, runs: &[Run], start: u64, end: u64) -> io::Result<()> {
    let end = end.min(runs_len(runs).0);
    for (place, len) in places(runs, start, ByteLen(end.saturating_sub(start)))? {
        disk.write_zeroes(place, len)?;
    }
    Ok(())
}

/// Writes a superblock at its place, and makes it durable.
pub(crate) fn write_superblock(disk: &dyn Disk, superblock: &Superblock) -> io::Result<()> {
    disk.write_at(&superblock.encode(), superblock.offset())?;
    disk.flush()
}

/// The places in the volume of `len` bytes at `offset` of the concatenated runs.
pub(crate) fn places(
    runs: &[Run],
    offset: u64,
    len: ByteLen,
) -> io::Result<Vec<(ByteOffset, ByteLen)>> {
    let (mut skipped, mut missing) = (offset, len.0);
    let mut places = Vec::new();
    for run in runs {
        if missing == 0 {
            break;
        }
        let run_len = run.len().0;
        if skipped >= run_len {
            skipped -= run_len;
            continue;
        }
        let part = missing.min(run_len - skipped);
        places.push((ByteOffset(run.offset().0 + skipped), ByteLen(part)));
        skipped = 0;
        missing -= part;
    }
    if missing == 0 { Ok(places) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

/// The store for a process that changes it, until it is opened again.
#[derive(Clone, Debug)]
pub(crate) struct Backend {
    metadata: Arc<Metadata>,
    is_over: Arc<AtomicBool>,
}

impl Backend {
    pub(crate) fn new(metadata: Arc<Metadata>) -> Self {
        Self { metadata, is_over: Arc::default() }
    }

    /// From now on, every access through this value and its clones fails. `redb` writes when it is
    /// dropped.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::Release);
    }

    fn metadata(&self) -> io::Result<&Metadata> {
        match self.is_over.load(Ordering::Acquire) {
            false => Ok(&self.metadata),
            true => Err(lost()),
        }
    }
}

impl StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        Ok(self.metadata()?.superblock().metadata_len.0)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.metadata()?.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.metadata()?.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.metadata()?.flush()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.metadata()?.write(offset, data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearflash_units::{Blocks, Lba};

    #[test]
    fn a_range_of_the_store_is_divided_at_the_ends_of_runs() {
        let run = |start, count| Run { start: Lba(start), count: Blocks(count) };
        let runs = [run(10, 1), run(20, 2)];
        let place = |offset, len| (ByteOffset(offset), ByteLen(len));
        let all = places(&runs, 4095, ByteLen(4098)).unwrap();
        assert_eq!(all, [place(11 * 4096 - 1, 1), place(20 * 4096, 4097)]);
        assert_eq!(places(&runs, 4096, ByteLen(8192)).unwrap(), [place(20 * 4096, 8192)]);
        assert_eq!(places(&runs, 12288, ByteLen(0)).unwrap(), []);
        for (offset, len) in [(4096, 8193), (12288, 1), (u64::MAX, 1)] {
            assert!(places(&runs, offset, ByteLen(len)).is_err());
        }
    }
}
