use proptest::prelude::*;

use super::*;
use crate::random::Random;

fn config(writes_per_move: Option<u32>, randomise: bool) -> PcmConfig {
    PcmConfig { writes_per_move, randomise, ..PcmConfig::typical(ByteLen(1 << 20)) }
}

fn pcm(config: PcmConfig) -> PcmModel {
    PcmModel::new(config).unwrap()
}

#[test]
fn lines_take_their_time_one_after_the_other_and_channels_at_once() {
    let mut pcm = pcm(config(None, false));
    let write =
        |pcm: &mut PcmModel, offset, len| pcm.write(ByteOffset(offset), ByteLen(len)).unwrap();
    assert_eq!(write(&mut pcm, 0, 4096), Nanos(16 * 150));
    assert_eq!(write(&mut pcm, 4096, 8192), Nanos(16 * 150), "the half of two channels");
    assert_eq!(write(&mut pcm, 0, 128 << 10), Nanos(64 * 150), "all eight channels, twice");
    assert_eq!(write(&mut pcm, 100, 56), Nanos(48 + 150), "a part of a line");
    assert_eq!(pcm.read(ByteOffset(0), ByteLen(4096)), Nanos(16 * 48));
    let wear = pcm.wear();
    assert_eq!((wear.host_lines, wear.moved_lines), (16 + 32 + 512 + 1, 0));
    assert_eq!((wear.mean_read, wear.most), (Nanos(16 * 48), 3));
}

#[test]
fn start_gap_levels_the_wear_of_a_hot_line() {
    let wear = |levelling: Option<u32>, randomise| {
        let mut config = config(levelling, randomise);
        config.len = ByteLen(16 << 10);
        let mut pcm = pcm(config);
        for _ in 0..1_000_000 {
            pcm.write(ByteOffset(512), ByteLen(256)).unwrap();
        }
        let wear = pcm.wear();
        (f64::from(wear.most) / wear.mean, wear.moved_lines)
    };
    let (none, levelled, randomised) =
        (wear(None, false), wear(Some(100), false), wear(Some(100), true));
    assert_eq!((none.1, levelled.1), (0, 10_000));
    assert!(none.0 > 63.0, "{none:?}");
    // A place rests two or three times under the hot line, for 6500 writes each.
    assert!(levelled.0 < 1.3 && randomised.0 < 1.3, "{levelled:?}, {randomised:?}");
}

/// The sum of the wear of all places is that of all writes, over more than 10^6 moves of the gap: no
/// write is lost. That lines and places are a bijection in every state, `start_gap` shows.
#[test]
fn no_write_is_lost_over_a_million_moves_of_the_gap() {
    let mut pcm = pcm(config(Some(1), true));
    let mut random = Random::new(9);
    for _ in 0..300_000 {
        let offset = u64::from(random.below(4_000)) * 256;
        pcm.write(ByteOffset(offset), ByteLen(1024)).unwrap();
    }
    let wear = pcm.wear();
    assert_eq!((wear.host_lines, wear.moved_lines), (1_200_000, 1_200_000));
    assert_eq!(pcm.wear.iter().copied().map(u64::from).sum::<u64>(), 2_400_000);
    assert_eq!(pcm.wear.iter().copied().max(), Some(wear.most));
    let mut places: Vec<_> = (0..4096).map(|line| pcm.place(Line(line))).collect();
    places.sort_unstable();
    places.dedup();
    assert_eq!(places.len(), 4096);
}

#[test]
fn the_first_worn_place_ends_the_life() {
    let mut pcm = pcm(PcmConfig { endurance: 3, ..config(None, false) });
    let (offset, len) = (ByteOffset(256), ByteLen(256));
    for writes in 1..=3 {
        assert!(pcm.write(offset, len).is_ok(), "write {writes}");
    }
    assert_eq!(pcm.write(ByteOffset(0), len), Err(WornOut));
    let wear = pcm.wear();
    assert!(wear.is_worn_out && (wear.life_used - 1.0).abs() < 1e-9, "{wear:?}");
    assert_eq!((wear.host_lines, pcm.read(offset, len)), (3, Nanos(48)));
}

#[test]
fn each_bound_is_named_with_its_remedy() {
    let refused = |config: PcmConfig| PcmModel::new(config).unwrap_err().to_string();
    let said =
        "start-gap=0 is outside 1 to 1000000 writes for each move of the gap: use start-gap=100";
    assert_eq!(refused(config(Some(0), false)), said);
    assert!(refused(config(Some(1_000_001), false)).contains("start-gap=1000001"));
    let said = "'randomise' has no effect without start-gap: add start-gap=100, or remove it";
    assert_eq!(refused(config(None, true)), said);
    let endurance = refused(PcmConfig { endurance: 0, ..config(None, false) });
    assert_eq!(endurance, "endurance=0 is outside 1 to 4000000000: use endurance=100000000");
    let write = refused(PcmConfig { write: Nanos(1_000_000_001), ..config(None, false) });
    assert_eq!(write, "write=1000000001ns is longer than 1s: use write=150ns");
    let large = refused(PcmConfig::typical(ByteLen(1 << 40)));
    assert_eq!(large, "1TiB is more than 512GiB of lines: make the device smaller");
}

proptest! {
    /// Every line that a range touches is written once, and every move of the gap once more.
    #[test]
    fn any_ranges_are_counted(
        steps in prop::collection::vec((0_u64..1 << 20, 0_u64..20_000), 1..60),
        writes_per_move in prop::option::of(1_u32..20),
        randomise: bool,
    ) {
        let mut pcm = pcm(config(writes_per_move, randomise && writes_per_move.is_some()));
        let (mut lines, mut bytes) = (0, 0);
        for (start, len) in steps {
            let len = len.min((1 << 20) - start);
            let end = start + len;
            lines += if len == 0 { 0 } else { end.div_ceil(256) - start / 256 };
            bytes += len;
            pcm.write(ByteOffset(start), ByteLen(len)).unwrap();
        }
        let wear = pcm.wear();
        prop_assert_eq!((wear.host_lines, wear.host_bytes), (lines, bytes));
        let moved = writes_per_move.map_or(0, |writes| lines / u64::from(writes));
        prop_assert_eq!(wear.moved_lines, moved);
        let sum: u64 = pcm.wear.iter().copied().map(u64::from).sum();
        prop_assert_eq!(sum, lines + moved);
    }
}
