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

fn stripes(width: u32, unit: u64) -> Stripes {
    Stripes { width, unit: ByteLen(unit), device_block_size: BlockSize::B512 }
}

#[test]
fn rows_of_an_invalid_form_make_no_map() {
    let row = [extent(0, 1, 2), extent(1, 1, 2), extent(2, 1, 2)];
    let make = |stripes, extents: &[Extent]| {
        let size = (BlockSize::B4096, Blocks(1));
        Map::striped(Epoch(1), size, stripes, extents).unwrap_err()
    };
    for width in [0, STRIPE_WIDTH_MAX + 1, u32::MAX] {
        assert_eq!(make(stripes(width, 65536), &row), MapError::StripeWidth(width));
    }
    for unit in [0, 2048, 12288, 2 * GRANULE.0, u64::MAX] {
        assert_eq!(make(stripes(3, unit), &row), MapError::StripeUnit(ByteLen(unit)));
    }
    let block_size = BlockSize::from_bytes(16384).unwrap();
    let coarse = Stripes { device_block_size: block_size, ..stripes(3, 8192) };
    let refused = MapError::StripeUnitBelowBlock { unit: ByteLen(8192), block_size };
    assert_eq!(make(coarse, &row), refused);
    let width = 3;
    let refused = MapError::RowNotFull { extents: 2, width };
    assert_eq!(make(stripes(width, 8192), &row[..2]), refused);
    let uneven = [row[0], row[1], extent(2, 1, 1)];
    assert_eq!(make(stripes(width, 8192), &uneven), MapError::RowUneven(2));
    let huge = Extent { start: ByteOffset(0), len: ByteLen(1 << 63), ..row[0] };
    assert_eq!(make(stripes(2, 8192), &[huge, huge]), MapError::TooLarge);
}

#[test]
fn each_device_is_named_once_however_many_rows_it_is_in() {
    let extents: Vec<Extent> = (0..12).map(|i| extent(i % 3, u64::from(i), 1)).collect();
    let size = (BlockSize::B4096, Blocks(12 * 256));
    let map = Map::striped(Epoch(1), size, stripes(4, 65536), &extents).unwrap();
    assert_eq!(map.devices().collect::<Vec<_>>(), [0, 1, 2].map(DeviceId));
}

#[test]
fn a_long_range_has_one_run_for_each_extent() {
    let len = ByteLen(1 << 40);
    let extents = [0, 1, 2].map(|id| Extent { len, ..extent(id, 1, 1) });
    let blocks = Blocks(3 << 28);
    let map =
        Map::striped(Epoch(1), (BlockSize::B4096, blocks), stripes(3, 4096), &extents).unwrap();
    let rows: Vec<RowPart<'_>> = map.rows(range(1, blocks.0 - 1)).unwrap().collect();
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].len(), ByteLen(3 * len.0 - 4096));
    let piece = |id, skip| Piece {
        device: DeviceId(id),
        offset: ByteOffset(GRANULE.0 + skip),
        len: ByteLen(len.0 - skip),
    };
    let runs: Vec<Piece> = rows[0].runs().collect();
    assert_eq!(runs, [piece(0, 4096), piece(1, 0), piece(2, 0)]);
}

/// The place of each block, one by one: the units of a row are dealt to its extents in turn, and
/// each extent fills from its start. [`Map::locate`] must agree with it.
fn naive(rows: &[Vec<Extent>], unit_blocks: u64, step: u64) -> Vec<(DeviceId, u64)> {
    let mut places = Vec::new();
    for row in rows {
        let mut filled = vec![0; row.len()];
        let units = row[0].len.0 / step / unit_blocks;
        for _ in 0..units {
            for (extent, filled) in row.iter().zip(&mut filled) {
                for _ in 0..unit_blocks {
                    places.push((extent.device, extent.start.0 + *filled));
                    *filled += step;
                }
            }
        }
    }
    places
}

fn blocks_of(piece: Piece, step: u64) -> impl Iterator<Item = (DeviceId, u64)> {
    (0..piece.len.0 / step).map(move |block| (piece.device, piece.offset.0 + block * step))
}

proptest! {
    /// The layout is a bijection: each block of a range appears once, in order, at the place
    /// that the naive model gives. Row by row, the same blocks appear in runs.
    #[test]
    fn every_block_of_a_range_is_located_once_and_in_order(
        lens in prop::collection::vec(1_u64..4, 1..6), width in 1_u32..5, unit_shift in 12_u32..=20,
        small_blocks: bool, start: prop::sample::Index, count in 0_u64..2500, cut in 0_u64..700,
    ) {
        let block_size = if small_blocks { BlockSize::B512 } else { BlockSize::B4096 };
        let step = u64::from(block_size.bytes());
        let place = |row: u32, i: u32, len| {
            extent((row + i) % 3, u64::from(row * width + i) * 7 + 1, len)
        };
        let rows: Vec<Vec<Extent>> = (0..)
            .zip(&lens)
            .map(|(row, &len)| (0..width).map(|i| place(row, i, len)).collect())
            .collect();
        let (extents, unit) = (rows.concat(), 1_u64 << unit_shift);
        let model = naive(&rows, unit / step, step);
        // The volume ends somewhere in the last stripes.
        let blocks = Blocks(u64::try_from(model.len()).unwrap().saturating_sub(cut));
        let map =
            Map::striped(Epoch(1), (block_size, blocks), stripes(width, unit), &extents).unwrap();
        // The unit divides striped rows only.
        let all = map.locate(range(0, blocks.0)).unwrap().count();
        prop_assert!(width > 1 || all <= lens.len());

        let start = start.index(model.len());
        let asked = range(u64::try_from(start).unwrap(), count);
        let located = map.locate(asked);
        prop_assert_eq!(located.is_some(), asked.start.0 + count <= blocks.0);
        prop_assert_eq!(map.rows(asked).is_some(), located.is_some());
        let Some(pieces) = located else { return Ok(()) };
        let expected = &model[start..start + usize::try_from(count).unwrap()];

        let (mut first, whole) = (pieces.clone(), map.locate_whole(asked));
        prop_assert_eq!(whole, first.next().filter(|_| first.next().is_none()));
        let found: Vec<_> = pieces.flat_map(|piece| blocks_of(piece, step)).collect();
        prop_assert_eq!(&found[..], expected);

        let mut at = 0;
        for part in map.rows(asked).unwrap() {
            let runs: Vec<Piece> = part.runs().collect();
            prop_assert!(!runs.is_empty() && runs.len() <= usize::try_from(width).unwrap());
            let mut found: Vec<_> = runs.iter().flat_map(|run| blocks_of(*run, step)).collect();
            let end = at + usize::try_from(part.len().0 / step).unwrap();
            let mut expected = expected[at..end].to_vec();
            found.sort_unstable();
            expected.sort_unstable();
            prop_assert_eq!(found, expected);
            at = end;
        }
        prop_assert_eq!(at, expected.len());
    }
}
