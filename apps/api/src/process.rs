//! A node as a process: `nearflash serve`, started by another program.

use std::io::{self, BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::{Document, Ready, SCHEMA};

/// The reason why a node does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The program is missing or cannot be started.
    #[error(transparent)]
    Spawn(#[from] io::Error),
    /// The first line is not a ready line.
    #[error("the node did not report that it is ready; its first line is '{said}'")]
    NotReady {
        /// The first line of output, without its terminator; empty if the process printed nothing.
        said: String,
    },
}

/// Starts a node and waits until it is ready. The caller ends the process.
///
/// # Errors
/// When the program cannot be started, or is not ready within `patience`; it is killed then.
pub fn start(command: &mut Command, patience: Duration) -> Result<(Child, Ready), StartError> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let stdout = child.stdout.take().expect("standard output is a pipe");
    let said = first_line(stdout, patience);
    match parse_ready(&said) {
        Some(ready) => Ok((child, ready)),
        None => {
            // An error means that the process has already ended.
            let _ = child.kill();
            let _ = child.wait();
            Err(StartError::NotReady { said })
        }
    }
}

/// The content of a ready line.
pub fn parse_ready(line: &str) -> Option<Ready> {
    let document: Document<Ready> = serde_json::from_str(line).ok()?;
    (document.schema == SCHEMA && document.body.event == "ready").then_some(document.body)
}

/// The first line of a pipe; empty when the pipe ends before, or no line comes. The pipe is read to
/// its end, so that the node can write further lines.
fn first_line(stdout: ChildStdout, patience: Duration) -> String {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            // Only the first line has a receiver.
            let _ = sender.send(line);
        }
    });
    receiver.recv_timeout(patience).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const READY: &str = r#"{"schema":1,"event":"ready","nvme_tcp":["127.0.0.1:4420"],
        "iscsi":["127.0.0.1:3260"],"direct":["127.0.0.1:4421"],"control":"/c","volumes":[],
        "pid":7}"#;

    fn shell(script: &str) -> Result<(Child, Ready), StartError> {
        start(Command::new("sh").args(["-c", script]), Duration::from_secs(30))
    }

    #[test]
    fn the_ready_line_names_the_addresses() {
        let ready = parse_ready(READY).unwrap();
        assert_eq!(ready.nvme_tcp, ["127.0.0.1:4420".parse().unwrap()]);
        assert_eq!(ready.iscsi, ["127.0.0.1:3260".parse().unwrap()]);
        assert_eq!(parse_ready(&READY.replace(r#""schema":1"#, r#""schema":2"#)), None);
        assert_eq!(parse_ready(&READY.replace("ready", "ended")), None);
        assert_eq!(parse_ready("{}"), None);
        assert_eq!(parse_ready("starting"), None);
    }

    #[test]
    fn a_process_that_says_something_else_or_nothing_is_not_a_node() {
        for (script, line) in [("echo error; exec sleep 60", "error"), ("exit 1", "")] {
            match shell(script) {
                Err(StartError::NotReady { said }) => assert_eq!(said, line),
                other => panic!("{other:?}"),
            }
        }
        let missing = start(&mut Command::new("/nowhere/nearflash"), Duration::ZERO);
        assert!(matches!(missing, Err(StartError::Spawn(_))));
    }

    #[test]
    fn a_node_can_write_after_its_ready_line() {
        let line = READY.replace('\n', "");
        let script = format!("echo '{line}'; for n in 1 2 3; do echo $n; done");
        let (mut child, ready) = shell(&script).unwrap();
        assert_eq!(ready.pid, 7);
        assert!(child.wait().unwrap().success());
    }
}
