//! Errors of the options of a measurement.

use nearflash_units::ByteLen;

/// Options that contradict each other or the target.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum OptionsError {
    /// The floor has only one direction.
    #[error("floor:// measures reads or writes, not a mix: give --rw read or --rw write")]
    MixedFloor,
    /// The third party of the floor has no core of its own.
    #[error(
        "floor://relay has three sides that spin, and only two cores: add --spin never, or name \
         three with --floor-cores S,C,T"
    )]
    RelayOnTwoCores,
    /// The floor stores no blocks.
    #[error("floor:// stores nothing and cannot verify: drop --verify, or give another target")]
    NothingToVerify,
    /// The block is too small for a verify header.
    #[error("--verify needs blocks of at least 512 bytes: give a larger --bs")]
    BlockTooSmallToVerify,
    /// `--floor` with a target that is not remote.
    #[error(
        "--floor compares a remote target with the wire: give an nvme-tcp://, iscsi:// or \
         direct:// target"
    )]
    FloorOfLocal,
    /// `--breakdown` with a target that is not remote.
    #[error(
        "--breakdown shows the parts of a remote operation: give an nvme-tcp://, iscsi:// or direct:// \
         target"
    )]
    BreakdownOfLocal,
    /// `--breakdown` of a mix.
    #[error(
        "--breakdown has one kind of operation: give --rw read or --rw write, or their random forms"
    )]
    BreakdownOfMix,
    /// `--iodepth-batch` with the null engine.
    #[error("--iodepth-batch applies to a file, a remote volume or floor://: drop it")]
    BatchOfNothing,
    /// `--ioengine psync` with a target that is not a file.
    #[error("--ioengine psync applies to a file: drop it, or give a file:PATH target")]
    BlockingRemote,
    /// `--ioengine psync` with more than one operation in flight.
    #[error("--ioengine psync has one operation in flight: use --numjobs in place of --iodepth")]
    BlockingDepth,
    /// The ranges exceed the target.
    #[error(
        "--offset, --offset-increment of all jobs and --size end at {end}, but {target} ends at \
         {len}: reduce one of them"
    )]
    BeyondTarget { end: ByteLen, target: String, len: ByteLen },
    /// The operations are not aligned to the volume's block size.
    #[error(
        "--bs {op_len}, --offset and --offset-increment must be multiples of the volume's block \
         size: {block_len}"
    )]
    PartOfBlock { op_len: ByteLen, block_len: ByteLen },
    /// The operations exceed the target's maximum transfer length.
    #[error("--bs {op_len} exceeds the {max} that the target takes in one command: reduce it")]
    OpTooLong { op_len: ByteLen, max: ByteLen },
    /// The queue depth exceeds that of a queue.
    #[error("--iodepth {depth} exceeds the {max} of one queue: add queues=N to the target")]
    TooDeep { depth: usize, max: u16 },
    /// The queue depth exceeds that of a connection.
    #[error("--iodepth {depth} exceeds the {max} of one connection: lower it, or add --numjobs")]
    DeeperThanPair { depth: usize, max: usize },
    /// The queue depth exceeds a session's command window.
    #[error("--iodepth {depth} exceeds the {max} of one session: add sessions=N to the target")]
    DeeperThanWindow { depth: usize, max: usize },
    /// The target grants fewer queues than requested.
    #[error("the target grants {granted} queues of {wanted}: lower queues=N")]
    TooManyQueues { wanted: u16, granted: u16 },
    /// The target does not support the digests.
    #[error("the target does not grant the requested digests: drop digest= from the target")]
    NoDigests,
    /// Direct I/O that is not aligned to sectors.
    #[error(
        "--bs, --offset and --offset-increment must be multiples of 512 with --direct 1: change \
         them, or --direct 0"
    )]
    Unaligned,
}
