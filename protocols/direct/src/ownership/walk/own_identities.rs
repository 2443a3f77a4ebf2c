//! A simpler rule that does not work: each owner has an identity of its own. It writes the identity
//! into the block after it has swapped the term, and the next owner claims the identity that it finds
//! there. If a taker pauses between the two, nobody ends its connection: the next one finds the
//! identity of the owner before it.

use std::collections::{HashSet, VecDeque};

use super::{Term, Violation};

const PROCESSES: usize = 3;
const WRITES: u8 = 2;

#[derive(Clone, Eq, Hash, PartialEq)]
struct World {
    term: Term,
    /// The process whose identity is in the block.
    recorded: usize,
    /// The processes that have a connection.
    is_open: [bool; PROCESSES],
    written: Term,
    processes: [Process; PROCESSES],
}

#[derive(Clone, Copy, Eq, Hash, PartialEq)]
struct Process {
    step: Step,
    term: Term,
    writes: u8,
}

#[derive(Clone, Copy, Eq, Hash, PartialEq)]
enum Step {
    /// Reads the term and the identity of the former owner.
    Read,
    Swap {
        former: usize,
    },
    Record {
        former: usize,
    },
    Claim {
        former: usize,
    },
    ReadAgain,
    Write,
    Over,
}

impl World {
    /// The first process owns the volume, the others want it.
    fn new() -> Self {
        let taker = Process { step: Step::Read, term: Term::NONE, writes: 0 };
        let owner = Process { step: Step::Write, term: Term(1), writes: 0 };
        Self {
            term: Term(1),
            recorded: 0,
            is_open: std::array::from_fn(|process| process == 0),
            written: Term::NONE,
            processes: [owner, taker, taker],
        }
    }

    /// The world after the next step of a process, if it has one.
    fn after(mut self, at: usize) -> Option<Result<Self, Violation>> {
        let mut process = self.processes[at];
        process.step = match process.step {
            Step::Read => {
                process.term = self.term;
                Step::Swap { former: self.recorded }
            }
            Step::Swap { former } if self.term == process.term => {
                self.term = self.term.next()?;
                process.term = self.term;
                Step::Record { former }
            }
            Step::Record { former } => {
                self.recorded = at;
                Step::Claim { former }
            }
            Step::Claim { former } => {
                self.is_open[former] = false;
                self.is_open[at] = true;
                Step::ReadAgain
            }
            Step::ReadAgain if self.term == process.term => Step::Write,
            Step::Swap { .. } | Step::ReadAgain => Step::Over,
            Step::Write if self.is_open[at] && process.writes < WRITES => {
                if process.term < self.written {
                    return Some(Err(Violation));
                }
                self.written = process.term;
                process.writes += 1;
                Step::Write
            }
            Step::Write | Step::Over => return None,
        };
        self.processes[at] = process;
        Some(Ok(self))
    }
}

#[test]
fn an_owner_with_an_identity_of_its_own_can_write_after_its_successor() {
    let start = World::new();
    let mut seen = HashSet::from([start.clone()]);
    let mut queue = VecDeque::from([start]);
    let mut violations = 0;
    while let Some(world) = queue.pop_front() {
        for after in (0..PROCESSES).filter_map(|at| world.clone().after(at)) {
            match after {
                Err(Violation) => violations += 1,
                Ok(after) if seen.insert(after.clone()) => queue.push_back(after),
                Ok(_) => {}
            }
        }
    }
    assert!(violations > 0, "none in {} states", seen.len());
}
