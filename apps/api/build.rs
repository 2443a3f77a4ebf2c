//! Passes the commit to the crate. `NEARFLASH_COMMIT` names it outside a repository; without
//! either, only the version is known. The output depends only on the sources. A debug build does not ask
//! the repository: each commit would build this crate again, and all that need it.

use std::path::Path;
use std::process::Command;

/// Number of hexadecimal digits of a commit that are kept.
const DIGITS: usize = 12;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=NEARFLASH_COMMIT");
    let named = std::env::var("NEARFLASH_COMMIT").ok();
    let commit = named
        .filter(|commit| !commit.is_empty())
        .or_else(|| if is_debug() { None } else { checked_out() });
    let commit = commit.map(|commit| commit.chars().take(DIGITS).collect::<String>());
    let version = std::env::var("CARGO_PKG_VERSION").unwrap_or_default();
    match commit {
        Some(commit) => {
            println!("cargo::rustc-env=NEARFLASH_BUILD_COMMIT={commit}");
            println!("cargo::rustc-env=NEARFLASH_BUILD={version} ({commit})");
        }
        None => println!("cargo::rustc-env=NEARFLASH_BUILD={version}"),
    }
}

fn is_debug() -> bool {
    std::env::var("PROFILE").is_ok_and(|profile| profile == "debug")
}

/// The commit of the repository that contains these sources. If the sources are from an archive
/// that is unpacked inside another repository, that repository's commit does not apply.
fn checked_out() -> Option<String> {
    if git(&["rev-parse", "--show-prefix"])? != "apps/api/" {
        return None;
    }
    git(&["ls-files", "--error-unmatch", "build.rs"])?;
    for file in ["HEAD", "logs/HEAD"] {
        let path = git(&["rev-parse", "--path-format=absolute", "--git-path", file])?;
        // A path that does not exist would make cargo rerun this script each time.
        if Path::new(&path).exists() {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    git(&["rev-parse", "HEAD"])
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
