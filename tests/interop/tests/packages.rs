//! The packages of `make packages`, unpacked in a guest with Debian's plain kernel.
#![allow(clippy::unwrap_used)] // a failed test says where

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nearflash_interop::{Guest, Scratch, Script, offer};

/// The package whose name ends so, in `target/packages` or the folder that `NEARFLASH_PACKAGES`
/// names.
fn package(end: &str) -> PathBuf {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/packages");
    let folder = std::env::var_os("NEARFLASH_PACKAGES").map_or(target, PathBuf::from);
    let names = fs::read_dir(&folder).expect("packages were built: run 'make packages'");
    let mut paths = names.map(|entry| entry.unwrap().path());
    let found = paths.find(|path| path.to_string_lossy().ends_with(end));
    found.unwrap_or_else(|| panic!("no *{end} in {}: run 'make packages'", folder.display()))
}

#[test]
#[ignore = "boots a virtual machine with packages that 'make packages' builds: run by make test-all"]
fn a_node_from_each_package_serves_the_kernel_of_its_machine() {
    let scratch = Scratch::of("packages");
    let (deb, archive) = (offer(&package(".deb")), offer(&package(".tar.gz")));
    let parameters = [
        ("TARGET_ADDRESS", "127.0.0.1"),
        ("TARGET_PORT", "4420"),
        ("DEB_PORT", &deb),
        ("ARCHIVE_PORT", &archive),
    ];
    let script =
        Script { parts: &["packages"], parameters: &parameters, timeout: Duration::from_secs(240) };
    Guest::boot(&scratch, &script).expect_success();
}
