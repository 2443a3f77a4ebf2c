//! The cost of records and handshakes, without a socket: both ends in one thread.
//!
//! `BENCH=1 cargo bench -p nearflash-tls` runs the full size. Without `BENCH` a small size runs, so that the benchmark
//! stays tested. The hash covers the plaintext and shows that each run does the same work.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nearflash_tls::{
    Client, KeySource, Opened, PskKey, RECORD_LEN, RECORD_OVERHEAD, Server, Stream, Suite,
};

const SUITES: [Suite; 2] = [Suite::Aes128Sha256, Suite::Aes256Sha384];
/// The plaintext of one batch: a read of 128 KiB.
const BATCH_LEN: usize = 128 * 1024;

#[derive(Debug)]
struct OneKey(Suite);

impl KeySource for OneKey {
    fn key(&self, _: &[u8]) -> Option<PskKey> {
        Some(key(self.0))
    }
}

fn key(suite: Suite) -> PskKey {
    PskKey::new(suite, &[7; 48][..if suite == Suite::Aes128Sha256 { 32 } else { 48 }])
}

/// A connection, and the time that the server's end of its handshake took.
fn connect(client: &Client, server: &Server, suite: Suite) -> (Stream, Stream, Duration) {
    let mut near = client.connect(b"me", key(suite)).expect("there is memory");
    near.handshake(&[]).expect("nothing has come");
    let hello = near.take_output(Vec::new());
    let began = Instant::now();
    let mut far = server.accept().expect("there is memory");
    far.handshake(&hello).expect("the hello is valid");
    let mut spent = began.elapsed();
    let answer = far.take_output(Vec::new());
    assert!(near.handshake(&answer).expect("the answer is valid"));
    let finished = near.take_output(Vec::new());
    let began = Instant::now();
    assert!(far.handshake(&finished).expect("the keys are the same"));
    spent += began.elapsed();
    (near, far, spent)
}

fn main() {
    let rounds: u32 = if std::env::var_os("BENCH").is_some() { 4000 } else { 4 };
    let client = Client::new().expect("there is OpenSSL");
    for suite in SUITES {
        let server = Server::new(Arc::new(OneKey(suite))).expect("there is OpenSSL");
        let shaken: Duration = (0..rounds).map(|_| connect(&client, &server, suite).2).sum();
        println!("handshake {suite} n={rounds} server={:?}", shaken / rounds);
        let (mut near, mut far, _) = connect(&client, &server, suite);
        for record_len in [4096 + 24, RECORD_LEN] {
            records(&mut near, &mut far, (suite, record_len, rounds));
        }
    }
}

/// Seals at the server's end and opens at the client's, batch by batch.
fn records(near: &mut Stream, far: &mut Stream, (suite, record_len, rounds): (Suite, usize, u32)) {
    let plaintext: Vec<u8> = (0..=250).cycle().take(record_len).collect();
    let mut output = Vec::with_capacity(BATCH_LEN + 64 * RECORD_OVERHEAD);
    let mut room = vec![0; BATCH_LEN + record_len];
    let (mut sealing, mut opening, mut hash, mut bytes) =
        (Duration::ZERO, Duration::ZERO, 0_u64, 0_u64);
    for _ in 0..rounds {
        output.clear();
        far.take_output(std::mem::take(&mut output));
        let began = Instant::now();
        for _ in 0..BATCH_LEN / record_len {
            far.seal(black_box(&plaintext)).expect("the connection is open");
        }
        output = far.take_output(Vec::new());
        sealing += began.elapsed();
        let began = Instant::now();
        let opened = near.open(&output, [&mut room, &mut []]).expect("the records are valid");
        opening += began.elapsed();
        let Opened::Bytes(len) = opened else { panic!("the connection is open") };
        bytes += u64::try_from(len).unwrap_or_default();
        hash = hash.rotate_left(5) ^ u64::from(room[len - 1]);
    }
    let speed = |spent: Duration| bytes as f64 / spent.as_secs_f64() / 1e9;
    println!(
        "{suite} records of {record_len} n={bytes} hash={hash:016x} seal={:.2} GB/s open={:.2} GB/s",
        speed(sealing),
        speed(opening)
    );
}
