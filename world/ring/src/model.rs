//! The shared memory in a model of threads, with the properties that `scripts/loom` proves.
//!
//! It has words and entries only. The tests' rings have their own layout, as small as possible.

use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

use crate::geometry::{ENTRY_LEN, Entry, Lane};
use crate::lane::{Consumer, Producer};
use crate::sleep::{Ring, say_sleeping, wake};

/// Indices and flags come first, then the entries.
const TAIL_AT: usize = 0;
const HEAD_AT: usize = 4;
const SLEEPS_AT: usize = 8;
const ENTRIES_AT: usize = 16;

#[derive(Debug)]
pub(crate) struct Memory {
    words: [AtomicU32; 3],
    longs: Box<[AtomicU64]>,
}

impl Memory {
    fn new(entries: u32) -> Self {
        let longs = (0..entries * 4).map(|_| AtomicU64::new(0)).collect();
        Self { words: [0; 3].map(AtomicU32::new), longs }
    }

    pub(crate) fn word(&self, offset: usize) -> &AtomicU32 {
        &self.words[offset / 4]
    }

    /// One of the four words of an entry stands for all of them: each is an atomic of its own, with
    /// the same memory order.
    fn long(&self, offset: usize) -> &AtomicU64 {
        &self.longs[(offset - ENTRIES_AT) / 8]
    }

    pub(crate) fn load_entry(&self, offset: usize) -> Entry {
        let long = self.long(offset).load(Ordering::Relaxed);
        let mut entry = [0; ENTRY_LEN];
        entry[..8].copy_from_slice(&long.to_le_bytes());
        entry
    }

    pub(crate) fn store_entry(&self, offset: usize, entry: &Entry) {
        let long = u64::from_le_bytes(entry[..8].try_into().expect("eight of them"));
        self.long(offset).store(long, Ordering::Relaxed);
    }
}

fn lane(entries: u32) -> Lane {
    Lane { tail_at: TAIL_AT, head_at: HEAD_AT, entries_at: ENTRIES_AT, entries }
}

fn entry(number: u8) -> Entry {
    let mut entry = [0; ENTRY_LEN];
    entry[0] = number;
    entry
}

/// A bell that keeps a ring, as a socket does.
struct Bell {
    has_rung: Mutex<bool>,
    changed: Condvar,
}

impl Bell {
    fn new() -> Self {
        Self { has_rung: Mutex::new(false), changed: Condvar::new() }
    }

    fn wait(&self) {
        let mut has_rung = self.has_rung.lock().expect("nothing panics");
        while !*has_rung {
            has_rung = self.changed.wait(has_rung).expect("nothing panics");
        }
    }

    fn silence(&self) {
        *self.has_rung.lock().expect("nothing panics") = false;
    }
}

impl Ring for Bell {
    fn ring(&self) {
        *self.has_rung.lock().expect("nothing panics") = true;
        self.changed.notify_one();
    }
}

/// In every interleaving of the two threads, entries come out whole, once and in order, even where
/// one replaces another.
#[test]
fn loom_entries_come_out_as_they_went_in() {
    const COUNT: u8 = 3;
    loom::model(|| {
        let memory = Arc::new(Memory::new(2));
        let filled = Arc::clone(&memory);
        let filling = thread::spawn(move || {
            let mut producer = Producer::new(lane(2));
            for number in 1..=COUNT {
                while !producer.push(&filled, &entry(number)).expect("the ring is whole") {
                    thread::yield_now();
                }
                producer.publish(&filled);
            }
        });
        let (mut consumer, mut taken) = (Consumer::new(lane(2)), Vec::new());
        while taken.len() < usize::from(COUNT) {
            if consumer.take(&memory, 9, &mut taken) == Ok(0) {
                thread::yield_now();
            }
        }
        assert_eq!(taken, (1..=COUNT).map(entry).collect::<Vec<_>>());
        filling.join().expect("it has no panic");
    });
}

/// A sleeper is woken by a publication: a lost wake-up is a deadlock, which the model detects.
#[test]
fn loom_a_sleeper_is_woken_by_what_is_shown() {
    const COUNT: u8 = 2;
    loom::model(|| {
        let memory = Arc::new(Memory::new(2));
        let bell = Arc::new(Bell::new());
        let (filled, rung) = (Arc::clone(&memory), Arc::clone(&bell));
        let filling = thread::spawn(move || {
            let mut producer = Producer::new(lane(2));
            for number in 1..=COUNT {
                assert_eq!(producer.push(&filled, &entry(number)), Ok(true));
                producer.publish(&filled);
                wake(&filled, SLEEPS_AT, &*rung);
            }
        });
        let (mut consumer, mut taken) = (Consumer::new(lane(2)), Vec::new());
        while taken.len() < usize::from(COUNT) {
            if consumer.take(&memory, 9, &mut taken) != Ok(0) {
                continue;
            }
            say_sleeping(&memory, SLEEPS_AT);
            if consumer.available(&memory) == Ok(0) {
                bell.wait();
            }
            memory.word(SLEEPS_AT).store(0, Ordering::Relaxed);
            bell.silence();
        }
        filling.join().expect("it has no panic");
    });
}
