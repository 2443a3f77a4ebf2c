//! The arguments of a run that are not part of its [key](crate::store::RunKey). They are stored
//! next to the points, so that the report can be rewritten later.
//!
//! The file is `asked.json`. Folders of older versions do not have it.

use std::fs;
use std::io;
use std::path::Path;

use crate::error::{AskedError, StudyError};
use crate::plan::Peer;
use crate::report::{ReportError, files};
use crate::studies::CostModel;

/// The file's name.
const FILE: &str = "asked.json";
/// Incremented when an older program would misread the file.
const SCHEMA: u64 = 1;

/// The arguments of a run's latest command, and the start of its first.
#[derive(Clone, Debug, PartialEq, serde::Deserialize, serde::Serialize)]
pub(crate) struct Asked {
    /// Start time of the first command, in human-readable form.
    pub(crate) began_at: String,
    /// Command lines of the run, one per line, in chronological order.
    pub(crate) command: String,
    /// Whether `--quick` was given: fewer and shorter points.
    pub(crate) is_quick: bool,
    /// Peers that were requested and installed.
    pub(crate) peers: Vec<Peer>,
    /// Capacities, needs and prices of `--costs`; `None` for those of the example.
    pub(crate) costs: Option<CostModel>,
    /// Power of a busy core, in watts.
    pub(crate) core_watts: f64,
}

#[derive(serde::Deserialize)]
struct Head {
    schema: u64,
}

#[derive(serde::Deserialize, serde::Serialize)]
struct Document<A> {
    schema: u64,
    asked: A,
}

impl Asked {
    /// Reads the arguments stored in `out_dir`; `None` if there is no such file.
    ///
    /// # Errors
    /// When the file cannot be read or parsed.
    pub(crate) fn read(out_dir: &Path) -> Result<Option<Self>, StudyError> {
        let path = out_dir.join(FILE);
        match fs::read_to_string(&path) {
            Ok(text) => match Self::parse(&path, &text) {
                Ok(asked) => Ok(Some(asked)),
                Err(source) => Err(StudyError::Asked { path, source }),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(StudyError::Io { action: "read", path, source }),
        }
    }

    fn parse(path: &Path, text: &str) -> Result<Self, AskedError> {
        let Head { schema } = serde_json::from_str(text)?;
        if schema != SCHEMA {
            return Err(AskedError::Schema { found: schema, known: SCHEMA });
        }
        let Document { asked, .. } = serde_json::from_str::<Document<Self>>(text)?;
        let costs = asked.costs.map(|costs| costs.checked(path)).transpose()?;
        Ok(Self { costs, ..asked })
    }

    /// Writes the file atomically.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(crate) fn write(&self, out_dir: &Path) -> Result<(), ReportError> {
        let document = Document { schema: SCHEMA, asked: self };
        let text = serde_json::to_string_pretty(&document).expect("its keys are names");
        files::write(&out_dir.join(FILE), format!("{text}\n").as_bytes())
    }

    /// Merges these arguments with the start time and command lines of the run that they continue.
    pub(crate) fn gone_on(self, began_at: &str, command: &str) -> Self {
        let mut lines: Vec<&str> = command.lines().collect();
        if !lines.contains(&self.command.as_str()) {
            lines.push(&self.command);
        }
        let command = lines.join("\n");
        let began_at = if began_at.is_empty() { self.began_at } else { began_at.to_owned() };
        Self { began_at, command, ..self }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn path(out_dir: &Path) -> PathBuf {
        out_dir.join(FILE)
    }

    fn asked() -> Asked {
        Asked {
            began_at: "2026-11-22 04:00 UTC".to_owned(),
            command: "nearflash study run cost".to_owned(),
            is_quick: true,
            peers: vec![Peer::Fio, Peer::Nbdkit],
            costs: Some(CostModel::example()),
            core_watts: 7.1,
        }
    }

    #[test]
    fn what_was_asked_for_is_read_back_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Asked::read(dir.path()).unwrap(), None);
        asked().write(dir.path()).unwrap();
        assert_eq!(Asked::read(dir.path()).unwrap(), Some(asked()));
        let text = fs::read_to_string(path(dir.path())).unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&value["schema"], &value["asked"]["peers"][0]), (&1.into(), &"fio".into()));
    }

    #[test]
    fn what_is_not_understood_is_told_on_one_line_with_what_to_do() {
        let dir = tempfile::tempdir().unwrap();
        asked().write(dir.path()).unwrap();
        let sound = fs::read_to_string(path(dir.path())).unwrap();
        let others = [
            (sound.replace("\"schema\": 1", "\"schema\": 2"), "schema 2"),
            (sound.replace("\"flash\": 2400.0", "\"flash\": 0.0"), "prices.flash is 0"),
            (sound.replace("\"is_quick\"", "\"quick\""), "is_quick"),
            ("{".to_owned(), "asked.json"),
        ];
        for (text, words) in others {
            fs::write(path(dir.path()), text).unwrap();
            let message = Asked::read(dir.path()).unwrap_err().to_string();
            assert!(message.contains(words) && message.contains("remove it"), "{message}");
            assert_eq!(message.lines().count(), 1, "{message}");
        }
    }

    #[test]
    fn a_run_that_goes_on_has_every_command_line_once_and_began_with_the_first() {
        let first = Asked { command: "first".into(), ..asked() };
        let second = || Asked { command: "second".into(), began_at: "later".into(), ..asked() };
        let both = second().gone_on(&first.began_at, &first.command);
        assert_eq!(
            (both.began_at.as_str(), both.command.as_str()),
            (asked().began_at.as_str(), "first\nsecond")
        );
        assert_eq!(second().gone_on(&both.began_at, &both.command), both);
        assert_eq!(second().gone_on("", ""), second());
    }
}
