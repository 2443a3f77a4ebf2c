//! `nearflash run`: a program whose reads and writes of mounted files go to the node themselves.
//!
//! The command becomes the program, with a library that the dynamic linker loads first. Programs for which
//! the linker does not do that are refused: it would have no effect.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

const LIBRARY: &str = "libnearflash_preload.so";
/// The folders of the library, from the one of this program.
const FOLDERS: [&str; 3] = [".", "../lib/nearflash", "../lib"];
/// The libraries that the dynamic linker loads first; ld.so(8).
const PRELOAD: &str = "LD_PRELOAD";
/// Makes the library report.
const REPORT: &str = "NEARFLASH_REPORT";
/// The programs of scripts that are looked at, each the interpreter of the one before.
const INTERPRETERS_MAX: usize = 4;
/// The length of the start of a program that is looked at.
const HEAD_LEN: u64 = 64 << 10;

/// The reason why a program is not run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InterposeError {
    /// The library is missing.
    #[error(
        "cannot find {LIBRARY} next to this program, or in ../lib/nearflash: run 'make install'"
    )]
    NoLibrary,
    /// The program is missing, or is not a program.
    #[error("cannot run {}: {source}", .program.display())]
    Program { program: PathBuf, source: io::Error },
    /// The program is linked statically.
    #[error(
        "cannot run {}: it is linked statically, so no library is loaded into it; run it without \
         'nearflash run'",
        .0.display()
    )]
    Static(PathBuf),
    /// The program has privileges.
    #[error(
        "cannot run {}: it has a set-user-ID or set-group-ID bit, so the system loads no library of \
         others into it; run it without 'nearflash run'",
        .0.display()
    )]
    Privileged(PathBuf),
}

impl InterposeError {
    /// As a shell: 127 if there is no such program, 126 if it cannot be run. 1 for all else.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Program { source, .. } if source.kind() == io::ErrorKind::NotFound => 127,
            Self::NoLibrary => 1,
            _ => 126,
        }
    }
}

/// The arguments of `nearflash run`.
#[derive(Debug, clap::Args)]
pub(crate) struct RunArgs {
    /// At the end of each process that used mounted files with pread, pwrite and the like, write to
    /// stderr how many calls went to the node, and how many through the mount
    #[arg(long)]
    report: bool,
    /// The program and its arguments
    #[arg(
        value_name = "PROGRAM",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    program: Vec<OsString>,
}

/// Becomes the program. Returns only if that fails.
pub(crate) fn become_program(args: &RunArgs) -> InterposeError {
    prepared(args).map_or_else(
        |error| error,
        |mut command| {
            let source = command.exec();
            InterposeError::Program { program: command.get_program().into(), source }
        },
    )
}

fn prepared(args: &RunArgs) -> Result<Command, InterposeError> {
    let (program, arguments) = args.program.split_first().expect("clap requires one");
    let library = library().ok_or(InterposeError::NoLibrary)?;
    let path = find(program, std::env::var_os("PATH").as_deref())?;
    check(&path, INTERPRETERS_MAX)?;
    let mut command = Command::new(program);
    command.args(arguments).env(PRELOAD, preloaded(library, std::env::var_os(PRELOAD)));
    if args.report {
        command.env(REPORT, "1");
    }
    Ok(command)
}

/// The library of this installation.
fn library() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    let folder = program.parent()?;
    let places = FOLDERS.iter().map(|place| folder.join(place).join(LIBRARY));
    places.into_iter().find_map(|place| place.canonicalize().ok())
}

/// The library in front of those that the environment names.
fn preloaded(library: PathBuf, others: Option<OsString>) -> OsString {
    let mut all = library.into_os_string();
    if let Some(others) = others.filter(|others| !others.is_empty()) {
        all.push(":");
        all.push(others);
    }
    all
}

/// The file of a program, as a shell finds it.
fn find(program: &OsStr, path: Option<&OsStr>) -> Result<PathBuf, InterposeError> {
    let program = Path::new(program);
    if program.components().count() > 1 || program.as_os_str().as_bytes().contains(&b'/') {
        return Ok(program.to_owned());
    }
    let folders = path.map(std::env::split_paths).into_iter().flatten();
    let is_program = |file: &PathBuf| {
        fs::metadata(file).is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
    };
    let missing = || InterposeError::Program {
        program: program.to_owned(),
        source: rustix::io::Errno::NOENT.into(),
    };
    folders.map(|folder| folder.join(program)).find(is_program).ok_or_else(missing)
}

/// Refuses a program that the dynamic linker loads no library into.
fn check(program: &Path, interpreters_left: usize) -> Result<(), InterposeError> {
    let failed = |source| InterposeError::Program { program: program.to_owned(), source };
    let mut file = File::open(program).map_err(failed)?;
    let mode = file.metadata().map_err(failed)?.permissions().mode();
    let mut head = Vec::new();
    (&mut file).take(HEAD_LEN).read_to_end(&mut head).map_err(failed)?;
    if let Some(interpreter) = interpreter(&head) {
        return match interpreters_left {
            0 => Ok(()),
            left => check(&interpreter, left - 1),
        };
    }
    if mode & 0o6000 != 0 {
        return Err(InterposeError::Privileged(program.to_owned()));
    }
    // The system refuses other kinds of files.
    match is_dynamic(&head) {
        Some(false) => Err(InterposeError::Static(program.to_owned())),
        _ => Ok(()),
    }
}

/// The interpreter of a script.
fn interpreter(head: &[u8]) -> Option<PathBuf> {
    let line = head.strip_prefix(b"#!")?;
    let line = BufReader::new(line).split(b'\n').next()?.ok()?;
    let words = line.split(|byte| byte.is_ascii_whitespace());
    let word = words.into_iter().find(|word| !word.is_empty())?;
    Some(OsStr::from_bytes(word).into())
}

/// Whether an ELF program of 64 bits names a dynamic linker (PT_INTERP); `None` for any other file.
fn is_dynamic(head: &[u8]) -> Option<bool> {
    const INTERPRETER: u32 = 3;
    let field = |at: usize, len: usize| head.get(at..at.checked_add(len)?);
    let half = |at| Some(usize::from(u16::from_le_bytes(field(at, 2)?.try_into().ok()?)));
    // The magic number, 64 bits, least significant byte first.
    if field(0, 6)? != b"\x7fELF\x02\x01" {
        return None;
    }
    let table = u64::from_le_bytes(field(0x20, 8)?.try_into().ok()?);
    let (table, entry_len, count) = (usize::try_from(table).ok()?, half(0x36)?, half(0x38)?);
    let mut kinds = (0..count).map_while(|at| {
        let kind = field(table.checked_add(at.checked_mul(entry_len)?)?, 4)?;
        Some(u32::from_le_bytes(kind.try_into().ok()?))
    });
    Some(kinds.any(|kind| kind == INTERPRETER))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_as_a_shell_finds_them() {
        let found = find(OsStr::new("sh"), Some(OsStr::new("/none:/bin"))).unwrap();
        assert_eq!(found, Path::new("/bin/sh"));
        assert_eq!(find(OsStr::new("./sh"), None).unwrap(), Path::new("./sh"));
        let missing = find(OsStr::new("no such program"), Some(OsStr::new("/bin"))).unwrap_err();
        assert_eq!(missing.exit_code(), 127);
    }

    #[test]
    fn static_and_privileged_programs_are_refused_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join(name);
        let shell = fs::read("/bin/sh").unwrap();
        check(Path::new("/bin/sh"), 1).unwrap();

        fs::write(place("privileged"), &shell).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o4755);
        fs::set_permissions(place("privileged"), mode).unwrap();
        let refused = check(&place("privileged"), 1).unwrap_err();
        assert!(refused.to_string().contains("set-user-ID"), "{refused}");

        // A header without a table of segments.
        let mut header = shell[..64].to_vec();
        header[0x38..0x3a].fill(0);
        fs::write(place("static"), header).unwrap();
        fs::write(place("script"), format!("#! {} -x\n", place("static").display())).unwrap();
        for name in ["static", "script"] {
            let refused = check(&place(name), 1).unwrap_err();
            assert!(refused.to_string().contains("linked statically"), "{refused}");
            assert_eq!(refused.exit_code(), 126);
        }
    }

    #[test]
    fn other_preloaded_libraries_stay() {
        let library = || PathBuf::from("/lib/nearflash.so");
        assert_eq!(preloaded(library(), None), "/lib/nearflash.so");
        let both = preloaded(library(), Some("other.so".into()));
        assert_eq!(both, "/lib/nearflash.so:other.so");
    }
}
