//! The header as text, and programs in C that are linked with the library.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of this package.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

pub(crate) fn header() -> String {
    std::fs::read_to_string(root().join("include/nearflash.h")).unwrap()
}

/// The header's declarations.
pub(crate) fn without_comments() -> String {
    let behind = |part| str::split_once(part, "*/").map_or(part, |(_, behind)| behind);
    header().split("/*").map(behind).collect()
}

/// The functions that the header declares.
pub(crate) fn declared() -> BTreeSet<String> {
    functions(&without_comments(), "")
}

/// The names of functions in a text: names that follow `before` and precede a parenthesis.
pub(crate) fn functions(text: &str, before: &str) -> BTreeSet<String> {
    let starts = text.match_indices("nearflash_").map(|(at, _)| (&text[..at], &text[at..]));
    let calls = starts.filter_map(|(head, rest)| {
        let end = rest.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')?;
        let is_function = rest[end..].starts_with('(') && head.ends_with(before);
        is_function.then(|| rest[..end].to_owned())
    });
    calls.collect()
}

/// Arguments for a C compiler: every warning is an error.
pub(crate) fn strict() -> [String; 5] {
    let include = format!("-I{}", root().join("include").display());
    ["-Wall", "-Wextra", "-Wpedantic", "-Werror", &include].map(str::to_owned)
}

/// The static library that was built next to this test.
fn library() -> PathBuf {
    std::env::current_exe().unwrap().with_file_name("libnearflash_c.a")
}

/// Compiles a program, with headers of `include`, and links it with the static library.
pub(crate) fn link(source: &Path, include: &Path, program: &Path) {
    let library = library();
    assert!(library.exists(), "{} is built with its tests", library.display());
    let linked = Command::new("cc")
        .args(strict())
        .arg("-std=c11")
        .arg("-I")
        .arg(include)
        .arg(source)
        .arg(library)
        .args(["-lpthread", "-ldl", "-lm", "-o"])
        .arg(program)
        .output()
        .unwrap();
    assert!(linked.status.success(), "{}", String::from_utf8_lossy(&linked.stderr));
}
