//! The 64-byte submission queue entry that all commands share.
//!
//! Spec: NVMe Base 2.0, 3.3.3.1. This module reads the common fields only: admin commands are
//! decoded in [`crate::serving`], I/O commands in [`crate::io`], Fabrics commands in
//! [`crate::fabrics`].

use nearflash_session::wire;
use zerocopy::little_endian::{U16, U32, U64};

use crate::{CommandId, NamespaceId, SglDescriptor};

wire! {
    /// Submission queue entry, SQE. NVMe Base 2.0, 3.3.3.1.
    #[derive(Default)]
    pub struct Command: [u8; Command::LEN] {
        /// OPC: one of [`crate::AdminOpcode`], [`crate::IoOpcode`] or [`crate::FABRICS_OPCODE`].
        pub opcode: u8,
        pub flags: u8 = "FUSE (bits 1:0) and PSDT (bits 7:6)",
        pub cid: U16 = "CID",
        pub nsid: U32 = "NSID; in a Fabrics command its first byte is the command type",
        pub cdw2: U32 = "Command dword 2",
        pub cdw3: U32 = "Command dword 3",
        pub metadata: U64 = "MPTR: metadata pointer",
        pub sgl: SglDescriptor = "DPTR: over fabrics always one SGL descriptor, SGL1",
        pub cdw10: U32 = "Command dword 10",
        pub cdw11: U32 = "Command dword 11",
        pub cdw12: U32 = "Command dword 12",
        pub cdw13: U32 = "Command dword 13",
        pub cdw14: U32 = "Command dword 14",
        pub cdw15: U32 = "Command dword 15",
    }
}

/// A command's part in a fused operation, by the values of FUSE. NVMe Base 2.0, 3.3.3.1.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fused {
    /// Not fused.
    Normal,
    /// The first command of a fused operation.
    First,
    /// The second command of a fused operation.
    Second,
    /// 11b.
    Reserved,
}

impl Command {
    /// Length of a submission queue entry in bytes.
    pub const LEN: usize = 64;

    /// A command without data that has the flags of NVMe over Fabrics (PSDT 01b: SGLs).
    pub fn new(opcode: u8, nsid: NamespaceId) -> Self {
        let sgl = SglDescriptor::transport(0);
        Self { opcode, flags: Self::PSDT_SGL, nsid: nsid.0.into(), sgl, ..Self::default() }
    }

    /// PSDT 01b: the data pointer is an SGL.
    pub const PSDT_SGL: u8 = 0b01 << 6;

    /// CID.
    pub fn command_id(&self) -> CommandId {
        CommandId(self.cid.get())
    }

    /// The same command with another CID.
    #[must_use]
    pub fn with_command_id(self, cid: CommandId) -> Self {
        Self { cid: cid.0.into(), ..self }
    }

    /// NSID.
    pub fn namespace_id(&self) -> NamespaceId {
        NamespaceId(self.nsid.get())
    }

    /// FUSE.
    pub fn fused(&self) -> Fused {
        match self.flags & 0b11 {
            0b00 => Fused::Normal,
            0b01 => Fused::First,
            0b10 => Fused::Second,
            _ => Fused::Reserved,
        }
    }

    /// The same command with another FUSE value.
    #[must_use]
    pub fn with_fused(self, fused: Fused) -> Self {
        Self { flags: self.flags & !0b11 | fused as u8, ..self }
    }

    /// Whether PSDT is 01b or 10b. These two SGL forms are the only ones that fabrics allow.
    pub fn uses_sgl(&self) -> bool {
        matches!(self.flags >> 6, 0b01 | 0b10)
    }

    /// Whether opcode bits 1:0 say that data comes from the host. NVMe Base 2.0, 3.3.3.1.
    pub fn opcode_moves_from_host(&self) -> bool {
        let opcode = if self.is_fabrics() { self.fabrics_type().0 } else { self.opcode };
        opcode & 0b11 == 0b01
    }

    /// Dwords 10 and 11 as one number. In I/O commands this is the starting LBA.
    pub fn cdw10_11(&self) -> u64 {
        u64::from(self.cdw11.get()) << 32 | u64::from(self.cdw10.get())
    }

    /// Dwords 12 and 13 as one number, such as a log page offset or a property value.
    pub fn cdw12_13(&self) -> u64 {
        u64::from(self.cdw13.get()) << 32 | u64::from(self.cdw12.get())
    }

    /// Sets dwords 10 and 11.
    pub fn set_cdw10_11(&mut self, value: u64) {
        (self.cdw10, self.cdw11) = halves(value);
    }

    /// Sets dwords 12 and 13.
    pub fn set_cdw12_13(&mut self, value: u64) {
        (self.cdw12, self.cdw13) = halves(value);
    }
}

/// The low and the high dword.
#[allow(clippy::cast_possible_truncation, reason = "the halves are meant")]
fn halves(value: u64) -> (U32, U32) {
    ((value as u32).into(), ((value >> 32) as u32).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AdminOpcode;

    #[test]
    fn every_part_in_a_fused_operation_is_read_as_it_was_set() {
        for fused in [Fused::Normal, Fused::First, Fused::Second, Fused::Reserved] {
            let command = Command::new(0x05, NamespaceId(1)).with_fused(fused);
            assert_eq!(command.fused(), fused);
            assert!(command.uses_sgl());
        }
    }

    #[test]
    fn the_direction_of_data_is_in_the_opcode_or_the_fabrics_type() {
        let moves = |command: Command| command.opcode_moves_from_host();
        assert!(moves(Command::new(AdminOpcode::SET_FEATURES.0, NamespaceId::NONE)));
        assert!(!moves(Command::new(AdminOpcode::IDENTIFY.0, NamespaceId::NONE)));
        assert!(moves(Command::fabrics(crate::FabricsType::CONNECT)));
        assert!(!moves(Command::property_get(0, 0)));
        assert!(!moves(Command::property_set(0, 0)));
    }
}
