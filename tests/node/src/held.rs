//! Threads of a process that a test holds up.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

/// Stops the threads of a process whose names have a prefix, as a debugger does, until its input ends.
const HOLD: &str = "import ctypes, os, sys\n\
    ptrace = ctypes.CDLL(None, use_errno=True).ptrace\n\
    ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]\n\
    SEIZE, INTERRUPT, WALL = 0x4206, 0x4207, 0x40000000\n\
    tasks, count = f'/proc/{sys.argv[1]}/task', 0\n\
    for task in map(int, os.listdir(tasks)):\n\
    \x20   if not open(f'{tasks}/{task}/comm').read().startswith(sys.argv[2]): continue\n\
    \x20   for request in SEIZE, INTERRUPT:\n\
    \x20       assert ptrace(request, task, None, None) == 0, os.strerror(ctypes.get_errno())\n\
    \x20   os.waitpid(task, WALL)\n\
    \x20   count += 1\n\
    print(count, flush=True)\n\
    sys.stdin.read()\n";

/// Threads that do nothing until this is dropped. It needs root.
#[derive(Debug)]
pub struct Held {
    debugger: Child,
}

impl Held {
    pub(crate) fn new(pid: u32, threads: &str) -> Self {
        let mut command = Command::new("python3");
        command.args(["-c", HOLD, &pid.to_string(), threads]);
        let mut debugger = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 is a program");
        let mut count = String::new();
        let output = debugger.stdout.take().expect("it is piped");
        BufReader::new(output).read_line(&mut count).expect("it is text");
        assert!(count.trim().parse().is_ok_and(|count: u32| count > 0), "no threads {threads}");
        Self { debugger }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        drop(self.debugger.stdin.take());
        // The threads go on when it has ended, however it ends.
        let _ = self.debugger.wait();
    }
}
