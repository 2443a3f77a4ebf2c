//! The map of a volume: the device and the bytes of each of its blocks.
//!
//! A map is made of *rows*, in the order of the volume's blocks. A row has as many extents as the
//! map is *wide*, all of one length, which hold the row's *stripe units* in turn: with the width W
//! and the unit U, the byte at `o` of a row is in its stripe unit `s = o / U`, which lies on extent
//! `s mod W` at `s / W * U`. With a width of one, a row is one extent.
//!
//! Rows may differ in length, so that a volume grows by a row of any length. A row is found by a
//! search over their starts, which costs no more than a division by their length would; a volume of
//! one row needs neither.
//!
//! Invariants: a map never changes (a changed layout is a new map of a later epoch); its rows are
//! without gaps, and hold at least all blocks; no block is in two stripe units.

mod rows;
#[cfg(test)]
mod tests;

use nearflash_request::BlockRange;
use nearflash_units::{BlockSize, Blocks, ByteLen, ByteOffset, KIB, index};

use crate::{Extent, GRANULE};
use nearflash_device::DeviceId;

pub use rows::{RowPart, Rows};

/// The maximum number of extents of a volume: bounds the catalog's records and the work of one
/// change.
pub const EXTENTS_PER_VOLUME_MAX: usize = 4096;

/// The maximum number of extents of a row.
pub const STRIPE_WIDTH_MAX: u32 = 64;

/// The shortest stripe unit.
pub const STRIPE_UNIT_MIN: ByteLen = ByteLen(4 * KIB);

/// The longest stripe unit. An extent holds whole ones.
pub const STRIPE_UNIT_MAX: ByteLen = GRANULE;

/// The number of the volume's layout; grows with each change.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Epoch(pub u64);

/// The form of a map's rows.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Stripes {
    /// The number of extents of a row, at most [`STRIPE_WIDTH_MAX`]. They may share devices.
    pub width: u32,
    /// The number of bytes that lie on one extent before the next one follows: a power of two from
    /// [`STRIPE_UNIT_MIN`] to [`STRIPE_UNIT_MAX`].
    pub unit: ByteLen,
    /// The largest block size of the devices. The unit holds whole blocks of it.
    pub device_block_size: BlockSize,
}

impl Stripes {
    /// Rows of one extent each. Their unit has no effect.
    pub const NONE: Self = Self { width: 1, unit: GRANULE, device_block_size: BlockSize::B512 };

    /// Checks the width and the unit, for a volume of such blocks.
    fn check(self, block_size: BlockSize) -> Result<(), MapError> {
        let Self { width, unit, device_block_size } = self;
        if !(1..=STRIPE_WIDTH_MAX).contains(&width) {
            return Err(MapError::StripeWidth(width));
        }
        if !unit.0.is_power_of_two() || !(STRIPE_UNIT_MIN..=STRIPE_UNIT_MAX).contains(&unit) {
            return Err(MapError::StripeUnit(unit));
        }
        let block_size = block_size.max(device_block_size);
        if unit.0 < u64::from(block_size.bytes()) {
            return Err(MapError::StripeUnitBelowBlock { unit, block_size });
        }
        Ok(())
    }
}

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
    /// A width of zero or more than [`STRIPE_WIDTH_MAX`].
    #[error("a stripe width of {0}: choose 1 to {STRIPE_WIDTH_MAX}")]
    StripeWidth(u32),
    /// Not a power of two from [`STRIPE_UNIT_MIN`] to [`STRIPE_UNIT_MAX`].
    #[error(
        "a stripe unit of {0}: choose a power of two from {STRIPE_UNIT_MIN} to {STRIPE_UNIT_MAX}"
    )]
    StripeUnit(ByteLen),
    /// Some blocks would be in two stripe units.
    #[error(
        "a stripe unit of {unit} is smaller than a block of {block_size} bytes of the volume or a \
         device: choose a unit of at least one block"
    )]
    StripeUnitBelowBlock { unit: ByteLen, block_size: BlockSize },
    /// The last row lacks extents.
    #[error("{extents} extents do not form whole rows of {width}")]
    RowNotFull { extents: usize, width: u32 },
    /// The extents of a row differ in length.
    #[error("extent {0} is not as long as the first of its row")]
    RowUneven(usize),
}

/// An extent, and the offset of its row in the volume.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Placed {
    row_offset: u64,
    extent: Extent,
}

/// The immutable description of a volume's layout.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Map {
    epoch: Epoch,
    block_size: BlockSize,
    blocks: Blocks,
    /// Row by row.
    placed: Box<[Placed]>,
    shape: Shape,
    devices: Box<[DeviceId]>,
}

/// The form of rows, as the data path needs it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Shape {
    /// Extents of a row; never zero.
    width: u32,
    /// The stripe unit, as a power of two.
    unit_shift: u32,
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
        Self::striped(epoch, (block_size, blocks), Stripes::NONE, extents)
    }

    /// The map of a volume of so many blocks of that size, striped over each row of `extents`.
    ///
    /// # Errors
    /// When the form of the rows is not valid, the extents are not rows of that form, or they
    /// cannot hold the volume.
    pub fn striped(
        epoch: Epoch,
        (block_size, blocks): (BlockSize, Blocks),
        stripes: Stripes,
        extents: &[Extent],
    ) -> Result<Self, MapError> {
        if extents.len() > EXTENTS_PER_VOLUME_MAX {
            return Err(MapError::TooManyExtents(extents.len()));
        }
        stripes.check(block_size)?;
        let wanted = block_size.len(blocks).ok_or(MapError::TooLarge)?;
        let (placed, held) = place(extents, stripes.width)?;
        if held < wanted {
            return Err(MapError::TooShort { held, wanted });
        }
        let mut devices: Vec<DeviceId> = extents.iter().map(|extent| extent.device).collect();
        devices.sort_unstable();
        devices.dedup();
        let (placed, devices) = (placed.into_boxed_slice(), devices.into_boxed_slice());
        let shape = Shape { width: stripes.width, unit_shift: stripes.unit.0.trailing_zeros() };
        Ok(Self { epoch, block_size, blocks, placed, shape, devices })
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

    /// The extents, row by row in the order of the volume's blocks.
    pub fn extents(&self) -> impl ExactSizeIterator<Item = Extent> + '_ {
        self.placed.iter().map(|placed| placed.extent)
    }

    /// The devices that hold a part of the volume, each once. A flush must reach all of them.
    pub fn devices(&self) -> impl ExactSizeIterator<Item = DeviceId> + '_ {
        self.devices.iter().copied()
    }

    /// The pieces of a range, in order and without gaps; `None` when the range ends past the
    /// volume's end. An empty range has no pieces. One row, the common case, costs no search.
    ///
    /// In a striped row, each stripe unit has a piece of its own, even if two of them meet on the
    /// device: their bytes do not follow each other in the volume.
    #[inline]
    pub fn locate(&self, range: BlockRange) -> Option<Pieces<'_>> {
        let (offset, remaining) = self.bytes_of(range)?;
        Some(Pieces { placed: self.rows_from(offset), shape: self.shape, offset, remaining })
    }

    /// The place of a range that is a single piece; `None` for any other range.
    #[inline]
    pub fn locate_whole(&self, range: BlockRange) -> Option<Piece> {
        let (offset, len) = self.bytes_of(range)?;
        let (placed, skip, held) = match &*self.placed {
            // One extent holds all blocks.
            [only] => (only, offset, len),
            _ => self.shape.find(self.rows_from(offset), offset)?,
        };
        (len != 0 && len <= held).then(|| placed.piece(skip, len))
    }

    /// The parts of a range in each row, in order; `None` when the range ends past the volume's
    /// end. Their runs are the pieces of [`Self::locate`], with those joined that meet on a device:
    /// at most one for each extent, however long the range is.
    #[inline]
    pub fn rows(&self, range: BlockRange) -> Option<Rows<'_>> {
        let (offset, remaining) = self.bytes_of(range)?;
        Some(Rows { placed: self.rows_from(offset), shape: self.shape, offset, remaining })
    }

    /// The offset and the length of a range in bytes; `None` when it ends past the volume's end.
    #[inline]
    fn bytes_of(&self, range: BlockRange) -> Option<(u64, u64)> {
        if !self.blocks.contains(range.start, range.count) {
            return None;
        }
        Some((self.block_size.offset(range.start)?.0, self.block_size.len(range.count)?.0))
    }

    /// The extents from the row on that holds this offset.
    #[inline]
    fn rows_from(&self, offset: u64) -> &[Placed] {
        let width = index(self.shape.width);
        if self.placed.len() == width {
            return &self.placed;
        }
        // The first row begins at 0, so that at least one begins at or before the offset. Without
        // rows, the difference wraps, and nothing begins there.
        let end = self.placed.partition_point(|placed| placed.row_offset <= offset);
        self.placed.get(end.wrapping_sub(width)..).unwrap_or_default()
    }
}

/// Each extent with its row's offset, and the length of all of them.
fn place(extents: &[Extent], width: u32) -> Result<(Vec<Placed>, ByteLen), MapError> {
    let mut held = ByteLen(0);
    let mut placed = Vec::with_capacity(extents.len());
    for (row, extents_of_row) in extents.chunks(index(width)).enumerate() {
        let row_offset = held.0;
        for (place, &extent) in extents_of_row.iter().enumerate() {
            let number = row * index(width) + place;
            if !extent.is_whole_granules() {
                return Err(MapError::ExtentNotWhole(number));
            }
            if extent.len != extents_of_row[0].len {
                return Err(MapError::RowUneven(number));
            }
            placed.push(Placed { row_offset, extent });
            held = held.0.checked_add(extent.len.0).map(ByteLen).ok_or(MapError::TooLarge)?;
        }
    }
    if !extents.len().is_multiple_of(index(width)) {
        return Err(MapError::RowNotFull { extents: extents.len(), width });
    }
    Ok((placed, held))
}

impl Placed {
    /// The piece of these bytes of the extent.
    #[inline]
    fn piece(&self, within: u64, len: u64) -> Piece {
        let Extent { device, start, .. } = self.extent;
        Piece { device, offset: ByteOffset(start.0 + within), len: ByteLen(len) }
    }
}

impl Shape {
    #[inline]
    fn is_striped(self) -> bool {
        self.width > 1
    }

    /// The length of a row of extents of that length.
    #[inline]
    fn row_len(self, extent_len: ByteLen) -> u64 {
        extent_len.0 * u64::from(self.width)
    }

    /// The extent of a byte of the volume, its offset there, and the number of bytes that follow
    /// each other there. The first row of `placed` holds the byte.
    #[inline]
    fn find(self, placed: &[Placed], offset: u64) -> Option<(&Placed, u64, u64)> {
        let first = placed.first()?;
        let within = offset - first.row_offset;
        if !self.is_striped() {
            return Some((first, within, first.extent.len.0 - within));
        }
        let width = u64::from(self.width);
        let (number, skip) = (within >> self.unit_shift, within & (self.unit() - 1));
        #[allow(clippy::cast_possible_truncation, reason = "less than the width")]
        let extent = placed.get(index((number % width) as u32))?;
        Some((extent, ((number / width) << self.unit_shift) + skip, self.unit() - skip))
    }

    #[inline]
    fn unit(self) -> u64 {
        1 << self.unit_shift
    }
}

/// The pieces of a range, from [`Map::locate`].
#[derive(Clone, Debug)]
pub struct Pieces<'a> {
    /// The extents from the row on that holds `offset`.
    placed: &'a [Placed],
    shape: Shape,
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
        let (placed, skip, held) = self.shape.find(self.placed, self.offset)?;
        let len = self.remaining.min(held);
        self.offset += len;
        self.remaining -= len;
        let row_end = placed.row_offset + self.shape.row_len(placed.extent.len);
        if self.offset == row_end {
            self.placed = self.placed.get(index(self.shape.width)..).unwrap_or_default();
        }
        Some(placed.piece(skip, len))
    }
}

impl std::iter::FusedIterator for Pieces<'_> {}
