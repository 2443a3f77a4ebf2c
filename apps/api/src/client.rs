//! The client of a running node.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nearflash_ring::ShortPath;
use serde::Deserialize;
use zeroize::Zeroizing;

use crate::socket::{ANSWER_LEN_MAX, socket_path};
use crate::{ApiError, Call, Conditional, Document, Reply, SCHEMA};

/// Timeout of an answer. A change waits for cores and for older requests, at most half a minute for
/// each, possibly after other changes; longer work is a job.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(600);

/// The reason why a call was not executed.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// No node listens on the socket.
    #[error(
        "no node is running on data directory {}: start one with 'nearflash serve', or name \
         another directory with --data-dir or NEARFLASH_DATA_DIR",
        data_dir.display()
    )]
    NotRunning {
        /// The data directory.
        data_dir: PathBuf,
    },
    /// The socket cannot be used.
    #[error("control socket {}: {source}{}", path.display(), remedy(source))]
    Io {
        /// The socket.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The answer has another schema.
    #[error("control socket {}: the answer does not have schema {SCHEMA}: use the same version of \
             nearflash as the node", path.display())]
    Answer {
        /// The socket.
        path: PathBuf,
    },
    /// The node refused the call or failed.
    #[error(transparent)]
    Refused(#[from] ApiError),
}

/// The remedy of an error of the socket, if there is one.
fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            ": it is for the user that runs the node and for root: repeat the command as one of them"
        }
        io::ErrorKind::NotADirectory => ": choose the directory of a node with --data-dir",
        io::ErrorKind::UnexpectedEof => ": the node has ended, or is ending: see its log",
        io::ErrorKind::WouldBlock => ": the node does not answer: see its log",
        _ => "",
    }
}

/// Sends a call to the node of that data directory.
///
/// # Errors
/// When no node is running there, or the node refuses the call.
pub fn ask<C: Call>(data_dir: &Path, call: C) -> Result<C::Answer, ControlError> {
    Ok(ask_all(data_dir, call)?.0)
}

/// Sends a call. Returns its answer, and the names of the nodes of the cluster that have not confirmed a change of access.
///
/// # Errors
/// Those of [`ask`].
pub fn ask_all<C: Call>(
    data_dir: &Path,
    call: C,
) -> Result<(C::Answer, Vec<String>), ControlError> {
    exchange_call::<C>(data_dir, Conditional::from(call), ANSWER_TIMEOUT)
}

/// The nodes that an answer names.
#[derive(Default, Deserialize)]
struct Late {
    #[serde(default)]
    unconfirmed: Vec<String>,
}

/// Sends a call, and gives up after this time.
///
/// # Errors
/// Those of [`ask`], and when there is no answer in time.
pub fn ask_within<C: Call>(
    data_dir: &Path,
    call: C,
    timeout: Duration,
) -> Result<C::Answer, ControlError> {
    Ok(exchange_call::<C>(data_dir, Conditional::from(call), timeout)?.0)
}

/// Sends a call that was decided on this generation of the node's recorded state, which `status` shows.
///
/// # Errors
/// The same, and when the node has another generation ([`ErrorCode::GenerationDiffers`]).
///
/// [`ErrorCode::GenerationDiffers`]: crate::ErrorCode::GenerationDiffers
pub fn ask_if<C: Call>(
    data_dir: &Path,
    call: C,
    generation: u64,
) -> Result<C::Answer, ControlError> {
    let request = Conditional { if_generation: Some(generation), request: call.into() };
    Ok(exchange_call::<C>(data_dir, request, ANSWER_TIMEOUT)?.0)
}

fn exchange_call<C: Call>(
    data_dir: &Path,
    request: Conditional,
    timeout: Duration,
) -> Result<(C::Answer, Vec<String>), ControlError> {
    let path = socket_path(data_dir);
    let stream = connect(data_dir)?;
    let failed = |source| ControlError::Io { path: path.clone(), source };
    let request = Zeroizing::new(Document::new(request).to_line());
    stream.set_read_timeout(Some(timeout)).map_err(failed)?;
    let line = exchange(stream, &request).map_err(failed)?;
    let document = serde_json::from_str::<Document<Reply<C::Answer>>>(&line).ok();
    match document.filter(|document| document.schema == SCHEMA).map(|document| document.body) {
        None => Err(ControlError::Answer { path }),
        Some(Reply::Error(error)) => Err(error.into()),
        Some(Reply::Answer(answer)) => Ok((answer, late(&line))),
    }
}

fn late(line: &str) -> Vec<String> {
    match serde_json::from_str::<Document<Reply<Late>>>(line).map(|document| document.body) {
        Ok(Reply::Answer(late)) => late.unconfirmed,
        Ok(Reply::Error(_)) | Err(_) => Vec::new(),
    }
}

fn connect(data_dir: &Path) -> Result<UnixStream, ControlError> {
    let path = socket_path(data_dir);
    let connected = ShortPath::to(&path).and_then(|short| UnixStream::connect(short.path()));
    connected.map_err(|source| match source.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            ControlError::NotRunning { data_dir: data_dir.to_owned() }
        }
        _ => ControlError::Io { path, source },
    })
}

fn exchange(mut stream: UnixStream, request: &str) -> io::Result<Zeroizing<String>> {
    stream.write_all(request.as_bytes())?;
    stream.write_all(b"\n")?;
    let mut answer = Zeroizing::new(String::new());
    BufReader::new(stream).take(ANSWER_LEN_MAX).read_line(&mut answer)?;
    match answer.is_empty() {
        true => Err(io::ErrorKind::UnexpectedEof.into()),
        false => Ok(answer),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_the_socket_names_the_remedy() {
        for (kind, remedy) in [
            (io::ErrorKind::PermissionDenied, "repeat the command as one of them"),
            (io::ErrorKind::UnexpectedEof, "the node has ended, or is ending: see its log"),
            (io::ErrorKind::WouldBlock, "the node does not answer: see its log"),
        ] {
            let error = ControlError::Io { path: "/run/control.sock".into(), source: kind.into() };
            let message = error.to_string();
            assert!(message.starts_with("control socket /run/control.sock: "), "{message}");
            assert!(message.ends_with(remedy), "{message}");
        }
    }
}
