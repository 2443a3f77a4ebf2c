//! A file, as a program sees it that reads and writes with pread(2) and pwrite(2): `nearflash bench`
//! in a process of its own, to which `nearflash run` can be applied.

use std::path::Path;
use std::process::{Command, Stdio};

use nearflash_bench::compare::FioJob;
use nearflash_bench::placement::CoreId;
use nearflash_units::ByteLen;

use super::drive::range_per_client;
use super::error::PointError;
use super::fio;
use super::ways::Place;
use crate::plan::{FileWay, Layout, Load};
use crate::result::Run;
use crate::timing::Timing;

/// The arguments of `nearflash` for a load, without those for its output.
pub(super) fn words(way: FileWay, place: &Place, load: &Load) -> Vec<String> {
    let mut words: Vec<String> = match way {
        FileWay::Kernel | FileWay::Mount => Vec::new(),
        FileWay::Interposed => ["run", "--", "nearflash"].map(str::to_owned).into(),
    };
    let len = place.len.unwrap_or(ByteLen(0));
    let share = match load.layout {
        Layout::Shared => len,
        Layout::RangePerClient => range_per_client(len, load.clients),
    };
    words.extend([
        "bench".to_owned(),
        place.target.url(),
        "--ioengine=psync".to_owned(),
        format!("--rw={}", load.pattern.name()),
        format!("--bs={}", load.op_len.0),
        format!("--numjobs={}", load.clients),
        format!("--offset={}", place.offset.0),
        format!("--size={}", share.0),
        "--time-based".to_owned(),
    ]);
    if load.layout == Layout::RangePerClient {
        words.push(format!("--offset-increment={}", share.0));
    }
    if load.pattern.single_direction().is_none() {
        words.push(format!("--rwmixread={}", load.read_percent));
    }
    words
}

/// Runs a load on the client's cores; returns its results and the number of cores that it used.
pub(super) fn run(
    program: &Path,
    (way, place): (FileWay, &Place),
    load: &Load,
    timing: Timing,
    cores: &[CoreId],
) -> Result<(Run, f64), PointError> {
    let cores: Vec<String> = cores.iter().map(|core| core.0.to_string()).collect();
    let mut command = Command::new(program);
    // `nearflash run` looks its program up, so it is given as a path.
    command.args(words(way, place, load).into_iter().map(|word| match word.as_str() {
        "nearflash" => program.as_os_str().to_owned(),
        _ => word.into(),
    }));
    command.arg(format!("--ramp-time={}ms", timing.warm_up_ms));
    command.arg(format!("--runtime={}ms", timing.counted_ms));
    command.arg(format!("--cores={}", cores.join(",")));
    command.args(["--percentile-list=50:95:99:99.9", "--output-format=json"]);
    let failed = |said: &str| PointError::OfFile(said.trim().to_owned());
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| failed(&format!("{}: {error}", program.display())))?;
    if !output.status.success() {
        return Err(failed(&String::from_utf8_lossy(&output.stderr)));
    }
    let job = FioJob::parse(&String::from_utf8_lossy(&output.stdout));
    let result = job.as_ref().and_then(|job| fio::of(job, load));
    result.ok_or_else(|| failed("nearflash bench printed no result"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearflash_bench::subject::Target;
    use nearflash_bench::workload::Pattern;
    use nearflash_units::ByteOffset;

    fn said(way: FileWay, load: &Load) -> String {
        let (target, offset) = (Target::File("/mnt/file".into()), ByteOffset(0));
        words(way, &Place { target, offset, len: Some(ByteLen(1 << 20)) }, load).join(" ")
    }

    #[test]
    fn a_load_is_one_command_on_every_way() {
        let load = Load {
            pattern: Pattern::RandRead,
            read_percent: 100,
            op_len: ByteLen(4096),
            depth: 1,
            clients: 2,
            layout: Layout::Shared,
            rate_iops: None,
        };
        let through_kernel = said(FileWay::Mount, &load);
        assert_eq!(
            through_kernel,
            "bench file:/mnt/file --ioengine=psync --rw=randread --bs=4096 --numjobs=2 --offset=0 \
             --size=1048576 --time-based"
        );
        assert_eq!(said(FileWay::Interposed, &load), format!("run -- nearflash {through_kernel}"));
        let apart = Load { layout: Layout::RangePerClient, ..load };
        let apart = said(FileWay::Kernel, &apart);
        assert!(apart.contains("--size=524288") && apart.ends_with("--offset-increment=524288"));
    }
}
