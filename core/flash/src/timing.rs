//! The time that flash takes: dies as queues, below an FTL.
//!
//! A block is striped over all dies, page by page, as the superblocks of a drive are: one stream of
//! writes uses all of them. A die does one operation at a time, in the order of arrival. The
//! collector's operations occupy dies as the host's do, so that reads wait while a block is erased:
//! the long tail of flash under writes.
//!
//! Answers are moments in model time. Nothing here waits or reads a clock. Invariants:
//!
//! - Time does not run backwards: an operation that arrives with an earlier moment than the
//!   operation before it counts as having arrived with that one.
//! - The operations of a die do not overlap.

use nearflash_units::{Nanos, index};

use crate::ftl::{Block, Chips, Config, ConfigError, Ftl, LogicalPage, PhysicalPage, Stream};

/// The duration of each operation on a die.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Times {
    /// Reading a page.
    pub read: Nanos,
    /// Programming a page.
    pub program: Nanos,
    /// Erasing a die's part of a block.
    pub erase: Nanos,
}

impl Default for Times {
    /// Typical times of TLC flash.
    fn default() -> Self {
        Self {
            read: Nanos::from_micros(60),
            program: Nanos::from_micros(200),
            erase: Nanos::from_millis(2),
        }
    }
}

/// Dies, each with a queue.
#[derive(Clone, Debug)]
struct Dies {
    times: Times,
    pages_per_block: u32,
    /// When each die has done everything that was asked of it.
    busy_until: Vec<Nanos>,
}

impl Dies {
    fn new(count: u16, times: Times, pages_per_block: u32) -> Self {
        let busy_until = vec![Nanos(0); usize::from(count.max(1))];
        Self { times, pages_per_block, busy_until }
    }

    fn die_of(&self, page: PhysicalPage) -> usize {
        index(page.0 % self.pages_per_block) % self.busy_until.len()
    }

    /// Occupies a die, from `ready` or the end of its queue on. Returns the end.
    fn occupy(&mut self, die: usize, ready: Nanos, span: Nanos) -> Nanos {
        let until = &mut self.busy_until[die];
        *until = (*until).max(ready).plus(span);
        *until
    }
}

/// The operations that one request of the host causes.
struct Turn<'a> {
    dies: &'a mut Dies,
    now: Nanos,
    /// When the content that the host programs is known.
    ready: Nanos,
    /// The end of the host's program.
    programmed_at: Nanos,
    /// The end of the last copy.
    copied_at: Nanos,
}

impl Chips for Turn<'_> {
    fn program(&mut self, page: PhysicalPage) {
        let die = self.dies.die_of(page);
        self.programmed_at = self.dies.occupy(die, self.ready, self.dies.times.program);
    }

    fn copy(&mut self, from: PhysicalPage, to: PhysicalPage) {
        let [source, destination] = [from, to].map(|page| self.dies.die_of(page));
        let read_at = self.dies.occupy(source, self.now, self.dies.times.read);
        let copied_at = self.dies.occupy(destination, read_at, self.dies.times.program);
        self.copied_at = self.copied_at.max(copied_at);
    }

    fn erase(&mut self, _: Block) {
        for die in 0..self.dies.busy_until.len() {
            self.dies.occupy(die, self.now.max(self.copied_at), self.dies.times.erase);
        }
    }
}

/// An FTL whose operations take time.
#[derive(Clone, Debug)]
pub struct TimedFtl {
    ftl: Ftl,
    dies: Dies,
    /// The latest arrival.
    now: Nanos,
}

impl TimedFtl {
    /// An FTL over erased flash with `dies` dies, at least one.
    ///
    /// # Errors
    /// When the FTL's configuration is not valid.
    pub fn new(config: Config, dies: u16, times: Times) -> Result<Self, ConfigError> {
        let dies = Dies::new(dies, times, config.geometry.pages_per_block);
        Ok(Self { ftl: Ftl::new(config)?, dies, now: Nanos(0) })
    }

    /// The device over blocks that endure so many erases each ([`Ftl::with_endurance`]).
    #[must_use]
    pub fn with_endurance(mut self, erases: u32) -> Self {
        self.ftl = self.ftl.with_endurance(erases);
        self
    }

    /// The FTL.
    pub fn ftl(&self) -> &Ftl {
        &self.ftl
    }

    /// A read that arrives at `now`. Returns the moment of its answer: at once for a page without
    /// content.
    pub fn read(&mut self, now: Nanos, page: LogicalPage) -> Nanos {
        let now = self.arrive(now);
        let Some(page) = self.ftl.lookup(page) else { return now };
        self.dies.occupy(self.dies.die_of(page), now, self.dies.times.read)
    }

    /// A write that arrives at `now`. Returns the moment at which its page is programmed, after
    /// everything that the collector had to do first.
    pub fn write(&mut self, now: Nanos, page: LogicalPage, stream: Stream) -> Nanos {
        let now = self.arrive(now);
        self.write_when(now, page, stream)
    }

    /// A write of a part of a page that arrives at `now`: a page with content is read first, and
    /// written as a whole. Returns the moment at which it is programmed.
    pub fn modify(&mut self, now: Nanos, page: LogicalPage, stream: Stream) -> Nanos {
        let read_at = self.read(now, page);
        self.write_when(read_at, page, stream)
    }

    /// A write that has arrived, and whose content is known at `ready`.
    fn write_when(&mut self, ready: Nanos, page: LogicalPage, stream: Stream) -> Nanos {
        let now = self.now;
        let mut turn =
            Turn { dies: &mut self.dies, now, ready, programmed_at: now, copied_at: now };
        self.ftl.write(page, stream, &mut turn);
        turn.programmed_at
    }

    /// A trim, which takes no time.
    pub fn trim(&mut self, page: LogicalPage) {
        self.ftl.trim(page);
    }

    fn arrive(&mut self, now: Nanos) -> Nanos {
        self.now = self.now.max(now);
        self.now
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ftl::{Collector, Geometry, Moves};

    const PAGES_PER_BLOCK: u32 = 8;

    fn flash(dies: u16) -> TimedFtl {
        let geometry = Geometry { logical_pages: 64, blocks: 12, pages_per_block: PAGES_PER_BLOCK };
        let config = Config {
            geometry,
            collector: Collector::Greedy,
            streams: 1,
            moves: Moves::Mixed,
            erase_spread_max: None,
        };
        TimedFtl::new(config, dies, Times::default()).unwrap()
    }

    #[test]
    fn dies_work_side_by_side_and_each_does_one_operation_at_a_time() {
        let mut flash = flash(4);
        let writes: Vec<_> =
            (0..8).map(|page| flash.write(Nanos(0), LogicalPage(page), Stream(0))).collect();
        let (first, second) = (Nanos::from_micros(200), Nanos::from_micros(400));
        assert_eq!(writes, [[first; 4], [second; 4]].concat());
        let read = flash.read(Nanos(0), LogicalPage(0));
        assert_eq!(read, second.plus(Nanos::from_micros(60)));
    }

    #[test]
    fn a_page_without_content_is_answered_at_once() {
        let mut flash = flash(1);
        flash.write(Nanos(0), LogicalPage(0), Stream(0));
        assert_eq!(flash.read(Nanos(7), LogicalPage(1)), Nanos(7));
        flash.trim(LogicalPage(0));
        assert_eq!(flash.read(Nanos(9), LogicalPage(0)), Nanos(9));
    }

    #[test]
    fn a_part_of_a_page_is_read_before_it_is_programmed() {
        let mut flash = flash(2);
        let (first, other) = (LogicalPage(0), LogicalPage(1));
        // Nothing to read yet.
        assert_eq!(flash.modify(Nanos(0), first, Stream(0)), Nanos::from_micros(200));
        let now = Nanos::from_millis(1);
        assert_eq!(flash.modify(now, first, Stream(0)), now.plus(Nanos::from_micros(260)));
        // The read does not advance the time of what arrives next.
        let program = Nanos::from_micros(200);
        assert_eq!(
            flash.write(now, other, Stream(0)),
            now.plus(Nanos::from_micros(60)).plus(program)
        );
    }

    #[test]
    fn a_read_waits_for_the_collector() {
        let mut flash = flash(1);
        let times = Times::default();
        let mut now = Nanos(0);
        let mut longest = Nanos(0);
        for write in 0..1_000 {
            now = flash.write(now, LogicalPage(write * 7 % 64), Stream(0));
            let answer = flash.read(now, LogicalPage(0));
            longest = longest.max(answer.since(now));
            now = answer;
        }
        assert!(flash.ftl().counts().erases > 50, "{:?}", flash.ftl().counts());
        // The host waits for each answer, so that only the collector can delay a read: here, it
        // works before a write is programmed, and has ended when that is answered.
        assert_eq!(longest, times.read);
        // A read that arrives together with the write waits for all of that.
        let waits = (0..200).map(|write| {
            let arrived_at = now;
            flash.write(arrived_at, LogicalPage(write * 11 % 64), Stream(0));
            now = flash.read(arrived_at, LogicalPage(0));
            now.since(arrived_at)
        });
        assert!(waits.max().unwrap() >= times.erase.plus(times.program).plus(times.read));
    }

    proptest! {
        #[test]
        fn model_time_never_runs_backwards(
            steps in prop::collection::vec((any::<bool>(), 0_u32..64, 0_u64..3_000_000), 1..600),
            dies in 1_u16..6,
        ) {
            let mut flash = flash(dies);
            let mut latest = Nanos(0);
            for (is_read, page, at) in steps {
                let before = flash.dies.busy_until.clone();
                let page = LogicalPage(page);
                let answer = match is_read {
                    true => flash.read(Nanos(at), page),
                    false => flash.write(Nanos(at), page, Stream(0)),
                };
                latest = latest.max(Nanos(at));
                prop_assert!(answer >= latest);
                prop_assert_eq!(flash.now, latest);
                prop_assert!(before.iter().zip(&flash.dies.busy_until).all(|(was, is)| was <= is));
                let Some(place) = flash.ftl.lookup(page) else { continue };
                // The die had done all earlier work before it did this.
                let times = Times::default();
                let takes = if is_read { times.read } else { times.program };
                prop_assert!(answer >= before[flash.dies.die_of(place)].plus(takes));
            }
        }
    }
}
