//! Has the linker make the program smaller: relocations are packed where the C library reads that, and equal
//! functions are kept once where the linker is the one that comes with Rust.

use std::env::var;
use std::path::Path;
use std::process::Command;

/// The first glibc that reads packed relocations (DT_RELR).
const PACKED_SINCE: (u32, u32) = (2, 36);

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if var("PROFILE").is_ok_and(|profile| profile == "debug") {
        return;
    }
    let is_native = var("TARGET").ok() == var("HOST").ok();
    if is_native && glibc().is_some_and(|version| version >= PACKED_SINCE) {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
    if links_with_lld() {
        println!("cargo::rustc-link-arg-bins=-Wl,--icf=all");
    }
}

/// The version of this machine's glibc; `None` if it has another C library.
fn glibc() -> Option<(u32, u32)> {
    let text = output("getconf", &["GNU_LIBC_VERSION"])?;
    let (major, minor) = text.strip_prefix("glibc ")?.split_once('.')?;
    let minor = minor.split('.').next()?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Whether the linker is Rust's own LLD, which it is by default for this target alone (since Rust 1.90): GNU ld
/// does not know the option.
fn links_with_lld() -> bool {
    const TARGET: &str = "x86_64-unknown-linux-gnu";
    let is_default = var("CARGO_ENCODED_RUSTFLAGS").is_ok_and(|flags| flags.is_empty())
        && var("RUSTC_LINKER").is_err();
    let lld = output(&var("RUSTC").unwrap_or_default(), &["--print", "sysroot"])
        .map(|root| Path::new(&root).join("lib/rustlib").join(TARGET).join("bin/gcc-ld/ld.lld"));
    is_default
        && var("TARGET").is_ok_and(|target| target == TARGET)
        && lld.is_some_and(|lld| lld.exists())
}

/// The standard output of a program, trimmed. `None` if the program cannot run or fails.
fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let done = Command::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8(done.stdout).ok()?;
    done.status.success().then(|| text.trim().to_owned())
}
