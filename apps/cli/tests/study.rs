//! `nearflash study` starts the program `nearflash-study`.
#![allow(clippy::unwrap_used)] // a failed test says where

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// One test at a time: a process that another test starts would inherit the open copy of the
/// program, and the system runs no program that is open for writing.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A copy of the program in a folder of its own: next to the original there may be a
/// `nearflash-study`.
fn copy(folder: &Path) -> PathBuf {
    let copy = folder.join("nearflash");
    std::fs::copy(env!("CARGO_BIN_EXE_nearflash"), &copy).unwrap();
    copy
}

/// A `nearflash-study` that prints what it is given, and ends with code 7.
fn write_study(folder: &Path, name: &str) {
    let path = folder.join("nearflash-study");
    let script = format!("#!/bin/sh\necho {name}: \"$@\"\necho $NEARFLASH_BIN\nexit 7\n");
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

fn study(program: &Path, path: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.arg("study").args(arguments).env("PATH", path).env_remove("NEARFLASH_BIN");
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn arguments_and_the_exit_code_pass_through() {
    let _alone = alone();
    let (folder, path) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let program = copy(folder.path());
    write_study(path.path(), "of the path");
    let arguments = ["run", "all", "--quick", "--out", "a b", "--", "-x"];
    let ran = study(&program, path.path(), &arguments);
    let said = format!("of the path: run all --quick --out a b -- -x\n{}\n", program.display());
    assert_eq!((text(&ran.stdout), ran.status.code()), (said, Some(7)), "{}", text(&ran.stderr));
    // The program next to this one comes first.
    write_study(folder.path(), "of the folder");
    for arguments in [&["--help"][..], &["--version"], &["list"], &[]] {
        let ran = study(&program, path.path(), arguments);
        let said = format!("of the folder: {}", arguments.join(" "));
        assert_eq!(text(&ran.stdout).lines().next(), Some(said.trim_end()));
        assert_eq!(ran.status.code(), Some(7));
    }
}

#[test]
fn a_program_that_is_missing_is_named_with_the_remedy() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let program = copy(folder.path());
    let refused = study(&program, folder.path(), &["list"]);
    let message = text(&refused.stderr);
    assert_eq!((message.lines().count(), refused.status.code()), (1, Some(1)), "{message}");
    assert!(message.contains("'nearflash-study'") && message.contains("make install"), "{message}");
    // A file that is not a program.
    std::fs::write(folder.path().join("nearflash-study"), "").unwrap();
    let message = text(&study(&program, folder.path(), &["list"]).stderr);
    assert!(message.starts_with("nearflash: cannot start ") && message.lines().count() == 1);
}
