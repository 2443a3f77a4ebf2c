//! Seals: capabilities that map the bytes of an object onto runs of a volume.
//!
//! A seal is minted without the node, under a key that the minter's credential and the node's salt give.
//! Nothing of a seal is to be believed before [`SealKey::has_minted`] is true of it. The number of a
//! byte in the object is never stored: runs follow each other without gaps by construction.
//!
//! Invariant: a [`Seal`] keeps all rules of `docs/direct-protocol.md` that need no volume to be checked.

mod bearer;
mod token;

use hmac::{Hmac, KeyInit, Mac};
use nearflash_session::wire;
use sha2::Sha256;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, IntoBytes};

use super::{NAME_LEN_MAX, Rights, SEGMENT_LEN_MAX};
use crate::secret::Secret;

pub(crate) use bearer::BearerId;
pub use bearer::{BEARER_GOOD_MAX, BEARER_LEN_MAX, Bearer, BearerError};
pub(crate) use token::is_operator;
pub use token::{SealToken, TokenError, operator_name};

/// The most runs of a seal.
pub const SEAL_RUNS_MAX: usize = 8;

/// The time in seconds within which a seal can be opened after it was minted. It bounds the time for
/// which a node remembers that a seal was revoked.
pub const SEAL_GOOD_MAX: u64 = 60;

/// Length of the salt of seal keys, in bytes.
pub const SALT_LEN: usize = 16;

/// Length of the MAC of a seal, in bytes.
pub const SEAL_MAC_LEN: usize = 16;

/// The length of the longest seal, in bytes.
pub const SEAL_LEN_MAX: usize =
    size_of::<SealHeader>() + SEAL_RUNS_MAX * size_of::<RunField>() + NAME_LEN_MAX + SEAL_MAC_LEN;

/// Precedes the message from which a seal key is derived.
const KEY_LABEL: &[u8] = b"nearflash direct 1 seal key";

/// Every run but the last is a multiple of this, so that no segment of a request lies in two runs.
pub(crate) const RUN_UNIT: u64 = SEGMENT_LEN_MAX as u64;

/// The smallest block of any volume. The node checks the blocks of the volume itself.
const BLOCK_LEN_MIN: u64 = 512;

wire! {
    struct SealHeader: [u8; 64] {
        magic: [u8; 4],
        generation: U32,
        object: U64,
        version: U32,
        rights: Rights,
        run_count: u8,
        minter_len: u8,
        reserved: u8,
        good_until: U64,
        volume: [u8; 16],
        uuid: [u8; 16],
    }

    struct RunField: [u8; 16] {
        start: U64,
        len: U64,
    }

    /// The answer to SEAL_KEY.
    pub struct SealKeyAnswer: [u8; 32] {
        pub generation: U32 = "The generation of the key, never 0",
        pub(crate) reserved: U32,
        pub seconds: U64 = "The node's time in seconds",
        pub salt: [u8; SALT_LEN] = "The node's salt, another one after each start",
    }

    /// The payload of REVOKE.
    pub struct RevokeRequest: [u8; 16] {
        pub object: U64 = "The object whose seals are revoked. 0 with [`RevokeRequest::KEYS`]",
        pub version: U32 = "Seals, or keys, below this version are void. Never 0",
        pub what: U32 = "[`RevokeRequest::OBJECT`] or [`RevokeRequest::KEYS`]",
    }
}

impl SealHeader {
    const MAGIC: [u8; 4] = *b"NFSL";
}

impl RevokeRequest {
    /// The seals of one object.
    pub const OBJECT: u32 = 0;
    /// All seals under the keys of older generations.
    pub const KEYS: u32 = 1;
}

/// Bytes of a volume: the next ones of an object.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Run {
    /// Its first byte in the volume: the start of a block.
    pub start: u64,
    /// Its length in bytes: whole blocks, and a multiple of 1 MiB unless it is the last run.
    pub len: u64,
}

/// The contents of a seal, but for the minter and its key.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SealTerms {
    /// The object's number. It is the minter's, who revokes by it.
    pub object: u64,
    /// The UUID that OPEN_SEALED reports.
    pub uuid: [u8; 16],
    /// The version of the object's seals, which its requests carry as their epoch. Never 0.
    pub version: u32,
    /// At least one right.
    pub rights: Rights,
    /// The node's second until which the seal can be opened.
    pub good_until: u64,
    /// The bytes of the object, in order: 1 to [`SEAL_RUNS_MAX`] runs.
    pub runs: Box<[Run]>,
}

impl SealTerms {
    /// The length of the object.
    pub fn len(&self) -> u64 {
        self.runs.iter().map(|run| run.len).sum()
    }

    /// Whether the object has no bytes, which no valid terms have.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn check(&self) -> Result<(), SealError> {
        if self.version == 0 {
            return Err(SealError::Version);
        }
        if self.rights == Rights::NONE || !Rights::READ_WRITE.has(self.rights) {
            return Err(SealError::Rights);
        }
        if !(1..=SEAL_RUNS_MAX).contains(&self.runs.len()) {
            return Err(SealError::RunCount(self.runs.len()));
        }
        let mut reach = 0_u64;
        for (number, run) in self.runs.iter().enumerate() {
            let is_last = number + 1 == self.runs.len();
            let unit = if is_last { BLOCK_LEN_MIN } else { RUN_UNIT };
            let is_whole = run.start.is_multiple_of(BLOCK_LEN_MIN) && run.len.is_multiple_of(unit);
            if run.len == 0 || !is_whole || run.start.checked_add(run.len).is_none() {
                return Err(SealError::Run(number));
            }
            reach = reach.checked_add(run.len).ok_or(SealError::Run(number))?;
        }
        Ok(())
    }
}

/// A capability for the bytes of an object.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Seal {
    /// The name of the key whose holder has minted it; empty for an anonymous client.
    minter: Box<str>,
    /// The generation of the seal key.
    generation: u32,
    /// The volume's UUID.
    volume: [u8; 16],
    terms: SealTerms,
    mac: [u8; SEAL_MAC_LEN],
}

impl Seal {
    /// The name of the key whose holder says to have minted it; empty for an anonymous client.
    pub fn minter(&self) -> &str {
        &self.minter
    }

    /// The generation of the seal key.
    pub const fn generation(&self) -> u32 {
        self.generation
    }

    /// The UUID of the volume.
    pub const fn volume(&self) -> [u8; 16] {
        self.volume
    }

    /// All else.
    pub const fn terms(&self) -> &SealTerms {
        &self.terms
    }

    /// The seal as sent on the wire.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = self.sealed_bytes();
        bytes.extend_from_slice(&self.mac);
        bytes
    }

    /// The bytes that the MAC protects.
    fn sealed_bytes(&self) -> Vec<u8> {
        let SealTerms { object, uuid, version, rights, good_until, ref runs } = self.terms;
        let short = |len: usize| u8::try_from(len).expect("few runs, and a short name");
        let header = SealHeader {
            magic: SealHeader::MAGIC,
            generation: U32::new(self.generation),
            object: U64::new(object),
            version: U32::new(version),
            rights,
            run_count: short(runs.len()),
            minter_len: short(self.minter.len()),
            reserved: 0,
            good_until: U64::new(good_until),
            volume: self.volume,
            uuid,
        };
        let mut bytes = Vec::with_capacity(SEAL_LEN_MAX);
        bytes.extend_from_slice(header.as_bytes());
        for run in runs {
            let field = RunField { start: U64::new(run.start), len: U64::new(run.len) };
            bytes.extend_from_slice(field.as_bytes());
        }
        bytes.extend_from_slice(self.minter.as_bytes());
        bytes
    }

    /// Reads a seal, whose MAC is still to be checked.
    ///
    /// # Errors
    /// When the bytes are not those of any seal.
    pub fn decode(bytes: &[u8]) -> Result<Self, SealError> {
        let (header, rest) =
            SealHeader::read_from_prefix(bytes).map_err(|_| SealError::Length(bytes.len()))?;
        if header.magic != SealHeader::MAGIC || header.reserved != 0 {
            return Err(SealError::Magic);
        }
        let run_count = usize::from(header.run_count);
        if !(1..=SEAL_RUNS_MAX).contains(&run_count) {
            return Err(SealError::RunCount(run_count));
        }
        let wrong_len = SealError::Length(bytes.len());
        let (fields, rest) =
            <[RunField]>::ref_from_prefix_with_elems(rest, run_count).map_err(|_| wrong_len)?;
        let minter_len = usize::from(header.minter_len);
        if minter_len > NAME_LEN_MAX || rest.len() != minter_len + SEAL_MAC_LEN {
            return Err(wrong_len);
        }
        let (minter, mac) = rest.split_at(minter_len);
        let minter = std::str::from_utf8(minter).map_err(|_| SealError::Minter)?;
        let run = |field: &RunField| Run { start: field.start.get(), len: field.len.get() };
        let terms = SealTerms {
            object: header.object.get(),
            uuid: header.uuid,
            version: header.version.get(),
            rights: header.rights,
            good_until: header.good_until.get(),
            runs: fields.iter().map(run).collect(),
        };
        terms.check()?;
        let generation = header.generation.get();
        if generation == 0 {
            return Err(SealError::Version);
        }
        let mac = mac.try_into().map_err(|_| wrong_len)?;
        Ok(Self { minter: minter.into(), generation, volume: header.volume, terms, mac })
    }
}

/// A key under which the holder of a credential mints seals for a volume.
///
/// Both ends derive it, so it is never sent: a reader of the traffic learns no key.
#[derive(Clone, Debug)]
pub struct SealKey {
    minter: Box<str>,
    generation: u32,
    volume: [u8; 16],
    secret: Secret,
}

impl SealKey {
    /// The key of this generation for a volume. `minter` is the name of a key with its secret; `None` is an
    /// anonymous client.
    pub fn derive(
        minter: Option<(&str, &Secret)>,
        generation: u32,
        volume: [u8; 16],
        salt: [u8; SALT_LEN],
    ) -> Self {
        let nobody = Secret::new([0; 32]);
        let (minter, secret) = minter.unwrap_or(("", &nobody));
        let mut mac = keyed(secret);
        for part in [KEY_LABEL, &salt, &volume, &generation.to_le_bytes()] {
            mac.update(part);
        }
        let secret = Secret::new(mac.finalize().into_bytes().into());
        Self { minter: minter.into(), generation, volume, secret }
    }

    /// The generation of the key.
    pub const fn generation(&self) -> u32 {
        self.generation
    }

    /// The UUID of the volume.
    pub const fn volume(&self) -> [u8; 16] {
        self.volume
    }

    /// Mints a seal.
    ///
    /// # Errors
    /// When the terms are not those of any seal.
    pub fn mint(&self, terms: SealTerms) -> Result<Seal, SealError> {
        terms.check()?;
        let Self { minter, generation, volume, .. } = self.clone();
        let mut seal = Seal { minter, generation, volume, terms, mac: [0; SEAL_MAC_LEN] };
        let mac: [u8; 32] = self.mac_of(&seal).finalize().into_bytes().into();
        seal.mac = *mac.first_chunk().expect("the MAC is cut");
        Ok(seal)
    }

    /// Whether a seal was minted under this key. The time does not depend on where its MAC is wrong.
    pub fn has_minted(&self, seal: &Seal) -> bool {
        self.mac_of(seal).verify_truncated_left(&seal.mac).is_ok()
    }

    fn mac_of(&self, seal: &Seal) -> Hmac<Sha256> {
        let mut mac = keyed(&self.secret);
        mac.update(&seal.sealed_bytes());
        mac
    }
}

fn keyed(secret: &Secret) -> Hmac<Sha256> {
    Hmac::<Sha256>::new_from_slice(secret.bytes()).expect("HMAC takes keys of any length")
}

/// Error: these are not the terms, or not the bytes, of a seal.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum SealError {
    /// Too short, too long, or cut.
    #[error("{0} bytes are no seal of this form")]
    Length(usize),
    /// Other bytes, or a later form.
    #[error("the bytes are no seal: they do not begin with NFSL, or a reserved byte is not 0")]
    Magic,
    /// A version or generation of 0.
    #[error("the versions of seals and of their keys begin with 1")]
    Version,
    /// No rights, or unknown ones.
    #[error("a seal has the right to read, to write, or both")]
    Rights,
    /// Too many runs, or none.
    #[error("a seal has 1 to {SEAL_RUNS_MAX} runs, not {0}")]
    RunCount(usize),
    /// A run that no seal has.
    #[error(
        "run {0} has no whole blocks, ends past 2^64, or is not the last and no multiple of 1 MiB"
    )]
    Run(usize),
    /// A name that no key has.
    #[error("the name of the minter is not valid UTF-8")]
    Minter,
}

#[cfg(test)]
mod tests;
