//! The usage counters of a request on its volume, as in NVMe's health log. NVMe Base 2.0, 5.16.1.3.

use nearflash_request::{Outcome, Traffic};
use nearflash_units::ByteLen;

use crate::job::Work;

/// The traffic of a request over `len` bytes. Write Zeroes and deallocations transfer no host data
/// and count no data units.
#[inline]
pub(crate) fn traffic_of(work: &Work, outcome: Outcome, ByteLen(len): ByteLen) -> Traffic {
    let nothing = Traffic::default();
    match outcome {
        Outcome::Success => {}
        Outcome::UnrecoveredRead | Outcome::WriteFault => {
            return Traffic { media_errors: 1, ..nothing };
        }
        _ => return nothing,
    }
    let written = |written_bytes| Traffic { writes: 1, written_bytes, ..nothing };
    let read = Traffic { reads: 1, read_bytes: len, ..nothing };
    match work {
        Work::Read | Work::Compare | Work::CompareSame { .. } => read,
        Work::CompareAndWrite { .. } => read.plus(written(len)),
        Work::Write { .. }
        | Work::WriteSame { .. }
        | Work::OrWrite { .. }
        | Work::Copy { .. }
        | Work::WriteAndVerify { .. } => written(len),
        Work::WriteBytes { part, .. } => written(part.len.into()),
        Work::Atomic { .. } => written(8),
        Work::Flush
        | Work::WriteZeroes { .. }
        | Work::Deallocate { .. }
        | Work::Verify { .. }
        | Work::Allocation { .. }
        | Work::Admit => nothing,
    }
}
