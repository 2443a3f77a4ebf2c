mod power_cuts;

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;

use nearflash_device::DeviceResult;

use super::*;
use crate::Storage;

const NODE: Uuid = Uuid::from_u128(1);
const FRESH: Uuid = Uuid::from_u128(2);
const CLAIM: Claim<'static> = Claim { node: NODE, known: &[], cluster: None };
const LEN: u64 = 8 << 20;

/// A directory with a device file.
struct Bench {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { path: folder.path().join("flash.img"), _folder: folder }
    }

    /// A bench with a file of [`LEN`] bytes, zero except for these parts.
    fn holding(parts: &[(u64, &[u8])]) -> Self {
        let bench = Self::new();
        bench.put(parts);
        bench
    }

    fn put(&self, parts: &[(u64, &[u8])]) {
        let file = fs::OpenOptions::new().write(true).create(true).truncate(false).open(&self.path);
        let file = file.unwrap();
        if file.metadata().unwrap().len() == 0 {
            file.set_len(LEN).unwrap();
        }
        for (offset, bytes) in parts {
            file.write_all_at(bytes, *offset).unwrap();
        }
    }

    fn spec(&self, options: &str) -> DeviceSpec {
        format!("flash=file:{}{options}", self.path.display()).parse().unwrap()
    }

    fn take(&self, options: &str, claim: Claim<'_>) -> Result<Device, OpenError> {
        open(&self.spec(options), claim)?.take(FRESH)
    }

    /// The message of the refusal, with `PATH` for the path.
    fn refused(&self, options: &str, claim: Claim<'_>) -> String {
        let before = fs::read(&self.path).ok();
        let message = self.take(options, claim).unwrap_err().to_string();
        assert_eq!(fs::read(&self.path).ok(), before, "a refused device is left as it was");
        message.replace(&*self.path.to_string_lossy(), "PATH")
    }
}

fn known(name: &str, uuid: Uuid, len: u64) -> KnownDevice {
    KnownDevice { name: name.parse().unwrap(), uuid, len: ByteLen(len) }
}

#[test]
fn an_absent_file_is_made_sparse_labelled_and_found_again() {
    let bench = Bench::new();
    let device = bench.take(",size=64MiB", CLAIM).unwrap();
    assert_eq!(device.uuid(), FRESH);
    assert_eq!(device.properties().len, ByteLen(64 << 20));
    assert_eq!(device.data_area(), (ByteOffset(1 << 20), ByteLen(63 << 20)));
    assert!(device.properties().volatile_cache);
    let metadata = fs::metadata(&bench.path).unwrap();
    assert!(metadata.blocks() * 512 < 4 << 20, "sparse");
    assert_eq!(metadata.mode() & 0o777, 0o600);
    drop(device);
    let again = open(&bench.spec(""), CLAIM).unwrap().take(Uuid::from_u128(3)).unwrap();
    assert_eq!(again.uuid(), FRESH);
}

#[test]
fn a_device_through_the_page_cache_asks_for_flushes_and_is_the_same_without_it() {
    let bench = Bench::new();
    let device = bench.take(",size=64MiB,page-cache", CLAIM).unwrap();
    let Kind::Uring(file) = device.kind() else { panic!("{device:?}") };
    assert!(!file.is_direct() && device.properties().volatile_cache);
    drop(device);
    assert_eq!(bench.take("", CLAIM).unwrap().uuid(), FRESH);
}

/// Zeroes this range, in MiB.
fn zero(device: &Device, range: std::ops::Range<u64>, storage: Storage) {
    let (offset, len) = (ByteOffset(range.start << 20), ByteLen((range.end - range.start) << 20));
    let mut zeroed = 0;
    let mut goes_on = |len: ByteLen| {
        zeroed += len.0;
        true
    };
    assert!(device.zero(offset, len, storage, &mut goes_on).unwrap());
    assert_eq!(zeroed, len.0);
}

/// The null device takes as long to zero as to write.
#[test]
fn zeroing_ends_when_it_is_no_longer_wanted() {
    for spec in ["x=ram:1GiB", "x=null:1GiB,write-delay=1000000s"] {
        let device = open(&spec.parse().unwrap(), CLAIM).unwrap().take(FRESH).unwrap();
        let mut asked = 0;
        let mut goes_on = |_: ByteLen| {
            asked += 1;
            asked < 3
        };
        let len = ByteLen(1 << 30);
        let is_whole = device.zero(ByteOffset(0), len, Storage::Released, &mut goes_on);
        assert!(!is_whole.unwrap(), "{spec}");
        assert_eq!(asked, 3, "{spec}");
    }
}

#[test]
fn a_released_file_can_be_taken_while_it_is_still_open() {
    let bench = Bench::new();
    let first = bench.take(",size=8MiB", CLAIM).unwrap();
    first.release();
    assert!(bench.take("", CLAIM).is_ok());
}

#[test]
fn a_file_tells_what_of_it_is_allocated() {
    let bench = Bench::new();
    let device = bench.take(",size=64MiB", CLAIM).unwrap();
    bench.put(&[(16 << 20, &[7; 8 << 20])]);
    let run =
        |offset: u64, len: u64| device.allocation(ByteOffset(offset << 20), ByteLen(len << 20));
    let mib = |mapped, len: u64| DeviceResult::run(mapped, ByteLen(len << 20));
    assert_eq!(run(8, 56), mib(false, 8));
    assert_eq!(run(8, 2), mib(false, 2));
    assert_eq!(run(16, 48), mib(true, 8));
    // The last MiB of the run has data, too.
    assert_eq!(run(24, 40), mib(false, 39));
    zero(&device, 16..20, Storage::Released);
    assert_eq!(run(8, 56), mib(false, 12));
}

#[test]
fn memory_and_the_null_device_tell_what_reads_as_zeroes() {
    for (spec, mapped) in [("r=ram:16MiB", true), ("n=null:16MiB", false)] {
        let device = open(&spec.parse().unwrap(), CLAIM).unwrap().take(FRESH).unwrap();
        if let Kind::Ram(region) = device.kind() {
            region.write(ByteOffset(0), &[1; 4096]);
        }
        let expected = DeviceResult::run(mapped, ByteLen(if mapped { 4096 } else { 1 << 20 }));
        assert_eq!(device.allocation(ByteOffset(0), ByteLen(1 << 20)), expected, "{spec}");
    }
}

#[test]
fn an_absent_file_without_a_size_is_refused() {
    assert_eq!(
        Bench::new().refused("", CLAIM),
        "device 'flash': PATH does not exist: correct the path, or add size=SIZE to create it"
    );
}

#[test]
fn an_absent_file_with_volumes_on_it_is_not_made_anew() {
    let known = [known("flash", FRESH, LEN)];
    assert_eq!(
        Bench::new().refused(",size=8MiB", Claim { node: NODE, known: &known, cluster: None }),
        "device 'flash': PATH does not exist, but the catalog has volumes on it: restore it, or \
         correct the path"
    );
}

#[test]
fn file_systems_and_partition_tables_are_refused_until_told_to_wipe() {
    let cases: [(&[u8], u64, &str); 3] = [
        (include_bytes!("../../fixtures/ext4.bin"), 1024, "an ext2, ext3 or ext4 file system"),
        (include_bytes!("../../fixtures/xfs.bin"), 0, "an XFS file system"),
        (include_bytes!("../../fixtures/gpt.bin"), 0, "a GPT partition table"),
    ];
    for (bytes, offset, what) in cases {
        let bench = Bench::holding(&[(offset, bytes), (LEN - 512, b"left over")]);
        let expected = format!(
            "device 'flash' holds {what}: choose another device, or write 'flash=file:PATH,wipe' \
             to erase it"
        );
        assert_eq!(bench.refused("", CLAIM), expected);
        assert_eq!(bench.take(",wipe", CLAIM).unwrap().uuid(), FRESH);
        let bytes = fs::read(&bench.path).unwrap();
        assert!(bytes.ends_with(&[0; 512]), "no old signature is left");
    }
}

#[test]
fn any_other_data_at_either_end_is_refused_too() {
    for offset in [0, (1 << 20) - 1, LEN - 1] {
        let bench = Bench::holding(&[(offset, b"x")]);
        assert!(bench.refused("", CLAIM).contains("holds data that is not nearflash's"));
    }
    assert!(Bench::holding(&[]).take("", CLAIM).is_ok());
}

#[test]
fn another_installations_label_is_refused_until_told_to_wipe() {
    let bench = Bench::new();
    bench.take(",size=8MiB", CLAIM).unwrap();
    let known = [KnownDevice {
        name: "another".parse().unwrap(),
        uuid: Uuid::from_u128(10),
        len: ByteLen(LEN),
    }];
    let other = Claim { node: Uuid::from_u128(9), known: &known, cluster: None };
    assert_eq!(
        bench.refused("", other),
        "device 'flash' belongs to another nearflash installation (node \
         00000000-0000-0000-0000-000000000001, which calls it 'flash'): serve it with that \
         installation's --data-dir, or write 'flash=file:PATH,wipe' to erase it"
    );
    let spec = bench.spec(",wipe");
    let taken = open(&spec, other).unwrap().take(Uuid::from_u128(5)).unwrap();
    assert_eq!(taken.uuid(), Uuid::from_u128(5));
}

#[test]
fn a_node_that_may_have_lost_its_catalog_is_not_told_to_wipe() {
    let bench = Bench::new();
    bench.take(",size=8MiB", CLAIM).unwrap();
    let fresh = Claim { node: Uuid::from_u128(9), known: &[], cluster: None };
    let message = bench.refused("", fresh);
    assert!(message.contains("belongs to another nearflash installation (node 0000"), "{message}");
    assert!(message.contains("catalog.redb was lost, restore it from a backup"), "{message}");
    assert!(!message.contains("wipe"), "{message}");
}

#[test]
fn our_own_device_is_never_wiped() {
    let bench = Bench::new();
    bench.take(",size=8MiB", CLAIM).unwrap();
    bench.put(&[(2 << 20, b"precious"), (LEN - 8, b"precious")]);
    let known = [known("flash", FRESH, LEN)];
    let device = bench.take(",wipe", Claim { node: NODE, known: &known, cluster: None }).unwrap();
    assert_eq!(device.uuid(), FRESH);
    let bytes = fs::read(&bench.path).unwrap();
    assert_eq!(&bytes[2 << 20..(2 << 20) + 8], b"precious");
    assert!(bytes.ends_with(b"precious"));
}

#[test]
fn a_device_that_volumes_are_on_is_not_replaced_by_another_even_when_told_to_wipe() {
    let known = [known("flash", Uuid::from_u128(7), LEN)];
    let claim = Claim { node: NODE, known: &known, cluster: None };
    let blank = Bench::holding(&[]);
    let expected = "device 'flash': PATH is not the device that the catalog has volumes on \
                    (00000000-0000-0000-0000-000000000007): correct the path";
    assert_eq!(blank.refused(",wipe", claim), expected);
    let ours_but_another = Bench::new();
    ours_but_another.take(",size=8MiB", CLAIM).unwrap();
    assert_eq!(ours_but_another.refused(",wipe", claim), expected);
}

#[test]
fn a_device_known_by_another_name_is_refused_by_both() {
    let bench = Bench::new();
    bench.take(",size=8MiB", CLAIM).unwrap();
    let known = [known("disk1", FRESH, LEN)];
    assert_eq!(
        bench.refused("", Claim { node: NODE, known: &known, cluster: None }),
        "device 'flash' is called 'disk1' in the catalog: write 'disk1='"
    );
}

#[test]
fn a_device_shorter_or_longer_than_the_catalog_says_is_refused_with_both_sizes() {
    let bench = Bench::new();
    bench.take(",size=8MiB", CLAIM).unwrap();
    let known = [known("flash", FRESH, LEN)];
    let claim = Claim { node: NODE, known: &known, cluster: None };
    let file = fs::OpenOptions::new().write(true).open(&bench.path).unwrap();
    for (len, text) in [(6 << 20, "6MiB"), (512 << 10, "512KiB")] {
        file.set_len(len).unwrap();
        assert_eq!(
            bench.refused(",size=8MiB", claim),
            format!(
                "device 'flash': PATH is {text} long, shorter than the 8MiB in the catalog: \
                 restore the missing part before starting"
            )
        );
    }
    file.set_len(9 << 20).unwrap();
    assert_eq!(
        bench.refused("", claim),
        "device 'flash': PATH is 9MiB long, longer than the 8MiB in the catalog: truncate it to \
         8388608 bytes before starting"
    );
}

#[test]
fn a_size_that_is_not_the_files_is_refused() {
    let bench = Bench::holding(&[]);
    assert_eq!(
        bench.refused(",size=16MiB", CLAIM),
        "device 'flash': PATH is 8MiB long, but size=16MiB is configured: remove size=, or correct \
         it"
    );
}

#[test]
fn a_damaged_copy_of_the_label_is_mended_from_the_other() {
    for damaged in LABEL_OFFSETS {
        let bench = Bench::new();
        bench.take(",size=8MiB", CLAIM).unwrap();
        let whole = fs::read(&bench.path).unwrap();
        bench.put(&[(damaged.0 + 50, b"rot"), (damaged.0 + 512, &[7; 512])]);
        assert_eq!(bench.take("", CLAIM).unwrap().uuid(), FRESH);
        assert_eq!(fs::read(&bench.path).unwrap(), whole);
    }
}

#[test]
fn a_device_with_both_copies_damaged_is_refused() {
    let bench = Bench::new();
    bench.take(",size=8MiB", CLAIM).unwrap();
    bench.put(&[(LABEL_OFFSETS[0].0 + 50, b"rot"), (LABEL_OFFSETS[1].0 + 50, b"rot")]);
    let message = bench.refused("", CLAIM);
    assert!(message.contains("label checksum is"), "{message}");
    assert!(message.ends_with("restore its first MiB, or add ',wipe' to erase it"), "{message}");
    assert!(bench.take(",wipe", CLAIM).is_ok());
}

#[test]
fn a_device_in_use_is_refused() {
    let bench = Bench::holding(&[]);
    let _first = bench.take("", CLAIM).unwrap();
    let message = bench.refused("", CLAIM);
    let expected = format!("device 'flash': PATH is in use by process {} (", std::process::id());
    assert!(message.starts_with(&expected) && message.ends_with("): stop it first"), "{message}");
}

#[test]
fn what_is_no_device_is_refused_with_what_to_write() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |text: String| open(&text.parse().unwrap(), CLAIM).unwrap_err().to_string();
    let path = folder.path().display();
    let message = refused(format!("x=file:{path},size=8MiB"));
    assert!(message.ends_with("is a directory: name a file in it"), "{message}");
    let message = refused("x=file:/dev/null,size=8MiB".to_owned());
    assert!(
        message.ends_with("is neither a file nor a block device: name one of them"),
        "{message}"
    );
    let message = refused(format!("x=block:{path}/absent"));
    assert!(message.contains("cannot open"), "{message}");
    assert!(message.ends_with(
        ": correct the path, or create its directory; for block:, 'lsblk' lists all disks"
    ));
    fs::write(folder.path().join("f"), "").unwrap();
    let message = refused(format!("x=block:{path}/f"));
    assert!(message.ends_with("is a file: write file: before it"), "{message}");
    let message = refused(format!("x=file:{path}/small,size=1MiB"));
    assert_eq!(message, "device 'x' is 1MiB, which is too small: it needs at least 2MiB");
    assert!(!folder.path().join("small").exists());
    assert_eq!(
        refused("x=ram:1023KiB".to_owned()),
        "device 'x' is 1023KiB, which is too small: it needs at least 1MiB"
    );
}

#[test]
fn ram_and_null_devices_are_all_data_and_need_no_flush() {
    for text in ["x=ram:3MiB", "x=null:3MiB"] {
        let device = open(&text.parse().unwrap(), CLAIM).unwrap().take(FRESH).unwrap();
        assert_eq!(device.data_area(), (ByteOffset(0), ByteLen(3 << 20)));
        assert!(!device.properties().volatile_cache);
    }
}

#[test]
fn a_zeroed_range_reads_as_zeroes_and_its_neighbours_as_before() {
    let bench = Bench::holding(&[]);
    let device = bench.take("", CLAIM).unwrap();
    bench.put(&[(2 << 20, &[1; 3 << 20])]);
    zero(&device, 3..4, Storage::Released);
    let bytes = fs::read(&bench.path).unwrap();
    for (granule, expected) in [(2, 1), (3, 0), (4, 1)] {
        assert!(bytes[granule << 20..(granule + 1) << 20].iter().all(|b| *b == expected));
    }
}

#[test]
fn an_allocated_range_reads_as_zeroes_and_has_its_storage() {
    let bench = Bench::holding(&[]);
    let device = bench.take("", CLAIM).unwrap();
    bench.put(&[(2 << 20, &[1; 3 << 20])]);
    let before = fs::metadata(&bench.path).unwrap().blocks();
    zero(&device, 4..6, Storage::Kept);
    let bytes = fs::read(&bench.path).unwrap();
    assert!(bytes[4 << 20..6 << 20].iter().all(|byte| *byte == 0) && bytes[(4 << 20) - 1] == 1);
    let taken = fs::metadata(&bench.path).unwrap().blocks() - before;
    assert!(taken * 512 >= 1 << 20, "the half that was a hole");
}
