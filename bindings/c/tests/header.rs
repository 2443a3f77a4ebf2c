//! The header declares what the library defines, and C and C++ compilers accept it.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use common::{declared, functions, header, link, root, strict, without_comments};
use nearflash::direct::codes;
use nearflash_c::client::nearflash_version;
use nearflash_c::error::OWN;
use nearflash_c::iovec::IoVec;
use nearflash_c::options::{NONE, NearflashConnectOptions, NearflashQueueOptions};
use nearflash_c::queue_pair::NearflashCompletion;
use nearflash_c::volume::NearflashVolumeInfo;

#[test]
fn every_code_is_in_the_header_and_no_other() {
    let header = header();
    let defined: BTreeSet<(String, u32)> = header
        .lines()
        .filter_map(|line| line.strip_prefix("#define NEARFLASH_")?.split_once(' '))
        .filter(|(name, _)| !name.starts_with("VERSION_") && *name != "NONE")
        .map(|(name, code)| (name.to_owned(), code.parse().unwrap()))
        .collect();
    let own = OWN.map(|(code, name, _)| (name.to_owned(), u32::try_from(code).unwrap()));
    let all = codes().map(|code| (code.name.to_owned(), code.code)).chain(own).collect();
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

/// Pushes the assertions about a struct of C: that it has exactly these fields, with their sizes
/// and offsets in Rust.
macro_rules! check_layout {
    ($checks:ident, $rust:ident as $c:literal { $($field:ident),* }) => {{
        // The compiler refuses this when a field is missing.
        let _ = |whole: $rust| {
            let $rust { $($field: _),* } = whole;
        };
        let fields = [$(stringify!($field)),*];
        assert_eq!(fields_of(&without_comments(), $c), fields, $c);
        $checks.push((format!("sizeof({})", $c), size_of::<$rust>()));
        $checks.push((format!("_Alignof({})", $c), align_of::<$rust>()));
        let lens = [$(len_of(|whole: &$rust| &whole.$field)),*];
        let offsets = [$(std::mem::offset_of!($rust, $field)),*];
        for ((field, len), offset) in fields.iter().zip(lens).zip(offsets) {
            $checks.push((format!("offsetof({}, {field})", $c), offset));
            $checks.push((format!("sizeof((({} *)0)->{field})", $c), len));
        }
    }};
}

fn len_of<Struct, Field>(_: fn(&Struct) -> &Field) -> usize {
    size_of::<Field>()
}

/// The names of a struct's fields in the header without its comments.
fn fields_of(header: &str, name: &str) -> Vec<String> {
    let start = header.find(&format!("typedef struct {name} {{")).unwrap();
    let body = header[start..].split_once('{').unwrap().1.split_once('}').unwrap().0;
    let (fields, behind) = body.rsplit_once(';').unwrap();
    assert_eq!(behind.trim(), "");
    let names = fields.split(';').map(|declaration| {
        let named = declaration.split('[').next().unwrap();
        named.rsplit([' ', '*']).next().unwrap().to_owned()
    });
    names.collect()
}

/// The structs without fields.
const HANDLES: usize = 4;

#[test]
fn structs_and_constants_are_the_same_in_c_and_in_rust() {
    let mut checks: Vec<(String, usize)> = Vec::new();
    check_layout!(checks, NearflashVolumeInfo as "nearflash_volume_info" {
        len, block_size, epoch, uuid, is_readable, is_writable
    });
    check_layout!(checks, NearflashConnectOptions as "nearflash_connect_options" {
        size, silence_max_ns, reconnect_max_ns, spin_max_ns
    });
    check_layout!(checks, NearflashQueueOptions as "nearflash_queue_options" {
        size, depth, shared_len
    });
    check_layout!(checks, NearflashCompletion as "nearflash_completion" {
        token, value, buffer, error, message
    });
    let structs = without_comments().matches("typedef struct").count() - HANDLES;
    assert_eq!(checks.iter().filter(|(what, _)| what.starts_with("_Al")).count(), structs);
    checks.push(("sizeof(struct iovec)".to_owned(), size_of::<IoVec>()));
    let (base, len) = (std::mem::offset_of!(IoVec, base), std::mem::offset_of!(IoVec, len));
    checks.push(("offsetof(struct iovec, iov_base)".to_owned(), base));
    checks.push(("offsetof(struct iovec, iov_len)".to_owned(), len));
    let own = OWN.map(|(code, name, _)| (name, usize::try_from(code).unwrap()));
    let codes = codes().map(|code| (code.name, usize::try_from(code.code).unwrap()));
    checks.extend(codes.chain(own).map(|(name, code)| (format!("NEARFLASH_{name}"), code)));
    checks.push(("NEARFLASH_NONE".to_owned(), usize::try_from(NONE).unwrap()));
    let version = usize::try_from(nearflash_version()).unwrap();
    checks.push(("NEARFLASH_VERSION_NUMBER".to_owned(), version));
    for (part, is) in [
        ("MAJOR", env!("CARGO_PKG_VERSION_MAJOR")),
        ("MINOR", env!("CARGO_PKG_VERSION_MINOR")),
        ("PATCH", env!("CARGO_PKG_VERSION_PATCH")),
    ] {
        checks.push((format!("NEARFLASH_VERSION_{part}"), is.parse().unwrap()));
    }
    let mut program = "#include <nearflash.h>\n".to_owned();
    for (what, is) in checks {
        program += &format!("_Static_assert({what} == {is}u, \"in Rust {what} is {is}\");\n");
    }
    let folder = tempfile::TempDir::new().unwrap();
    let file = folder.path().join("layout.c");
    std::fs::write(&file, program).unwrap();
    assert_eq!(compile("cc", &["-std=c11", "-fsyntax-only"], &file), Some(Ok(())));
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
    let folder = tempfile::TempDir::new().unwrap();
    let program = folder.path().join("example");
    link(&root().join("examples/example.c"), &root().join("include"), &program);
    for (url, words) in [("http://a", "INVALID_URL"), ("direct://127.0.0.1:1/a", "UNREACHABLE")] {
        let said = Command::new(&program).arg(url).output().unwrap();
        let message = String::from_utf8_lossy(&said.stderr).into_owned();
        assert_eq!(said.status.code(), Some(1));
        assert!(message.starts_with("connect: ") && message.contains(words), "{message}");
    }
}
