//! The sequence of operations.

use nearflash_units::{ByteLen, ByteOffset};

use super::{Permutation, splitmix64};

/// The direction of the payload.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Direction {
    /// From the target.
    Read,
    /// To the target.
    Write,
}

/// One operation.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Op {
    /// The direction.
    pub direction: Direction,
    /// The start.
    pub offset: ByteOffset,
    /// The length.
    pub len: ByteLen,
}

/// Direction and order, with fio's names.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
#[value(rename_all = "lower")]
pub enum Pattern {
    /// Sequential reads
    Read,
    /// Sequential writes
    Write,
    /// Random reads
    RandRead,
    /// Random writes
    RandWrite,
    /// Sequential reads and writes, mixed
    #[value(alias = "readwrite")]
    Rw,
    /// Random reads and writes, mixed
    RandRw,
}

impl Pattern {
    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::RandRead => "randread",
            Self::RandWrite => "randwrite",
            Self::Rw => "rw",
            Self::RandRw => "randrw",
        }
    }

    /// Whether the order is random.
    pub fn is_random(self) -> bool {
        matches!(self, Self::RandRead | Self::RandWrite | Self::RandRw)
    }

    /// The only direction; `None` if both occur.
    pub fn single_direction(self) -> Option<Direction> {
        match self {
            Self::Read | Self::RandRead => Some(Direction::Read),
            Self::Write | Self::RandWrite => Some(Direction::Write),
            Self::Rw | Self::RandRw => None,
        }
    }

    /// Whether any write occurs.
    pub fn writes(self) -> bool {
        self.single_direction() != Some(Direction::Read)
    }

    /// Whether it reads and writes.
    pub(crate) fn is_mixed(self) -> bool {
        self.single_direction().is_none()
    }
}

/// The parameters of a [`Workload`].
#[derive(Clone, Debug)]
pub struct WorkloadSpec {
    /// Direction and order.
    pub pattern: Pattern,
    /// The share of reads in per cent, for mixed patterns.
    pub read_percent: u8,
    /// Length of each operation.
    pub op_len: ByteLen,
    /// Start of the range.
    pub offset: ByteOffset,
    /// Length of the range. A remainder shorter than an operation is not used.
    pub range_len: ByteLen,
    /// Whether random order may repeat an offset before all have been used.
    pub repeats: bool,
    /// Whether the workload starts over after the last offset.
    pub endless: bool,
    /// The seed of all random numbers.
    pub seed: u64,
}

/// The reason why a workload is not valid.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum WorkloadError {
    /// `--bs 0`.
    #[error("--bs 0 transfers nothing: give a block size, for example --bs 4k")]
    EmptyOp,
    /// The range is shorter than one operation.
    #[error(
        "the range of {range} is shorter than one operation of {op}: give a larger --size or a \
         smaller --bs"
    )]
    RangeTooSmall { range: ByteLen, op: ByteLen },
    /// The range exceeds the address space.
    #[error(
        "--offset {offset} and the range of {range} exceed 2^63 bytes: give a smaller --offset"
    )]
    OutOfAddresses { offset: ByteLen, range: ByteLen },
}

/// The operations of one job, in order.
#[derive(Clone, Debug)]
pub struct Workload {
    spec: WorkloadSpec,
    /// Number of operations that fit into the range.
    count: u64,
    order: Permutation,
    taken: u64,
    random: u64,
}

impl Workload {
    /// A workload with these parameters.
    ///
    /// # Errors
    /// When the range is shorter than one operation or exceeds the address space.
    pub fn new(spec: WorkloadSpec) -> Result<Self, WorkloadError> {
        if spec.op_len.0 == 0 {
            return Err(WorkloadError::EmptyOp);
        }
        let count = spec.range_len.0 / spec.op_len.0;
        if count == 0 {
            return Err(WorkloadError::RangeTooSmall { range: spec.range_len, op: spec.op_len });
        }
        let end = spec.offset.checked_add(spec.range_len);
        if end.is_none_or(|end| end.0 > 1 << 62) {
            let offset = ByteLen(spec.offset.0);
            return Err(WorkloadError::OutOfAddresses { offset, range: spec.range_len });
        }
        let order = Permutation::new(count, spec.seed);
        let random = spec.seed ^ 0x6E65_6172;
        Ok(Self { spec, count, order, taken: 0, random })
    }

    /// The next operation; `None` after the last.
    #[inline]
    pub fn next_op(&mut self) -> Option<Op> {
        if self.taken == self.count {
            if !self.spec.endless {
                return None;
            }
            self.begin_pass();
        }
        let index = self.next_index();
        self.taken += 1;
        let direction = self.next_direction();
        Some(Op { direction, offset: self.offset_of(index), len: self.spec.op_len })
    }

    #[cold]
    fn begin_pass(&mut self) {
        self.taken = 0;
        if self.spec.pattern.is_random() {
            self.order = Permutation::new(self.count, splitmix64(&mut self.random));
        }
    }

    fn next_index(&mut self) -> u64 {
        match (self.spec.pattern.is_random(), self.spec.repeats) {
            (false, _) => self.taken,
            (true, false) => self.order.at(self.taken),
            (true, true) => below(self.count, splitmix64(&mut self.random)),
        }
    }

    fn next_direction(&mut self) -> Direction {
        if let Some(direction) = self.spec.pattern.single_direction() {
            return direction;
        }
        let is_read = below(100, splitmix64(&mut self.random)) < u64::from(self.spec.read_percent);
        if is_read { Direction::Read } else { Direction::Write }
    }

    fn offset_of(&self, index: u64) -> ByteOffset {
        // Below 2^62: the constructor has checked the whole range.
        ByteOffset(self.spec.offset.0 + index * self.spec.op_len.0)
    }
}

/// A random number below `bound`, derived from a random number.
fn below(bound: u64, random: u64) -> u64 {
    let product = u128::from(bound) * u128::from(random);
    u64::try_from(product >> 64).expect("the product of two 64-bit numbers has 128 bits")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn spec(pattern: Pattern) -> WorkloadSpec {
        WorkloadSpec {
            pattern,
            read_percent: 70,
            op_len: ByteLen(4096),
            offset: ByteOffset(8192),
            range_len: ByteLen(1 << 20),
            repeats: false,
            endless: false,
            seed: 42,
        }
    }

    fn ops(spec: WorkloadSpec) -> Vec<Op> {
        let mut workload = Workload::new(spec).unwrap();
        std::iter::from_fn(|| workload.next_op()).collect()
    }

    #[test]
    fn sequential_offsets_ascend_from_the_offset_by_whole_operations() {
        let offsets: Vec<u64> = ops(spec(Pattern::Read)).iter().map(|op| op.offset.0).collect();
        let expected: Vec<u64> = (0..256).map(|index| 8192 + index * 4096).collect();
        assert_eq!(offsets, expected);
    }

    #[test]
    fn an_endless_workload_covers_the_range_once_in_every_pass() {
        let mut workload =
            Workload::new(WorkloadSpec { endless: true, ..spec(Pattern::RandRead) }).unwrap();
        let mut pass = || {
            let mut offsets: Vec<u64> =
                (0..256).map(|_| workload.next_op().unwrap().offset.0).collect();
            let order = offsets.clone();
            offsets.sort_unstable();
            offsets.dedup();
            assert_eq!(offsets.len(), 256);
            order
        };
        assert_ne!(pass(), pass(), "every pass has an order of its own");
    }

    #[test]
    fn what_cannot_be_is_refused_with_a_remedy() {
        let too_small = WorkloadSpec { range_len: ByteLen(4095), ..spec(Pattern::Read) };
        let message = Workload::new(too_small).unwrap_err().to_string();
        assert!(message.contains("4095B") && message.contains("--size"), "{message}");
        let empty = WorkloadSpec { op_len: ByteLen(0), ..spec(Pattern::Read) };
        assert_eq!(Workload::new(empty).unwrap_err(), WorkloadError::EmptyOp);
        let far = WorkloadSpec { offset: ByteOffset(u64::MAX - 5), ..spec(Pattern::Read) };
        assert!(matches!(Workload::new(far), Err(WorkloadError::OutOfAddresses { .. })));
    }

    proptest! {
        /// Sequential order, and random order without repeats, visit every block of the range
        /// exactly once.
        #[test]
        fn every_block_comes_exactly_once(
            random: bool, seed: u64, count in 1u64..2000, op_shift in 9u32..20, offset in 0u64..100,
        ) {
            let op_len = ByteLen(1 << op_shift);
            let pattern = if random { Pattern::RandWrite } else { Pattern::Write };
            let spec = WorkloadSpec {
                op_len,
                offset: ByteOffset(offset * op_len.0),
                range_len: ByteLen(count * op_len.0 + op_len.0 / 2),
                seed,
                ..spec(pattern)
            };
            let mut indices: Vec<u64> = ops(spec).iter().map(|op| op.offset.0 / op_len.0).collect();
            indices.sort_unstable();
            prop_assert_eq!(indices, (offset..offset + count).collect::<Vec<_>>());
        }

        /// The share of reads converges to the requested one, within five standard deviations.
        #[test]
        fn a_mix_converges_to_its_share(read_percent in 0u8..=100, seed: u64, random: bool) {
            let pattern = if random { Pattern::RandRw } else { Pattern::Rw };
            let spec = WorkloadSpec {
                read_percent,
                seed,
                range_len: ByteLen(4096 * 10_000),
                ..spec(pattern)
            };
            let reads = ops(spec).iter().filter(|op| op.direction == Direction::Read).count();
            let expected = f64::from(read_percent) * 100.0;
            let deviation = (expected * (1.0 - f64::from(read_percent) / 100.0)).sqrt();
            let reads = f64::from(u32::try_from(reads).unwrap());
            prop_assert!((reads - expected).abs() <= 5.0 * deviation + 1e-9, "{reads} of {expected}");
        }

        /// With repeats, every operation is still aligned and within the range.
        #[test]
        fn plain_random_stays_in_range(seed: u64, count in 1u64..1000) {
            let spec = WorkloadSpec {
                repeats: true,
                seed,
                range_len: ByteLen(count * 4096),
                ..spec(Pattern::RandRead)
            };
            for op in ops(spec) {
                prop_assert!(op.offset.0 >= 8192 && op.offset.0 < 8192 + count * 4096);
                prop_assert_eq!(op.offset.0 % 4096, 0);
            }
        }
    }
}
