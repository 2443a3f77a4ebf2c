//! The volumes and sealed objects that a client has open, and its access to each.
//!
//! Compiled anew when the exports change, so that a request's check is one array access, the
//! epoch, the range, and one lookup among the grants.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use nearflash_request::VolumeId;

use super::access::{Access, FilesGrant};
use super::exports::{CredentialExport, Export, Exports};
use super::revoked::{Revocation, Void};
use super::runs::Runs;
use crate::secret::Secret;
use crate::wire::{Rights, Seal, Status};

/// The identity of a client.
#[derive(Clone, Debug)]
pub(super) enum Who {
    /// An anonymous client, whose listener admits such clients while no credential exists.
    Anonymous,
    /// The holder of a key. Another secret under the same key is another credential.
    Key(Box<str>, Secret),
    /// Someone with a bearer, who opens the seals of a key and nothing else.
    Bearer(Box<Opener>),
}

/// The minter and the volume whose seals a client with a bearer opens.
#[derive(Clone, Debug)]
pub(super) struct Opener {
    pub(super) minter: Who,
    /// The volume's UUID.
    pub(super) volume: [u8; 16],
}

impl Who {
    pub(super) fn key(&self) -> Option<&str> {
        match self {
            Self::Anonymous => None,
            Self::Key(key, _) => Some(key),
            Self::Bearer(opener) => opener.minter.key(),
        }
    }

    pub(super) const fn is_bearer(&self) -> bool {
        matches!(self, Self::Bearer(_))
    }

    /// By whom it claims identities. Clients with bearers claim among themselves.
    pub(super) fn name_in_claims(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::Bearer(_) => Some(format!("~{}", self.key().unwrap_or_default()).into()),
            _ => self.key().map(Into::into),
        }
    }

    /// Whether the client may open a seal that its key has minted.
    pub(super) fn opens(&self, seal: &Seal) -> bool {
        let Self::Bearer(opener) = self else { return true };
        opener.volume == seal.volume() && opener.minter.key().unwrap_or("") == seal.minter()
    }
}

/// The rights of a client on a volume.
#[derive(Clone, Debug)]
pub(super) enum Reach {
    /// Everything.
    Full,
    /// The ranges that its grants cover.
    Granted(Arc<Access>),
    /// These rights on the whole object. The minter's grants cover all its runs.
    Sealed(Rights),
    /// Reading, of a volume whose files have an owner, where the grants allow it; `None`: everywhere.
    Reading(Option<Arc<Access>>),
}

impl Reach {
    #[inline]
    fn allows(&self, offset: u64, len: u32, rights: Rights) -> bool {
        match self {
            Self::Full => true,
            Self::Granted(access) => access.allows(offset..offset + u64::from(len), rights),
            Self::Sealed(sealed) => sealed.has(rights),
            Self::Reading(_) if rights.has(Rights::WRITE) => false,
            Self::Reading(None) => true,
            Self::Reading(Some(access)) => access.allows(offset..offset + u64::from(len), rights),
        }
    }

    /// The rights on all of `bytes` of a volume, and on some of its files, for messages to the owner of
    /// its files.
    fn on_files(&self, bytes: u64) -> Result<(Rights, Arc<[FilesGrant]>), Status> {
        let Self::Reading(access) = self else { return Err(Status::UNSUPPORTED) };
        let has = |rights| access.as_ref().is_none_or(|access| access.allows(0..bytes, rights));
        let part = |rights| if has(rights) { rights } else { Rights::NONE };
        let files = access.as_ref().map(|access| Arc::clone(access.files()));
        Ok((part(Rights::READ).or(part(Rights::WRITE)), files.unwrap_or_default()))
    }

    fn hull(&self) -> Rights {
        match self {
            Self::Full => Rights::READ_WRITE,
            Self::Granted(access) => access.hull(),
            Self::Sealed(sealed) => *sealed,
            Self::Reading(None) => Rights::READ,
            Self::Reading(Some(access)) if access.hull().has(Rights::READ) => Rights::READ,
            Self::Reading(Some(_)) => Rights::NONE,
        }
    }
}

impl Who {
    /// Whether the client would still be admitted.
    pub(super) fn is_admitted(&self, exports: &Exports) -> bool {
        match self {
            Self::Anonymous => exports.is_open(),
            Self::Key(key, secret) => exports
                .minter(key)
                .is_some_and(|credential| credential.secret == *secret && !credential.expired),
            Self::Bearer(opener) => opener.minter.is_admitted(exports),
        }
    }

    /// The answer for a volume that is not there, and for one of which the client must not learn that it is.
    fn knows_none(&self, exports: &Exports) -> Status {
        match self.key() {
            Some(key) if !exports.is_of_peers(key) => Status::NOT_GRANTED,
            _ => Status::NO_SUCH_VOLUME,
        }
    }

    /// The rights of this client on a volume, according to `exports`.
    fn reach(&self, exports: &Exports, export: &Export) -> Result<Reach, Status> {
        if export.face.is_some() && !self.key().is_some_and(|key| exports.is_of_peers(key)) {
            return Err(self.knows_none(exports));
        }
        let is_read_only = exports.is_written_by_owner(export.volume, self.key());
        let (key, secret) = match self {
            Self::Anonymous if exports.is_open() && export.is_public => {
                return Ok(if is_read_only { Reach::Reading(None) } else { Reach::Full });
            }
            Self::Anonymous if exports.is_open() => return Err(self.knows_none(exports)),
            Self::Anonymous => return Err(Status::NOT_GRANTED),
            Self::Key(key, secret) => (key, secret),
            Self::Bearer(opener) => return opener.minter.reach(exports, export),
        };
        let credential: &CredentialExport = match exports.minter(key) {
            Some(credential) if credential.secret == *secret => credential,
            _ => return Err(Status::NOT_GRANTED),
        };
        if credential.expired {
            return Err(Status::CREDENTIAL_EXPIRED);
        }
        match credential.access.get(&export.volume) {
            Some(access) if is_read_only && !access.is_empty() => {
                Ok(Reach::Reading(Some(Arc::clone(access))))
            }
            Some(access) if access.hull() != Rights::NONE => Ok(Reach::Granted(Arc::clone(access))),
            _ => Err(Status::NOT_GRANTED),
        }
    }
}

/// A volume, or a sealed object of one, that a client has open.
#[derive(Clone, Debug)]
pub(super) struct Handle {
    opened: Opened,
    pub(super) export: Export,
    /// The epoch in its requests: the volume's epoch, or the seal's version.
    pub(super) epoch: u32,
    /// The length of the volume, or of the object.
    bytes: u64,
    /// Where its bytes lie in the volume.
    pub(super) runs: Runs,
    /// Distinguishes the sealed objects that the session has opened; 0 for a volume.
    pub(super) serial: u32,
    reach: Result<Reach, Status>,
}

#[derive(Clone, Debug)]
enum Opened {
    /// By the volume's name.
    Name(Box<str>),
    /// By a seal of this minter.
    Seal(Box<(Seal, Who)>),
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
        let export = *exports.volume(name).ok_or_else(|| who.knows_none(exports))?;
        let reach = who.reach(exports, &export)?;
        Ok(Self {
            opened: Opened::Name(name.into()),
            epoch: export.epoch,
            bytes: export.bytes,
            export,
            runs: Runs::WHOLE,
            serial: 0,
            reach: Ok(reach),
        })
    }

    /// Opens a seal that its key has minted and that is not void.
    pub(super) fn open_sealed(
        seal: Seal,
        minter: Who,
        exports: &Exports,
        serial: u32,
    ) -> Result<Self, Status> {
        let export = *exports.of_uuid(&seal.volume()).ok_or(Status::NO_SUCH_VOLUME)?;
        let reach = sealed_reach(&seal, &minter, exports, &export)?;
        let terms = seal.terms();
        Ok(Self {
            epoch: terms.version,
            bytes: terms.len(),
            runs: Runs::of(&terms.runs),
            export,
            serial,
            reach: Ok(reach),
            opened: Opened::Seal(Box::new((seal, minter))),
        })
    }

    /// The exports have changed. Returns whether this has ended a seal.
    fn recompile(&mut self, who: &Who, exports: &Exports) -> bool {
        match &self.opened {
            Opened::Name(name) => {
                match exports.same_volume(name, self.export.volume) {
                    Some(export) => {
                        (self.export, self.epoch, self.bytes) =
                            (*export, export.epoch, export.bytes);
                        self.reach = who.reach(exports, export);
                    }
                    None => self.reach = Err(Status::NO_SUCH_VOLUME),
                }
                false
            }
            // A handle that is void stays void.
            Opened::Seal(_) if self.reach.is_err() => false,
            Opened::Seal(opened) => {
                let (seal, minter) = &**opened;
                let same = exports.of_uuid(&seal.volume());
                let same = same.filter(|export| export.volume == self.export.volume);
                self.reach = match same {
                    Some(export) if who.is_admitted(exports) => {
                        self.export = *export;
                        sealed_reach(seal, minter, exports, export)
                    }
                    Some(_) => Err(Status::NOT_GRANTED),
                    None => Err(Status::NO_SUCH_VOLUME),
                };
                self.reach.is_err()
            }
        }
    }

    /// Ends the handle of a seal that a revocation voids.
    fn revoke(&mut self, revocation: &Revocation) {
        if let Opened::Seal(opened) = &self.opened
            && revocation.voids(&opened.0)
        {
            if let Void::Object { version, .. } = revocation.void {
                self.epoch = self.epoch.max(version);
            }
            self.reach = Err(Status::STALE_EPOCH);
        }
    }

    /// The name of the volume that it is, unless it is a sealed object.
    pub(super) const fn is_volume(&self) -> bool {
        matches!(self.opened, Opened::Name(_))
    }

    /// The length of the volume, or of the object.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The UUID of the volume, or of the object.
    pub(super) fn uuid(&self) -> [u8; 16] {
        match &self.opened {
            Opened::Name(_) => self.export.uuid,
            Opened::Seal(opened) => opened.0.terms().uuid,
        }
    }

    /// The client's rights on the volume.
    pub(super) fn rights(&self) -> Rights {
        self.reach.as_ref().map_or(Rights::NONE, Reach::hull)
    }

    /// The client's rights on the whole volume, and on some of its files, for messages to the owner of its
    /// files.
    pub(super) fn files_rights(&self) -> Result<(Rights, Arc<[FilesGrant]>), Status> {
        if !self.is_volume() {
            return Err(Status::UNSUPPORTED);
        }
        self.reach.as_ref().map_err(|status| *status)?.on_files(self.bytes)
    }

    /// Checks whether a request is allowed. Returns the status and value to answer if it is not.
    #[inline]
    pub(super) fn check(&self, wanted: Wanted) -> Result<(), (Status, u64)> {
        let refused = |status| Err((status, 0));
        let stale = Err((Status::STALE_EPOCH, u64::from(self.epoch)));
        let reach = match &self.reach {
            Ok(reach) => reach,
            Err(Status::STALE_EPOCH) => return stale,
            Err(status) => return refused(*status),
        };
        if wanted.epoch != self.epoch && self.export.face.is_none() {
            return stale;
        }
        let Wanted { offset, len, rights, .. } = wanted;
        if wanted.is_anywhere {
            let granted = reach.hull().has(rights);
            return if granted { Ok(()) } else { refused(Status::NOT_GRANTED) };
        }
        let fits = offset.checked_add(u64::from(len)).is_some_and(|end| end <= self.bytes);
        if !fits {
            return refused(Status::OUT_OF_RANGE);
        }
        if reach.allows(offset, len, rights) { Ok(()) } else { refused(Status::NOT_GRANTED) }
    }
}

/// The rights of a seal: at most its minter's. All its runs are whole blocks of the volume.
fn sealed_reach(
    seal: &Seal,
    minter: &Who,
    exports: &Exports,
    export: &Export,
) -> Result<Reach, Status> {
    if export.is_remote {
        return Err(Status::UNSUPPORTED);
    }
    let granted = minter.reach(exports, export)?;
    let terms = seal.terms();
    let block_len = u64::from(export.block_size.bytes());
    for run in &terms.runs {
        if !run.start.is_multiple_of(block_len) || !run.len.is_multiple_of(block_len) {
            return Err(Status::INVALID_FIELD);
        }
        let end = run.start.checked_add(run.len).filter(|end| *end <= export.bytes);
        let range = run.start..end.ok_or(Status::OUT_OF_RANGE)?;
        let is_granted = match &granted {
            Reach::Full => true,
            Reach::Granted(access) => access.allows(range, terms.rights),
            Reach::Reading(access) => {
                let reads = access.as_ref().is_none_or(|it| it.allows(range, terms.rights));
                reads && !terms.rights.has(Rights::WRITE)
            }
            Reach::Sealed(_) => false,
        };
        if !is_granted {
            return Err(Status::NOT_GRANTED);
        }
    }
    Ok(Reach::Sealed(terms.rights))
}

/// The handles of one connection, by number. Memory is taken for those that were opened.
#[derive(Debug)]
pub(super) struct Handles {
    handles: Vec<Option<Handle>>,
    /// The numbers of sealed objects, by the objects' own numbers. Those of several minters may be the same.
    by_object: HashMap<u64, Vec<u16>>,
    /// No number below is free.
    free_from: usize,
    max: u16,
}

impl Handles {
    pub(super) fn new(max: u16) -> Self {
        Self { handles: Vec::new(), by_object: HashMap::new(), free_from: 0, max }
    }

    pub(super) const fn max(&self) -> u16 {
        self.max
    }

    #[inline]
    pub(super) fn get(&self, number: u16) -> Option<&Handle> {
        self.handles.get(usize::from(number))?.as_ref()
    }

    /// Stores a handle under a free number; `None` when all numbers are taken.
    pub(super) fn insert(&mut self, handle: Handle) -> Option<u16> {
        let free = self.handles[self.free_from..].iter().position(Option::is_none);
        let free = free.map_or(self.handles.len(), |after| self.free_from + after);
        let number = u16::try_from(free).ok().filter(|number| *number < self.max)?;
        if free == self.handles.len() {
            self.handles.push(None);
        }
        self.list(number, &handle);
        self.handles[free] = Some(handle);
        self.free_from = free + 1;
        Some(number)
    }

    /// Replaces the handle of a number that is taken. Returns whether it is taken.
    pub(super) fn replace(&mut self, number: u16, handle: Handle) -> bool {
        if self.take(number).is_none() {
            return false;
        }
        self.list(number, &handle);
        self.handles[usize::from(number)] = Some(handle);
        true
    }

    fn list(&mut self, number: u16, handle: &Handle) {
        if let Opened::Seal(opened) = &handle.opened {
            self.by_object.entry(opened.0.terms().object).or_default().push(number);
        }
    }

    fn take(&mut self, number: u16) -> Option<Handle> {
        let handle = self.handles.get_mut(usize::from(number))?.take()?;
        if let Opened::Seal(opened) = &handle.opened
            && let Entry::Occupied(mut listed) = self.by_object.entry(opened.0.terms().object)
        {
            listed.get_mut().retain(|of_object| *of_object != number);
            if listed.get().is_empty() {
                listed.remove();
            }
        }
        Some(handle)
    }

    /// Whether the client can still use a handle of a volume, or of a sealed object of one.
    pub(super) fn is_open(&self, volume: VolumeId) -> bool {
        let is_such = |it: &Handle| it.export.volume == volume && it.reach.is_ok();
        self.handles.iter().flatten().any(is_such)
    }

    pub(super) fn is_any_open(&self) -> bool {
        self.handles.iter().any(Option::is_some)
    }

    /// Frees a number. Whether it was taken.
    pub(super) fn remove(&mut self, number: u16) -> bool {
        self.free_from = self.free_from.min(usize::from(number));
        self.take(number).is_some()
    }

    /// The exports have changed. Returns the volumes of which seals have ended.
    pub(super) fn recompile(&mut self, who: &Who, exports: &Exports) -> Vec<VolumeId> {
        let mut ended = Vec::new();
        for handle in self.handles.iter_mut().flatten() {
            let volume = handle.export.volume;
            if handle.recompile(who, exports) && !ended.contains(&volume) {
                ended.push(volume);
            }
        }
        ended
    }

    /// The client is gone: nothing that has not begun is allowed.
    pub(super) fn end(&mut self) {
        for handle in self.handles.iter_mut().flatten() {
            handle.reach = Err(Status::NOT_GRANTED);
        }
    }

    /// Ends the handles of the seals that a revocation voids.
    pub(super) fn revoke(&mut self, revocation: &Revocation) {
        let Void::Object { object, .. } = revocation.void else {
            return self.handles.iter_mut().flatten().for_each(|handle| handle.revoke(revocation));
        };
        // An owner revokes objects by the thousand, and a client may have as many open.
        for number in self.by_object.get(&object).into_iter().flatten() {
            if let Some(handle) = &mut self.handles[usize::from(*number)] {
                handle.revoke(revocation);
            }
        }
    }
}
