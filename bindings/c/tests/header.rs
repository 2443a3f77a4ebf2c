//! The header declares what the library defines, and C and C++ compilers accept it.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use common::{declared, functions, header, link, root, strict};
use nearflash::direct::codes;
use nearflash_c::error::INVALID_ARGUMENT;

#[test]
fn every_code_is_in_the_header_and_no_other() {
    let header = header();
    let defined: BTreeSet<(String, u32)> = header
        .lines()
        .filter_map(|line| line.strip_prefix("#define NEARFLASH_")?.split_once(' '))
        .filter(|(name, _)| !name.starts_with("VERSION_M"))
        .map(|(name, code)| (name.to_owned(), code.parse().unwrap()))
        .collect();
    let own = ("INVALID_ARGUMENT".to_owned(), u32::try_from(INVALID_ARGUMENT).unwrap());
    let all = codes().map(|code| (code.name.to_owned(), code.code)).chain([own]).collect();
    assert_eq!(defined, all);
}

#[test]
fn every_function_is_declared_and_every_declaration_has_one() {
    let declared = declared();
    let mut written = BTreeSet::new();
    for entry in std::fs::read_dir(root().join("src")).unwrap() {
        let source = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        written.extend(functions(&source, "extern \"C\" fn "));
    }
    assert_eq!(declared, written);
    assert!(declared.len() > 30);
}

/// Compiles a file. Returns the compiler's output if it fails; `None` without such a compiler.
fn compile(compiler: &str, args: &[&str], file: &Path) -> Option<Result<(), String>> {
    let said = Command::new(compiler).args(strict()).args(args).arg(file).output().ok()?;
    Some(match said.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&said.stderr).into_owned()),
    })
}

#[test]
fn c_and_cpp_take_the_header_and_the_example() {
    let example = root().join("examples/example.c");
    let c = compile("cc", &["-std=c11", "-fsyntax-only"], &example);
    assert_eq!(c.expect("a C compiler is there, as it is to link Rust"), Ok(()));
    let header = root().join("include/nearflash.h");
    if let Some(cpp) = compile("c++", &["-std=c++17", "-fsyntax-only", "-x", "c++"], &header) {
        assert_eq!(cpp, Ok(()));
    }
}

#[test]
fn the_example_links_and_names_what_is_wrong_with_its_url() {
    let program = std::env::temp_dir().join(format!("nearflash-example-{}", std::process::id()));
    link(&root().join("examples/example.c"), &root().join("include"), &program);
    for (url, words) in [("http://a", "INVALID_URL"), ("direct://127.0.0.1:1/a", "UNREACHABLE")] {
        let said = Command::new(&program).arg(url).output().unwrap();
        let message = String::from_utf8_lossy(&said.stderr).into_owned();
        assert_eq!(said.status.code(), Some(1));
        assert!(message.starts_with("connect: ") && message.contains(words), "{message}");
    }
    std::fs::remove_file(program).unwrap();
}
