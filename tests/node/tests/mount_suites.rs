//! Other projects' test suites and databases on a mounted volume.
//!
//! `scripts/mount-suites` installs `pjdfstest` and `fsx` in `target/suites`. `SUITES_LONG=1` makes the
//! runs long: minutes instead of seconds.
#![allow(clippy::unwrap_used)] // a failed test says where

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use nearflash_node_tests::{Door, MountBench, Place, nearflash};

/// The tests of pjdfstest that are left out on every mount, by the name of the case; its reason.
const LEFT_OUT: [(&str, &str); 3] = [
    ("erofs_", "they mount the file system again, read-only"),
    ("link_count_max", "files have up to 4294967295 names"),
    ("exdev", "they need a second file system"),
];

/// A configuration of pjdfstest. The users exist on every Debian.
const PJDFSTEST: &str = "\
[features]
file_flags = []
posix_fallocate = {}
rename_ctime = {}
utimensat = {}
utime_now = {}

[settings]
naptime = 0.001
allow_remount = false
expected_failures = []

[dummy_auth]
entries = [[\"nobody\", \"nogroup\"], [\"daemon\", \"daemon\"]]
";

/// The size of its volume. One case writes behind 2 GiB, and a file has space for all that lies before its
/// end.
const PJDFSTEST_VOLUME: &str = "4GiB";

/// A configuration of fsx: how often it makes each call.
const WEIGHTS: &str = "\
[weights]
write = 1.0
read = 1.0
mapread = 1.0
mapwrite = 1.0
truncate = 0.5
fsync = 0.2
fdatasync = 0.2
close_open = 0.2
posix_fallocate = 0.2
punch_hole = 0.2
copy_file_range = 0.2
";

/// This, or the second in a long run.
fn length(short: u32, long: u32) -> String {
    if env::var_os("SUITES_LONG").is_some() { long } else { short }.to_string()
}

/// A suite that `scripts/mount-suites` installs.
fn suite(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target = env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
    let program = target.join("suites/bin").join(name);
    assert!(program.is_file(), "{} is missing: run scripts/mount-suites", program.display());
    program
}

/// The output of a program that succeeds.
fn ran(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{text}\n{errors}", output.status);
    text
}

fn sqlite(database: &Path, statements: &str) -> String {
    ran(Command::new("sqlite3").arg("-bail").arg(database).arg(statements))
}

#[test]
#[ignore = "needs root, /dev/fuse and pjdfstest: run by make test"]
fn pjdfstest_passes() {
    let place = Place::new();
    pass_pjdfstest(&place, MountBench::with_volume(&place, Door::Local, PJDFSTEST_VOLUME));
}

#[test]
#[ignore = "needs root, /dev/fuse and pjdfstest: run by make test"]
fn pjdfstest_passes_on_a_mount_of_files_that_the_node_owns() {
    let place = Place::new();
    pass_pjdfstest(&place, MountBench::shared_with_volume(&place, Door::Local, PJDFSTEST_VOLUME));
}

fn pass_pjdfstest(place: &Place, bench: MountBench<'_>) {
    let mount = bench.mount(&["--allow-other"]);
    fs::write(place.path("pjdfstest.toml"), PJDFSTEST).unwrap();
    // Other users reach the mount.
    for folder in [bench.dir(), bench.dir().parent().unwrap()] {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(folder, mode).unwrap();
    }
    let mut command = Command::new(suite("pjdfstest"));
    command.arg("-c").arg(place.path("pjdfstest.toml")).arg("-p").arg(bench.dir());
    let text = ran(&mut command);
    let skipped = text.lines().filter_map(|line| line.strip_suffix("skipped"));
    for case in skipped {
        let case = case.trim();
        assert!(LEFT_OUT.iter().any(|(part, _)| case.contains(part)), "{case} is left out");
    }
    assert!(text.contains("Summary: 0 failed"), "{text}");
    mount.unmount();
    bench.check();
    bench.terminate();
}

#[test]
#[ignore = "needs root, /dev/fuse and fsx: run by make test"]
fn fsx_finds_every_byte_where_it_wrote_it() {
    let place = Place::new();
    let bench = MountBench::new(&place, Door::Local);
    fs::write(place.path("fsx.toml"), WEIGHTS).unwrap();
    for (seed, cache) in [("1", "none"), ("2", "read")] {
        let mount = bench.mount(&["--cache", cache]);
        let mut command = Command::new(suite("fsx"));
        command.args(["-N", &length(3000, 100_000), "-S", seed, "-P"]).arg(place.path(""));
        command.arg("-f").arg(place.path("fsx.toml"));
        let text = ran(command.arg(bench.at("exercised")));
        assert!(text.contains("A-OK"), "{text}");
        mount.unmount();
    }
    bench.check();
    bench.terminate();
}

#[test]
#[ignore = "needs root, /dev/fuse and fsx: run by make test"]
fn fsx_finds_every_byte_where_it_wrote_it_under_the_library() {
    let place = Place::new();
    let bench = MountBench::new(&place, Door::Local);
    // Once a file is mapped, all of its calls are the kernel's.
    let weights = "[weights]\n\
        write = 1.0\n\
        read = 1.0\n\
        mapread = 0.0\n\
        mapwrite = 0.0\n\
        truncate = 0.1\n\
        fsync = 0.2\n\
        fdatasync = 0.2\n\
        close_open = 0.05\n\
        posix_fallocate = 0.1\n\
        punch_hole = 0.2\n\
        copy_file_range = 0.2\n";
    fs::write(place.path("fsx.toml"), weights).unwrap();
    let mount = bench.mount(&[]);
    for seed in ["3", "4"] {
        let mut command = Command::new(nearflash());
        command.args(["run", "--report", "--"]).arg(suite("fsx"));
        command.args(["-N", &length(3000, 100_000), "-S", seed, "-P"]).arg(place.path(""));
        command.arg("-f").arg(place.path("fsx.toml")).arg(bench.at("exercised"));
        let output = command.output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("A-OK"), "{text}\n{errors}");
        let one_sided = errors.split(": ").nth(2).and_then(|rest| rest.split(' ').next());
        assert!(one_sided.unwrap().parse::<u64>().unwrap() > 100, "{errors}");
    }
    mount.unmount();
    bench.check();
    bench.terminate();
}

#[test]
#[ignore = "needs root, /dev/fuse and fsx: run by make test"]
fn fsx_finds_every_byte_on_two_mounts_of_files_that_the_node_owns() {
    let place = Place::new();
    let bench = MountBench::shared(&place, Door::Local);
    fs::write(place.path("fsx.toml"), WEIGHTS).unwrap();
    let (one, two) = (bench.mount(&[]), bench.mount_second(&[]));
    let exercise = |(path, seed): (PathBuf, &'static str)| {
        let mut command = Command::new(suite("fsx"));
        command.args(["-N", &length(1000, 100_000), "-S", seed, "-P"]).arg(place.path(""));
        command.arg("-f").arg(place.path("fsx.toml"));
        std::thread::spawn(move || ran(command.arg(path)))
    };
    let files = [(bench.at("one"), "3"), (bench.at_second("two"), "4")];
    for exercised in files.map(exercise) {
        let text = exercised.join().unwrap();
        assert!(text.contains("A-OK"), "{text}");
    }
    one.unmount();
    two.unmount();
    bench.check();
    bench.terminate();
}

#[test]
#[ignore = "needs root, /dev/fuse and sqlite3: run by make test"]
fn sqlite_keeps_its_databases_sound_with_both_kinds_of_journal() {
    let place = Place::new();
    let bench = MountBench::new(&place, Door::Local);
    let rows = length(2000, 100_000);
    for mode in ["delete", "wal"] {
        let database = bench.at(&format!("{mode}.db"));
        let mount = bench.mount(&[]);
        let inserts = format!(
            "PRAGMA journal_mode={mode}; CREATE TABLE t(id INTEGER PRIMARY KEY, value BLOB);
             CREATE INDEX i ON t(value);
             WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < {rows})
             INSERT INTO t SELECT x, randomblob(200) FROM n;"
        );
        assert!(sqlite(&database, &inserts).contains(mode));
        for id in 0..20 {
            sqlite(
                &database,
                &format!("UPDATE t SET value = randomblob(300) WHERE id % 20 = {id}"),
            );
        }
        mount.unmount();
        let mount = bench.mount(&[]);
        let found = sqlite(&database, "PRAGMA integrity_check; SELECT count(*) FROM t;");
        assert_eq!(found, format!("ok\n{rows}\n"));
        mount.unmount();
    }
    bench.check();
    bench.terminate();
}

#[test]
#[ignore = "needs root, /dev/fuse and rocksdb-tools: run by make test"]
fn rocksdb_finds_every_key_and_its_files_are_consistent() {
    let place = Place::new();
    let bench = MountBench::with_volume(&place, Door::Local, "4GiB");
    let mount = bench.mount(&[]);
    let database = bench.at("rocks");
    let keys = length(20_000, 1_000_000);
    let db_bench = |benchmarks: &str, more: &[&str]| {
        let mut command = Command::new("db_bench");
        command.arg(flag("--db=", &database)).arg(format!("--benchmarks={benchmarks}"));
        command.arg(format!("--num={keys}")).args(["--compression_type=none", "--seed=7"]);
        ran(command.args(more))
    };
    db_bench("fillseq,overwrite", &["--verify_checksum=1", "--sync=0"]);
    let existing = ["--use_existing_db=1", "--verify_checksum=1"];
    let text = db_bench("readrandom,verifychecksum", &existing);
    assert!(text.contains(&format!("({keys} of {keys} found)")), "{text}");
    let writing = [&existing[..], &["--threads=2", "--duration=3"]].concat();
    db_bench("readwhilewriting", &writing);
    ran(Command::new("ldb").arg(flag("--db=", &database)).arg("checkconsistency"));
    mount.unmount();
    bench.check();
    bench.terminate();
}

#[test]
#[ignore = "needs root, /dev/fuse and git: run by make test"]
fn git_finds_every_object_of_a_clone() {
    let place = Place::new();
    let bench = MountBench::new(&place, Door::Local);
    let (source, clone) = (place.path("source"), bench.at("clone"));
    let git = |folder: &Path, arguments: &[&str]| {
        let mut command = Command::new("git");
        command.arg("-C").arg(folder).args(["-c", "user.name=n", "-c", "user.email=e@example.org"]);
        // The settings of the machine have no part in it.
        command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
        ran(command.args(arguments))
    };
    let commit = |folder: &Path, round: u32| {
        for nth in 0..100 {
            let name = folder.join(format!("{nth}"));
            fs::write(name, format!("{round} {nth}\n").repeat(nth * 10)).unwrap();
        }
        git(folder, &["add", "--all"]);
        git(folder, &["commit", "--quiet", "--message", "round"]);
    };
    fs::create_dir(&source).unwrap();
    git(&source, &["init", "--quiet"]);
    commit(&source, 0);
    let mount = bench.mount(&[]);
    ran(Command::new("git").args(["clone", "--quiet", "--no-hardlinks"]).args([&source, &clone]));
    (1..length(3, 100).parse().unwrap()).for_each(|round| commit(&clone, round));
    git(&clone, &["gc", "--quiet", "--prune=now"]);
    mount.unmount();
    let mount = bench.mount(&[]);
    git(&clone, &["fsck", "--full", "--strict"]);
    assert_eq!(git(&clone, &["status", "--porcelain"]), "");
    mount.unmount();
    bench.check();
    bench.terminate();
}

#[test]
#[ignore = "needs root, /dev/fuse, python3, db_bench and ldb: run by make test"]
fn killed_programs_mounts_and_nodes_lose_nothing_that_was_synchronised() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/torture-files");
    for (writer, kills) in
        [("sqlite", length(8, 1000)), ("bytes", length(8, 1000)), ("rocksdb", length(4, 200))]
    {
        let place = Place::new();
        let mut command = Command::new("python3");
        command.arg(&script).args(["--seed", "1", "--kills", &kills, writer]);
        command.env("NEARFLASH_BIN", nearflash()).env("TMPDIR", place.path(""));
        let text = ran(&mut command);
        assert!(text.contains("kills, no loss"), "{text}");
    }
}

fn flag(name: &str, path: &Path) -> OsString {
    let mut flag = OsString::from(name);
    flag.push(path);
    flag
}
