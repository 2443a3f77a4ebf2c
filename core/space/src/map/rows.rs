//! A range by rows and extents, for operations to which the order of the bytes does not matter.

use nearflash_units::{ByteLen, index};

use super::{Piece, Placed, Shape};

/// The parts of a range in each row, from [`Map::rows`](super::Map::rows).
#[derive(Clone, Debug)]
pub struct Rows<'a> {
    /// The extents from the row on that holds `offset`.
    pub(super) placed: &'a [Placed],
    pub(super) shape: Shape,
    /// The offset of the next part in the volume.
    pub(super) offset: u64,
    pub(super) remaining: u64,
}

/// The part of a range that lies in one row.
#[derive(Clone, Copy, Debug)]
pub struct RowPart<'a> {
    row: &'a [Placed],
    shape: Shape,
    /// Its first byte, from the start of the row.
    start: u64,
    /// The byte behind its last one.
    end: u64,
}

impl<'a> Iterator for Rows<'a> {
    type Item = RowPart<'a>;

    #[inline]
    fn next(&mut self) -> Option<RowPart<'a>> {
        if self.remaining == 0 {
            return None;
        }
        let (row, rest) = self.placed.split_at_checked(index(self.shape.width))?;
        let first = row.first()?;
        let start = self.offset - first.row_offset;
        let len = self.remaining.min(self.shape.row_len(first.extent.len) - start);
        self.placed = rest;
        self.offset += len;
        self.remaining -= len;
        Some(RowPart { row, shape: self.shape, start, end: start + len })
    }
}

impl std::iter::FusedIterator for Rows<'_> {}

impl<'a> RowPart<'a> {
    /// The length; never zero.
    pub fn len(&self) -> ByteLen {
        ByteLen(self.end - self.start)
    }

    /// The run of bytes on each extent that holds a part of it, in the order of the extents.
    pub fn runs(&self) -> impl Iterator<Item = Piece> + use<'a> {
        let (start, end) = (self.shape.cut(self.start), self.shape.cut(self.end));
        (0_u64..).zip(self.row).filter_map(move |(extent, placed)| {
            let (start, end) = (start.on(extent), end.on(extent));
            (start < end).then(|| placed.piece(start, end - start))
        })
    }
}

/// The bytes of a row before some offset, as whole stripes and a part of the next one.
#[derive(Clone, Copy, Debug)]
struct Cut {
    /// The bytes of the whole stripes on each extent.
    whole: u64,
    /// The bytes of the next stripe.
    part: u64,
    unit: u64,
}

impl Shape {
    #[inline]
    fn cut(self, within: u64) -> Cut {
        if !self.is_striped() {
            return Cut { whole: within, part: 0, unit: 0 };
        }
        let stripe_len = self.unit() * u64::from(self.width);
        let (stripes, part) = (within / stripe_len, within % stripe_len);
        Cut { whole: stripes * self.unit(), part, unit: self.unit() }
    }
}

impl Cut {
    /// The number of these bytes that lie on one extent of the row.
    #[inline]
    fn on(self, extent: u64) -> u64 {
        self.whole + self.part.saturating_sub(extent * self.unit).min(self.unit)
    }
}
