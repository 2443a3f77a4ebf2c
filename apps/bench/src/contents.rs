//! The look at a target before a run writes to it: one that holds files, a file system or the like is
//! refused, as the kernel refuses a mounted device. Data without a signature is not recognised, so a
//! measurement can be repeated.

use std::fs::{File, FileType};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::Path;

use nearflash_media::{PROBE_LEN, recognised};
use nearflash_units::{ByteLen, ByteOffset, Nanos};

use crate::BenchError;
use crate::args::BenchArgs;
use crate::engine::{Engine, Opener};
use crate::workload::{Direction, Op};

/// The longest sleep in a wait for the answer to a read.
const SLEEP_MAX: Nanos = Nanos::from_millis(100);

/// Whether the run needs a look at its target.
pub(crate) fn is_due(args: &BenchArgs) -> bool {
    args.rw.writes() && !args.force
}

/// Refuses a file or block device that holds something recognised.
pub(crate) fn check_file(args: &BenchArgs, path: &Path) -> Result<(), BenchError> {
    if !is_due(args) {
        return Ok(());
    }
    let is_storage = |kind: FileType| kind.is_file() || kind.is_block_device();
    let opened = File::open(path).and_then(|file| Ok((file.metadata()?.file_type(), file)));
    let Some((_, mut file)) = opened.ok().filter(|(kind, _)| is_storage(*kind)) else {
        // The run says what is wrong with it, or creates it.
        return Ok(());
    };
    let unread = |source: io::Error| BenchError::Unread { source: Box::new(source.into()) };
    let len = io::Seek::seek(&mut file, io::SeekFrom::End(0)).map_err(unread)?;
    let mut head = vec![0; ByteLen(len.min(PROBE_LEN.0)).to_usize()];
    let mut tail = head.clone();
    file.read_exact_at(&mut head, 0).map_err(unread)?;
    let start = len - ByteLen::from_usize(tail.len()).0;
    file.read_exact_at(&mut tail, start).map_err(unread)?;
    judge(args, (&head, &tail), len)
}

/// Refuses a remote target that holds something recognised.
pub(crate) fn check_remote<O: Opener>(
    args: &BenchArgs,
    opener: &O,
    len: ByteLen,
) -> Result<(), BenchError> {
    let step = args.bs;
    if step.0 == 0 || step > len {
        // The run says so.
        return Ok(());
    }
    let mut engine = opener.open(1, step)?;
    let steps = PROBE_LEN.0.div_ceil(step.0).min(len.0 / step.0);
    let mut read = |start: u64| -> Result<Vec<u8>, BenchError> {
        let mut bytes = Vec::new();
        for number in 0..steps {
            let offset = ByteOffset(start + number * step.0);
            let op = Op { direction: Direction::Read, offset, len: step };
            read_one(&mut engine, op, &mut bytes)
                .map_err(|source| BenchError::Unread { source: Box::new(source) })?;
        }
        Ok(bytes)
    };
    let head = read(0)?;
    // It ends with the target.
    let tail = read(len.0 - steps * step.0)?;
    judge(args, (&head, &tail), len.0)
}

fn read_one<E: Engine>(
    engine: &mut E,
    op: Op,
    bytes: &mut Vec<u8>,
) -> Result<(), crate::engine::EngineError> {
    engine.submit(0, op);
    let mut done = Vec::new();
    loop {
        engine.poll(&mut done)?;
        if let Some(done) = done.pop() {
            done.result?;
            bytes.extend_from_slice(engine.buffer(0));
            return Ok(());
        }
        engine.wait(SLEEP_MAX)?;
    }
}

fn judge(args: &BenchArgs, (head, tail): (&[u8], &[u8]), len: u64) -> Result<(), BenchError> {
    match recognised(head, tail, len) {
        None => Ok(()),
        Some(what) => Err(BenchError::Holds { target: args.target.to_string(), what }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        bench: BenchArgs,
    }

    fn args(path: &Path, more: &[&str]) -> BenchArgs {
        let target = format!("file:{}", path.display());
        Cli::parse_from([&["bench", target.as_str()], more].concat()).bench
    }

    fn check(path: &Path, more: &[&str]) -> Result<(), String> {
        check_file(&args(path, more), path).map_err(|error| error.to_string())
    }

    #[test]
    fn a_file_with_a_file_system_is_only_written_to_with_force() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk.img");
        let file = File::create(&path).unwrap();
        file.set_len(4 << 20).unwrap();
        assert_eq!(check(&path, &["--rw", "write"]), Ok(()), "it is blank");
        file.write_all_at(b"\x53\xef", 0x438).unwrap();
        let refused = check(&path, &["--rw", "randrw"]).unwrap_err();
        assert!(refused.contains("an ext2, ext3 or ext4 file system"), "{refused}");
        assert!(refused.contains("disk.img") && refused.contains("--force"), "{refused}");
        assert_eq!(check(&path, &["--rw", "randread"]), Ok(()));
        assert_eq!(check(&path, &["--rw", "write", "--force"]), Ok(()));
    }

    #[test]
    fn what_an_earlier_run_wrote_and_what_does_not_exist_are_no_obstacle() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("short.img");
        assert_eq!(check(&path, &["--rw", "write", "--size", "1MiB"]), Ok(()));
        std::fs::write(&path, [7; 700]).unwrap();
        assert_eq!(check(&path, &["--rw", "write"]), Ok(()));
    }
}
