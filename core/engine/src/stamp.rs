//! The meter, the kind, the trace and the arrival that a request carries.

use nearflash_request::Operation;
use nearflash_units::Nanos;

/// The kinds of requests that are counted separately.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// Reads.
    Read,
    /// Requests that store bytes from a host or from another range: writes, comparisons that write,
    /// atomic operations, copies.
    Write,
    /// All others: flushes, zeroes, deallocations, comparisons, verifications.
    Other,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::Read, Self::Write, Self::Other];

    #[inline]
    pub(crate) fn of(operation: &Operation) -> Self {
        match operation {
            Operation::Read | Operation::ReadInto { .. } => Self::Read,
            Operation::Write { .. }
            | Operation::WriteBytes { .. }
            | Operation::WriteSame { .. }
            | Operation::WriteAndVerify { .. }
            | Operation::OrWrite { .. }
            | Operation::Copy { .. }
            | Operation::CompareAndSwap { .. }
            | Operation::FetchAdd { .. }
            | Operation::CompareAndWrite { .. } => Self::Write,
            Operation::Flush
            | Operation::WriteZeroes { .. }
            | Operation::Deallocate { .. }
            | Operation::Verify
            | Operation::Allocation
            | Operation::Admit(_)
            | Operation::Compare { .. }
            | Operation::CompareSame { .. } => Self::Other,
        }
    }
}

/// Names the record of a request while it is under way. The numbers of successive traces follow one another, so
/// that a request that outlives its trace marks no record of the next one. They begin again after
/// 65,535 records. A request that hangs while 49 thousand others are traced may set a time of another one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TraceId(pub(crate) u16);

/// The number of numbers.
pub(crate) const IDS: u16 = u16::MAX;

impl TraceId {
    /// The request is not traced.
    pub const NONE: Self = Self(IDS);

    /// Whether the request is traced.
    #[inline]
    pub fn is_some(self) -> bool {
        self != Self::NONE
    }

    /// The number after `slot` further ones.
    pub(crate) fn plus(self, slot: usize) -> Self {
        let number = (usize::from(self.0) + slot) % usize::from(IDS);
        Self(u16::try_from(number).unwrap_or_default())
    }

    /// The place in a trace that begins with `first`.
    pub(crate) fn slot(self, first: Self) -> usize {
        let ids = usize::from(IDS);
        (usize::from(self.0) + ids - usize::from(first.0)) % ids
    }
}

/// Names a meter on its core.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct MeterId(pub(crate) u32);

/// The meter of a request, its kind, and its arrival.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp {
    pub(crate) meter: MeterId,
    pub(crate) kind: Kind,
    /// It fits in the gap that the kind leaves.
    pub(crate) trace: TraceId,
    pub(crate) came: Nanos,
}

// A trace takes no memory of a request.
const _: () = assert!(size_of::<Stamp>() == 16);
