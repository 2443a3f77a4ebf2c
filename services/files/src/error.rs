//! The errors of files, each in one line that names the thing and the remedy.

use std::io;

use nearflash::direct::{Status, TakeError};
use nearflash_device::OnDiskError;
use nearflash_files::{Damage, Error, NoSpaceError, Path, Refusal};
use nearflash_guarded::Damage as StoreDamage;
use nearflash_units::ByteLen;
use redb::StorageError;
use rustix::io::Errno;
use uuid::Uuid;

use crate::VOLUME_LEN_MIN;

/// The reason why an operation on files failed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum FilesError {
    /// The request is refused.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The free space does not hold the file.
    #[error("volume '{volume}' has no space for it: {error}; remove files, or resize the volume")]
    NoSpace { volume: String, error: NoSpaceError },
    /// The metadata cannot grow.
    #[error("volume '{volume}' has no space for more names: remove files, or resize the volume")]
    MetadataFull { volume: String },
    /// The file ended early.
    #[error("the file has {read}, and {expected} were announced: give its size, or none")]
    SourceShort { expected: ByteLen, read: ByteLen },
    /// The file is longer than was said.
    #[error("the file is longer than {expected}, which were announced: give its size, or none")]
    SourceLong { expected: ByteLen },
    /// The source of a file could not be read.
    #[error("cannot read the source: {0}")]
    Source(io::Error),
    /// The bytes of a file could not be passed on.
    #[error("cannot write the copy: {0}")]
    Sink(io::Error),
    /// The volume holds no files.
    #[error("volume '{volume}' is not formatted for files: 'nearflash files format' does that")]
    NotFormatted { volume: String },
    /// The volume holds something else.
    #[error("volume '{volume}' holds {found}: use another volume, or add --force to erase it")]
    NotBlank { volume: String, found: &'static str },
    /// The volume is too small.
    #[error("volume '{volume}' has {len}, and files need {VOLUME_LEN_MIN} or more: resize it")]
    TooSmall { volume: String, len: ByteLen },
    /// The superblock is not valid.
    #[error(
        "volume '{volume}': superblock {error}; restore it, or format it with --force, which erases it"
    )]
    Superblock { volume: String, error: OnDiskError },
    /// The volume was formatted with features of a later version.
    #[error("volume '{volume}' has features of a later version of nearflash: upgrade this program")]
    Features { volume: String },
    /// The volume is shorter than when it was formatted.
    #[error("volume '{volume}' has {len} and had {expected}: resize it to {expected} or more")]
    Shrunk { volume: String, len: ByteLen, expected: ByteLen },
    /// The superblock is that of another volume.
    #[error(
        "volume '{volume}' holds a copy of the files of volume {original}: read the original, or \
         format this one with --force, which erases it"
    )]
    Copied { volume: String, original: Uuid },
    /// The volume is named by a seal.
    #[error(
        "the URL has a seal of volume '{volume}', and a seal covers bytes, not files: use the URL of the \
         volume with a credential, ?key=ID&secret-file=PATH"
    )]
    Sealed { volume: String },
    /// A file that is being read is not the same any more.
    #[error("{path} of volume '{volume}' was removed, replaced or changed: open it again")]
    Stale { volume: String, path: Path },
    /// The files were changed each time that they were read.
    #[error("the files of volume '{volume}' change too fast to be read: try again")]
    Changing { volume: String },
    /// There is no right to write.
    #[error("volume '{volume}' cannot be written with this credential: grant it --rights rw")]
    NotWritable { volume: String },
    /// The files were opened for reading.
    #[error("the files of volume '{volume}' are open for reading: open them for changes")]
    ReadOnly { volume: String },
    /// The files were closed while one was written.
    #[error("volume '{volume}' was released: take it again")]
    Released { volume: String },
    /// A file gets no seal.
    #[error("volume '{volume}' gives no seal of the file: {reason}")]
    NoSeal { volume: String, reason: &'static str },
    /// The node cannot be reached, or refuses the volume.
    #[error(transparent)]
    Open(#[from] nearflash::Error),
    /// The volume cannot be taken for this process: another one has it, for example.
    #[error(transparent)]
    Take(#[from] TakeError),
    /// The metadata contradicts itself.
    #[error("volume '{volume}' is damaged: {damage}; 'nearflash files check' lists all faults")]
    Damaged { volume: String, damage: Damage },
    /// Bytes of the metadata are not those that were written.
    #[error(
        "metadata of volume '{volume}' is damaged: {damage}; restore the volume from a backup, or copy \
         the files that can still be read, and format it with --force"
    )]
    DamagedStore { volume: String, damage: StoreDamage },
    /// The volume was formatted by another version.
    #[error(
        "volume '{volume}' holds files in format {found}: use the nearflash that formatted it, and \
         copy its files elsewhere to format it anew"
    )]
    Format { volume: String, found: u32 },
    /// Blocks belong to two files.
    #[error("volume '{volume}' is damaged: {fault}; copy its files elsewhere, and format it")]
    Inconsistent { volume: String, fault: nearflash_files::Fault },
    /// An earlier commit has failed, so that its effect is unknown.
    #[error(
        "volume '{volume}': {reason}; open it again: files have the state of an earlier commit"
    )]
    Failed { volume: String, reason: String, is_superseded: bool },
    /// The metadata cannot be read or written.
    #[error("metadata of volume '{volume}': {source}")]
    Store { volume: String, source: Box<redb::Error> },
    /// The volume cannot be read or written.
    #[error("volume '{volume}': {source}")]
    Disk { volume: String, source: io::Error },
    /// The owner of the files has refused or failed a call.
    #[error("{message}")]
    Remote { errno: i32, message: String },
    /// The node owns the files of the volume.
    #[error(
        "the node itself serves the files of volume '{volume}': use programs that ask it, of its \
         version"
    )]
    OfNode { volume: String },
    /// The node was lost during a call.
    #[error(
        "the node of volume '{volume}' was lost during a change, whose outcome is unknown: {source}"
    )]
    Unknown { volume: String, source: nearflash::Error },
    /// The owner of the files has started again, and had not made all changes durable.
    #[error(
        "the node of volume '{volume}' has started again: changes since the last sync may be lost"
    )]
    Restarted { volume: String },
    /// The owner of the files has sent an answer that is not one.
    #[error("volume '{volume}': {source}: use programs of the same version as the node")]
    Message { volume: String, source: nearflash_files_calls::MessageError },
}

impl FilesError {
    /// The error number of POSIX for this error.
    pub fn errno(&self) -> Errno {
        match self {
            Self::Refused(refusal) => refusal_errno(refusal),
            Self::NoSpace { .. } | Self::MetadataFull { .. } => Errno::NOSPC,
            Self::NotWritable { .. } => Errno::ACCESS,
            Self::ReadOnly { .. } => Errno::ROFS,
            Self::Released { .. } => Errno::BADF,
            // Of a grant that was revoked, for example.
            Self::Open(error) if error.status() == Some(Status::NOT_GRANTED) => Errno::ACCESS,
            Self::OfNode { .. } => Errno::BUSY,
            Self::Stale { .. } => Errno::STALE,
            error if error.is_superseded() => Errno::STALE,
            Self::Changing { .. } | Self::Take(TakeError::Raced { .. }) => Errno::AGAIN,
            Self::NoSeal { .. } | Self::Sealed { .. } => Errno::OPNOTSUPP,
            Self::NotFormatted { .. } => Errno::MEDIUMTYPE,
            Self::Remote { errno, .. } => Errno::from_raw_os_error(*errno),
            Self::Disk { source, .. } => match source.kind() {
                io::ErrorKind::StorageFull => Errno::NOSPC,
                io::ErrorKind::PermissionDenied => Errno::ACCESS,
                _ => Errno::IO,
            },
            _ => Errno::IO,
        }
    }

    /// The error of a call about this path, which knew only a number and a name.
    pub(crate) fn at(self, path: &Path) -> Self {
        if !matches!(self, Self::Remote { .. } | Self::Refused(_)) {
            return self;
        }
        let path = path.clone();
        match self.errno() {
            Errno::NOENT => Refusal::NotFound(path).into(),
            Errno::EXIST => Refusal::Exists(path).into(),
            Errno::NOTDIR => Refusal::NotADirectory(path).into(),
            Errno::ISDIR => Refusal::IsADirectory(path).into(),
            Errno::NOTEMPTY => Refusal::NotEmpty(path).into(),
            _ => match self {
                Self::Remote { errno, message } => {
                    Self::Remote { errno, message: format!("{path}: {message}") }
                }
                error => error,
            },
        }
    }

    /// Whether another process has taken the volume over, so that this one cannot use it any more.
    pub fn is_superseded(&self) -> bool {
        let is_by = |error: &nearflash::Error| matches!(error, nearflash::Error::Superseded { .. });
        match self {
            Self::Failed { is_superseded, .. } => *is_superseded,
            Self::Open(error) | Self::Take(TakeError::Client(error)) => is_by(error),
            Self::Disk { source, .. } => {
                let cause = source.get_ref().and_then(|cause| cause.downcast_ref());
                cause.is_some_and(is_by)
            }
            _ => false,
        }
    }

    /// Whether the node could not be reached, or writes may have been lost with a connection: later
    /// calls may succeed, once the metadata store was opened again.
    pub(crate) fn is_connection_lost(&self) -> bool {
        match self {
            Self::Disk { source, .. } => {
                let cause = source.get_ref().and_then(|cause| cause.downcast_ref());
                let is_lost = source.kind() == io::ErrorKind::ConnectionReset;
                cause.map_or(is_lost, nearflash::Error::is_transient)
            }
            Self::Store { source, .. } => matches!(**source, redb::Error::PreviousIo),
            _ => false,
        }
    }

    pub(crate) fn store(volume: &str, error: impl Into<redb::Error>) -> Self {
        match error.into() {
            redb::Error::Io(source) => Self::disk(volume)(source),
            error => Self::Store { volume: volume.to_owned(), source: Box::new(error) },
        }
    }

    pub(crate) fn disk(volume: &str) -> impl Fn(io::Error) -> Self {
        move |source| {
            let volume = volume.to_owned();
            match StoreDamage::of(&source) {
                Some(damage) => Self::DamagedStore { volume, damage },
                None => Self::Disk { volume, source },
            }
        }
    }

    pub(crate) fn names(volume: &str) -> impl Fn(Error<StorageError>) -> Self {
        move |error| match error {
            Error::Refused(refusal) => refusal.into(),
            Error::Damaged(damage) => Self::Damaged { volume: volume.to_owned(), damage },
            Error::Store(error) => Self::store(volume, error),
        }
    }
}

fn refusal_errno(refusal: &Refusal) -> Errno {
    match refusal {
        Refusal::NotFound(_) => Errno::NOENT,
        Refusal::Exists(_) | Refusal::AttributeExists(_) => Errno::EXIST,
        Refusal::NotADirectory(_) => Errno::NOTDIR,
        Refusal::IsADirectory(_) => Errno::ISDIR,
        Refusal::NotEmpty(_) => Errno::NOTEMPTY,
        Refusal::IntoItself(_) | Refusal::NotAFile(_) | Refusal::NotASymlink(_) => Errno::INVAL,
        Refusal::Root => Errno::BUSY,
        Refusal::TooManyLinks(_) => Errno::MLINK,
        Refusal::LinkToDirectory(_) => Errno::PERM,
        Refusal::Stale(_) => Errno::STALE,
        Refusal::TooLong(_) => Errno::FBIG,
        Refusal::TargetTooLong(_) => Errno::NAMETOOLONG,
        Refusal::NoAttribute(_) => Errno::NODATA,
        Refusal::AttributeName => Errno::RANGE,
        Refusal::AttributeTooLong(_) => Errno::TOOBIG,
        Refusal::TooManyAttributes(_) => Errno::NOSPC,
    }
}
