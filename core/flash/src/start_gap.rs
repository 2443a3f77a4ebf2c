//! Start-gap wear levelling, for memory that is written in place (Qureshi and others, MICRO 2009).
//!
//! N lines lie on N + 1 places, so one place is empty: the *gap*. Every ψ writes, the line before
//! the gap moves into it, and the gap moves down by one. When it has passed all places, every line
//! lies one place further, and the *start* register counts that. The place of a line is computed
//! from both registers: there is no table.
//!
//! Lines that lie next to each other stay so, and a region that is written often moves slowly. A
//! static, keyed permutation of the addresses spreads such a region over the memory.
//!
//! Invariants: lines have different places, none of which is the gap; a line's place changes only
//! when its content moves.

use crate::feistel::Feistel;

/// A line as the host addresses it.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Line(pub u32);

/// A place of the memory that holds a line.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Place(pub u32);

/// The copy of a line into the gap: a read of one place, and a write of the other.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct GapMove {
    /// The line's place until now, which is the gap from now on.
    pub from: Place,
    /// The former gap.
    pub to: Place,
}

/// The configuration.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct StartGapConfig {
    /// The number of lines, N, at least 1.
    pub lines: u32,
    /// Writes between two moves of the gap, ψ, at least 1.
    pub writes_per_move: u32,
    /// The key of the permutation of addresses; `None` for addresses as they are.
    pub randomise: Option<u64>,
}

impl StartGapConfig {
    /// The usual ψ: one write in a hundred is a copy.
    pub const WRITES_PER_MOVE: u32 = 100;
}

/// The registers of start-gap.
#[derive(Clone, Debug)]
pub struct StartGap {
    config: StartGapConfig,
    permutation: Option<Feistel>,
    start: u32,
    gap: u32,
    /// Writes since the gap moved.
    writes: u32,
}

impl StartGap {
    /// Start-gap over memory in its first state: each line at the place of its permuted number,
    /// and the gap behind all lines.
    ///
    /// # Panics
    /// When there are no lines, or 2^32 - 1, or when ψ is 0.
    pub fn new(config: StartGapConfig) -> Self {
        let StartGapConfig { lines, writes_per_move, randomise } = config;
        assert!(lines > 0 && lines < u32::MAX, "places are numbered by 32 bits");
        assert!(writes_per_move > 0, "the gap cannot move more than once for each write");
        let permutation = randomise.map(|key| Feistel::new(lines, key));
        Self { config, permutation, start: 0, gap: lines, writes: 0 }
    }

    /// The number of places: one more than there are lines.
    pub fn places(&self) -> u32 {
        self.config.lines + 1
    }

    /// The empty place.
    pub fn gap(&self) -> Place {
        Place(self.gap)
    }

    /// The place that holds a line.
    pub fn place(&self, line: Line) -> Place {
        assert!(line.0 < self.config.lines, "{line:?} does not exist");
        let number = self.permutation.as_ref().map_or(line.0, |it| it.permute(line.0));
        // Below twice the number of lines, but perhaps above 32 bits.
        let turned = u64::from(number) + u64::from(self.start);
        let turned = turned % u64::from(self.config.lines);
        let turned = u32::try_from(turned).expect("below the number of lines");
        Place(if turned >= self.gap { turned + 1 } else { turned })
    }

    /// A write of a line. Returns the place to write, and the move of the gap that follows, if one
    /// is due.
    pub fn write(&mut self, line: Line) -> (Place, Option<GapMove>) {
        let place = self.place(line);
        self.writes += 1;
        if self.writes < self.config.writes_per_move {
            return (place, None);
        }
        self.writes = 0;
        (place, Some(self.move_gap()))
    }

    fn move_gap(&mut self) -> GapMove {
        let to = Place(self.gap);
        if self.gap == 0 {
            self.gap = self.config.lines;
            self.start = (self.start + 1) % self.config.lines;
        } else {
            self.gap -= 1;
        }
        GapMove { from: Place(self.gap), to }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn start_gap(lines: u32, writes_per_move: u32, randomise: Option<u64>) -> StartGap {
        StartGap::new(StartGapConfig { lines, writes_per_move, randomise })
    }

    /// A memory that holds at each place the line written there.
    struct Memory(Vec<Option<Line>>);

    impl Memory {
        fn new(start_gap: &StartGap) -> Self {
            let mut memory = Self(vec![None; nearflash_units::index(start_gap.places())]);
            for line in (0..start_gap.config.lines).map(Line) {
                *memory.at(start_gap.place(line)) = Some(line);
            }
            memory
        }

        fn at(&mut self, place: Place) -> &mut Option<Line> {
            &mut self.0[nearflash_units::index(place.0)]
        }

        fn copy(&mut self, moved: GapMove) {
            assert_eq!(*self.at(moved.to), None, "a line would be overwritten");
            *self.at(moved.to) = self.at(moved.from).take();
        }

        /// Every line is at its place, and the gap is empty.
        fn check(&mut self, start_gap: &StartGap) {
            for line in (0..start_gap.config.lines).map(Line) {
                assert_eq!(*self.at(start_gap.place(line)), Some(line));
            }
            assert_eq!(*self.at(start_gap.gap()), None);
        }
    }

    proptest! {
        #[test]
        fn lines_and_places_are_a_bijection_in_every_state(
            lines in 1_u32..40,
            randomise: Option<u64>,
        ) {
            let mut start_gap = start_gap(lines, 1, randomise);
            let states = (lines + 1) * lines;
            for _ in 0..=states {
                let mut places: Vec<_> =
                    (0..lines).map(|line| start_gap.place(Line(line))).collect();
                places.push(start_gap.gap());
                places.sort_unstable();
                prop_assert!(places.into_iter().eq((0..=lines).map(Place)));
                start_gap.write(Line(0));
            }
        }
    }

    #[test]
    fn nothing_is_lost_over_a_million_moves_of_the_gap() {
        for randomise in [None, Some(3)] {
            let mut start_gap = start_gap(97, 1, randomise);
            let mut memory = Memory::new(&start_gap);
            for write in 0..1_000_000 {
                let line = Line(write * 31 % 97);
                let (place, moved) = start_gap.write(line);
                assert_eq!(*memory.at(place), Some(line), "write {write}");
                memory.copy(moved.expect("the gap moves with each write"));
            }
            memory.check(&start_gap);
        }
    }

    #[test]
    fn the_gap_moves_every_psi_writes() {
        let mut start_gap = start_gap(10, 100, None);
        let moves = (0..10_000).filter(|_| start_gap.write(Line(4)).1.is_some()).count();
        assert_eq!(moves, 100);
    }
}
