//! Atomic replacement of files.

use std::fs;
use std::path::Path;

use super::ReportError;

/// Writes a file under a temporary name and renames it, so that readers never see half of it.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), ReportError> {
    let wrap = |source| ReportError::Write { path: path.to_owned(), source };
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(wrap)?;
    }
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let unfinished = path.with_file_name(name);
    fs::write(&unfinished, bytes).and_then(|()| fs::rename(&unfinished, path)).map_err(|source| {
        // Removes the incomplete file; the write error is the one to report.
        let _ = fs::remove_file(&unfinished);
        wrap(source)
    })
}
