//! Writes to a volume, reads it, and counts in it, with blocking calls.
//!
//!     cargo run --example hello direct://127.0.0.1:4421/data
use std::time::Duration;

use nearflash::{Client, Credentials, Error};

pub(crate) fn run(url: &str) -> Result<(), Error> {
    let client = Client::connect(url, Credentials::NONE)?;
    // Each call takes 5 s at most.
    let volume = client.open_named()?.with_timeout(Duration::from_secs(5));

    volume.write_at(b"Hello, flash", 4000)?;
    volume.flush()?;
    let mut bytes = [0; 12];
    volume.read_at(&mut bytes, 4000)?;
    println!("{}", String::from_utf8_lossy(&bytes));

    // Any number of threads may share a volume, and count in the same word.
    std::thread::scope(|scope| {
        let count = || volume.fetch_add(8192, 1).map(|_| ());
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(count)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("it does not panic"))
    })?;
    println!("counted to {}", volume.fetch_add(8192, 0)?);
    Ok(())
}

fn main() -> Result<(), Error> {
    run(&std::env::args().nth(1).expect("usage: hello URL"))
}
