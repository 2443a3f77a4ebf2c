//! A program in C calls every function of the header, on a node that runs.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{declared, link, root};
use nearflash::direct::{Rights, Run, SealTerms};
use nearflash::{Client, QueueOptions};
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

/// A seal for 8 KiB of the volume from 1 MiB on, as hexadecimal digits.
fn sealed(client: &Client) -> String {
    let mut owner = client.queue_pair("data", QueueOptions::default()).unwrap();
    let key = owner.seal_key().unwrap();
    let terms = SealTerms {
        object: 1,
        uuid: [5; 16],
        version: 1,
        rights: Rights::READ_WRITE,
        good_until: key.good_for(Duration::from_secs(60)),
        runs: [Run { start: 1 << 20, len: 8192 }].into(),
    };
    let seal = key.mint(terms).unwrap().encode();
    seal.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Runs the program. Returns the functions that it called.
fn called(program: &Path, seal: &str, arguments: &[&str]) -> BTreeSet<String> {
    let said = Command::new(program).args(arguments).env("SEAL", seal).output().unwrap();
    assert!(said.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&said.stderr));
    String::from_utf8(said.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// The program, compiled and linked in the test's folder.
fn program(place: &Place) -> PathBuf {
    std::fs::write(place.path("counted.h"), counted(&declared())).unwrap();
    let program = place.path("every_function");
    link(&root().join("tests/every_function.c"), &place.path(""), &program);
    program
}

const DEVICE: [&str; 4] = ["--device", "r=ram:64MiB", "--volume", "data=8MiB@r"];

#[test]
fn every_function_of_the_header_works_on_a_node() {
    let names = declared();
    let place = Place::new();
    let program = program(&place);
    let node = Node::with_direct(&place, &DEVICE);
    for door in Door::ALL {
        let url = format!("{}/data", door.url(&node));
        let seal = sealed(&door.anonymous(&node).unwrap());
        assert_eq!(called(&program, &seal, &[&url]), names, "{url}");
    }
    let key = Key::create(&node, "app", &[]);
    key.grant(&node, "data", &["--rights", "rw"]);
    for door in Door::ALL {
        let url = format!("{}/data", door.url(&node));
        let seal = sealed(&key.connect(&node, door).unwrap());
        assert_eq!(called(&program, &seal, &[&url, "app", key.secret()]), names, "{url}");
    }
    node.terminate();
}

#[test]
fn the_example_shows_the_data_that_it_reads() {
    let place = Place::new();
    let program = place.path("example");
    link(&root().join("examples/example.c"), &root().join("include"), &program);
    let node = Node::with_direct(&place, &DEVICE);
    for (door, before) in Door::ALL.into_iter().zip(0..) {
        let said = Command::new(&program).arg(format!("{}/data", door.url(&node))).output();
        assert_eq!(
            String::from_utf8(said.unwrap().stdout).unwrap(),
            format!(
                "Hello, flash\nrun {before} times before\n\
                 32 reads, the sum of their bytes is 2031616\n"
            )
        );
    }
    node.terminate();
}

#[test]
fn a_program_that_sleeps_in_its_event_loop_wakes_up_when_the_node_dies() {
    let place = Place::new();
    let program = program(&place);
    for door in Door::ALL {
        let node = Node::with_direct(&place, &DEVICE);
        let url = format!("{}/data", door.url(&node));
        let started = Command::new(&program).args([&url, "lost"]).stdout(Stdio::piped()).spawn();
        let mut sleeper = started.unwrap();
        let mut line = String::new();
        BufReader::new(sleeper.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "asleep\n");
        node.crash();
        assert!(sleeper.wait().unwrap().success(), "{url}");
    }
}

#[test]
fn a_flush_over_a_new_connection_shows_that_it_says_nothing_of_earlier_writes() {
    let place = Place::new();
    let program = program(&place);
    let device = place.flash("64MiB");
    let flags = ["--device", &device, "--volume", "data=8MiB@flash"];
    let node = Node::with_direct(&place, &flags);
    let url = format!("{}/data", Door::Local.url(&node));
    let mut writer = Command::new(&program);
    let writer = writer.args([&url, "replaced"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut writer = writer.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(writer.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "written\n");
    node.crash();
    let node = Node::with_direct(&place, &flags);
    writer.stdin.take().unwrap().write_all(b"go on\n").unwrap();
    assert!(writer.wait().unwrap().success());
    node.terminate();
}

#[test]
fn calls_and_operations_that_are_late_end_and_return_the_memory() {
    let place = Place::new();
    let program = program(&place);
    let slow = "n=null:64MiB,read-delay=1000s,write-delay=1000s";
    for door in Door::ALL {
        let node = Node::with_direct(&place, &["--device", slow, "--volume", "data=8MiB@n"]);
        let url = format!("{}/data", door.url(&node));
        called(&program, "", &[&url, "late"]);
        node.crash();
    }
}
