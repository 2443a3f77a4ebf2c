use super::*;
use proptest::prelude::*;
use proptest::sample::Index;

const DEVICE: DeviceId = DeviceId(4);

fn extent(start_granule: u64, granules: u64) -> Extent {
    let start = ByteOffset(start_granule * GRANULE.0);
    Extent { device: DEVICE, start, len: ByteLen(granules * GRANULE.0) }
}

fn granules(count: u64) -> ByteLen {
    ByteLen(count * GRANULE.0)
}

fn area(granule_count: u64) -> FreeSpace {
    FreeSpace::new(DEVICE, ByteOffset(GRANULE.0), granules(granule_count))
}

#[test]
fn parts_of_granules_at_the_ends_of_the_area_are_left_out() {
    let free = FreeSpace::new(DEVICE, ByteOffset(1), ByteLen(3 * GRANULE.0));
    assert_eq!(free.len(), granules(2));
    assert_eq!(FreeSpace::new(DEVICE, ByteOffset(1), GRANULE).len, ByteLen(0));
    assert_eq!(FreeSpace::new(DEVICE, ByteOffset(u64::MAX), GRANULE).len, ByteLen(0));
}

#[test]
fn the_smallest_run_that_holds_a_volume_whole_is_taken() {
    let mut free = area(20);
    free.reserve(extent(5, 1)).unwrap(); // 1..5 free
    free.reserve(extent(8, 1)).unwrap(); // 6..8 free, 9..21 free
    assert_eq!(free.allocate(granules(2), None, 1), Ok(vec![extent(6, 2)]));
    assert_eq!(free.allocate(ByteLen(1), None, 1), Ok(vec![extent(1, 1)]));
}

#[test]
fn pieces_are_counted_in_each_run() {
    let mut free = area(12);
    free.reserve(extent(6, 1)).unwrap(); // 1..6 and 7..13 free
    let counts = [1, 2, 3, 4, 6, 7].map(|len| free.pieces(granules(len)));
    assert_eq!(counts, [11, 5, 3, 2, 1, 0]);
    for _ in 0..3 {
        free.allocate(granules(3), None, 1).unwrap();
    }
    assert_eq!(free.pieces(granules(3)), 0, "as many can be allocated");
}

#[test]
fn a_volume_larger_than_every_run_is_cut_and_the_last_part_placed_best() {
    let mut free = area(12);
    free.reserve(extent(7, 1)).unwrap(); // 1..7 free
    free.reserve(extent(9, 1)).unwrap(); // 8..9 free, 10..13 free
    assert_eq!(free.allocate(granules(7), None, 2), Ok(vec![extent(1, 6), extent(8, 1)]));
}

#[test]
fn a_volume_that_grows_continues_in_place_where_it_can() {
    let mut free = area(10);
    let mut extents = free.allocate(granules(2), None, 1).unwrap();
    let fresh = free.allocate(granules(3), extents.last().copied(), 0).unwrap();
    append_extents(&mut extents, &fresh);
    assert_eq!(extents, [extent(1, 5)]);
    free.reserve(extent(7, 1)).unwrap(); // 6..7 and 8..11 free
    let fresh = free.allocate(granules(3), extents.last().copied(), 1).unwrap();
    append_extents(&mut extents, &fresh);
    assert_eq!(extents, [extent(1, 6), extent(8, 2)]);
}

#[test]
fn a_full_device_gives_nothing_and_stays_as_it_was() {
    let mut free = area(4);
    free.reserve(extent(2, 1)).unwrap();
    let before = free.clone();
    let full = SpaceError::Full { wanted: granules(4), free: granules(3) };
    assert_eq!(free.allocate(granules(4), None, 9), Err(full));
    let held = granules(2);
    let fragmented = SpaceError::Fragmented { wanted: granules(3), held, extents_max: 1 };
    assert_eq!(free.allocate(granules(3), None, 1), Err(fragmented));
    assert!(matches!(free.allocate(ByteLen(u64::MAX), None, 9), Err(SpaceError::Full { .. })));
    assert_eq!(free, before);
}

#[test]
fn an_extent_taken_twice_or_outside_the_area_is_refused() {
    let mut free = area(4);
    free.reserve(extent(2, 2)).unwrap();
    let elsewhere = Extent { device: DeviceId(5), ..extent(1, 1) };
    for refused in [extent(2, 1), extent(1, 2), extent(0, 1), extent(4, 2), extent(4, 0), elsewhere]
    {
        assert_eq!(free.reserve(refused), Err(SpaceError::NotFree(refused)));
    }
}

#[test]
#[should_panic(expected = "given back once")]
fn an_extent_given_back_twice_is_caught() {
    let mut free = area(4);
    free.reserve(extent(2, 1)).unwrap();
    free.release(extent(2, 1));
    free.release(extent(2, 1));
}

#[test]
fn shortened_extents_give_back_what_is_behind() {
    let mut extents = vec![extent(1, 4), extent(9, 2)];
    assert_eq!(
        truncate_extents(&mut extents, ByteLen(2 * GRANULE.0 + 1)),
        [extent(4, 1), extent(9, 2)]
    );
    assert_eq!(extents, [extent(1, 3)]);
    assert_eq!(truncate_extents(&mut extents, granules(3)), []);
    assert_eq!(truncate_extents(&mut extents, ByteLen(0)), [extent(1, 3)]);
    assert!(extents.is_empty());
}

/// A step of the model.
#[derive(Clone, Debug)]
enum Step {
    Create(u64),
    Grow(Index, u64),
    Shrink(Index, u64),
    Remove(Index),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (1u64..12).prop_map(Step::Create),
        (any::<Index>(), 1u64..8).prop_map(|(which, n)| Step::Grow(which, n)),
        (any::<Index>(), 0u64..12).prop_map(|(which, n)| Step::Shrink(which, n)),
        any::<Index>().prop_map(Step::Remove),
    ];
    prop::collection::vec(step, 1..60)
}

/// The naive model: one owner or none for every granule of the area.
fn owners(volumes: &[Vec<Extent>], area_granules: u64) -> Vec<Option<usize>> {
    let mut owners = vec![None; usize::try_from(area_granules + 1).unwrap()];
    for (owner, extents) in volumes.iter().enumerate() {
        for extent in extents {
            let first = extent.start.0 / GRANULE.0;
            for granule in first..first + extent.len.0 / GRANULE.0 {
                let place = &mut owners[usize::try_from(granule).unwrap()];
                assert_eq!(*place, None, "granule {granule} belongs to one volume");
                *place = Some(owner);
            }
        }
    }
    owners
}

fn apply(free: &mut FreeSpace, volumes: &mut Vec<Vec<Extent>>, step: &Step) {
    match step {
        Step::Create(len) => {
            volumes.extend(free.allocate(granules(*len), None, 64));
        }
        Step::Grow(which, len) if !volumes.is_empty() => {
            let volume = which.get_mut(volumes);
            let fresh = free.allocate(granules(*len), volume.last().copied(), 64);
            append_extents(volume, &fresh.unwrap_or_default());
        }
        Step::Shrink(which, len) if !volumes.is_empty() => {
            let cut = truncate_extents(which.get_mut(volumes), granules(*len));
            cut.into_iter().for_each(|extent| free.release(extent));
        }
        Step::Remove(which) if !volumes.is_empty() => {
            let volume = volumes.swap_remove(which.index(volumes.len()));
            volume.into_iter().for_each(|extent| free.release(extent));
        }
        _ => {}
    }
}

proptest! {
    /// Whatever volumes do, no granule ever has two owners, none is lost, and a catalog of the
    /// extents rebuilds the same free space.
    #[test]
    fn no_granule_has_two_owners_and_none_is_lost(steps in steps()) {
        const AREA: u64 = 48;
        let mut free = area(AREA);
        let mut volumes = Vec::new();
        for step in steps {
            apply(&mut free, &mut volumes, &step);
            let owned = owners(&volumes, AREA).iter().flatten().count();
            let free_granules = free.free_len().0 / GRANULE.0;
            prop_assert_eq!(u64::try_from(owned).unwrap() + free_granules, AREA);
            let mut rebuilt = area(AREA);
            for extent in volumes.iter().flatten() {
                prop_assert_eq!(rebuilt.reserve(*extent), Ok(()));
            }
            prop_assert_eq!(&rebuilt, &free);
        }
    }
}
