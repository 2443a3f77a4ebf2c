//! The location of the binary under test.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The `nearflash` binary: `NEARFLASH_BIN`, or otherwise the workspace's own, built in the profile
/// of the tests.
pub fn nearflash() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| match env::var_os("NEARFLASH_BIN") {
        Some(path) => PathBuf::from(path),
        None => build(),
    })
}

/// Builds the binary, since cargo does not build another package's binary for this package's tests.
/// Cargo does not hold its lock while tests run, and has little to do when the workspace was just
/// built.
fn build() -> PathBuf {
    let profile_folder = profile_folder();
    let target_folder = profile_folder.parent().expect("a profile's folder has a parent");
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args([
        "build",
        "--quiet",
        "--package",
        "nearflash-cli",
        "--package",
        "nearflash-preload",
    ]);
    cargo.arg("--target-dir").arg(target_folder).current_dir(env!("CARGO_MANIFEST_DIR"));
    if profile_folder.ends_with("release") {
        cargo.arg("--release");
    }
    let status = cargo.status().expect("cargo starts");
    assert!(status.success(), "the nearflash binary does not build; or name one in NEARFLASH_BIN");
    profile_folder.join("nearflash")
}

/// `target/debug` or `target/release`: the test executable is in its directory `deps`.
fn profile_folder() -> PathBuf {
    let executable = env::current_exe().expect("a running test has an executable");
    let folder = executable.parent().and_then(Path::parent);
    folder.expect("a test executable lies in deps").to_owned()
}
