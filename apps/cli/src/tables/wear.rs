//! The wear of model devices as text.

use nearflash_api::{DeviceInfo, ErasesInfo, FlashInfo, PcmInfo};

use super::size;

/// The wear of a device; empty for a device that is no model.
pub(super) fn of(device: &DeviceInfo) -> String {
    let flash = device.flash.as_ref().map(|flash| of_flash(&device.name, flash));
    let pcm = device.pcm.as_ref().map(|pcm| of_pcm(&device.name, pcm));
    flash.into_iter().chain(pcm).collect()
}

fn of_flash(name: &str, flash: &FlashInfo) -> String {
    let FlashInfo { host_pages, moved_pages, levelled_pages, endurance, .. } = flash;
    let ErasesInfo { min, median, max, buckets } = &flash.erases;
    let buckets: Vec<String> = buckets
        .iter()
        .map(|bucket| match (bucket.from, bucket.to) {
            (from, to) if from == to => format!("{from}: {}", bucket.blocks),
            (from, to) => format!("{from}-{to}: {}", bucket.blocks),
        })
        .collect();
    let worn_out = worn_out(name, flash.worn_out);
    format!(
        "\nflash '{name}': {} written, write amplification {:.2}: {host_pages} pages written, \
         {moved_pages} moved, {levelled_pages} levelled\n  \
         life used {}: erases {min} to {max}, median {median}, of {endurance}; {} blocks retired, {} \
         left to replace them\n  \
         blocks by erases: {}\n{worn_out}",
        size(flash.host_bytes),
        flash.write_amplification,
        percent(flash.life_used),
        flash.retired_blocks,
        flash.replacement_blocks,
        buckets.join(", "),
    )
}

fn of_pcm(name: &str, pcm: &PcmInfo) -> String {
    let PcmInfo { host_lines, moved_lines, line_writes_max, endurance, .. } = pcm;
    let PcmInfo { mean_read_ns, mean_write_ns, .. } = pcm;
    let worn_out = worn_out(name, pcm.worn_out);
    format!(
        "\npcm '{name}': {} written: {host_lines} lines written, {moved_lines} moved\n  \
         life used {}: at most {line_writes_max} writes of a line, mean {:.2}, of {endurance}\n  \
         in the model, a read takes {mean_read_ns}ns, and a write {mean_write_ns}ns\n{worn_out}",
        size(pcm.host_bytes),
        percent(pcm.life_used),
        pcm.line_writes_mean,
    )
}

fn worn_out(name: &str, is_worn_out: bool) -> String {
    match is_worn_out {
        true => format!("device '{name}' is worn out: it refuses writes\n"),
        false => String::new(),
    }
}

/// A share, with three significant digits below 10 %.
fn percent(share: f64) -> String {
    match share * 100.0 {
        percent if percent < 1.0 => format!("{percent:.3}%"),
        percent if percent < 10.0 => format!("{percent:.2}%"),
        percent => format!("{percent:.1}%"),
    }
}

#[cfg(test)]
mod tests {
    use nearflash_api::EraseBucket;
    use uuid::Uuid;

    use super::*;

    fn device(kind: &str) -> DeviceInfo {
        DeviceInfo {
            name: "m".to_owned(),
            kind: kind.to_owned(),
            source: None,
            uuid: Uuid::nil(),
            bytes: 1 << 30,
            data_bytes: 1 << 30,
            free_bytes: 0,
            block_size: 512,
            volatile_cache: false,
            suspect: false,
            truncated: false,
            backing: None,
            flash: None,
            pcm: None,
        }
    }

    fn flash() -> FlashInfo {
        let bucket = |from, to, blocks| EraseBucket { from, to, blocks };
        FlashInfo {
            host_bytes: 10 << 30,
            host_pages: 2_621_440,
            moved_pages: 5_000_000,
            levelled_pages: 12,
            write_amplification: 2.907_35,
            erases: ErasesInfo {
                min: 20,
                median: 26,
                max: 29,
                buckets: vec![bucket(20, 20, 1), bucket(26, 29, 1_145)],
            },
            endurance: 3_000,
            life_used: 0.008_67,
            retired_blocks: 0,
            replacement_blocks: 118,
            worn_out: false,
        }
    }

    #[test]
    fn the_wear_of_flash_is_shown_with_its_histogram() {
        let mut device = device("flash");
        device.flash = Some(flash());
        insta::assert_snapshot!(of(&device), @r"

        flash 'm': 10GiB written, write amplification 2.91: 2621440 pages written, 5000000 moved, 12 levelled
          life used 0.867%: erases 20 to 29, median 26, of 3000; 0 blocks retired, 118 left to replace them
          blocks by erases: 20: 1, 26-29: 1145
        ");
        device.flash = Some(FlashInfo { worn_out: true, life_used: 0.99, ..flash() });
        let shown = of(&device);
        assert!(shown.ends_with("\ndevice 'm' is worn out: it refuses writes\n"), "{shown}");
        assert!(shown.contains("life used 99.0%"), "{shown}");
    }

    #[test]
    fn the_wear_of_phase_change_memory_is_shown_with_its_times() {
        let mut device = device("pcm");
        device.pcm = Some(PcmInfo {
            host_bytes: 1 << 20,
            host_lines: 4_096,
            moved_lines: 40,
            line_writes_max: 6,
            line_writes_mean: 1.009_8,
            endurance: 100,
            life_used: 0.06,
            mean_read_ns: 768,
            mean_write_ns: 2_400,
            worn_out: false,
        });
        insta::assert_snapshot!(of(&device), @r"

        pcm 'm': 1MiB written: 4096 lines written, 40 moved
          life used 6.00%: at most 6 writes of a line, mean 1.01, of 100
          in the model, a read takes 768ns, and a write 2400ns
        ");
    }

    #[test]
    fn a_device_that_is_no_model_has_no_wear() {
        assert_eq!(of(&device("file")), "");
    }
}
