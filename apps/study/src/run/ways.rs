//! The ways to a subject: each creates engines for clients.

use nearflash_bench::BenchError;
use nearflash_bench::engine::{
    AnyEngine, DirectRemote, FILE_BATCH, FileOptions, IscsiRemote, Needs, NullEngine, Opener,
    Remote,
};
use nearflash_bench::subject::Target;
use nearflash_units::{ByteLen, ByteOffset};

use crate::plan::Load;

/// A range of a target.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) target: Target,
    pub(super) offset: ByteOffset,
    /// `None` for the rest of the target.
    pub(super) len: Option<ByteLen>,
}

/// A connected target that can run a load.
pub(super) enum Way {
    /// The null engine: the overhead of the measurement itself.
    Null,
    File(FileOptions),
    NvmeTcp(Box<Remote>),
    Iscsi(IscsiRemote),
    Direct(DirectRemote),
}

impl Way {
    /// Connects for a load of which `clients` clients come this way. Also returns the target's
    /// length.
    pub(super) fn connect(
        target: &Target,
        load: &Load,
        clients: u32,
    ) -> Result<(Self, ByteLen), BenchError> {
        let depth = usize::try_from(load.depth).expect("usize is at least 32 bits wide");
        let needs = Needs { op_len: load.op_len, offset: ByteLen(0), depth, job_count: clients };
        Ok(match target {
            Target::NvmeTcp(target) => {
                let remote = Remote::connect(target, needs)?;
                let len = remote.len();
                (Self::NvmeTcp(Box::new(remote)), len)
            }
            Target::Iscsi(target) => {
                let remote = IscsiRemote::connect(target, needs)?;
                let len = remote.len();
                (Self::Iscsi(remote), len)
            }
            Target::Direct(url) => {
                let remote = DirectRemote::connect(url, needs)?;
                let len = remote.len();
                (Self::Direct(remote), len)
            }
            Target::File(path) => {
                let options = FileOptions {
                    path: path.clone(),
                    direct: true,
                    writes: load.pattern.writes(),
                    len_min: None,
                    batch: FILE_BATCH,
                };
                let len = options.prepare()?;
                (Self::File(options), len)
            }
            Target::Null(len) => (Self::Null, *len),
            Target::Floor(_) | Target::Relay(_) => unreachable!("no volume is reached so"),
        })
    }

    pub(super) fn open(&self, depth: usize, op_len: ByteLen) -> Result<AnyEngine, BenchError> {
        Ok(match self {
            Self::Null => Box::new(NullEngine::new(depth, op_len)),
            Self::File(options) => Box::new(options.open(depth, op_len)?),
            Self::NvmeTcp(remote) => Box::new(remote.open(depth, op_len)?),
            Self::Iscsi(remote) => Box::new(remote.open(depth, op_len)?),
            Self::Direct(remote) => Box::new(remote.open(depth, op_len)?),
        })
    }

    pub(super) fn tend(&self) -> Result<(), BenchError> {
        match self {
            Self::NvmeTcp(remote) => remote.tend(),
            Self::Null | Self::File(_) | Self::Iscsi(_) | Self::Direct(_) => Ok(()),
        }
    }
}
