//! The volumes that a client has open, and its access to each.
//!
//! Compiled anew when the exports change, so that a request's check is one array access, the
//! epoch, the range, and one lookup among the grants.

use std::sync::Arc;

use super::access::Access;
use super::exports::{CredentialExport, Export, Exports};
use crate::secret::Secret;
use crate::wire::{Rights, Status};

/// The identity of a client.
#[derive(Clone, Debug)]
pub(super) enum Who {
    /// An anonymous client, whose listener admits such clients while no credential exists.
    Anonymous,
    /// The holder of a key. Another secret under the same key is another credential.
    Key(Box<str>, Secret),
}

impl Who {
    pub(super) fn key(&self) -> Option<&str> {
        match self {
            Self::Anonymous => None,
            Self::Key(key, _) => Some(key),
        }
    }
}

/// The rights of a client on a volume.
#[derive(Clone, Debug)]
pub(super) enum Reach {
    /// Everything.
    Full,
    /// The ranges that its grants cover.
    Granted(Arc<Access>),
}

impl Reach {
    #[inline]
    fn allows(&self, offset: u64, len: u32, rights: Rights) -> bool {
        match self {
            Self::Full => true,
            Self::Granted(access) => access.allows(offset..offset + u64::from(len), rights),
        }
    }

    fn hull(&self) -> Rights {
        match self {
            Self::Full => Rights::READ_WRITE,
            Self::Granted(access) => access.hull(),
        }
    }
}

impl Who {
    /// The rights of this client on a volume, according to `exports`.
    fn reach(&self, exports: &Exports, export: &Export) -> Result<Reach, Status> {
        if export.face.is_some() && !self.key().is_some_and(|key| exports.is_of_peers(key)) {
            return Err(Status::NO_SUCH_VOLUME);
        }
        let (key, secret) = match self {
            Self::Anonymous if exports.is_open() && export.is_public => return Ok(Reach::Full),
            Self::Anonymous => return Err(Status::NOT_GRANTED),
            Self::Key(key, secret) => (key, secret),
        };
        let credential: &CredentialExport = match exports.credential(key) {
            Some(credential) if credential.secret == *secret => credential,
            _ => return Err(Status::NOT_GRANTED),
        };
        if credential.expired {
            return Err(Status::CREDENTIAL_EXPIRED);
        }
        match credential.access.get(&export.volume) {
            Some(access) if access.hull() != Rights::NONE => Ok(Reach::Granted(Arc::clone(access))),
            _ => Err(Status::NOT_GRANTED),
        }
    }
}

/// A volume that a client has open.
#[derive(Clone, Debug)]
pub(super) struct Handle {
    name: Box<str>,
    pub(super) export: Export,
    reach: Result<Reach, Status>,
}

/// The parameters of a request that [`Handle::check`] checks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) epoch: u32,
    pub(super) offset: u64,
    pub(super) len: u32,
    pub(super) rights: Rights,
    /// The rights must apply to at least one byte of the volume; the range does not matter.
    pub(super) is_anywhere: bool,
}

impl Handle {
    pub(super) fn open(name: &str, who: &Who, exports: &Exports) -> Result<Self, Status> {
        let export = *exports.volume(name).ok_or(Status::NO_SUCH_VOLUME)?;
        let reach = who.reach(exports, &export)?;
        Ok(Self { name: name.into(), export, reach: Ok(reach) })
    }

    /// The exports have changed.
    fn recompile(&mut self, who: &Who, exports: &Exports) {
        match exports.same_volume(&self.name, self.export.volume) {
            Some(export) => {
                self.export = *export;
                self.reach = who.reach(exports, export);
            }
            None => self.reach = Err(Status::NO_SUCH_VOLUME),
        }
    }

    /// The client's rights on the volume.
    pub(super) fn rights(&self) -> Rights {
        self.reach.as_ref().map_or(Rights::NONE, Reach::hull)
    }

    /// Checks whether a request is allowed. Returns the status and value to answer if it is not.
    #[inline]
    pub(super) fn check(&self, wanted: Wanted) -> Result<(), (Status, u64)> {
        let refused = |status| Err((status, 0));
        let reach = match &self.reach {
            Ok(reach) => reach,
            Err(status) => return refused(*status),
        };
        if wanted.epoch != self.export.epoch && self.export.face.is_none() {
            return Err((Status::STALE_EPOCH, u64::from(self.export.epoch)));
        }
        let Wanted { offset, len, rights, .. } = wanted;
        if wanted.is_anywhere {
            let granted = reach.hull().has(rights);
            return if granted { Ok(()) } else { refused(Status::NOT_GRANTED) };
        }
        let fits = offset.checked_add(u64::from(len)).is_some_and(|end| end <= self.export.bytes);
        if !fits {
            return refused(Status::OUT_OF_RANGE);
        }
        if reach.allows(offset, len, rights) { Ok(()) } else { refused(Status::NOT_GRANTED) }
    }
}

/// The handles of one connection, by number.
#[derive(Debug)]
pub(super) struct Handles {
    handles: Vec<Option<Handle>>,
    max: u16,
}

impl Handles {
    pub(super) const fn new(max: u16) -> Self {
        Self { handles: Vec::new(), max }
    }

    /// The most handles.
    pub(super) const fn max(&self) -> u16 {
        self.max
    }

    #[inline]
    pub(super) fn get(&self, number: u16) -> Option<&Handle> {
        self.handles.get(usize::from(number))?.as_ref()
    }

    /// Stores a handle under a free number; `None` when all numbers are taken.
    pub(super) fn insert(&mut self, handle: Handle) -> Option<u16> {
        let free = self.handles.iter().position(Option::is_none);
        let number = u16::try_from(free.unwrap_or(self.handles.len())).ok()?;
        if number >= self.max {
            return None;
        }
        match free {
            Some(free) => self.handles[free] = Some(handle),
            None => self.handles.push(Some(handle)),
        }
        Some(number)
    }

    /// Replaces the handle of a number that is taken. Returns whether it is taken.
    pub(super) fn replace(&mut self, number: u16, handle: Handle) -> bool {
        match self.handles.get_mut(usize::from(number)) {
            Some(place @ Some(_)) => {
                *place = Some(handle);
                true
            }
            _ => false,
        }
    }

    pub(super) fn is_any_open(&self) -> bool {
        self.handles.iter().any(Option::is_some)
    }

    /// Frees a number. Whether it was taken.
    pub(super) fn remove(&mut self, number: u16) -> bool {
        self.handles.get_mut(usize::from(number)).is_some_and(|place| place.take().is_some())
    }

    pub(super) fn recompile(&mut self, who: &Who, exports: &Exports) {
        for handle in self.handles.iter_mut().flatten() {
            handle.recompile(who, exports);
        }
    }
}
