//! A QEMU guest that runs one script and reports over a channel.
//!
//! The channel is lines of text over QEMU's standard input and output, which a virtio-serial port
//! carries: `step TEXT`, `mark NAME` (the guest waits for one line of answer), `failed TEXT`, and
//! `exit STATUS` as the last. The console goes to `console.log` in the test's folder.
//!
//! One guest runs at a time: its emulated processors and the node would starve another.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::place::{Scratch, guest_folder, tail_of};

/// The time that the guest may outlive its time-out, or the host side.
const LIFETIME_GRACE: Duration = Duration::from_secs(60);

/// The most boots of a guest. An emulated kernel dies now and then while it patches its own code, before
/// the script begins.
const BOOTS_MAX: u32 = 3;

static ONE_GUEST: Mutex<()> = Mutex::new(());

/// The script that a guest runs, and its parameters.
#[derive(Clone, Copy, Debug)]
pub struct Script<'a> {
    /// The files in `guest/scripts` that run one after the other, after `lib`.
    pub parts: &'a [&'a str],
    /// The shell variables that are set before.
    pub parameters: &'a [(&'a str, &'a str)],
    /// The time after which the test fails.
    pub timeout: Duration,
}

/// The end of a guest.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// The script ended with status 0.
    Passed,
    /// The script ended with another status, with the reason that it gave, if any.
    Failed(String),
    /// The guest ended without a report: its kernel panicked, or QEMU did not start.
    Died,
    /// The guest was still running at its time-out.
    TimedOut,
}

enum Report {
    Step(String),
    Mark(String),
    Failed(String),
    Exit(i32),
}

/// A running guest, killed when dropped.
#[derive(Debug)]
pub struct Guest {
    qemu: Child,
    to_guest: ChildStdin,
    reports: Receiver<String>,
    /// The first report, which shows that the guest has booted.
    first_report: Option<String>,
    started_at: Instant,
    timeout: Duration,
    failure: String,
    console: PathBuf,
    _turn: MutexGuard<'static, ()>,
}

impl Guest {
    /// Boots a guest, once no other guest runs. The first boot on a machine builds the guest, which
    /// takes about a minute.
    #[must_use]
    pub fn boot(scratch: &Scratch, script: &Script<'_>) -> Self {
        let turn = ONE_GUEST.lock().unwrap_or_else(PoisonError::into_inner);
        build_image();
        let console = scratch.path("console.log");
        let script_path = scratch.path("script");
        fs::write(&script_path, script.text()).expect("a test's folder is writable");
        let mut boots = 0;
        loop {
            boots += 1;
            let command = &mut boot_command(&console, script, &script_path);
            let mut qemu = command.spawn().expect("boot starts");
            let started_at = Instant::now();
            let to_guest = qemu.stdin.take().expect("standard input is a pipe");
            let reports = read_lines(qemu.stdout.take().expect("standard output is a pipe"));
            let first_report = reports.recv_timeout(script.timeout);
            if first_report == Err(RecvTimeoutError::Disconnected) && boots < BOOTS_MAX {
                println!("  the emulated kernel has died while it booted, and is booted again");
                // An error means that the process has already ended.
                let _ = qemu.kill();
                let _ = qemu.wait();
                continue;
            }
            return Self {
                qemu,
                to_guest,
                reports,
                first_report: first_report.ok(),
                started_at,
                timeout: script.timeout,
                failure: String::new(),
                console,
                _turn: turn,
            };
        }
    }

    /// Waits until the guest sets the mark `name`.
    ///
    /// # Panics
    ///
    /// When the guest sets another mark or ends instead.
    pub fn expect_mark(&mut self, name: &str) {
        match self.run_on() {
            Ok(mark) if mark == name => {}
            Ok(mark) => panic!("the guest set mark '{mark}' instead of '{name}'"),
            Err(outcome) => self.complain(&outcome),
        }
    }

    /// Answers the mark that the guest waits at with `text`; the guest continues.
    pub fn answer(&mut self, text: &str) {
        writeln!(self.to_guest, "{text}").expect("a guest that waits for an answer is alive");
    }

    /// Waits for the end of the guest.
    ///
    /// # Panics
    ///
    /// When the guest sets a mark.
    #[must_use]
    pub fn wait(mut self) -> Outcome {
        match self.run_on() {
            Ok(mark) => panic!("the guest set mark '{mark}', and none was expected"),
            Err(outcome) => outcome,
        }
    }

    /// Waits for the end of the guest, which must be successful.
    ///
    /// # Panics
    ///
    /// When it is not; the message has the end of the console.
    pub fn expect_success(mut self) {
        match self.run_on() {
            Ok(mark) => panic!("the guest set mark '{mark}', and none was expected"),
            Err(Outcome::Passed) => {}
            Err(outcome) => self.complain(&outcome),
        }
    }

    /// Processes reports until the guest's next mark, or its end.
    fn run_on(&mut self) -> Result<String, Outcome> {
        loop {
            match self.next_report()? {
                Report::Step(text) => {
                    println!("  {:>5.1} s  {text}", self.started_at.elapsed().as_secs_f32());
                }
                Report::Failed(text) => self.failure = text,
                Report::Mark(name) => return Ok(name),
                Report::Exit(0) => return Err(Outcome::Passed),
                Report::Exit(status) if self.failure.is_empty() => {
                    return Err(Outcome::Failed(format!("status {status}")));
                }
                Report::Exit(_) => return Err(Outcome::Failed(self.failure.clone())),
            }
        }
    }

    fn next_report(&mut self) -> Result<Report, Outcome> {
        if let Some(line) = self.first_report.take() {
            return Ok(Report::parse(&line));
        }
        let left = self.timeout.saturating_sub(self.started_at.elapsed());
        match self.reports.recv_timeout(left) {
            Ok(line) => Ok(Report::parse(&line)),
            Err(RecvTimeoutError::Timeout) => Err(Outcome::TimedOut),
            Err(RecvTimeoutError::Disconnected) => Err(Outcome::Died),
        }
    }

    fn complain(&self, outcome: &Outcome) -> ! {
        let tail = tail_of(&self.console);
        panic!("the guest: {outcome:?}\n{tail}\nthe whole console: {}", self.console.display());
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // An error means that the process has already ended.
        let _ = self.qemu.kill();
        let _ = self.qemu.wait();
    }
}

impl Report {
    fn parse(line: &str) -> Self {
        let (kind, text) = line.split_once(' ').unwrap_or((line, ""));
        match (kind, text.parse()) {
            ("exit", Ok(status)) => Self::Exit(status),
            ("step", _) => Self::Step(text.to_owned()),
            ("mark", _) => Self::Mark(text.to_owned()),
            ("failed", _) => Self::Failed(text.to_owned()),
            _ => panic!("'{line}' came over the guest's channel"),
        }
    }
}

impl Script<'_> {
    fn text(&self) -> String {
        let mut text = String::new();
        for (name, value) in self.parameters {
            text += &format!("{name}='{value}'\n");
        }
        for part in ["lib"].iter().chain(self.parts) {
            text += &format!(". /run/nearflash/{part}\n");
        }
        text
    }
}

/// Sends a file to the guest, which connects to the returned port of this machine's loopback.
///
/// # Panics
///
/// When the file cannot be read, or no port is free.
#[must_use]
pub fn offer(path: &Path) -> String {
    let bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let port = listener.local_addr().expect("it is bound").port();
    thread::spawn(move || {
        let sent = listener.accept().and_then(|(mut guest, _)| guest.write_all(&bytes));
        sent.expect("the guest receives the file");
    });
    port.to_string()
}

/// Builds the guest's image before its time-out starts; does nothing if the image is built already.
fn build_image() {
    let status = Command::new(guest_folder().join("build"))
        .stdout(Stdio::null())
        .status()
        .expect("guest/build is a program");
    assert!(status.success(), "the guest cannot be built; 'make deps-test' installs what it needs");
}

fn boot_command(console: &Path, script: &Script<'_>, script_path: &Path) -> Command {
    let lifetime = script.timeout + LIFETIME_GRACE;
    let mut command = Command::new(guest_folder().join("boot"));
    command.arg("--lifetime").arg(lifetime.as_secs().to_string());
    command.arg("--console").arg(console);
    command.arg("--file").arg(format!("script={}", script_path.display()));
    for part in ["lib"].iter().chain(script.parts) {
        let path = guest_folder().join("scripts").join(format!("{part}.sh"));
        command.arg("--file").arg(format!("{part}={}", path.display()));
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

fn read_lines(stdout: ChildStdout) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    receiver
}
