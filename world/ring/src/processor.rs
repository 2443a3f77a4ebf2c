//! The processor of each end.
//!
//! An end that spins for the other one delays it, if both run on the same processor: the other end runs
//! only when the scheduler ends the time slice. So each end states its processor in the header page, and an
//! end that sees its own there gives the processor up instead of spinning. A wrong statement costs time, and
//! nothing else.

use std::sync::atomic::Ordering;

use crate::geometry::{CLIENT_PROCESSOR_AT, NODE_PROCESSOR_AT};
use crate::memory::Memory;

/// A processor in the header page: its number plus one, or 0 for an unknown one.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Processor(u32);

impl Processor {
    /// The processor of the calling thread, which the scheduler may change at any time. Costs a few
    /// nanoseconds, without a system call.
    #[inline]
    pub fn current() -> Self {
        if cfg!(miri) {
            return Self::default();
        }
        let number = u32::try_from(rustix::thread::sched_getcpu()).unwrap_or(u32::MAX);
        Self(number.wrapping_add(1))
    }

    /// Whether both are known, and the same.
    #[inline]
    fn is(self, other: Self) -> bool {
        self == other && self != Self::default()
    }
}

/// The client's part: states the processor of the calling thread.
#[derive(Debug, Default)]
pub(crate) struct ClientProcessor {
    /// The processor in the header page.
    stated: Processor,
}

impl ClientProcessor {
    /// States the processor of the calling thread. Returns whether the node's end is on it, too.
    #[inline]
    pub(crate) fn state(&mut self, memory: &Memory) -> bool {
        let here = Processor::current();
        if here != self.stated {
            self.stated = here;
            store(memory, CLIENT_PROCESSOR_AT, here);
        }
        here.is(load(memory, NODE_PROCESSOR_AT))
    }
}

pub(crate) fn state_node(memory: &Memory, processor: Processor) {
    store(memory, NODE_PROCESSOR_AT, processor);
}

/// Whether the client has stated this processor.
#[inline]
pub(crate) fn is_client_on(memory: &Memory, processor: Processor) -> bool {
    processor.is(load(memory, CLIENT_PROCESSOR_AT))
}

#[inline]
fn load(memory: &Memory, at: usize) -> Processor {
    Processor(u32::from_le(memory.word(at).load(Ordering::Relaxed)))
}

fn store(memory: &Memory, at: usize, processor: Processor) {
    memory.word(at).store(processor.0.to_le(), Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::Geometry;

    fn both_ends() -> (Memory, Memory) {
        let geometry = Geometry::new(1, 4096).unwrap();
        let (node, fd) = Memory::create(geometry).unwrap();
        (node, Memory::open(&fd, geometry).unwrap())
    }

    #[test]
    #[cfg_attr(miri, ignore = "shared memory")]
    fn each_end_sees_that_the_other_is_on_its_processor() {
        let mut allowed = rustix::thread::sched_getaffinity(None).unwrap();
        let here = rustix::thread::sched_getcpu();
        allowed.clear();
        allowed.set(here);
        rustix::thread::sched_setaffinity(None, &allowed).unwrap();
        let (node, client) = both_ends();
        let mut processor = ClientProcessor::default();
        assert!(!processor.state(&client), "the node has not stated its processor");
        state_node(&node, Processor::current());
        assert!(processor.state(&client) && is_client_on(&node, Processor::current()));
        state_node(&node, Processor(Processor::current().0 + 1));
        assert!(!processor.state(&client));
    }

    #[test]
    fn an_end_of_an_older_version_shares_no_processor() {
        let geometry = Geometry::new(1, 4096).unwrap();
        let (memory, _fd) = Memory::create(geometry).unwrap();
        assert!(!is_client_on(&memory, Processor::default()));
        assert!(!is_client_on(&memory, Processor::current()));
    }

    #[test]
    fn a_client_that_states_nonsense_is_nowhere() {
        let geometry = Geometry::new(1, 4096).unwrap();
        let (memory, _fd) = Memory::create(geometry).unwrap();
        for stated in [u32::MAX, 1 << 31, 0] {
            memory.word(CLIENT_PROCESSOR_AT).store(stated, Ordering::Relaxed);
            assert!(!is_client_on(&memory, Processor::current()), "{stated}");
        }
    }
}
