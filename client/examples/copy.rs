//! Copies standard input to a volume, and the volume's beginning to standard output, as if the
//! volume were a file.
//!
//!     cargo run --example copy direct://127.0.0.1:4421/data <in >out
use std::io::{self, BufWriter, Read, Seek as _, Write};

use nearflash::{Client, Credentials};

pub(crate) fn run(url: &str, mut from: impl Read, mut to: impl Write) -> io::Result<()> {
    let client = Client::connect(url, Credentials::NONE)?;
    let cursor = client.open_named()?.cursor();

    // Every call of a cursor goes to the node, so small ones are gathered.
    let mut buffered = BufWriter::with_capacity(1 << 20, cursor);
    let len = io::copy(&mut from, &mut buffered)?;
    // To flush a cursor makes everything durable on stable media.
    buffered.flush()?;

    let mut cursor = buffered.into_inner()?;
    cursor.rewind()?;
    io::copy(&mut cursor.take(len), &mut to)?;
    to.flush()
}

fn main() -> io::Result<()> {
    let url = std::env::args().nth(1).expect("usage: copy URL");
    run(&url, io::stdin().lock(), io::stdout().lock())
}
