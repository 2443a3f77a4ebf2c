//! The storage backend: reads that are checked, and writes that keep the checksums.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use redb::StorageBackend;

use crate::Damage;
use crate::header::{HEADER_AREA_LEN, HEADER_LEN, Header};
use crate::layout::{BLOCK, BLOCK_LEN, SUMS, below_len, len_above, place, sums_offset};

/// The bit of a checksum that says that its block was written.
const WRITTEN: u64 = 1 << 32;

/// A store over another one, with a checksum for each block.
#[derive(Debug)]
pub struct Guarded<B> {
    below: B,
    state: RwLock<State>,
}

#[derive(Debug, Default)]
struct State {
    /// `None` before it is read, or written for the first time.
    header: Option<Header>,
    /// Whether the header is known to be durable: then the other copy may be written.
    is_header_durable: bool,
    /// The checksums of groups that were used, by the number of the group.
    sums: BTreeMap<u64, Sums>,
}

/// The checksums of a group.
#[derive(Debug)]
struct Sums {
    of: Box<[u64]>,
    /// Whether they have changed since they were read or written.
    is_changed: bool,
}

impl Sums {
    fn decode(bytes: &[u8]) -> Self {
        let chunks = bytes.as_chunks().0.iter();
        Self { of: chunks.map(|chunk| u64::from_le_bytes(*chunk)).collect(), is_changed: false }
    }

    fn encode(&self) -> Vec<u8> {
        self.of.iter().flat_map(|sum| sum.to_le_bytes()).collect()
    }
}

/// The checksum of a block that was written. The number is part of it, so that a block at the place of another
/// one is noticed.
fn sum(block: u64, bytes: &[u8]) -> u64 {
    let seed = crc32c::crc32c(&block.to_le_bytes());
    u64::from(crc32c::crc32c_append(seed, bytes)) | WRITTEN
}

fn wide(len: usize) -> u64 {
    u64::try_from(len).expect("usize is at most 64 bits wide")
}

/// A part of a range: bytes of the header, of a block, or adjacent whole blocks.
struct Part {
    block: u64,
    /// The first byte of the block.
    within: usize,
    len: usize,
}

/// Divides a range at the ends of groups, and at blocks of which it has a part alone.
fn parts(offset: u64, len: usize) -> impl Iterator<Item = Part> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let (at, left) = (offset + wide(done), len - done);
        if left == 0 {
            return None;
        }
        let (block, within) = (at / BLOCK, usize::try_from(at % BLOCK).expect("less than 4096"));
        let in_block = left.min(BLOCK_LEN - within);
        let len = if block == 0 || in_block < BLOCK_LEN {
            in_block
        } else {
            let in_group = (SUMS - (block - 1) % SUMS) * BLOCK;
            let whole = left / BLOCK_LEN * BLOCK_LEN;
            usize::try_from(in_group).map_or(whole, |in_group| whole.min(in_group))
        };
        done += len;
        Some(Part { block, within, len })
    })
}

impl<B: StorageBackend> Guarded<B> {
    /// The store over `below`, which is empty or has one already.
    pub fn new(below: B) -> Self {
        Self { below, state: RwLock::default() }
    }

    #[cfg(test)]
    pub(crate) fn below(&self) -> &B {
        &self.below
    }

    fn state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn state_mut(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the header, or the checksums of the group of a block, unless they are known.
    fn load(&self, state: &mut State, block: u64) -> io::Result<()> {
        if block == 0 {
            if state.header.is_none() {
                let mut area = [0; HEADER_AREA_LEN];
                self.below.read(0, &mut area)?;
                state.header = Some(Header::newest(&area).ok_or(Damage::Header)?);
            }
            return Ok(());
        }
        let group = place(block).group;
        if let Entry::Vacant(unknown) = state.sums.entry(group) {
            let mut bytes = vec![0; BLOCK_LEN];
            self.below.read(sums_offset(group), &mut bytes)?;
            unknown.insert(Sums::decode(&bytes));
        }
        Ok(())
    }

    /// The state with what a read of this block needs.
    fn loaded(&self, block: u64) -> io::Result<RwLockReadGuard<'_, State>> {
        loop {
            let state = self.state();
            let is_known = match block {
                0 => state.header.is_some(),
                _ => state.sums.contains_key(&place(block).group),
            };
            if is_known {
                return Ok(state);
            }
            drop(state);
            self.load(&mut self.state_mut(), block)?;
        }
    }

    fn read_part(&self, part: &Part, out: &mut [u8]) -> io::Result<()> {
        // Held until the bytes are read, so that they and their checksums are of the same write.
        let state = self.loaded(part.block)?;
        if part.block == 0 {
            let header = state.header.as_ref().map_or(&[][..], |header| &header.bytes);
            let bytes = header.get(part.within..).unwrap_or_default();
            let known = bytes.len().min(out.len());
            out[..known].copy_from_slice(&bytes[..known]);
            // `redb` has nothing in the rest of this block.
            out[known..].fill(0);
            return Ok(());
        }
        let place = place(part.block);
        let sums = &state.sums[&place.group].of[place.index..];
        if part.len.is_multiple_of(BLOCK_LEN) {
            self.below.read(place.offset, out)?;
            return check(part.block, out, sums);
        }
        let mut whole = vec![0; BLOCK_LEN];
        self.below.read(place.offset, &mut whole)?;
        check(part.block, &whole, sums)?;
        out.copy_from_slice(&whole[part.within..part.within + part.len]);
        Ok(())
    }

    fn write_header(&self, within: usize, data: &[u8]) -> io::Result<()> {
        let mut state = self.state_mut();
        // The first header of a new store; a store that has one was read before.
        let known = state.header.unwrap_or(Header { generation: 0, bytes: [0; HEADER_LEN] });
        if state.header.is_some() && !state.is_header_durable {
            self.below.sync_data()?;
        }
        let mut next = Header { generation: known.generation + 1, ..known };
        let end = within + data.len();
        let place = next.bytes.get_mut(within..end).ok_or(io::ErrorKind::InvalidInput)?;
        place.copy_from_slice(data);
        self.below.write(next.offset(), &next.encode())?;
        (state.header, state.is_header_durable) = (Some(next), false);
        Ok(())
    }

    fn write_part(&self, part: &Part, data: &[u8]) -> io::Result<()> {
        if part.block == 0 {
            return self.write_header(part.within, data);
        }
        if !part.len.is_multiple_of(BLOCK_LEN) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let place = place(part.block);
        let mut state = self.state_mut();
        self.load(&mut state, part.block)?;
        self.below.write(place.offset, data)?;
        let sums = state.sums.get_mut(&place.group).expect("they were just loaded");
        let blocks = part.block..;
        for ((known, bytes), block) in
            sums.of[place.index..].iter_mut().zip(data.chunks(BLOCK_LEN)).zip(blocks)
        {
            *known = sum(block, bytes);
        }
        sums.is_changed = true;
        Ok(())
    }

    fn is_within(&self, offset: u64, len: usize) -> io::Result<bool> {
        let len_now = self.len()?;
        Ok(offset.checked_add(wide(len)).is_some_and(|end| end <= len_now))
    }
}

/// Checks whole blocks.
fn check(first: u64, bytes: &[u8], sums: &[u64]) -> io::Result<()> {
    for ((bytes, known), block) in bytes.chunks(BLOCK_LEN).zip(sums).zip(first..) {
        if sum(block, bytes) != *known {
            return Err(Damage::Block { block }.into());
        }
    }
    Ok(())
}

impl<B: StorageBackend> StorageBackend for Guarded<B> {
    fn len(&self) -> io::Result<u64> {
        let below = self.below.len()?;
        len_above(below).ok_or_else(|| Damage::Len { len: below }.into())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        if !self.is_within(offset, out.len())? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut rest = out;
        for part in parts(offset, rest.len()) {
            let (bytes, others) = rest.split_at_mut(part.len);
            self.read_part(&part, bytes)?;
            rest = others;
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let below = below_len(len).ok_or(io::ErrorKind::InvalidInput)?;
        let mut state = self.state_mut();
        self.below.set_len(below)?;
        // The checksums of groups behind the end are gone.
        let groups = (len / BLOCK).saturating_sub(1).div_ceil(SUMS);
        state.sums.split_off(&groups);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.state_mut();
        for (group, sums) in state.sums.iter_mut().filter(|(_, sums)| sums.is_changed) {
            self.below.write(sums_offset(*group), &sums.encode())?;
            sums.is_changed = false;
        }
        self.below.sync_data()?;
        state.is_header_durable = true;
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        if !self.is_within(offset, data.len())? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut rest = data;
        for part in parts(offset, data.len()) {
            let (bytes, others) = rest.split_at(part.len);
            self.write_part(&part, bytes)?;
            rest = others;
        }
        Ok(())
    }

    fn close(&self) -> io::Result<()> {
        self.below.close()
    }
}
