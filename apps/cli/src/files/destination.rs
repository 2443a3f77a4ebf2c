//! The file of this machine that `nearflash files get` writes.
//!
//! A new file gets its name when it is complete, and so does one that replaces a regular file. A symbolic link
//! is followed, as cp(1) does. A device, a FIFO or a socket is written into, and stays what it is.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use nearflash_files_service::FilesError;

use super::FilesFailure;

/// Writes the bytes into a sink.
type Copying<'a> = &'a mut dyn FnMut(&mut dyn Write) -> Result<(), FilesError>;

/// The most symbolic links that lead to a file, as path_resolution(7).
const LINKS_MAX: usize = 40;

/// Writes the file `path`. Only with `may_replace` may there be a regular file already.
pub(super) fn write(path: &Path, may_replace: bool, copy: Copying<'_>) -> Result<(), FilesFailure> {
    let path = behind_links(path)?;
    let failed = |source| FilesFailure::Destination { path: path.clone(), source };
    let kind = match path.symlink_metadata() {
        Ok(metadata) => Some(metadata.file_type()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(failed(error)),
    };
    match kind {
        Some(kind) if kind.is_char_device() || kind.is_fifo() => {
            let mut into = OpenOptions::new().write(true).open(&path).map_err(failed)?;
            copy(&mut into)?;
            into.flush().map_err(failed)
        }
        Some(kind) if kind.is_block_device() => {
            Err(FilesFailure::NoFile { path, kind: "a block device" })
        }
        Some(kind) if kind.is_socket() => Err(FilesFailure::NoFile { path, kind: "a socket" }),
        Some(kind) if kind.is_dir() => Err(FilesFailure::NoFile { path, kind: "a directory" }),
        Some(_) if !may_replace => Err(FilesFailure::Exists(path)),
        Some(_) | None => write_new(&path, may_replace, copy),
    }
}

/// Writes a new file, which gets its name when it is complete.
fn write_new(path: &Path, may_replace: bool, copy: Copying<'_>) -> Result<(), FilesFailure> {
    let failed = |source| FilesFailure::Destination { path: path.to_owned(), source };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut part = tempfile::Builder::new()
        .prefix(".nearflash-")
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(folder.unwrap_or(Path::new(".")))
        .map_err(failed)?;
    copy(&mut part)?;
    part.flush().map_err(failed)?;
    let kept: Result<File, _> = match may_replace {
        true => part.persist(path),
        false => part.persist_noclobber(path),
    };
    kept.map(drop).map_err(|error| failed(error.error))
}

/// The path that a symbolic link leads to. The path need not exist.
fn behind_links(path: &Path) -> Result<PathBuf, FilesFailure> {
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        match path.read_link() {
            // An absolute target replaces the whole path.
            Ok(target) => path = path.parent().unwrap_or(Path::new("")).join(target),
            // It is no link.
            Err(_) => return Ok(path),
        }
    }
    let source = io::Error::from_raw_os_error(rustix::io::Errno::LOOP.raw_os_error());
    Err(FilesFailure::Destination { path, source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;
    use std::os::unix::fs::symlink;

    fn written(path: &Path, may_replace: bool) -> Result<(), String> {
        let mut copy = |sink: &mut dyn Write| sink.write_all(b"new").map_err(FilesError::Sink);
        write(path, may_replace, &mut copy).map_err(|error| error.to_string())
    }

    #[test]
    fn a_file_is_replaced_only_on_request_and_a_link_is_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        symlink("file", &link).unwrap();
        written(&link, false).unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), b"new", "the link led nowhere before");
        std::fs::write(&file, "old").unwrap();
        for path in [&file, &link] {
            assert!(written(path, false).unwrap_err().contains("--replace"));
        }
        written(&link, true).unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), b"new");
        assert!(link.symlink_metadata().unwrap().is_symlink());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2, "no part is left");
    }

    #[test]
    fn a_fifo_gets_the_bytes_and_stays_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("fifo");
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        let fifo = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &path, fifo, mode, 0).unwrap();
        let reader = {
            let path = path.clone();
            std::thread::spawn(move || {
                let mut bytes = Vec::new();
                File::open(path).unwrap().read_to_end(&mut bytes).unwrap();
                bytes
            })
        };
        written(&path, true).unwrap();
        assert_eq!(reader.join().unwrap(), b"new");
        assert!(path.symlink_metadata().unwrap().file_type().is_fifo());
    }

    #[test]
    fn a_device_gets_the_bytes_and_what_is_no_file_is_refused_by_its_kind() {
        written(Path::new("/dev/null"), true).unwrap();
        assert!(Path::new("/dev/null").metadata().unwrap().file_type().is_char_device());
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("s");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        assert!(written(&socket, true).unwrap_err().contains("a socket"));
        let (one, two) = (dir.path().join("1"), dir.path().join("2"));
        symlink(&one, &two).unwrap();
        symlink(&two, &one).unwrap();
        assert!(written(&one, true).unwrap_err().contains("symbolic links"));
    }
}
