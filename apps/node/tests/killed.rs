//! A node that was killed: the next start waits until its locks are free, which happens when its
//! last device operations have ended.
#![allow(clippy::unwrap_used)] // a failed test says where

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use nearflash_config::{Config, ServeArgs};
use nearflash_node::{Running, StartError, runtime};

/// The variable that names the directory of the node to be killed.
const FOLDER: &str = "NEARFLASH_KILLED_FOLDER";

const PATIENCE: Duration = Duration::from_secs(60);

fn start(folder: &Path) -> Result<Running, StartError> {
    let args = ServeArgs {
        devices: vec![format!("flash=file:{}/flash.img,size=8MiB", folder.display())],
        volumes: vec!["data=1MiB@flash".to_owned()],
        nvme_tcp: vec!["127.0.0.1:0".to_owned()],
        data_dir: Some(folder.join("data")),
        ..ServeArgs::default()
    };
    Running::start(&Config::resolve(args)?, runtime::start)
}

/// Run by [`a_start_after_a_kill_waits_for_what_the_dead_node_holds`], in a process of its own.
#[test]
#[ignore = "not a test by itself: the other test of this file starts it as a child process and kills it"]
fn a_node_that_is_to_be_killed() {
    let folder = std::env::var_os(FOLDER).unwrap();
    let _running = start(Path::new(&folder)).unwrap();
    println!("\nready");
    io::stdout().flush().unwrap();
    // Until the process that started this one ends, at the latest.
    io::stdin().lines().count();
}

/// The lines of the log.
#[derive(Clone)]
struct Lines(Sender<String>);

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        // The receiver is gone once the test has ended.
        let _ = self.0.send(String::from_utf8_lossy(line).into_owned());
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn wait_for(lines: &Receiver<String>, text: &str) {
    while !lines.recv_timeout(PATIENCE).unwrap().contains(text) {}
}

/// Locks a file, as a process that has not quite ended does: the one that has taken the lock is gone, and its file
/// is still open.
fn hold(path: &Path) -> File {
    let file = File::open(path).unwrap();
    let mut locks = Command::new("flock");
    let locked = locks.args(["--exclusive", "0"]).stdin(file.try_clone().unwrap()).status();
    assert!(locked.unwrap().success());
    file
}

#[test]
fn a_start_after_a_kill_waits_for_what_the_dead_node_holds() {
    let folder = tempfile::tempdir().unwrap();
    let mut node = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "killed::a_node_that_is_to_be_killed", "--ignored", "--nocapture"])
        .env(FOLDER, folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let stdout = BufReader::new(node.stdout.take().unwrap());
    assert!(stdout.lines().any(|line| line.unwrap() == "ready"));
    node.kill().unwrap();
    node.wait().unwrap();
    let (lock, device) =
        (hold(&folder.path().join("data/lock")), hold(&folder.path().join("flash.img")));
    let (sender, lines) = channel();
    let path = folder.path().to_owned();
    let next = std::thread::spawn(move || {
        let writer = move || Lines(sender.clone());
        let log = tracing_subscriber::fmt().with_ansi(false).with_writer(writer).finish();
        tracing::subscriber::with_default(log, || start(&path))
    });
    let pid = node.id();
    wait_for(&lines, &format!("waiting until process {pid}, which has ended, releases its lock"));
    drop(lock);
    wait_for(
        &lines,
        &format!(
            "device 'flash': waiting for the last operations of process {pid}, which has ended"
        ),
    );
    drop(device);
    let running = next.join().unwrap().unwrap();
    let owner = || std::fs::read_to_string(folder.path().join("data/lock")).unwrap();
    assert!(owner().starts_with(&format!("{} ", std::process::id())));
    running.stop().unwrap();
    assert_eq!(owner(), "");
}
