use proptest::prelude::*;

use super::*;
use crate::random::Random;
use crate::steady_state::uniform_write_amplification;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const NOW: Nanos = Nanos(0);

/// Flash of 1 MiB with pages of 4 KiB and blocks of 16 pages.
fn small() -> FlashConfig {
    let typical = FlashConfig::typical(ByteLen(MIB));
    FlashConfig { block: ByteLen(64 * KIB), spare_percent: 30, dies: 4, ..typical }
}

fn flash(config: FlashConfig) -> FlashModel {
    FlashModel::new(config).unwrap()
}

fn write(flash: &mut FlashModel, offset: u64, len: u64) -> Nanos {
    flash.write(NOW, ByteOffset(offset), ByteLen(len)).unwrap()
}

#[test]
fn whole_pages_are_programmed_and_parts_are_read_first() {
    let mut flash = flash(small());
    assert_eq!(write(&mut flash, 0, 16 * KIB), Nanos::from_micros(200), "4 dies at once");
    assert_eq!(flash.wear().counts.host_pages, 4);
    // The end of the first page, the second page, and the beginning of the third.
    write(&mut flash, 3 * KIB, 6 * KIB);
    let wear = flash.wear();
    assert_eq!((wear.counts.host_pages, wear.host_bytes), (7, 22 * KIB));
    assert!((wear.write_amplification - 28.0 / 22.0).abs() < 1e-9, "{wear:?}");
    // Reads of 512 bytes cost a page.
    let later = Nanos::from_secs(1);
    let answer = flash.read(later, ByteOffset(512), ByteLen(512));
    assert_eq!(answer, later.plus(Nanos::from_micros(60)));
}

#[test]
fn zeroed_pages_are_given_up_and_parts_of_empty_pages_cost_nothing() {
    let mut flash = flash(small());
    write(&mut flash, 0, 64 * KIB);
    let zero = |flash: &mut FlashModel, offset, len| {
        flash.zero(NOW, ByteOffset(offset), ByteLen(len)).unwrap();
        (flash.wear().counts.host_pages, flash.wear().host_bytes)
    };
    assert_eq!(zero(&mut flash, 4 * KIB, 8 * KIB), (16, 64 * KIB), "whole pages");
    assert_eq!(zero(&mut flash, 5 * KIB, KIB), (16, 64 * KIB), "a part of an empty page");
    assert_eq!(zero(&mut flash, KIB, 6 * KIB), (17, 67 * KIB), "3 KiB of the first page");
    let run = |offset, len| flash.run(ByteOffset(offset), ByteLen(len));
    assert_eq!(run(0, MIB), (true, ByteLen(4 * KIB)));
    assert_eq!(run(5 * KIB, MIB - 5 * KIB), (false, ByteLen(7 * KIB)));
    assert_eq!(run(60 * KIB, 2 * KIB), (true, ByteLen(2 * KIB)));
    assert_eq!(run(64 * KIB, MIB - 64 * KIB), (false, ByteLen(MIB - 64 * KIB)));
}

#[test]
fn a_device_that_ends_within_a_page_writes_that_page_as_a_whole() {
    let mut flash = flash(FlashConfig { len: ByteLen(MIB + 512), ..small() });
    flash.write(NOW, ByteOffset(MIB), ByteLen(512)).unwrap();
    flash.zero(NOW, ByteOffset(MIB), ByteLen(512)).unwrap();
    assert_eq!(flash.run(ByteOffset(MIB), ByteLen(512)), (false, ByteLen(512)));
    assert_eq!(flash.wear().counts.host_pages, 1);
}

#[test]
#[should_panic(expected = "within the model")]
fn a_range_past_the_end_is_caught() {
    flash(small()).read(NOW, ByteOffset(MIB), ByteLen(1));
}

/// The write amplification of uniform writes of whole pages in steady state.
fn amplification(spare_percent: u32, collector: Collector) -> (f64, f64) {
    let typical = FlashConfig::typical(ByteLen(128 * MIB));
    let block = ByteLen(512 * KIB);
    let mut flash = flash(FlashConfig { spare_percent, collector, block, ..typical });
    let pages = 128 * MIB / (4 * KIB);
    write(&mut flash, 0, 128 * MIB);
    let (mut random, count) = (Random::new(2), u32::try_from(pages).unwrap());
    let mut fill = |flash: &mut FlashModel| {
        for _ in 0..3 * pages {
            write(flash, u64::from(random.below(count)) * 4 * KIB, 4 * KIB);
        }
        flash.wear().counts
    };
    let before = fill(&mut flash);
    let counted = fill(&mut flash).since(before);
    // Two blocks are free, and one is being filled; blocks of moved pages are filled in turn.
    let geometry = flash.config().geometry().unwrap();
    let physical = u64::from(geometry.blocks - 2) * u64::from(geometry.pages_per_block);
    (counted.write_amplification(), uniform_write_amplification(physical, pages))
}

#[test]
fn uniform_writes_agree_with_the_closed_form() {
    for spare in [12, 28] {
        let (found, expected) = amplification(spare, Collector::Fifo);
        assert!((found / expected - 1.0).abs() < 0.05, "{spare} %: {found}, expected {expected}");
    }
}

#[test]
fn a_worn_out_model_refuses_changes_and_still_reads() {
    let mut flash = flash(FlashConfig { endurance: 5, ..small() });
    let mut random = Random::new(3);
    let worn_out = loop {
        let offset = ByteOffset(u64::from(random.below(256)) * 4 * KIB);
        if let Err(worn_out) = flash.write(NOW, offset, ByteLen(4 * KIB)) {
            break worn_out;
        }
    };
    assert_eq!(worn_out.to_string(), "it is worn out, and can only be read");
    let before = flash.wear();
    assert!(before.is_worn_out && before.replacement_blocks == 0 && before.retired_blocks > 0);
    assert!((0.7..1.1).contains(&before.life_used), "{before:?}");
    assert_eq!(flash.zero(NOW, ByteOffset(0), ByteLen(MIB)), Err(WornOut));
    assert!(flash.read(NOW, ByteOffset(0), ByteLen(MIB)) > NOW);
    assert_eq!(flash.wear(), before);
    flash.check();
}

#[test]
fn erase_counts_fall_into_buckets_of_one_width() {
    assert_eq!(buckets(&[0, 0, 0]), [(0, 0, 3)]);
    assert_eq!(buckets(&[3, 4, 4, 9]), [(3, 3, 1), (4, 4, 2), (9, 9, 1)]);
    assert_eq!(buckets(&[0, 1, 2, 29]), [(0, 2, 3), (27, 29, 1)]);
}

#[test]
fn each_bound_is_named_with_its_remedy() {
    let refused = |config: FlashConfig| FlashModel::new(config).unwrap_err().to_string();
    let page = |len| refused(FlashConfig { page: ByteLen(len), ..small() });
    let said = "page=3KiB is not a power of two from 512B to 64KiB: use page=4KiB";
    assert_eq!(page(3 * KIB), said);
    assert!(
        page(256).contains("page=256B")
            && page(MIB).contains("page=1MiB")
            && page(0).contains("page=0B")
    );
    let block = |len| refused(FlashConfig { block: ByteLen(len), ..small() });
    let said = "block=6KiB is not 2 to 65536 pages of 4KiB: use block=1MiB";
    assert_eq!(block(6 * KIB), said);
    assert!(
        [0, 4 * KIB, 1 << 40, u64::MAX].into_iter().all(|len| block(len).contains("is not 2 to"))
    );
    let spare = |spare_percent| refused(FlashConfig { spare_percent, ..small() });
    assert_eq!(spare(0), "spare=0% is outside 1% to 400%: use spare=12%");
    assert!(spare(401).contains("spare=401%"));
    assert_eq!(
        spare(6),
        "spare=6% is 1 of 16 blocks, and garbage collection needs 4: use a larger spare, smaller \
         blocks or a larger device"
    );
    let dies = |dies| refused(FlashConfig { dies, ..small() });
    let said = "dies=17 is outside 1 to 16, the pages of a block, over which a block is striped: use dies=8";
    assert_eq!(dies(17), said);
    assert!(dies(0).contains("dies=0"));
    let endurance = |endurance| refused(FlashConfig { endurance, ..small() });
    let said = "endurance=0 is outside 1 to 4000000000: use endurance=3000";
    assert_eq!(endurance(0), said);
    assert!(endurance(u32::MAX).contains("endurance=4294967295"));
    let times = Times { erase: Nanos::from_secs(2), ..Times::default() };
    let said = "erase=2000000000ns is longer than 1s: use erase=2ms";
    assert_eq!(refused(FlashConfig { times, ..small() }), said);
    for len in [1 << 44, u64::MAX] {
        let said = refused(FlashConfig::typical(ByteLen(len)));
        assert!(
            said.ends_with("2^32 pages of 4KiB or more, with the spare: use larger pages"),
            "{said}"
        );
    }
}

#[test]
fn a_configuration_knows_its_memory() {
    let memory = FlashConfig::typical(ByteLen(16 << 30)).memory().unwrap();
    // 4 bytes for each of 4 Mi pages, and for the 12 % more that the flash has.
    assert!((35 * MIB..40 * MIB).contains(&memory.0), "{memory}");
}

proptest! {
    /// The model never loses count of a page, whatever ranges are written, zeroed and read, and
    /// never answers before it was asked.
    #[test]
    fn any_ranges_keep_the_invariants(
        steps in prop::collection::vec((0_u8..3, 0_u64..MIB, 0_u64..100 * KIB, 0_u64..1 << 30), 1..200),
    ) {
        let mut flash = flash(small());
        let mut has_content = vec![false; 256];
        for (what, start, len, at) in steps {
            let (offset, len) = (ByteOffset(start), ByteLen(len.min(MIB - start)));
            let now = Nanos(at);
            let answered_at = match what {
                0 => flash.read(now, offset, len),
                1 => flash.write(now, offset, len).unwrap(),
                _ => flash.zero(now, offset, len).unwrap(),
            };
            prop_assert!(answered_at >= now);
            for (number, page) in (0..).zip(&mut has_content) {
                let (from, to) = (number * 4 * KIB, (number + 1) * 4 * KIB);
                let (is_touched, is_whole) = (
                    start < to && start + len.0 > from && len.0 > 0,
                    start <= from && start + len.0 >= to,
                );
                *page = match what {
                    1 => *page || is_touched,
                    2 => *page && !is_whole,
                    _ => *page,
                };
            }
            flash.check();
        }
        for (number, page) in (0..).zip(&has_content) {
            let found = flash.run(ByteOffset(number * 4 * KIB), ByteLen(1));
            prop_assert_eq!(found, (*page, ByteLen(1)));
        }
    }
}
