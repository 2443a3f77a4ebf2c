//! Controller properties: the registers that a fabrics host accesses by command.
//!
//! Spec: NVMe Base 2.0, 3.1.3 (properties) and 6.5, 6.6 (commands that access them).

/// The offset of each property. NVMe Base 2.0, 3.1.3.
pub mod offset {
    /// CAP, 8 bytes.
    pub const CAPABILITIES: u32 = 0x00;
    /// VS.
    pub const VERSION: u32 = 0x08;
    /// CC, the only property that a host can set.
    pub const CONFIGURATION: u32 = 0x14;
    /// CSTS.
    pub const STATUS: u32 = 0x1C;
    /// NSSR, present if CAP.NSSRS is set.
    pub const SUBSYSTEM_RESET: u32 = 0x20;
    /// CRTO.
    pub const READY_TIMEOUTS: u32 = 0x68;
}

/// CAP. NVMe Base 2.0, 3.1.3.1.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Capabilities(pub u64);

impl Capabilities {
    /// The capabilities of a fabrics controller of the NVM command set: contiguous queues (CQR), 4
    /// KiB pages (MPSMIN and MPSMAX 0), round robin, ready with media (CRWMS), queues of at most
    /// `queue_entries_zero_based` entries (MQES), ready within `timeout_500ms` half seconds (TO).
    pub fn fabrics(queue_entries_zero_based: u16, timeout_500ms: u8) -> Self {
        let contiguous = 1 << 16;
        let nvm_command_set = 1 << 37;
        let command_sets_by_identify = 1 << 43;
        let ready_with_media = 1 << 59;
        Self(
            u64::from(queue_entries_zero_based)
                | contiguous
                | u64::from(timeout_500ms) << 24
                | nvm_command_set
                | command_sets_by_identify
                | ready_with_media,
        )
    }

    /// MQES, 0's based: the maximum number of entries of an I/O queue.
    #[allow(clippy::cast_possible_truncation, reason = "the field is 16 bits wide")]
    pub fn queue_entries_zero_based(self) -> u16 {
        self.0 as u16
    }

    /// TO, in half seconds: the longest time that a change of CC.EN may take.
    pub fn timeout_500ms(self) -> u8 {
        (self.0 >> 24).to_le_bytes()[0]
    }
}

/// VS, and VER in Identify Controller. NVMe Base 2.0, 3.1.3.2.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct Version(pub u32);

impl Version {
    /// NVMe Base 2.0.
    pub const V2_0: Self = Self(0x0002_0000);
}

/// CC. NVMe Base 2.0, 3.1.3.5.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Configuration(pub u32);

impl Configuration {
    /// EN, NVM command set, 4 KiB pages, round robin, 64-byte commands, 16-byte completions.
    pub const ENABLE: Self = Self(1 | 6 << 16 | 4 << 20);

    /// EN.
    pub fn enable(self) -> bool {
        self.0 & 1 == 1
    }

    /// CSS: 000b is the NVM command set.
    pub fn command_set(self) -> u32 {
        self.0 >> 4 & 0b111
    }

    /// MPS: the page size is 4 KiB shifted left by this value.
    pub fn page_shift(self) -> u32 {
        self.0 >> 7 & 0xF
    }

    /// AMS: 000b is round robin.
    pub fn arbitration(self) -> u32 {
        self.0 >> 11 & 0b111
    }

    /// SHN: 01b normal, 10b abrupt, 00b none.
    pub fn shutdown(self) -> u32 {
        self.0 >> 14 & 0b11
    }

    /// IOSQES: exponent of two. Only 6 is valid.
    pub fn io_command_len_shift(self) -> u32 {
        self.0 >> 16 & 0xF
    }

    /// IOCQES: exponent of two. Only 4 is valid.
    pub fn io_completion_len_shift(self) -> u32 {
        self.0 >> 20 & 0xF
    }

    /// The same configuration with SHN 01b: a normal shutdown.
    #[must_use]
    pub fn with_normal_shutdown(self) -> Self {
        Self(self.0 & !(0b11 << 14) | 0b01 << 14)
    }
}

/// CSTS. NVMe Base 2.0, 3.1.3.6.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ControllerStatus(pub u32);

impl ControllerStatus {
    /// RDY: the controller processes commands other than Fabrics commands.
    pub const READY: u32 = 1;
    /// CFS: fatal status, which only a reset clears.
    pub const FATAL: u32 = 1 << 1;
    /// SHST 10b: shutdown complete.
    pub const SHUTDOWN_COMPLETE: u32 = 0b10 << 2;

    /// RDY.
    pub fn is_ready(self) -> bool {
        self.0 & Self::READY != 0
    }

    /// CFS.
    pub fn is_fatal(self) -> bool {
        self.0 & Self::FATAL != 0
    }

    /// Whether SHST is 10b.
    pub fn is_shutdown_complete(self) -> bool {
        self.0 & (0b11 << 2) == Self::SHUTDOWN_COMPLETE
    }
}
