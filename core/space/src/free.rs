//! The free space of one device's data area, and the allocation of extents from it.
//!
//! Best fit: a volume gets the smallest free run that holds it whole, which keeps large runs free
//! and one extent per volume the common case. If no run holds it, it is split over the largest
//! runs. Of runs of equal length the first is taken, so that equal requests give equal layouts.
//!
//! Invariants: free runs neither overlap nor touch; every granule of the area is either free or in
//! exactly one extent.

use std::collections::BTreeMap;

use nearflash_units::{ByteLen, ByteOffset};

use crate::{Extent, GRANULE};
use nearflash_device::DeviceId;

/// The free runs of a device's data area.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FreeSpace {
    device: DeviceId,
    start: ByteOffset,
    len: ByteLen,
    /// Start and length of each free run, in bytes.
    runs: BTreeMap<u64, u64>,
}

/// Error: space cannot be allocated or reserved.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum SpaceError {
    /// The device has too little free space.
    #[error("{wanted} requested, {free} free")]
    Full { wanted: ByteLen, free: ByteLen },
    /// The allocation would need more extents than a volume may have.
    #[error("free space is in too many pieces: the largest {extents_max} hold {held} of {wanted}")]
    Fragmented { wanted: ByteLen, held: ByteLen, extents_max: usize },
    /// An extent to reserve is not of whole granules, lies outside the data area, or is already
    /// taken, so two volumes would share blocks.
    #[error("extent at {} of {} lies outside the free space", .0.start.0, .0.len)]
    NotFree(Extent),
}

impl FreeSpace {
    /// A data area that is entirely free; partial granules at its ends are left out.
    pub fn new(device: DeviceId, start: ByteOffset, len: ByteLen) -> Self {
        let end = start.0.saturating_add(len.0) / GRANULE.0 * GRANULE.0;
        let whole_start = start.0.checked_next_multiple_of(GRANULE.0).unwrap_or(end);
        let whole_len = end.saturating_sub(whole_start);
        let runs = (whole_len != 0).then_some((whole_start, whole_len)).into_iter().collect();
        Self { device, start: ByteOffset(whole_start), len: ByteLen(whole_len), runs }
    }

    /// The length of the data area.
    pub fn len(&self) -> ByteLen {
        self.len
    }

    /// The total length of the free runs.
    pub fn free_len(&self) -> ByteLen {
        ByteLen(self.runs.values().sum())
    }

    /// How many extents of this length the free runs hold; `len` is not zero.
    pub fn pieces(&self, len: ByteLen) -> u64 {
        self.runs.values().map(|run| run / len.0).sum()
    }

    /// Marks an extent of a known volume as taken, as when a catalog is read.
    ///
    /// # Errors
    /// When the extent is not free: the catalog is damaged, or belongs to another device.
    pub fn reserve(&mut self, extent: Extent) -> Result<(), SpaceError> {
        let refused = SpaceError::NotFree(extent);
        if extent.device != self.device || !extent.is_whole_granules() {
            return Err(refused);
        }
        let (start, len) = (extent.start.0, extent.len.0);
        let run = self.runs.range(..=start).next_back().map(|(s, l)| (*s, *l));
        let (run_start, run_len) = run.ok_or(refused)?;
        if start + len > run_start + run_len {
            return Err(refused);
        }
        self.take(run_start, start, len);
        Ok(())
    }

    /// Takes extents for `len` bytes, rounded up to granules, at most `extents_max` of them. If
    /// `after` is given and the space after it is free, the first extent continues there.
    ///
    /// # Errors
    /// When too little is free, or only in more than `extents_max` pieces. Then nothing is taken.
    pub fn allocate(
        &mut self,
        len: ByteLen,
        after: Option<Extent>,
        extents_max: usize,
    ) -> Result<Vec<Extent>, SpaceError> {
        let full = |wanted| SpaceError::Full { wanted, free: self.free_len() };
        let wanted = len.0.checked_next_multiple_of(GRANULE.0).map(ByteLen).ok_or(full(len))?;
        if wanted > self.free_len() {
            return Err(full(wanted));
        }
        let mut planned: Vec<(u64, u64)> = Vec::new();
        let mut missing = wanted.0;
        let behind = after.filter(|a| a.device == self.device).and_then(|a| a.end());
        if let Some((start, run_len)) = behind.and_then(|end| self.runs.get_key_value(&end.0)) {
            planned.push((*start, missing.min(*run_len)));
            missing -= missing.min(*run_len);
        }
        let in_place = planned.first().map(|(start, _)| *start);
        self.plan(missing, in_place, &mut planned);
        // The extent that continues `after` is joined to it, so it adds none.
        let joined = usize::from(in_place.is_some());
        if planned.len() > extents_max.saturating_add(joined) {
            planned.truncate(extents_max.saturating_add(joined));
            let held = ByteLen(planned.iter().map(|(_, len)| len).sum());
            return Err(SpaceError::Fragmented { wanted, held, extents_max });
        }
        for (start, len) in &planned {
            self.take(*start, *start, *len);
        }
        Ok(planned.into_iter().map(|(start, len)| self.extent(start, len)).collect())
    }

    /// The runs from which to take `missing` bytes, except for the one at `used`.
    fn plan(&self, mut missing: u64, used: Option<u64>, planned: &mut Vec<(u64, u64)>) {
        let mut runs: Vec<(u64, u64)> =
            self.runs.iter().filter(|(s, _)| Some(**s) != used).map(|(s, l)| (*s, *l)).collect();
        runs.sort_by_key(|(start, len)| (std::cmp::Reverse(*len), *start));
        for (index, (start, len)) in runs.iter().enumerate() {
            if missing == 0 {
                return;
            }
            if *len < missing {
                planned.push((*start, *len));
                missing -= len;
                continue;
            }
            // This run holds the rest, and a smaller one after it may do so too.
            let fitting = runs[index..].iter().filter(|(_, len)| *len >= missing);
            let best = fitting.map(|(start, len)| (*len, *start)).min();
            planned.push((best.map_or(*start, |(_, start)| start), missing));
            return;
        }
    }

    /// Releases an extent.
    ///
    /// # Panics
    /// When part of it is already free, or it lies outside the area. Otherwise it would get two
    /// owners.
    pub fn release(&mut self, extent: Extent) {
        let inside = extent.device == self.device
            && extent.is_whole_granules()
            && extent.start >= self.start
            && extent.start.0 + extent.len.0 <= self.start.0 + self.len.0;
        assert!(inside, "{extent:?} belongs to this data area");
        let (mut start, mut end) = (extent.start.0, extent.start.0 + extent.len.0);
        if let Some((before_start, before_len)) = self.runs.range(..end).next_back() {
            let before_end = before_start + before_len;
            assert!(before_end <= start, "{extent:?} is given back once");
            if before_end == start {
                start = *before_start;
            }
        }
        if let Some(after_len) = self.runs.remove(&end) {
            end += after_len;
        }
        self.runs.insert(start, end - start);
    }

    fn extent(&self, start: u64, len: u64) -> Extent {
        Extent { device: self.device, start: ByteOffset(start), len: ByteLen(len) }
    }

    /// Takes `len` bytes at `start` out of the free run at `run_start`, which holds them.
    fn take(&mut self, run_start: u64, start: u64, len: u64) {
        let run_len = self.runs.remove(&run_start).expect("the caller found the run");
        if run_start < start {
            self.runs.insert(run_start, start - run_start);
        }
        let rest = (run_start + run_len) - (start + len);
        if rest != 0 {
            self.runs.insert(start + len, rest);
        }
    }
}

/// Appends `fresh` extents to a volume's `extents`, and joins those that touch.
pub fn append_extents(extents: &mut Vec<Extent>, fresh: &[Extent]) {
    for extent in fresh {
        match extents.last_mut() {
            Some(last) if last.device == extent.device && last.end() == Some(extent.start) => {
                last.len.0 += extent.len.0;
            }
            _ => extents.push(*extent),
        }
    }
}

/// Shortens a volume's `extents` to `len` bytes, rounded up to granules; returns the removed
/// extents, which the caller releases. Does nothing if they are not longer.
pub fn truncate_extents(extents: &mut Vec<Extent>, len: ByteLen) -> Vec<Extent> {
    let mut kept = len.0.checked_next_multiple_of(GRANULE.0).unwrap_or(u64::MAX);
    let mut cut = Vec::new();
    extents.retain_mut(|extent| {
        let keep = kept.min(extent.len.0);
        kept -= keep;
        if keep < extent.len.0 {
            let start = ByteOffset(extent.start.0 + keep);
            cut.push(Extent { start, len: ByteLen(extent.len.0 - keep), ..*extent });
        }
        extent.len = ByteLen(keep);
        keep != 0
    });
    cut
}

#[cfg(test)]
mod tests;
