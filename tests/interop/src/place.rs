//! The locations of files: the guest's files, the binary under test, and a directory for each test.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::{env, fs};

/// The directory with the guest's `boot` and its scripts.
pub(crate) fn guest_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("guest")
}

/// The `nearflash` binary: `NEARFLASH_BIN`, or otherwise the workspace's own, built in the profile
/// of the tests.
pub(crate) fn nearflash() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| match env::var_os("NEARFLASH_BIN") {
        Some(path) => PathBuf::from(path),
        None => build_nearflash(),
    })
}

fn build_nearflash() -> PathBuf {
    let profile_folder = profile_folder();
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "--package", "nearflash-cli"]);
    cargo
        .arg("--target-dir")
        .arg(profile_folder.parent().expect("a profile's folder has a parent"));
    if profile_folder.ends_with("release") {
        cargo.arg("--release");
    }
    let status = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).status().expect("cargo starts");
    assert!(status.success(), "the nearflash binary does not build; or name one in NEARFLASH_BIN");
    profile_folder.join("nearflash")
}

/// `target/debug` or `target/release`: the test executable is in its directory `deps`.
fn profile_folder() -> PathBuf {
    let executable = env::current_exe().expect("a running test has an executable");
    let folder = executable.parent().and_then(Path::parent);
    folder.expect("a test executable lies in deps").to_owned()
}

/// A test's own directory, emptied at its start and kept after it: logs, devices, a node's data.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// The empty directory of the test `name`.
    #[must_use]
    pub fn of(name: &str) -> Self {
        let folder = profile_folder().join("interop").join(name);
        if folder.exists() {
            fs::remove_dir_all(&folder).expect("a test's folder is its own to empty");
        }
        fs::create_dir_all(&folder).expect("the build folder is writable");
        Self(folder)
    }

    /// A path in the directory.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

/// The number of lines of a log that a failed test shows.
const TAIL_LINES: usize = 40;

/// The last lines of a log; empty when it cannot be read.
pub(crate) fn tail_of(log: &Path) -> String {
    let bytes = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
}
