//! The output on the terminal.

use std::io::{self, Write};

use comfy_table::Table;

use crate::error::StudyError;

/// The exit code of an interrupted run: 128 + SIGINT, as shells report it.
pub(super) const INTERRUPTED: u8 = 130;

/// Writes to stdout. A closed pipe is not an error.
///
/// # Errors
/// When it cannot be written.
pub fn print(text: &str) -> Result<(), StudyError> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(StudyError::Io {
            action: "write to",
            path: "standard output".into(),
            source: error,
        }),
        _ => Ok(()),
    }
}

/// A table without blanks at the ends of lines.
pub(super) fn trimmed(table: &Table) -> String {
    let text = table.to_string();
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}
