//! A program in C calls every function of the header, on a node that runs.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use common::{declared, link, root};
use nearflash_node_tests::{Door, Key, Node, Place};

/// The header, with a macro for each function that records the call.
fn counted(names: &BTreeSet<String>) -> String {
    let count = names.len();
    let mut text = format!(
        "#include <nearflash.h>\n#include <stdio.h>\nstatic unsigned calls[{count}];\n\
         static inline void print_calls(void)\n{{\n"
    );
    for (number, name) in names.iter().enumerate() {
        text += &format!("    if (calls[{number}] > 0)\n        puts(\"{name}\");\n");
    }
    text += "}\n";
    for (number, name) in names.iter().enumerate() {
        // A macro is not replaced within itself.
        text += &format!("#define {name}(...) (calls[{number}]++, {name}(__VA_ARGS__))\n");
    }
    text
}

/// Runs the program. Returns the functions that it called.
fn called(program: &Path, arguments: &[&str]) -> BTreeSet<String> {
    let said = Command::new(program).args(arguments).output().unwrap();
    assert!(said.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&said.stderr));
    String::from_utf8(said.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn every_function_of_the_header_works_on_a_node() {
    let names = declared();
    let place = Place::new();
    std::fs::write(place.path("counted.h"), counted(&names)).unwrap();
    let program = place.path("every_function");
    link(&root().join("tests/every_function.c"), &place.path(""), &program);
    let node = Node::with_direct(&place, &["--device", "r=ram:64MiB", "--volume", "data=8MiB@r"]);
    for door in Door::ALL {
        let url = format!("{}/data", door.url(&node));
        assert_eq!(called(&program, &[&url]), names, "{url}");
    }
    let key = Key::create(&node, "app", &[]);
    key.grant(&node, "data", &["--rights", "rw"]);
    for door in Door::ALL {
        let url = format!("{}/data", door.url(&node));
        assert_eq!(called(&program, &[&url, "app", key.secret()]), names, "{url}");
    }
    node.terminate();
}
