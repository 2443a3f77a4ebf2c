//! The requests of the hosts and their answers, per block.

use std::collections::BTreeMap;

/// A time of the simulation.
pub(super) type Time = u64;

/// How a write has ended, for its host.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum End {
    Acked(Time),
    /// It may have been done before this time.
    Unknown(Time),
    /// It was not done, and never will be.
    Refused,
    Open,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Write {
    start: Time,
    end: End,
    /// A flush has covered it.
    is_flushed: bool,
}

impl Write {
    fn is_acked_before(&self, time: Time) -> bool {
        matches!(self.end, End::Acked(at) if at < time)
    }

    fn has_ended_before(&self, time: Time) -> bool {
        matches!(self.end, End::Acked(at) | End::Unknown(at) if at < time)
    }
}

#[derive(Clone, Copy, Debug)]
struct Read {
    start: Time,
    end: Time,
    stamp: u64,
}

/// The operations on one block. Stamp 0 is what it held at first.
#[derive(Debug, Default)]
pub(super) struct Block {
    writes: BTreeMap<u64, Write>,
    reads: Vec<Read>,
    /// Values that were read before may revert, and bytes that were written before may be lost.
    reads_from: Time,
    writes_from: Time,
}

impl Block {
    pub(super) fn write(&mut self, stamp: u64, start: Time) {
        self.writes.insert(stamp, Write { start, end: End::Open, is_flushed: false });
    }

    /// Returns whether the write counts as acknowledged.
    pub(super) fn end(&mut self, stamp: u64, end: End) -> bool {
        let write = self.writes.get_mut(&stamp).expect("it has begun");
        write.end = match end {
            // The answer was under way when the bytes were lost.
            End::Acked(at) if write.start < self.writes_from => End::Unknown(at),
            end => end,
        };
        matches!(write.end, End::Acked(_))
    }

    /// A flush that began at this time has ended. Returns the writes that it has covered.
    pub(super) fn flush(&mut self, start: Time) -> Vec<u64> {
        let mut covered = Vec::new();
        for (stamp, write) in &mut self.writes {
            if write.is_acked_before(start) {
                write.is_flushed = true;
                covered.push(*stamp);
            }
        }
        covered
    }

    /// Values that were read may revert, and bytes that were not flushed may be lost.
    pub(super) fn excuse(&mut self, now: Time, loses_writes: bool) {
        self.reads.clear();
        self.reads_from = now;
        if loses_writes {
            self.writes_from = now;
        }
        let unflushed = self.writes.values_mut().filter(|write| !write.is_flushed);
        for write in unflushed.filter(|_| loses_writes) {
            if let End::Acked(_) = write.end {
                write.end = End::Unknown(now);
            }
        }
    }

    /// Judges a read.
    pub(super) fn read(&mut self, stamp: u64, start: Time, end: Time) -> Result<(), String> {
        let first = Write { start: 0, end: End::Acked(0), is_flushed: true };
        let write = self.writes.get(&stamp).copied().unwrap_or(first);
        if write.end == End::Refused {
            return Err(format!("a read returned {stamp}, which was refused"));
        }
        let seen = self.reads.iter().filter(|read| read.stamp == stamp).map(|read| read.end).min();
        for (other, later) in self.writes.iter().filter(|(other, _)| **other != stamp) {
            let follows =
                write.has_ended_before(later.start) || seen.is_some_and(|at| at < later.start);
            if follows && later.is_acked_before(start) {
                return Err(format!(
                    "a read returned {stamp}, but {other} was acknowledged after it"
                ));
            }
        }
        for read in self.reads.iter().filter(|read| read.stamp != stamp && read.end < start) {
            let other = self.writes.get(&read.stamp).copied().unwrap_or(first);
            if write.has_ended_before(other.start) || seen.is_some_and(|at| at < read.start) {
                return Err(format!(
                    "a read returned {stamp} after one had returned {}",
                    read.stamp
                ));
            }
        }
        if start >= self.reads_from {
            self.reads.push(Read { start, end, stamp });
        }
        Ok(())
    }
}
