//! Bytes of open files that do not pass the owner: reads and writes within a seal go to the volume.
//!
//! A file gets a seal with its second call, or with its first long one: a seal costs as much as two short
//! calls. Calls, or parts of them, that are not within the seal go to the owner, and after some of them another
//! seal is asked for, as the file may have grown. A seal that the owner has revoked is given up, and the call
//! goes to the owner, which knows why.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use nearflash::direct::{Object, Rights, Seal};
use nearflash::{Client, Volume};
use nearflash_files::InodeNumber;
use nearflash_files_calls::DATA_LEN_MAX;

/// The numbers of calls that are not within a seal until another one is asked for. Each time that this was in
/// vain, the number doubles.
const PATIENCE: RangeInclusive<u32> = 4..=4096;

/// The way to the bytes of a volume, and the seals of its open files.
pub(super) struct SealedFiles {
    client: Client,
    volume: String,
    data: OnceLock<Volume>,
    /// The number of connections of `data` that were replaced when all were checked.
    replaced: AtomicU64,
    files: RwLock<HashMap<InodeNumber, Arc<Sealed>>>,
}

/// The seal of a file.
pub(super) struct Sealed {
    /// The object that the seal opens; `None` while the owner gives no seal.
    object: Option<Object>,
    /// The life of the owner that has given the seal.
    pub(super) life: u64,
    /// The rights for which a seal was asked for last.
    asked: Rights,
    patience: u32,
    /// The number of calls until another seal is asked for.
    left: AtomicU32,
}

/// A seal that is asked for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Wanted {
    pub(super) rights: Rights,
    patience: u32,
}

/// The part of a call that goes to the volume: its first bytes.
pub(super) struct Part {
    pub(super) sealed: Arc<Sealed>,
    pub(super) len: usize,
}

/// The way of a call.
pub(super) enum Way {
    /// Some bytes go to the volume.
    Volume(Part),
    /// The owner carries the call out.
    Owner,
    /// Another seal is asked for first.
    Ask(Wanted),
}

/// The bytes of a file that are read or written, as `is_write` says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) offset: u64,
    pub(super) len: usize,
    pub(super) is_write: bool,
}

impl SealedFiles {
    pub(super) fn new(client: Client, volume: String) -> Self {
        let (data, replaced, files) = (OnceLock::new(), AtomicU64::new(0), RwLock::default());
        Self { client, volume, data, replaced, files }
    }

    /// The way of a call.
    pub(super) fn way(&self, number: InodeNumber, span: Span) -> Way {
        let files = self.files.read().unwrap_or_else(PoisonError::into_inner);
        let file = files.get(&number).cloned();
        drop(files);
        let Some(sealed) = file else {
            let unsealed = Sealed::new(None, 0, Rights::NONE, *PATIENCE.start());
            if span.len > DATA_LEN_MAX {
                return Way::Ask(unsealed.wanted(span));
            }
            unsealed.left.store(1, Ordering::Relaxed);
            self.put(number, unsealed);
            return Way::Owner;
        };
        sealed.way(span)
    }

    /// The owner has given this seal.
    pub(super) fn given(
        &self,
        number: InodeNumber,
        wanted: Wanted,
        (seal, life): (Seal, u64),
    ) -> Result<(), nearflash::Error> {
        let object = self.data()?.object(seal);
        self.put(number, Sealed::new(Some(object), life, wanted.rights, wanted.patience));
        Ok(())
    }

    /// The owner gives no such seal now. A former one may still be good.
    pub(super) fn refused(&self, number: InodeNumber, wanted: Wanted) {
        let files = self.files.read().unwrap_or_else(PoisonError::into_inner);
        let former = files.get(&number).map(|file| (file.object.clone(), file.life));
        drop(files);
        let (object, life) = former.unwrap_or_default();
        self.put(number, Sealed::new(object, life, wanted.rights, wanted.patience));
    }

    fn put(&self, number: InodeNumber, sealed: Sealed) {
        let mut files = self.files.write().unwrap_or_else(PoisonError::into_inner);
        files.insert(number, Arc::new(sealed));
    }

    pub(super) fn void(&self, number: InodeNumber, sealed: &Arc<Sealed>) {
        let mut files = self.files.write().unwrap_or_else(PoisonError::into_inner);
        if files.get(&number).is_some_and(|now| Arc::ptr_eq(now, sealed)) {
            files.remove(&number);
        }
    }

    /// The file is closed.
    pub(super) fn forget(&self, number: InodeNumber) {
        self.files.write().unwrap_or_else(PoisonError::into_inner).remove(&number);
    }

    /// Replaces all lost connections if one was replaced: a write over another one would only find out that it
    /// is lost, too.
    pub(super) fn check(&self) -> Result<(), nearflash::Error> {
        let replaced = self.data.get().map_or(0, Volume::replaced_connections);
        if replaced == self.replaced.load(Ordering::Acquire) { Ok(()) } else { self.settle() }
    }

    /// Replaces all lost connections. Nothing is under way on them any more when this returns.
    pub(super) fn settle(&self) -> Result<(), nearflash::Error> {
        let Some(volume) = self.data.get() else { return Ok(()) };
        volume.check_connections()?;
        self.replaced.store(volume.replaced_connections(), Ordering::Release);
        Ok(())
    }

    fn data(&self) -> Result<&Volume, nearflash::Error> {
        if let Some(volume) = self.data.get() {
            return Ok(volume);
        }
        let volume = self.client.open(&self.volume)?;
        Ok(self.data.get_or_init(|| volume))
    }
}

impl Sealed {
    fn new(object: Option<Object>, life: u64, asked: Rights, patience: u32) -> Self {
        Self { object, life, asked, patience, left: AtomicU32::new(patience) }
    }

    fn way(self: Arc<Self>, span: Span) -> Way {
        if self.has(span)
            && let Some(len) = self.within(span)
        {
            self.left.store(self.patience, Ordering::Relaxed);
            return Way::Volume(Part { sealed: self, len });
        }
        let is_upgrade = self.object.is_some() && span.is_write && !self.asked.has(Rights::WRITE);
        // Several threads may find that the last call has come, and then ask at the same time.
        match self.left.load(Ordering::Relaxed) {
            left if left > 1 && !is_upgrade => {
                self.left.store(left - 1, Ordering::Relaxed);
                Way::Owner
            }
            _ => Way::Ask(self.wanted(span)),
        }
    }

    /// The seal to ask for, for a call that this one does not allow. It allows to write only if somebody does:
    /// the owner counts such a file as written.
    fn wanted(&self, span: Span) -> Wanted {
        let rights = match span.is_write || self.rights().has(Rights::WRITE) {
            true => Rights::READ_WRITE,
            false => Rights::READ,
        };
        let is_again = self.asked.has(rights);
        let patience = if is_again { self.patience.saturating_mul(2) } else { *PATIENCE.start() };
        Wanted { rights, patience: patience.min(*PATIENCE.end()) }
    }

    fn rights(&self) -> Rights {
        self.object.as_ref().map_or(Rights::NONE, |object| object.seal().terms().rights)
    }

    fn has(&self, span: Span) -> bool {
        self.rights().has(if span.is_write { Rights::WRITE } else { Rights::READ })
    }

    /// The number of the bytes that the seal covers, from the first one on; `None` if there are none.
    fn within(&self, span: Span) -> Option<usize> {
        let left = self.object.as_ref()?.len().checked_sub(span.offset);
        let left = left.filter(|left| *left > 0)?;
        Some(usize::try_from(left).unwrap_or(usize::MAX).min(span.len))
    }

    pub(super) fn read(&self, bytes: &mut [u8], offset: u64) -> Result<(), nearflash::Error> {
        self.object.as_ref().expect("a part has an object").read_at(bytes, offset)
    }

    pub(super) fn write(&self, bytes: &[u8], offset: u64) -> Result<(), nearflash::Error> {
        self.object.as_ref().expect("a part has an object").write_at(bytes, offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of calls up to the one for which a seal is asked for, and this seal.
    fn asks_after(sealed: &Arc<Sealed>, is_write: bool) -> (u32, Wanted) {
        let span = Span { offset: 0, len: 100, is_write };
        let mut count = 1;
        loop {
            match Arc::clone(sealed).way(span) {
                Way::Ask(wanted) => return (count, wanted),
                Way::Owner => count += 1,
                Way::Volume(_) => panic!("there is no seal"),
            }
        }
    }

    #[test]
    fn a_seal_is_asked_for_less_often_each_time_that_the_owner_refuses_it() {
        let refused = |rights, patience| Arc::new(Sealed::new(None, 0, rights, patience));
        let wanted = |rights, patience| Wanted { rights, patience };
        let (read, both) = (Rights::READ, Rights::READ_WRITE);
        assert_eq!(asks_after(&refused(read, 4), false), (4, wanted(read, 8)));
        assert_eq!(asks_after(&refused(read, 8), false), (8, wanted(read, 16)));
        assert_eq!(asks_after(&refused(both, 8), true), (8, wanted(both, 16)));
        assert_eq!(asks_after(&refused(both, 4096), true), (4096, wanted(both, 4096)));
        // To write was not asked for before.
        assert_eq!(asks_after(&refused(read, 8), true), (8, wanted(both, 4)));
    }
}
