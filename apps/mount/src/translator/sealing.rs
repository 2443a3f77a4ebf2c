//! Seals for processes that read and write the bytes of an open file without this mount:
//! [`SEAL_IOCTL`], [`SEAL_WITHOUT_PAGES_IOCTL`], [`WRITTEN_IOCTL`] and [`DURABLE_SIZE_IOCTL`].
//!
//! A process gets the rights with which the kernel has let it open the file: the handle of the open file has
//! the access mode.
//!
//! No seals are given if the kernel keeps contents, which it would not know to have changed, and none over TLS,
//! which the interposer does not have. If the mount has
//! a credential, the process gets a bearer with the seal, and never the credential.

use fuser::{Errno, FileHandle};
use nearflash::direct::{
    DURABLE_SIZE_IOCTL, HANDOVER_LEN, Handover, Place, Rights, SEAL_IOCTL,
    SEAL_WITHOUT_PAGES_IOCTL, Url, WRITTEN_IOCTL,
};
use nearflash_files_service::{FileCalls, FilesError, InodeNumber, SealedFile};
use rustix::fs::OFlags;

use super::{Translator, opened};
use crate::options::Cache;

/// The call that gives seals.
type GiveSeal = fn(&dyn FileCalls, InodeNumber, Rights) -> Result<SealedFile, FilesError>;

/// The commands that ask for a seal.
const SEALS: [(u32, GiveSeal); 2] = [
    (SEAL_IOCTL, |files, number, rights| files.seal(number, rights)),
    (SEAL_WITHOUT_PAGES_IOCTL, |files, number, rights| files.seal_without_pages(number, rights)),
];

/// The rights of an open file.
fn rights(handle: FileHandle) -> Option<Rights> {
    let modes = [
        (OFlags::RDONLY, Rights::READ),
        (OFlags::WRONLY, Rights::WRITE),
        (OFlags::RDWR, Rights::READ_WRITE),
    ];
    let opened = opened::flags(handle) & OFlags::ACCMODE;
    modes.iter().find(|(mode, _)| *mode == opened).map(|(_, rights)| *rights)
}

/// The node as other processes reach it; `None` if they get no seals.
pub(super) fn place(url: &Url, cache: Cache) -> Option<Url> {
    if cache != Cache::None {
        return None;
    }
    let place = match &url.place {
        // Other processes are in other directories.
        Place::Local(path) => Place::Local(path.canonicalize().ok()?),
        tcp @ Place::Tcp { .. } => tcp.clone(),
        // The library that programs load has no TLS: their calls go through this mount.
        Place::Tls { .. } => return None,
    };
    Some(Url { place, ..url.clone() })
}

impl Translator {
    /// ioctl(2).
    pub(super) fn command(
        &self,
        number: InodeNumber,
        handle: FileHandle,
        command: u32,
        output_len: u32,
    ) -> Result<Vec<u8>, Errno> {
        if let Some((_, give)) = SEALS.iter().find(|(known, _)| *known == command) {
            let has_room = output_len as usize >= HANDOVER_LEN;
            return if has_room {
                self.hand_over(number, handle, *give)
            } else {
                Err(Errno::ENOTTY)
            };
        }
        match command {
            WRITTEN_IOCTL => {
                let rights = rights(handle).ok_or(Errno::EBADF)?;
                if !rights.has(Rights::WRITE) {
                    return Err(Errno::EBADF);
                }
                self.files.call(|files| files.mark_written(number)).map(|()| Vec::new())
            }
            DURABLE_SIZE_IOCTL => {
                let size = self.files.call(|files| files.durable_size(number))?;
                Ok(size.0.to_le_bytes().to_vec())
            }
            _ => Err(Errno::ENOTTY),
        }
    }

    fn hand_over(
        &self,
        number: InodeNumber,
        handle: FileHandle,
        give: GiveSeal,
    ) -> Result<Vec<u8>, Errno> {
        let place = self.sealing_place.clone().ok_or(Errno::EOPNOTSUPP)?;
        let rights = rights(handle).ok_or(Errno::EBADF)?;
        let sealed = self.files.call(|files| give(files, number, rights))?;
        let bearer = place.key.is_some().then_some(sealed.bearer);
        let handover = Handover { place, seal: sealed.seal, bearer };
        handover.encode().map(Vec::from).ok_or(Errno::EOPNOTSUPP)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_gets_the_rights_of_its_open_file() {
        let of = |flags: OFlags| rights(opened::handle(flags.bits().cast_signed()));
        assert_eq!(of(OFlags::RDONLY | OFlags::CLOEXEC), Some(Rights::READ));
        assert_eq!(of(OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND), Some(Rights::WRITE));
        assert_eq!(of(OFlags::RDWR | OFlags::SYNC), Some(Rights::READ_WRITE));
        assert_eq!(of(OFlags::ACCMODE), None, "an open file for ioctl(2) alone");
    }

    #[test]
    fn no_seals_are_given_with_a_cache_or_tls() {
        let url = |text: &str| text.parse::<Url>().unwrap();
        let anonymous = url("direct://127.0.0.1:4421/data");
        assert_eq!(place(&anonymous, Cache::None), Some(anonymous.clone()));
        assert_eq!(place(&anonymous, Cache::Read), None);
        let with_tls = url("direct+tls://127.0.0.1:4421/data?key=app&secret-file=/s");
        assert_eq!(place(&with_tls, Cache::None), None, "the interposer has no TLS");
    }
}
