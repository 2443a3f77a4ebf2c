//! The map of a volume: the device and the bytes of each of its blocks.
//!
//! Invariants: a map never changes (a changed layout is a new map of a later epoch); its extents
//! are in the order of the volume's blocks, without gaps, and hold at least all blocks.

use nearflash_request::BlockRange;
use nearflash_units::{BlockSize, Blocks, ByteLen, ByteOffset};

use crate::Extent;
use nearflash_device::DeviceId;

/// The maximum number of extents of a volume: bounds the catalog's records and the work of one
/// change.
pub const EXTENTS_PER_VOLUME_MAX: usize = 4096;

/// The number of the volume's layout; grows with each change.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Epoch(pub u64);

/// Error: extents do not form a valid map.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum MapError {
    /// More extents than [`EXTENTS_PER_VOLUME_MAX`].
    #[error("{0} extents, at most {EXTENTS_PER_VOLUME_MAX}")]
    TooManyExtents(usize),
    /// An extent is empty or not of whole granules.
    #[error("extent {0} is not of whole granules")]
    ExtentNotWhole(usize),
    /// The extents are shorter than the volume.
    #[error("extents hold {held}, the volume {wanted} bytes")]
    TooShort { held: ByteLen, wanted: ByteLen },
    /// The volume's size in bytes is beyond the address space.
    #[error("the volume exceeds the address space")]
    TooLarge,
}

/// An extent, and its offset in the volume.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Placed {
    volume_offset: u64,
    extent: Extent,
}

/// The immutable description of a volume's layout.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Map {
    epoch: Epoch,
    block_size: BlockSize,
    blocks: Blocks,
    placed: Box<[Placed]>,
    devices: Box<[DeviceId]>,
}

/// A part of a block range that lies in one run on one device.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Piece {
    /// Which device.
    pub device: DeviceId,
    /// Where on the device.
    pub offset: ByteOffset,
    /// How long; never zero.
    pub len: ByteLen,
}

impl Map {
    /// The map of a volume of `blocks` blocks, laid out over `extents` in order.
    ///
    /// # Errors
    /// When the extents cannot hold the volume, or are not valid, as in a damaged catalog.
    pub fn new(
        epoch: Epoch,
        block_size: BlockSize,
        blocks: Blocks,
        extents: &[Extent],
    ) -> Result<Self, MapError> {
        if extents.len() > EXTENTS_PER_VOLUME_MAX {
            return Err(MapError::TooManyExtents(extents.len()));
        }
        let wanted = block_size.len(blocks).ok_or(MapError::TooLarge)?;
        let mut held = 0u64;
        let mut placed = Vec::with_capacity(extents.len());
        for (index, &extent) in extents.iter().enumerate() {
            if !extent.is_whole_granules() {
                return Err(MapError::ExtentNotWhole(index));
            }
            placed.push(Placed { volume_offset: held, extent });
            held = held.checked_add(extent.len.0).ok_or(MapError::TooLarge)?;
        }
        if held < wanted.0 {
            return Err(MapError::TooShort { held: ByteLen(held), wanted });
        }
        let mut devices: Vec<DeviceId> = extents.iter().map(|extent| extent.device).collect();
        devices.sort_unstable();
        devices.dedup();
        let (placed, devices) = (placed.into_boxed_slice(), devices.into_boxed_slice());
        Ok(Self { epoch, block_size, blocks, placed, devices })
    }

    /// Which of the volume's layouts this is.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The size of the volume's blocks.
    pub fn block_size(&self) -> BlockSize {
        self.block_size
    }

    /// How many blocks the volume has.
    pub fn blocks(&self) -> Blocks {
        self.blocks
    }

    /// The extents, in the order of the volume's blocks.
    pub fn extents(&self) -> impl ExactSizeIterator<Item = Extent> + '_ {
        self.placed.iter().map(|placed| placed.extent)
    }

    /// The devices that hold a part of the volume, each once. A flush must reach all of them.
    pub fn devices(&self) -> impl ExactSizeIterator<Item = DeviceId> + '_ {
        self.devices.iter().copied()
    }

    /// The pieces of a range, in order and without gaps; `None` when the range ends past the
    /// volume's end. An empty range has no pieces. One extent, the common case, costs no search.
    #[inline]
    pub fn locate(&self, range: BlockRange) -> Option<Pieces<'_>> {
        if !self.blocks.contains(range.start, range.count) {
            return None;
        }
        let offset = self.block_size.offset(range.start)?.0;
        let remaining = self.block_size.len(range.count)?.0;
        let first = match &*self.placed {
            [_] => 0,
            // The first extent begins at 0, so that at least one begins at or before the offset.
            many => many.partition_point(|p| p.volume_offset <= offset).saturating_sub(1),
        };
        Some(Pieces { placed: self.placed.get(first..).unwrap_or_default(), offset, remaining })
    }

    /// The place of a range that is a single piece; `None` for any other range.
    #[inline]
    pub fn locate_whole(&self, range: BlockRange) -> Option<Piece> {
        let mut pieces = self.locate(range)?;
        pieces.next().filter(|_| pieces.remaining == 0)
    }
}

/// The pieces of a range, from [`Map::locate`].
#[derive(Clone, Debug)]
pub struct Pieces<'a> {
    /// The extent that holds `offset`, and all after it.
    placed: &'a [Placed],
    /// The offset of the next piece in the volume.
    offset: u64,
    remaining: u64,
}

impl Iterator for Pieces<'_> {
    type Item = Piece;

    #[inline]
    fn next(&mut self) -> Option<Piece> {
        if self.remaining == 0 {
            return None;
        }
        let (placed, rest) = self.placed.split_first()?;
        let within = self.offset - placed.volume_offset;
        let len = self.remaining.min(placed.extent.len.0 - within);
        self.placed = rest;
        self.offset += len;
        self.remaining -= len;
        Some(Piece {
            device: placed.extent.device,
            offset: ByteOffset(placed.extent.start.0 + within),
            len: ByteLen(len),
        })
    }
}

impl std::iter::FusedIterator for Pieces<'_> {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::GRANULE;
    use nearflash_units::Lba;
    use proptest::prelude::*;

    fn extent(device: u32, start_granule: u64, granules: u64) -> Extent {
        Extent {
            device: DeviceId(device),
            start: ByteOffset(start_granule * GRANULE.0),
            len: ByteLen(granules * GRANULE.0),
        }
    }

    fn range(start: u64, count: u64) -> BlockRange {
        BlockRange { start: Lba(start), count: Blocks(count) }
    }

    #[test]
    fn a_range_in_one_extent_is_one_piece() {
        let map = Map::new(Epoch(1), BlockSize::B4096, Blocks(512), &[extent(3, 1, 2)]).unwrap();
        let pieces: Vec<Piece> = map.locate(range(10, 2)).unwrap().collect();
        let offset = ByteOffset(GRANULE.0 + 10 * 4096);
        assert_eq!(pieces, [Piece { device: DeviceId(3), offset, len: ByteLen(8192) }]);
    }

    #[test]
    fn a_range_past_the_end_is_refused_and_an_empty_one_has_no_pieces() {
        let map = Map::new(Epoch(1), BlockSize::B4096, Blocks(10), &[extent(0, 1, 1)]).unwrap();
        assert!(map.locate(range(9, 2)).is_none());
        assert!(map.locate(range(u64::MAX, 2)).is_none());
        assert_eq!(map.locate(range(10, 0)).unwrap().count(), 0);
        let none = Map::new(Epoch(1), BlockSize::B4096, Blocks(0), &[]).unwrap();
        assert_eq!(none.locate(range(0, 0)).unwrap().count(), 0);
        assert!(none.locate(range(0, 1)).is_none());
    }

    #[test]
    fn extents_that_cannot_hold_the_volume_make_no_map() {
        let make = |blocks, extents: &[Extent]| {
            Map::new(Epoch(1), BlockSize::B4096, Blocks(blocks), extents).unwrap_err()
        };
        let refused = make(257, &[extent(0, 1, 1)]);
        assert!(matches!(refused, MapError::TooShort { .. }));
        let misaligned = Extent { start: ByteOffset(512), ..extent(0, 0, 1) };
        assert_eq!(make(1, &[misaligned]), MapError::ExtentNotWhole(0));
        assert_eq!(make(1, &[extent(0, 1, 0)]), MapError::ExtentNotWhole(0));
        assert_eq!(make(u64::MAX, &[]), MapError::TooLarge);
        let many = vec![extent(0, 1, 1); EXTENTS_PER_VOLUME_MAX + 1];
        assert_eq!(make(1, &many), MapError::TooManyExtents(many.len()));
    }

    /// The place of each block, one by one. [`Map::locate`] must agree with it.
    fn naive(extents: &[Extent], block_size: BlockSize) -> Vec<(DeviceId, u64)> {
        let step = u64::from(block_size.bytes());
        let blocks = |e: &Extent| {
            let e = *e;
            (0..e.len.0 / step).map(move |i| (e.device, e.start.0 + i * step))
        };
        extents.iter().flat_map(blocks).collect()
    }

    proptest! {
        /// The layout is a bijection: each block of a range appears once, in order, at the place
        /// that the naive model gives.
        #[test]
        fn every_block_of_a_range_is_located_once_and_in_order(
            lens in prop::collection::vec(1u64..4, 1..6),
            start in 0u64..600, count in 0u64..600,
        ) {
            let extents: Vec<Extent> =
                lens.iter().zip(0u32..).map(|(&n, i)| extent(i % 2, u64::from(i) * 7 + 1, n)).collect();
            let model = naive(&extents, BlockSize::B4096);
            let blocks = Blocks(u64::try_from(model.len()).unwrap() - 3);
            let map = Map::new(Epoch(1), BlockSize::B4096, blocks, &extents).unwrap();
            let located = map.locate(range(start, count));
            prop_assert_eq!(located.is_some(), start + count <= blocks.0);
            if let Some(pieces) = located {
                let (mut first, whole) = (pieces.clone(), map.locate_whole(range(start, count)));
                prop_assert_eq!(whole, first.next().filter(|_| first.next().is_none()));
                let found: Vec<(DeviceId, u64)> = pieces
                    .flat_map(|p| (0..p.len.0 / 4096).map(move |i| (p.device, p.offset.0 + i * 4096)))
                    .collect();
                let (start, count) = (usize::try_from(start).unwrap(), usize::try_from(count).unwrap());
                prop_assert_eq!(&found[..], &model[start..start + count]);
            }
        }
    }
}
