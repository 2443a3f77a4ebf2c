//! A command descriptor block and its fields.

/// The maximum length of a CDB. Shorter ones are padded with bytes that are not evaluated.
pub const CDB_LEN: usize = 16;

/// A command descriptor block (CDB). SPC-4, 4.3.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Cdb(pub [u8; CDB_LEN]);

impl Cdb {
    /// The CDB in `bytes`, truncated or padded with zeroes to [`CDB_LEN`].
    pub fn new(bytes: &[u8]) -> Self {
        let mut block = [0; CDB_LEN];
        let len = bytes.len().min(CDB_LEN);
        block[..len].copy_from_slice(&bytes[..len]);
        Self(block)
    }

    /// OPERATION CODE.
    pub const fn opcode(&self) -> u8 {
        self.0[0]
    }

    /// SERVICE ACTION, for commands that have it in byte 1.
    pub const fn service_action(&self) -> u8 {
        self.0[1] & 0x1F
    }

    /// The field of `N` bytes at offset `at`.
    fn field<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut field = [0; N];
        field.copy_from_slice(&self.0[at..at + N]);
        field
    }

    /// One byte.
    pub const fn byte(&self, at: usize) -> u8 {
        self.0[at]
    }

    /// One bit of a byte.
    pub const fn bit(&self, at: usize, bit: u8) -> bool {
        self.0[at] & (1 << bit) != 0
    }

    /// Two bytes.
    pub fn word(&self, at: usize) -> u16 {
        u16::from_be_bytes(self.field(at))
    }

    /// Three bytes.
    pub fn three(&self, at: usize) -> u32 {
        let [high, middle, low] = self.field(at);
        u32::from_be_bytes([0, high, middle, low])
    }

    /// Four bytes.
    pub fn double(&self, at: usize) -> u32 {
        u32::from_be_bytes(self.field(at))
    }

    /// Eight bytes.
    pub fn quad(&self, at: usize) -> u64 {
        u64::from_be_bytes(self.field(at))
    }
}
