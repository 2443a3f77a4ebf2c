//! The bytes that an open file lost when it went back.
//!
//! A program that has the file open may go on after its fsync(2) has failed, and read back what it wrote: a
//! database undoes a transaction from its journal. So the file keeps its former size for the programs
//! that have it open, and the lost bytes cannot be read until they are written again. Otherwise, the file
//! would look as if it had never grown, and the undoing would succeed and undo nothing. When all
//! programs have closed the file, it has the size that it went back to.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// A range of an open file. It changes only while the contents of the file are locked exclusively.
#[derive(Debug, Default)]
pub(crate) struct LostRange {
    start: AtomicU64,
    end: AtomicU64,
}

impl LostRange {
    fn get(&self) -> Range<u64> {
        self.start.load(Ordering::Relaxed)..self.end.load(Ordering::Relaxed)
    }

    fn set(&self, range: Range<u64>) {
        let range = if range.is_empty() { 0..0 } else { range };
        self.start.store(range.start, Ordering::Relaxed);
        self.end.store(range.end, Ordering::Relaxed);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.get().is_empty()
    }

    /// The end, or 0: programs that have the file open see at least this size.
    pub(crate) fn end(&self) -> u64 {
        self.get().end
    }

    pub(crate) fn meets(&self, other: &Range<u64>) -> bool {
        let lost = self.get();
        lost.start.max(other.start) < lost.end.min(other.end)
    }

    /// The length of the part of `asked` that can be read at once; `None` if its first byte is lost.
    pub(crate) fn readable(&self, asked: &Range<u64>) -> Option<u64> {
        let lost = self.get();
        if lost.contains(&asked.start) {
            return None;
        }
        let is_before = !lost.is_empty() && asked.start < lost.start;
        let end = if is_before { asked.end.min(lost.start) } else { asked.end };
        Some(end.saturating_sub(asked.start))
    }

    /// These bytes are lost, too. The range becomes one that has both.
    pub(crate) fn add(&self, more: Range<u64>) {
        let lost = self.get();
        match (lost.is_empty(), more.is_empty()) {
            (_, true) => {}
            (true, false) => self.set(more),
            (false, false) => self.set(lost.start.min(more.start)..lost.end.max(more.end)),
        }
    }

    /// These bytes were written. Bytes in the middle of the range count as lost nevertheless.
    pub(crate) fn fill(&self, written: &Range<u64>) {
        let lost = self.get();
        if !self.meets(written) {
            return;
        }
        if written.start <= lost.start {
            self.set(written.end..lost.end);
        } else if written.end >= lost.end {
            self.set(lost.start..written.start);
        }
    }

    /// The file was cut to this size.
    pub(crate) fn cut(&self, size: u64) {
        let lost = self.get();
        self.set(lost.start..lost.end.min(size));
    }
}
