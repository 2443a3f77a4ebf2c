//! Commands that must fail.

use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::{PATIENCE, nearflash};

/// The result of a refused command.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Refusal {
    /// The single line of its output, without `nearflash: `.
    pub message: String,
    /// Its exit code.
    pub code: i32,
}

/// Runs `nearflash` with these arguments, which it must refuse with a message of one line.
///
/// # Panics
/// When it does not, or prints anything else.
pub fn refused(arguments: &[&str]) -> Refusal {
    let mut process = Command::new(nearflash())
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("nearflash is a program");
    // The output fits into the pipes, so the process can end before they are read.
    let deadline = Instant::now() + PATIENCE;
    while process.try_wait().expect("the process is ours").is_none() {
        if Instant::now() > deadline {
            // An error means that the process has just ended.
            let _ = process.kill();
        }
        thread::sleep(Duration::from_millis(2));
    }
    let output = process.wait_with_output().expect("the process is ours");
    let message = String::from_utf8(output.stderr).expect("messages are text");
    assert!(output.stdout.is_empty(), "{arguments:?}: it starts");
    assert_eq!(message.matches('\n').count(), 1, "one line: {message}");
    let message = message.trim_end().strip_prefix("nearflash: ");
    Refusal {
        message: message.expect("it says who speaks").to_owned(),
        code: output.status.code().expect("it ends by itself"),
    }
}
