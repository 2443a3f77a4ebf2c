//! Whole runs on a real file, from the command line to the report.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::os::unix::fs::FileExt;
use std::path::Path;

use clap::Parser;
use nearflash_bench::{BenchArgs, BenchError, measure};

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    bench: BenchArgs,
}

fn bench(path: &Path, options: &str) -> Result<nearflash_bench::report::Report, BenchError> {
    let target = format!("file:{}", path.display());
    let words = ["bench", &target, "--direct", "0"].into_iter().chain(options.split(' '));
    measure(&Command::parse_from(words).bench)
}

#[test]
fn what_is_written_with_verify_is_read_with_verify_and_damage_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    let write = "--rw randwrite --bs 8k --size 1m --iodepth 16 --verify crc32c --randseed 5";
    assert_eq!(bench(&path, write).unwrap().record.write.ops, 128);
    let read = "--rw read --bs 8k --iodepth 4 --numjobs 2 --size 1m --verify crc32c --randseed 5";
    assert_eq!(bench(&path, read).unwrap().record.read.ops, 256);
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(b"damage", 3 * 8192 + 100).unwrap();
    let error = bench(&path, read).unwrap_err().to_string();
    assert!(error.contains("offset 24576: crc32c"), "{error}");
}

#[test]
fn a_file_that_is_absent_is_made_only_when_its_size_is_given() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    let error = bench(&path, "--rw read").unwrap_err().to_string();
    assert!(error.contains("--size") && !path.exists(), "{error}");
    let report = bench(&path, "--rw randread --size 256k").unwrap();
    assert_eq!(report.record.read.ops, 64);
    assert_eq!(path.metadata().unwrap().len(), 256 * 1024);
}

#[test]
fn existing_bytes_stay_when_a_file_is_made_longer() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    std::fs::write(&path, b"keep me").unwrap();
    bench(&path, "--rw read --size 64k").unwrap();
    assert_eq!(&std::fs::read(&path).unwrap()[..7], b"keep me");
}

#[test]
fn a_target_that_is_no_storage_is_refused() {
    let error = bench(Path::new("/dev/zero"), "--rw read").unwrap_err().to_string();
    assert!(error.contains("neither a regular file nor a block device"), "{error}");
}
