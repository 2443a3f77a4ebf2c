//! The metadata store for a process that only reads: `redb` writes when it opens a database, and what
//! it writes stays in memory.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use redb::StorageBackend;

use crate::metadata::Metadata;

/// The unit in which changed bytes are kept.
const CHUNK_LEN: usize = 4096;
const CHUNK: u64 = 4096;

/// The store as it is on the volume, with the changes of this process.
#[derive(Debug)]
pub(crate) struct Overlay {
    metadata: Arc<Metadata>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    len: u64,
    /// The length up to which bytes come from the volume.
    below_len: u64,
    /// The changed chunks, by number.
    chunks: BTreeMap<u64, Box<[u8]>>,
}

impl Overlay {
    pub(crate) fn new(metadata: Arc<Metadata>) -> Self {
        let len = metadata.superblock().metadata_len.0;
        let state = State { len, below_len: len, chunks: BTreeMap::new() };
        Self { metadata, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds the state")
    }

    /// Reads from the volume; zeroes follow behind its bytes.
    fn read_below(&self, below_len: u64, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let wanted = u64::try_from(out.len()).expect("a length in memory fits");
        let found = below_len.saturating_sub(offset).min(wanted);
        let (from_volume, behind) =
            out.split_at_mut(usize::try_from(found).expect("at most the length in memory"));
        behind.fill(0);
        self.metadata.read(offset, from_volume)
    }
}

/// The parts of a range, divided at multiples of the chunk: the chunk, the offset in it, the length.
fn parts(offset: u64, len: usize) -> impl Iterator<Item = (u64, usize, usize)> {
    let (mut at, mut left) = (offset, len);
    std::iter::from_fn(move || {
        if left == 0 {
            return None;
        }
        let within = usize::try_from(at % CHUNK).expect("less than a chunk");
        let part = left.min(CHUNK_LEN - within);
        let found = (at / CHUNK, within, part);
        at += u64::try_from(part).expect("at most a chunk");
        left -= part;
        Some(found)
    })
}

impl StorageBackend for Overlay {
    fn len(&self) -> io::Result<u64> {
        Ok(self.state().len)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let state = self.state();
        let len = u64::try_from(out.len()).expect("a length in memory fits");
        if offset.checked_add(len).is_none_or(|end| end > state.len) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.read_below(state.below_len, offset, out)?;
        let mut rest = out;
        for (chunk, within, len) in parts(offset, rest.len()) {
            let (part, others) = rest.split_at_mut(len);
            if let Some(bytes) = state.chunks.get(&chunk) {
                part.copy_from_slice(&bytes[within..within + len]);
            }
            rest = others;
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.state();
        state.len = len;
        state.below_len = state.below_len.min(len);
        // Bytes behind the end are zero when it moves back.
        let mut behind = state.chunks.split_off(&(len / CHUNK));
        let last = behind.remove(&(len / CHUNK)).filter(|_| !len.is_multiple_of(CHUNK));
        if let Some(mut bytes) = last {
            bytes[usize::try_from(len % CHUNK).expect("less than a chunk")..].fill(0);
            state.chunks.insert(len / CHUNK, bytes);
        }
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        let below_len = state.below_len;
        let mut rest = data;
        for (chunk, within, len) in parts(offset, rest.len()) {
            let (part, others) = rest.split_at(len);
            let bytes = match state.chunks.entry(chunk) {
                Entry::Occupied(changed) => changed.into_mut(),
                Entry::Vacant(unchanged) => {
                    let mut bytes = vec![0; CHUNK_LEN].into_boxed_slice();
                    self.read_below(below_len, chunk * CHUNK, &mut bytes)?;
                    unchanged.insert(bytes)
                }
            };
            bytes[within..within + len].copy_from_slice(part);
            rest = others;
        }
        Ok(())
    }
}
