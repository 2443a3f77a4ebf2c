//! The examples do what they say, against a scripted node.
#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(dead_code, reason = "the examples' own main functions, and what other tests share")]

use crate::fake_node;

#[path = "../examples/copy.rs"]
mod copy;
#[path = "../examples/hello.rs"]
mod hello;
#[path = "../examples/in_flight.rs"]
mod in_flight;
#[path = "../examples/tasks.rs"]
mod tasks;

use fake_node::{FakeNode, Script};

fn node() -> FakeNode {
    FakeNode::start(&[Script::default()])
}

#[test]
fn hello_writes_and_counts() {
    let node = node();
    hello::run(&node.url).unwrap();
    let bytes = node.bytes();
    assert_eq!((&bytes[4000..4012], bytes[8192]), (&b"Hello, flash"[..], 4));
}

#[test]
fn in_flight_writes_every_block() {
    let node = node();
    in_flight::run(&node.url).unwrap();
    let bytes = node.bytes();
    for number in 0..256usize {
        let byte = u8::try_from(number % 251).unwrap();
        assert!(bytes[(1 << 20) + number * 4096..][..4096].iter().all(|is| *is == byte));
    }
}

#[test]
fn copy_returns_the_bytes_that_it_was_given() {
    let node = node();
    let given: Vec<u8> = (0..=250).cycle().take(3 << 20).collect();
    let mut returned = Vec::new();
    copy::run(&node.url, &given[..], &mut returned).unwrap();
    assert!(returned == given && node.bytes().starts_with(&given));
    assert_eq!(node.flushes(), 1);
}

#[tokio::test]
async fn tasks_write_their_numbers() {
    let node = node();
    tasks::run(node.url.clone()).await.unwrap();
    assert!((0..100).all(|task| usize::from(node.bytes()[task * 4096]) == task));
}
