//! The process that owns a file, as the file names it.

use std::fs::File;
use std::io::{self, Read, Seek, Write};

/// The kernel's flag for a process that is exiting, in field 9 of `/proc/PID/stat`.
const PF_EXITING: u64 = 4;

/// A process: its number and its start time, since the system reuses numbers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Owner {
    /// The number.
    pub pid: u32,
    /// In clock ticks since the system's boot; absent in files of earlier versions.
    started: Option<u64>,
}

impl Owner {
    /// This process.
    pub fn this() -> Self {
        Self::of(std::process::id())
    }

    /// The process that has this number now.
    pub fn of(pid: u32) -> Self {
        Self { pid, started: stat_of(pid).map(|stat| stat.started) }
    }

    /// Whether the process runs. A process that is exiting does not; its exit may take as long as
    /// its devices.
    pub fn is_alive(self) -> bool {
        let same = |stat: &Stat| self.started.is_none_or(|started| started == stat.started);
        stat_of(self.pid).filter(same).is_some_and(|stat| !stat.is_ending)
    }

    /// Writes the process as the file's content.
    ///
    /// # Errors
    /// When the system returns one.
    pub fn write(self, file: &mut File) -> io::Result<()> {
        file.set_len(0)?;
        file.rewind()?;
        let started = self.started.map(|started| format!(" {started}")).unwrap_or_default();
        writeln!(file, "{}{started}", self.pid)
    }

    /// The process that a file names.
    pub fn read(file: &mut File) -> Option<Self> {
        let mut text = String::new();
        file.rewind().ok()?;
        file.take(64).read_to_string(&mut text).ok()?;
        let mut words = text.split_ascii_whitespace();
        let pid = words.next()?.parse().ok()?;
        Some(Self { pid, started: words.next().and_then(|word| word.parse().ok()) })
    }
}

/// The fields of `/proc/PID/stat` that tell processes apart.
struct Stat {
    started: u64,
    is_ending: bool,
}

fn stat_of(pid: u32) -> Option<Stat> {
    let text = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    let text = String::from_utf8_lossy(&text);
    // The program's name, in parentheses, may contain any character. Field 3 follows it.
    let fields: Vec<&str> = text.rsplit_once(") ")?.1.split_ascii_whitespace().collect();
    let flags: u64 = fields.get(6)?.parse().ok()?;
    let is_dead = matches!(*fields.first()?, "Z" | "X");
    Some(Stat {
        started: fields.get(19)?.parse().ok()?,
        is_ending: is_dead || flags & PF_EXITING != 0,
    })
}
