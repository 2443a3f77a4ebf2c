//! A model device: a model of flash or of phase-change memory, and the contents.
//!
//! The contents lie in memory, at the place where hosts see them; the model says when a request is
//! answered, and counts wear. All cores share the model under one mutex: a model is not a data path,
//! and its time must not depend on which core asks. Contents and wear end with the process.

use std::sync::{Mutex, MutexGuard, PoisonError};

use nearflash_device::{DeviceOperation, DeviceRequest, DeviceResult};
use nearflash_flash::model::{FlashModel, Model, PcmModel, Wear, WornOut};
use nearflash_space::Name;
use nearflash_units::{ByteLen, ByteOffset, Nanos};

use crate::RamRegion;
use crate::error::OpenError;
use crate::spec::{ModelConfig, ModelSpec};

/// See the module.
#[derive(Debug)]
pub struct ModelDevice {
    model: Mutex<Model>,
    contents: Option<RamRegion>,
    spec: ModelSpec,
}

impl ModelDevice {
    /// A new model, if it fits into the machine's memory. Its tables are filled at once; its contents
    /// take memory as they are written, and must not end the node later.
    pub(crate) fn open(name: &Name, spec: &ModelSpec) -> Result<Self, OpenError> {
        let refused = |source| OpenError::Model { name: name.clone(), source };
        let needed = spec.memory().map_err(refused)?;
        let system = rustix::system::sysinfo();
        let memory = ByteLen(system.totalram.saturating_mul(u64::from(system.mem_unit)));
        if needed > memory {
            let remedy = match spec.has_contents {
                true => "make it smaller, or add data=none",
                false => "make it smaller",
            };
            return Err(OpenError::TooLarge { name: name.clone(), needed, memory, remedy });
        }
        let contents = spec.has_contents.then(|| RamRegion::reserve(name, spec.len()));
        let model = match spec.config {
            ModelConfig::Flash(config) => FlashModel::new(config).map(Box::new).map(Model::Flash),
            ModelConfig::Pcm(config) => PcmModel::new(config).map(Box::new).map(Model::Pcm),
        };
        let model = Mutex::new(model.map_err(refused)?);
        Ok(Self { model, contents: contents.transpose()?, spec: *spec })
    }

    /// The configuration.
    pub fn spec(&self) -> &ModelSpec {
        &self.spec
    }

    /// The contents; `None` for a model that reads as zeroes.
    pub fn contents(&self) -> Option<&RamRegion> {
        self.contents.as_ref()
    }

    /// The wear so far.
    pub fn wear(&self) -> Wear {
        self.model().wear()
    }

    /// Whether everything that changes blocks is refused.
    pub fn is_worn_out(&self) -> bool {
        self.model().is_worn_out()
    }

    /// The moment at which a request that arrives at `now` is answered. A flush has nothing to do:
    /// every answered write is in the model.
    ///
    /// # Errors
    /// When the model is worn out, and the request would change blocks.
    pub fn answer_at(&self, request: &DeviceRequest, now: Nanos) -> Result<Nanos, WornOut> {
        let (offset, len) = (request.offset, request.len);
        match request.operation {
            DeviceOperation::Read { .. } => Ok(self.model().read(now, offset, len)),
            DeviceOperation::Write { .. } => self.model().write(now, offset, len),
            DeviceOperation::WriteZeroes { deallocate: false } => {
                self.model().zero(now, offset, len)
            }
            DeviceOperation::WriteZeroes { deallocate: true } | DeviceOperation::Deallocate => {
                self.model().deallocate(now, offset, len)
            }
            DeviceOperation::Flush | DeviceOperation::Allocation => Ok(now),
        }
    }

    /// Zeroes a range before it becomes part of a volume, which takes no time in the model.
    pub(crate) fn zero(&self, offset: ByteOffset, len: ByteLen) -> Result<(), WornOut> {
        self.model().deallocate(Nanos(0), offset, len)?;
        if let Some(contents) = &self.contents {
            contents.zero(offset, len);
        }
        Ok(())
    }

    /// The allocation of the run of blocks that begins at `offset`: that of flash is known to its
    /// FTL. Other memory is searched for zeroes.
    pub(crate) fn allocation(&self, offset: ByteOffset, len: ByteLen, unit: usize) -> DeviceResult {
        let (is_mapped, len) = match (self.model().run(offset, len), &self.contents) {
            (Some(run), _) => run,
            (None, Some(contents)) => {
                let (is_zero, len) = contents.run(offset, len, unit);
                (!is_zero, len)
            }
            (None, None) => (false, len),
        };
        DeviceResult::run(is_mapped, len)
    }

    fn model(&self) -> MutexGuard<'_, Model> {
        self.model.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
