//! Models that are addressed by bytes, as a device is: what a read, a write or a deallocation
//! of a range costs, and the wear that it causes.
//!
//! - [`FlashModel`]: an FTL over dies. A write of a part of a page reads and writes the whole page.
//! - [`PcmModel`]: lines that are written in place, with start-gap.
//!
//! The contents of the range are elsewhere, at the place where the host sees them: only the mapping
//! moves. Invariants: a refused request changes nothing; a moment that is returned is not before the
//! one that was given.

mod bounds;
mod error;
mod flash;
mod pcm;

pub use error::ModelConfigError;
pub use flash::{FlashConfig, FlashModel, FlashWear};
pub use pcm::{PcmConfig, PcmModel, PcmWear};

use std::ops::Range;

use nearflash_units::{ByteLen, ByteOffset, Nanos};

/// The longest time of one operation that a model accepts.
pub const OPERATION_TIME_MAX: Nanos = Nanos::from_secs(1);

/// The model has reached the end of its life. It refuses everything that changes blocks.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("it is worn out, and can only be read")]
pub struct WornOut;

/// A model, and everything that it has counted.
#[derive(Clone, Debug)]
pub enum Model {
    /// Flash.
    Flash(Box<FlashModel>),
    /// Phase-change memory.
    Pcm(Box<PcmModel>),
}

/// The wear of a model.
#[derive(Clone, Debug, PartialEq)]
pub enum Wear {
    /// Of flash.
    Flash(FlashWear),
    /// Of phase-change memory.
    Pcm(PcmWear),
}

impl Model {
    /// A read that arrives at `now`. Returns the moment of its answer.
    ///
    /// # Panics
    /// When the range is not within the model; the same applies to all operations.
    pub fn read(&mut self, now: Nanos, offset: ByteOffset, len: ByteLen) -> Nanos {
        match self {
            Self::Flash(model) => model.read(now, offset, len),
            Self::Pcm(model) => {
                model.read(offset, len);
                now
            }
        }
    }

    /// A write that arrives at `now`. Returns the moment of its answer.
    ///
    /// # Errors
    /// When the model is worn out.
    pub fn write(
        &mut self,
        now: Nanos,
        offset: ByteOffset,
        len: ByteLen,
    ) -> Result<Nanos, WornOut> {
        match self {
            Self::Flash(model) => model.write(now, offset, len),
            Self::Pcm(model) => model.write(offset, len).map(|_| now),
        }
    }

    /// The range reads as zeroes from now on: flash gives up its pages, and memory that is written
    /// in place is written. Returns the moment of the answer.
    ///
    /// # Errors
    /// When the model is worn out.
    pub fn zero(&mut self, now: Nanos, offset: ByteOffset, len: ByteLen) -> Result<Nanos, WornOut> {
        match self {
            Self::Flash(model) => model.zero(now, offset, len),
            Self::Pcm(model) => model.write(offset, len).map(|_| now),
        }
    }

    /// The host no longer needs the range, and it reads as zeroes from now on. Flash gives up its
    /// pages; memory that is written in place notes it elsewhere. Returns the moment of the answer.
    ///
    /// # Errors
    /// When the model is worn out.
    pub fn deallocate(
        &mut self,
        now: Nanos,
        offset: ByteOffset,
        len: ByteLen,
    ) -> Result<Nanos, WornOut> {
        match self {
            Self::Flash(model) => model.zero(now, offset, len),
            Self::Pcm(model) if model.is_worn_out() => Err(WornOut),
            Self::Pcm(_) => Ok(now),
        }
    }

    /// Whether the range begins with storage of its own, and the length of that run: at least one
    /// byte, and at most `len`. `None` for memory that is written in place, which knows no state.
    pub fn run(&self, offset: ByteOffset, len: ByteLen) -> Option<(bool, ByteLen)> {
        match self {
            Self::Flash(model) => Some(model.run(offset, len)),
            Self::Pcm(_) => None,
        }
    }

    /// Whether everything that changes blocks is refused.
    pub fn is_worn_out(&self) -> bool {
        match self {
            Self::Flash(model) => model.is_worn_out(),
            Self::Pcm(model) => model.is_worn_out(),
        }
    }

    /// The wear so far.
    pub fn wear(&self) -> Wear {
        match self {
            Self::Flash(model) => Wear::Flash(model.wear()),
            Self::Pcm(model) => Wear::Pcm(model.wear()),
        }
    }
}

/// The units of `unit` bytes that a range touches, each with whether the range covers all of it that
/// lies within `total`.
fn units(
    offset: ByteOffset,
    len: ByteLen,
    unit: u64,
    total: ByteLen,
) -> impl Iterator<Item = (u32, bool)> {
    let end = offset.0.checked_add(len.0).filter(|end| *end <= total.0);
    let end = end.expect("the range lies within the model: the layout of the volumes was checked");
    touched(offset, end, unit).map(move |number| {
        let start = u64::from(number) * unit;
        (number, offset.0 <= start && end >= (start + unit).min(total.0))
    })
}

/// The numbers of the units between `offset` and `end`.
fn touched(offset: ByteOffset, end: u64, unit: u64) -> Range<u32> {
    if end == offset.0 {
        return 0..0;
    }
    let number = |at: u64| u32::try_from(at).expect("the configuration bounds the units");
    number(offset.0 / unit)..number(end.div_ceil(unit))
}
