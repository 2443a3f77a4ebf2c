//! Commands as a user runs them, and a node that they are for.

#![allow(dead_code, clippy::unwrap_used)] // no test needs all of it; a failed test says where

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::Value;

pub(crate) fn nearflash(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearflash"));
    command.args(arguments).stdin(Stdio::null()).env_remove("NEARFLASH_DATA_DIR");
    command
}

pub(crate) fn output(arguments: &[&str]) -> Output {
    nearflash(arguments).output().unwrap()
}

/// The standard output of a command that succeeds.
pub(crate) fn said(arguments: &[&str]) -> String {
    let output = output(arguments);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The one line on standard error and the exit code of a command that fails.
pub(crate) fn failed(arguments: &[&str]) -> (String, i32) {
    let output = output(arguments);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(message.matches('\n').count(), 1, "one line: {message}");
    assert!(output.stdout.is_empty());
    (message.trim_end().to_owned(), output.status.code().unwrap())
}

/// A running node.
pub(crate) struct Node {
    pub(crate) child: Child,
    pub(crate) ready: Value,
}

impl Node {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let arguments = [&["serve", "--nvme-tcp", "127.0.0.1:0"], arguments].concat();
        let mut child =
            nearflash(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let Ok(ready) = serde_json::from_str(&line) else {
            panic!("no ready line: {:?}", child.wait_with_output());
        };
        Self { child, ready }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits until the node ends; returns its exit code and its log.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        let mut log = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
        (self.child.wait().unwrap().code(), log)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // After a failed test; has no effect on a process that has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A command whose user is at a terminal.
pub(crate) struct AtTerminal {
    child: Child,
    /// The command's end of the terminal.
    slave: File,
    lines: BufReader<File>,
}

impl AtTerminal {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let master =
            openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let slave = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
        let mut command = nearflash(arguments);
        command.stdin(slave.try_clone().unwrap()).stderr(slave.try_clone().unwrap());
        let child = command.stdout(Stdio::piped()).spawn().unwrap();
        Self { child, slave, lines: BufReader::new(File::from(master)) }
    }

    /// Waits until the command asks; returns the question.
    pub(crate) fn question(&mut self) -> String {
        let mut question = Vec::new();
        self.lines.read_until(b']', &mut question).unwrap();
        String::from_utf8(question).unwrap()
    }

    pub(crate) fn answer(&mut self, answer: &str) {
        writeln!(self.lines.get_mut(), "{answer}").unwrap();
    }

    /// Waits for the end; returns the messages and the success.
    pub(crate) fn end(self) -> (String, bool) {
        let success = self.child.wait_with_output().unwrap().status.success();
        // Behind all that the command wrote.
        writeln!(&self.slave, "END").unwrap();
        let mut lines = self.lines.lines().map(Result::unwrap);
        let shown: Vec<String> = lines.by_ref().take_while(|line| !line.contains("END")).collect();
        (shown.join("\n"), success)
    }
}

/// The message and the success of a command whose user types `answer` at a terminal.
pub(crate) fn typed(answer: &str, arguments: &[&str]) -> (String, bool) {
    let mut command = AtTerminal::start(arguments);
    command.answer(answer);
    command.end()
}
