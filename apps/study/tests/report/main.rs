//! The report of a made-up run, as files and in a browser.

mod sample;

use std::fs;
use std::path::PathBuf;

use nearflash_study::report;

/// A directory of the test's own, which is left for whoever wants to look.
fn out_dir(name: &str) -> PathBuf {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&dir);
    dir
}

#[test]
fn a_report_is_written_whole() {
    let out = out_dir("report");
    report::write(&sample::document(), &out).unwrap();
}
