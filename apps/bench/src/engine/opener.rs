//! Openers create engines.

use nearflash_units::ByteLen;

use super::{AnyEngine, Engine};
use crate::BenchError;

/// Creates the engine of each job, on the thread that runs the job.
pub trait Opener: Sync {
    /// The type of its engines.
    type Engine: Engine;

    /// Opens an engine for the calling thread.
    ///
    /// # Errors
    /// When the target cannot be reached.
    fn open(&self, depth: usize, op_len: ByteLen) -> Result<Self::Engine, BenchError>;

    /// Maintenance that the target needs while its engines work, such as keep-alives. Called
    /// several times per second.
    ///
    /// # Errors
    /// When the target is gone.
    fn tend(&self) -> Result<(), BenchError> {
        Ok(())
    }
}

/// An opener with engines of any kind, so that loads on different kinds of targets can run
/// together.
pub trait OpenAny: Sync {
    /// Like [`Opener::open`].
    ///
    /// # Errors
    /// When the target cannot be reached.
    fn open_any(&self, depth: usize, op_len: ByteLen) -> Result<AnyEngine, BenchError>;

    /// Like [`Opener::tend`].
    ///
    /// # Errors
    /// When the target is gone.
    fn tend_any(&self) -> Result<(), BenchError>;
}

impl<O: Opener> OpenAny for O
where
    O::Engine: 'static,
{
    fn open_any(&self, depth: usize, op_len: ByteLen) -> Result<AnyEngine, BenchError> {
        Ok(Box::new(self.open(depth, op_len)?))
    }

    fn tend_any(&self) -> Result<(), BenchError> {
        self.tend()
    }
}

impl Opener for dyn OpenAny + '_ {
    type Engine = AnyEngine;

    fn open(&self, depth: usize, op_len: ByteLen) -> Result<AnyEngine, BenchError> {
        self.open_any(depth, op_len)
    }

    fn tend(&self) -> Result<(), BenchError> {
        self.tend_any()
    }
}
