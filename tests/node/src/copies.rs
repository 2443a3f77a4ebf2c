//! Copies of slices and of the folders of etcd, as a backup makes them.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// The bytes that are copied, or left out, at once.
const PIECE: usize = 1 << 20;

/// Copies a file, and leaves out pieces that are zero.
///
/// # Errors
/// When the system refuses.
pub fn copy_file(from: &Path, to: &Path) -> io::Result<()> {
    let (from, to) = (File::open(from)?, File::create(to)?);
    let metadata = from.metadata()?;
    to.set_permissions(metadata.permissions())?;
    let len = metadata.len();
    to.set_len(len)?;
    let (mut piece, zeroes) = (vec![0; PIECE], vec![0; PIECE]);
    for at in (0..len).step_by(PIECE) {
        let left = usize::try_from(len - at).unwrap_or(PIECE).min(PIECE);
        from.read_exact_at(&mut piece[..left], at)?;
        if piece[..left] != zeroes[..left] {
            to.write_all_at(&piece[..left], at)?;
        }
    }
    Ok(())
}

/// Copies a folder, without sockets.
///
/// # Errors
/// When the system refuses.
pub fn copy_folder(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (kind, to) = (entry.file_type()?, to.join(entry.file_name()));
        if kind.is_dir() {
            copy_folder(&entry.path(), &to)?;
        } else if kind.is_file() {
            copy_file(&entry.path(), &to)?;
        }
    }
    Ok(())
}
