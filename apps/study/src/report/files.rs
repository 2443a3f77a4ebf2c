//! Files that are whole or not there.

use std::fs;
use std::path::Path;

use super::ReportError;

/// Replaces a file; a reader, or a full disk, never leaves half of one.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), ReportError> {
    let wrap = |source| ReportError::Write { path: path.to_owned(), source };
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(wrap)?;
    }
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let unfinished = path.with_file_name(name);
    fs::write(&unfinished, bytes).and_then(|()| fs::rename(&unfinished, path)).map_err(|source| {
        // What is left of it is of no use to anyone; the first failure is the one to tell.
        let _ = fs::remove_file(&unfinished);
        wrap(source)
    })
}
