//! How a node's answers are shown: tables for people, the document itself for programs.

use std::io::{self, Write};

use nearflash_node::api::{Answer, Document, VolumeInfo};
use nearflash_units::ByteLen;

use crate::tables;

/// What an answer is shown as.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Shown {
    Made,
    Resized,
    Removed,
    List,
    Status,
}

/// An answer as text, its last line ended.
pub(crate) fn show(answer: Answer, shown: Shown, json: bool) -> String {
    if json {
        return Document::new(answer).to_line() + "\n";
    }
    match (answer, shown) {
        (Answer::Volume { volume }, Shown::Removed) => format!("removed {}\n", sentence(&volume)),
        (Answer::Volume { volume }, Shown::Resized) => format!("resized {}\n", sentence(&volume)),
        (Answer::Volume { volume }, _) => format!("made {}\n", sentence(&volume)),
        (Answer::Volumes { volumes }, _) => tables::volumes(&volumes),
        (Answer::Status(status), _) => tables::status(&status),
        (Answer::Error { error }, _) => format!("{error}\n"),
    }
}

fn sentence(volume: &VolumeInfo) -> String {
    let VolumeInfo { name, nqn, nsid, bytes, device, .. } = volume;
    format!("volume '{name}': {} on device '{device}', namespace {nsid} of {nqn}", ByteLen(*bytes))
}

/// Writes to stdout. A reader that has seen enough is no error.
pub(crate) fn print(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}
