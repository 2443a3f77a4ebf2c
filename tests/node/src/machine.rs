//! A machine of a cluster: a folder, an address of the loopback network, and perhaps an etcd.

use std::fs;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::node::Place;
use crate::{eventually, nearflash};

/// A machine: a folder and an address. Its etcd is killed at its end.
#[derive(Debug)]
pub struct Machine {
    /// The folder.
    pub place: Place,
    /// The address.
    pub address: String,
    /// The network namespace that has the address, if it is not the one of this process.
    namespace: Option<String>,
    /// Further variables of the program's environment.
    variables: Vec<(&'static str, String)>,
    supervisor: Option<Child>,
}

impl Machine {
    /// 127.0.0.0/8 is this machine; two bytes of the process, and a number, make an address that no
    /// other test uses.
    #[allow(clippy::new_without_default, reason = "it makes a folder")]
    pub fn new() -> Self {
        static NEXT: AtomicU8 = AtomicU8::new(1);
        let [_, _, high, low] = std::process::id().to_be_bytes();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let address = format!("127.{}.{low}.{number}", high | 128);
        Self::at(None, address)
    }

    /// A machine in a network namespace of its own, which has this address.
    pub fn within(namespace: &str, address: &str) -> Self {
        Self::at(Some(namespace.to_owned()), address.to_owned())
    }

    fn at(namespace: Option<String>, address: String) -> Self {
        let (place, variables, supervisor) = (Place::new(), Vec::new(), None);
        Self { place, address, namespace, variables, supervisor }
    }

    /// Sets a variable of the environment in which this machine runs the program.
    pub fn set(&mut self, name: &'static str, value: &str) {
        self.variables.push((name, value.to_owned()));
    }

    /// The program, as this machine runs it.
    pub fn program(&self) -> Command {
        let mut command = match &self.namespace {
            None => Command::new(nearflash()),
            Some(namespace) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", namespace]).arg(nearflash());
                command
            }
        };
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs a command of `nearflash cluster`.
    ///
    /// # Panics
    /// When the program cannot be started.
    pub fn run(&self, arguments: &[&str]) -> Output {
        let mut command = self.program();
        command.arg("cluster").args(arguments).args(["--data-dir", &self.place.data_dir()]);
        command.stdin(Stdio::null()).output().expect("the program starts")
    }

    /// The answer of a command that succeeds.
    pub fn answer(&self, arguments: &[&str]) -> Value {
        let output = self.run(&[arguments, &["--json"]].concat());
        assert!(output.status.success(), "{arguments:?}: {output:?}: {}", self.etcd_log());
        serde_json::from_slice(&output.stdout).expect("the answer is JSON")
    }

    /// The message of a command that fails, with its exit code.
    pub fn refusal(&self, arguments: &[&str]) -> (String, i32) {
        let output = self.run(arguments);
        let message = String::from_utf8(output.stderr).expect("messages are text");
        (
            message.lines().last().unwrap_or_default().to_owned(),
            output.status.code().expect("it ends by itself"),
        )
    }

    /// Makes a cluster.
    pub fn init(&self) -> Value {
        self.answer(&["init", "--name", "lab", "--listen", &self.address])
    }

    /// Joins the cluster of another machine.
    pub fn join(&self, other: &Self, flags: &[&str]) -> Value {
        let token = format!("@{}", other.token().display());
        self.answer(&[&["join", &token, "--listen", &self.address], flags].concat())
    }

    /// The verdict of the status, which the exit code confirms.
    pub fn verdict(&self) -> String {
        let output = self.run(&["status", "--json"]);
        let status: Value = serde_json::from_slice(&output.stdout).expect("the status is JSON");
        let verdict = status["verdict"].as_str().expect("the status has a verdict");
        let codes = [("ok", 0), ("degraded", 3), ("at-risk", 4), ("unavailable", 5)];
        let code = codes.iter().find(|(it, _)| *it == verdict).map(|(_, code)| *code);
        assert_eq!((status["schema"].as_u64(), code), (Some(1), code_of(&output)), "{status}");
        if verdict != "ok" {
            eprintln!("{}: {verdict}: {}", self.address, status["reason"]); // for a test that fails
        }
        verdict.to_owned()
    }

    /// Waits for a verdict.
    pub fn has_verdict(&self, verdict: &str) {
        eventually(verdict, || self.verdict() == verdict);
    }

    /// A file of its part in the cluster.
    pub fn etcd(&self, name: &str) -> PathBuf {
        self.place.path("data").join("etcd").join(name)
    }

    /// The token.
    pub fn token(&self) -> PathBuf {
        self.etcd("token")
    }

    /// The log of etcd.
    pub fn etcd_log(&self) -> String {
        fs::read_to_string(self.etcd("log")).unwrap_or_default()
    }

    /// The process of etcd.
    pub fn pid(&self) -> Option<Pid> {
        let text = fs::read_to_string(self.etcd("pid")).ok()?;
        Pid::from_raw(text.split_whitespace().next()?.parse().ok()?)
    }

    /// The process of etcd, if it runs: the number may be that of another process by now, and its command line tells.
    pub fn running(&self) -> Option<Pid> {
        let pid = self.pid()?;
        let line = fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).unwrap_or_default();
        let is_ours =
            String::from_utf8_lossy(&line).contains(&*self.etcd("data").to_string_lossy());
        is_ours.then_some(pid)
    }

    /// Kills etcd. Its addresses are free again afterwards, unless a supervisor starts it again.
    pub fn kill(&self) {
        let pid = self.pid().expect("etcd runs");
        kill_process(pid, Signal::KILL).expect("it is ours");
        let is_free = |port| TcpListener::bind((self.address.as_str(), port)).is_ok();
        if self.supervisor.is_none() && self.namespace.is_none() {
            eventually("the end of etcd", || is_free(2379) && is_free(2380));
        }
    }

    /// Supervises etcd from now on.
    ///
    /// # Panics
    /// When the program cannot be started.
    pub fn supervise(&mut self) {
        let mut command = self.program();
        command.args(["cluster", "run", "--data-dir", &self.place.data_dir()]);
        self.supervisor = Some(command.stderr(Stdio::null()).spawn().expect("the program starts"));
    }

    /// Stops the supervision.
    ///
    /// # Panics
    /// When the supervisor fails.
    pub fn supervise_no_more(&mut self) {
        if let Some(mut supervisor) = self.supervisor.take() {
            kill_process(Pid::from_child(&supervisor), Signal::TERM).expect("it is ours");
            assert!(supervisor.wait().expect("it is ours").success());
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if let Some(supervisor) = &mut self.supervisor {
            let _ = supervisor.kill();
            let _ = supervisor.wait();
        }
        if let Some(pid) = self.running() {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

fn code_of(output: &Output) -> Option<usize> {
    output.status.code().and_then(|code| code.try_into().ok())
}
