//! Asking a running node.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{LINE_LEN_MAX, ShortPath, socket_path};
use crate::api::{Answer, Command, Document, SCHEMA};

/// How long an answer may take: zeroing a large volume on a device that cannot do it by itself is
/// the longest.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(24 * 3600);

/// Why a node gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// Nobody listens.
    #[error(
        "no node is running on data directory {}: start one with 'nearflash serve', \
         or name its --data-dir",
        data_dir.display()
    )]
    NotRunning {
        /// Where one was looked for.
        data_dir: PathBuf,
    },
    /// The socket cannot be used.
    #[error("control socket {}: {source}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The answer is none that this version knows.
    #[error("control socket {}: the answer is not of schema {SCHEMA}: use the nearflash of the node's version", path.display())]
    Answer {
        /// Which.
        path: PathBuf,
    },
    /// The node refuses.
    #[error("{message}")]
    Refused {
        /// Why.
        message: Box<str>,
    },
}

/// Asks the node of that data directory.
///
/// # Errors
/// When there is none, or it refuses.
pub fn ask(data_dir: &Path, command: Command) -> Result<Answer, ControlError> {
    let path = socket_path(data_dir);
    let stream = connect(data_dir)?;
    let failed = |source| ControlError::Io { path: path.clone(), source };
    let line = exchange(stream, &Document::new(command).to_line()).map_err(failed)?;
    let document = serde_json::from_str::<Document<Answer>>(&line).ok();
    match document.filter(|document| document.schema == SCHEMA).map(|document| document.body) {
        None => Err(ControlError::Answer { path }),
        Some(Answer::Error { error }) => Err(ControlError::Refused { message: error.into() }),
        Some(answer) => Ok(answer),
    }
}

fn connect(data_dir: &Path) -> Result<UnixStream, ControlError> {
    let connected =
        ShortPath::to(&socket_path(data_dir)).and_then(|short| UnixStream::connect(&short.path));
    connected.map_err(|source| match source.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            ControlError::NotRunning { data_dir: data_dir.to_owned() }
        }
        _ => ControlError::Io { path: socket_path(data_dir), source },
    })
}

fn exchange(mut stream: UnixStream, request: &str) -> io::Result<String> {
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    stream.write_all(request.as_bytes())?;
    stream.write_all(b"\n")?;
    let mut answer = String::new();
    let len_max = u64::try_from(LINE_LEN_MAX).unwrap_or(u64::MAX);
    BufReader::new(stream).take(len_max).read_line(&mut answer)?;
    match answer.is_empty() {
        true => Err(io::ErrorKind::UnexpectedEof.into()),
        false => Ok(answer),
    }
}
