//! Writes and reads a volume with many operations in flight from one thread.
//!
//!     cargo run --example in_flight direct+local:direct.sock/data
use std::time::Duration;

use nearflash::{Client, Completion, Credentials, Error, QueueOptions, QueuePair};

const COUNT: u64 = 256;
const LEN: usize = 4096;
const START: u64 = 1 << 20;

/// Waits for completions, and passes each to `take`.
fn wait(pair: &mut QueuePair, mut take: impl FnMut(Completion)) -> Result<(), Error> {
    let mut done = Vec::new();
    while done.is_empty() {
        if pair.poll(&mut done)? == 0 {
            pair.wait(Duration::from_secs(1))?;
        }
    }
    done.into_iter().for_each(&mut take);
    Ok(())
}

pub(crate) fn run(url: &str) -> Result<(), Error> {
    let client = Client::connect(url, Credentials::NONE)?;
    let volume = client.volume_name().ok_or(Error::NoVolume)?;
    let mut pair = client.queue_pair(volume, QueueOptions::default().depth(32))?;

    // Buffers are allocated once. On the node's own machine, they are in memory that the node's
    // device reads and writes.
    let mut free = Vec::new();
    for _ in 0..pair.depth() {
        free.push(pair.buffer(LEN)?);
    }
    let (mut sum, mut failure) = (0, None);
    for is_write in [true, false] {
        let mut next = 0;
        while next < COUNT || pair.in_flight() > 0 {
            while next < COUNT
                && let Some(mut buffer) = free.pop()
            {
                let offset = START + next * LEN as u64;
                if is_write {
                    buffer.fill((next % 251) as u8);
                    pair.post_write_at(buffer, offset)?;
                } else {
                    pair.post_read_at(buffer, offset)?;
                }
                next += 1;
            }
            wait(&mut pair, |done| {
                let buffer = done.buffer.expect("reads and writes have a buffer");
                match done.result {
                    Ok(_) if is_write => {}
                    Ok(_) => sum += buffer.iter().map(|byte| u64::from(*byte)).sum::<u64>(),
                    Err(error) => failure = Some(error),
                }
                free.push(buffer);
            })?;
        }
    }
    if let Some(error) = failure {
        return Err(error);
    }
    println!("{COUNT} reads, the sum of their bytes is {sum}");
    Ok(())
}

fn main() -> Result<(), Error> {
    run(&std::env::args().nth(1).expect("usage: in_flight URL"))
}
