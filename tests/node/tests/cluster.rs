//! Clusters of three machines on this one: each has a folder and an address of the loopback network
//! of its own. Every etcd that a test starts is killed at its end.
#![allow(clippy::unwrap_used)] // a failed test says where

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};

use nearflash_node_tests::{Node, Place, eventually, nearflash};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// A machine: a folder and an address.
struct Machine {
    place: Place,
    address: String,
    supervisor: Option<Child>,
}

impl Machine {
    /// 127.0.0.0/8 is this machine; two bytes of the process, and a number, make an address that no
    /// other test uses.
    fn new() -> Self {
        static NEXT: AtomicU8 = AtomicU8::new(1);
        let [_, _, high, low] = std::process::id().to_be_bytes();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let address = format!("127.{}.{low}.{number}", high | 128);
        Self { place: Place::new(), address, supervisor: None }
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(nearflash());
        command.arg("cluster").args(arguments).args(["--data-dir", &self.place.data_dir()]);
        command.stdin(Stdio::null()).output().unwrap()
    }

    /// The answer of a command that succeeds.
    fn answer(&self, arguments: &[&str]) -> Value {
        let output = self.run(&[arguments, &["--json"]].concat());
        assert!(output.status.success(), "{arguments:?}: {output:?}: {}", self.etcd_log());
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// The message of a command that fails, with its exit code.
    fn refusal(&self, arguments: &[&str]) -> (String, i32) {
        let output = self.run(arguments);
        let message = String::from_utf8(output.stderr).unwrap();
        (message.lines().last().unwrap_or_default().to_owned(), output.status.code().unwrap())
    }

    fn init(&self) -> Value {
        self.answer(&["init", "--name", "lab", "--listen", &self.address])
    }

    fn join(&self, other: &Self, flags: &[&str]) -> Value {
        let token = format!("@{}", other.token().display());
        self.answer(&[&["join", &token, "--listen", &self.address], flags].concat())
    }

    /// The verdict of the status, which the exit code confirms.
    fn verdict(&self) -> String {
        let output = self.run(&["status", "--json"]);
        let status: Value = serde_json::from_slice(&output.stdout).unwrap();
        let verdict = status["verdict"].as_str().unwrap();
        let code =
            ["ok", "degraded", "at-risk", "unavailable"].iter().position(|it| *it == verdict);
        assert_eq!((status["schema"].as_u64(), code), (Some(1), code_of(&output)), "{status}");
        verdict.to_owned()
    }

    fn has_verdict(&self, verdict: &str) {
        eventually(verdict, || self.verdict() == verdict);
    }

    fn etcd(&self, name: &str) -> PathBuf {
        self.place.path("data").join("etcd").join(name)
    }

    fn token(&self) -> PathBuf {
        self.etcd("token")
    }

    fn etcd_log(&self) -> String {
        fs::read_to_string(self.etcd("log")).unwrap_or_default()
    }

    fn pid(&self) -> Option<Pid> {
        let text = fs::read_to_string(self.etcd("pid")).ok()?;
        Pid::from_raw(text.split_whitespace().next()?.parse().ok()?)
    }

    /// Kills etcd. Its addresses are free again afterwards, unless a supervisor starts it again.
    fn kill(&self) {
        kill_process(self.pid().unwrap(), Signal::KILL).unwrap();
        let is_free = |port| TcpListener::bind((self.address.as_str(), port)).is_ok();
        if self.supervisor.is_none() {
            eventually("the end of etcd", || is_free(2379) && is_free(2380));
        }
    }

    fn supervise(&mut self) {
        let mut command = Command::new(nearflash());
        command.args(["cluster", "run", "--data-dir", &self.place.data_dir()]);
        self.supervisor = Some(command.stderr(Stdio::null()).spawn().unwrap());
    }

    fn supervise_no_more(&mut self) {
        if let Some(mut supervisor) = self.supervisor.take() {
            kill_process(Pid::from_child(&supervisor), Signal::TERM).unwrap();
            assert!(supervisor.wait().unwrap().success());
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if let Some(supervisor) = &mut self.supervisor {
            let _ = supervisor.kill();
            let _ = supervisor.wait();
        }
        // The number may be that of another process by now; its command line tells.
        let Some(pid) = self.pid() else { return };
        let path = format!("/proc/{}/cmdline", pid.as_raw_nonzero());
        let line = fs::read(path).unwrap_or_default();
        if String::from_utf8_lossy(&line).contains(&*self.etcd("data").to_string_lossy()) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

fn code_of(output: &Output) -> Option<usize> {
    output.status.code().and_then(|code| code.try_into().ok())
}

#[test]
#[ignore = "needs etcd: run by make test"]
fn three_machines_make_a_cluster_that_survives_one_failure_and_reports_two() {
    let (one, two, mut three) = (Machine::new(), Machine::new(), Machine::new());
    let made = one.init();
    assert_eq!(made["name"], "lab");
    assert_eq!(one.token().metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(one.verdict(), "degraded");
    assert_eq!(two.join(&one, &[])["role"], "member");
    assert_eq!(one.verdict(), "degraded");
    assert_eq!(three.join(&one, &["--witness"])["role"], "witness");
    assert_eq!(three.join(&one, &["--witness"])["role"], "witness", "a repetition changes nothing");
    three.has_verdict("ok");
    one.has_verdict("ok");

    let four = Machine::new();
    let (message, code) =
        four.refusal(&["join", &format!("@{}", two.token().display()), "--witness"]);
    assert!(message.contains("a further witness would not help") && code == 1, "{message}");
    assert_eq!(four.join(&two, &[])["role"], "client");
    four.has_verdict("ok");

    three.kill();
    one.has_verdict("degraded");
    three.supervise();
    one.has_verdict("ok");
    let first = three.pid();
    three.kill();
    eventually("another etcd", || three.pid() != first);
    one.has_verdict("ok");
    three.supervise_no_more();
    one.has_verdict("ok");

    three.kill();
    two.kill();
    one.has_verdict("at-risk");
    one.kill();
    one.has_verdict("unavailable");
    four.has_verdict("unavailable");
}

#[test]
#[ignore = "needs etcd: run by make test"]
fn a_join_that_was_interrupted_is_repeated() {
    let (one, two) = (Machine::new(), Machine::new());
    one.init();
    two.join(&one, &[]);
    // As after a crash before the last step.
    let record = two.etcd("member.json");
    let text = fs::read_to_string(&record).unwrap();
    fs::write(&record, text.replace(r#""is_ready": true"#, r#""is_ready": false"#)).unwrap();
    two.kill();
    assert_eq!(two.refusal(&["status"]).1, 1);
    assert!(two.refusal(&["init"]).0.contains("was not finished here"));
    two.join(&one, &[]);
    assert_eq!(one.verdict(), "degraded");
    // A machine that lost its record and its data does not become a second member.
    two.kill();
    fs::remove_dir_all(two.place.path("data")).unwrap();
    let token = format!("@{}", one.token().display());
    let (message, _) = two.refusal(&["join", &token, "--listen", &two.address]);
    assert!(message.contains("restore the folder, or remove that member"), "{message}");
}

#[test]
#[ignore = "needs etcd: run by make test"]
fn a_wrong_token_is_refused_by_name() {
    let (one, other, new) = (Machine::new(), Machine::new(), Machine::new());
    one.init();
    other.init();
    let token = |machine: &Machine| format!("@{}", machine.token().display());
    let join = |token: &str| new.refusal(&["join", token, "--listen", &new.address]);

    let (message, code) = join("token");
    assert!(message.contains("write @FILE") && code == 2, "{message}");
    let (message, code) = join(&format!("@{}", other.etcd("ca.pem").display()));
    assert!(message.contains("it is not a token") && code == 2, "{message}");
    let text = fs::read_to_string(one.token()).unwrap();
    fs::write(new.place.path("token"), &text[..text.len() - 40]).unwrap();
    let (message, code) = join(&format!("@{}", new.place.text("token")));
    assert!(message.contains("damaged or incomplete: copy it again") && code == 2, "{message}");

    let (message, code) = one.refusal(&["join", &token(&other)]);
    assert!(message.contains("already belongs to cluster 'lab'") && code == 1, "{message}");
    let (message, code) = one.refusal(&["init"]);
    assert!(message.contains("already belongs to cluster 'lab'") && code == 1, "{message}");

    // Another cluster runs at the address that the token names.
    one.kill();
    fs::remove_dir_all(one.place.path("data")).unwrap();
    eventually("the address", || one.run(&["init", "--listen", &one.address]).status.success());
    fs::write(new.place.path("token"), text).unwrap();
    let (message, code) = join(&format!("@{}", new.place.text("token")));
    assert!(
        message.contains("belongs to another cluster, or the token does") && code == 1,
        "{message}"
    );
    one.kill();
    let (message, code) = join(&format!("@{}", new.place.text("token")));
    assert!(message.contains("etcd does not answer") && code == 1, "{message}");
}

#[test]
#[ignore = "needs etcd: run by make test"]
fn a_node_supervises_etcd_which_outlives_it_and_inherits_nothing() {
    let one = Machine::new();
    one.init();
    one.kill();
    let node = Node::in_memory(&one.place);
    eventually("etcd", || one.verdict() == "degraded");
    let pid = one.pid();
    let files = fs::read_dir(format!("/proc/{}/fd", pid.unwrap().as_raw_nonzero())).unwrap();
    let sockets = |files: fs::ReadDir| -> Vec<PathBuf> {
        let links = files.filter_map(|file| fs::read_link(file.ok()?.path()).ok());
        links.filter(|link| link.to_string_lossy().starts_with("socket:")).collect()
    };
    let of_node = sockets(fs::read_dir(format!("/proc/{}/fd", node.pid())).unwrap());
    let of_etcd = sockets(files);
    assert!(!of_node.is_empty() && of_etcd.iter().all(|it| !of_node.contains(it)));
    node.crash();
    assert_eq!((one.verdict().as_str(), one.pid()), ("degraded", pid));
    // As if the node had been killed before it could record the process.
    fs::remove_file(one.etcd("pid")).unwrap();
    let node = Node::in_memory(&one.place);
    eventually("the same etcd", || one.pid() == pid);
    one.kill();
    eventually("another etcd", || one.pid() != pid && one.verdict() == "degraded");
    node.terminate();
    assert_eq!(one.verdict(), "degraded");
}
