//! The 16-byte completion queue entry. NVMe Base 2.0, 3.3.3.2.

use nearflash_session::wire;
use zerocopy::little_endian::{U16, U32};

use crate::{CommandId, Status};

wire! {
    /// Completion queue entry, CQE. NVMe Base 2.0, 3.3.3.2; over fabrics the phase bit is 0.
    #[derive(Default)]
    pub struct CompletionEntry: [u8; CompletionEntry::LEN] {
        pub dw0: U32 = "Dword 0: the command-specific result",
        pub dw1: U32 = "Dword 1: the high half of the result. Only Property Get uses it",
        pub sq_head: U16 = "SQHD: the submission queue's head pointer",
        pub sq_id: U16 = "SQID; reserved over fabrics",
        pub cid: U16 = "CID",
        pub status: U16 = "Status in bits 15:1, phase in bit 0",
    }
}

impl CompletionEntry {
    /// Length of a completion queue entry in bytes.
    pub const LEN: usize = 16;

    /// The completion of `cid` without a result. The queue fills in [`Self::sq_head`].
    pub fn new(cid: CommandId, status: Status) -> Self {
        Self { cid: cid.0.into(), status: (status.0 << 1).into(), ..Self::default() }
    }

    /// The completion of `cid` with a result in dword 0.
    pub fn with_result(cid: CommandId, status: Status, dw0: u32) -> Self {
        Self { dw0: dw0.into(), ..Self::new(cid, status) }
    }

    /// CID.
    pub fn command_id(&self) -> CommandId {
        CommandId(self.cid.get())
    }

    /// The status without the phase bit.
    pub fn status(&self) -> Status {
        Status(self.status.get() >> 1)
    }

    /// Dwords 0 and 1 as one number: the value that Property Get returns.
    pub fn result(&self) -> u64 {
        u64::from(self.dw1.get()) << 32 | u64::from(self.dw0.get())
    }

    /// The same completion with a 64-bit result.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, reason = "the halves are meant")]
    pub fn with_result64(self, value: u64) -> Self {
        Self { dw0: (value as u32).into(), dw1: ((value >> 32) as u32).into(), ..self }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use zerocopy::{FromBytes, IntoBytes};

    use super::*;

    #[test]
    fn a_refusal_has_its_status_above_the_phase_bit() {
        let entry = CompletionEntry::with_result(CommandId(0x1234), Status(0x4182), 0x0001_0100);
        let expected = [0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x34, 0x12, 0x04, 0x83];
        assert_eq!(entry.as_bytes(), expected);
    }

    proptest! {
        #[test]
        fn what_is_answered_is_what_is_read(cid: u16, status in 0..0x8000_u16, result: u64) {
            let entry = CompletionEntry::new(CommandId(cid), Status(status));
            let entry = entry.with_result64(result);
            let read = CompletionEntry::read_from_bytes(entry.as_bytes()).unwrap();
            prop_assert_eq!(read.command_id(), CommandId(cid));
            prop_assert_eq!(read.status(), Status(status));
            prop_assert_eq!(read.result(), result);
        }
    }
}
