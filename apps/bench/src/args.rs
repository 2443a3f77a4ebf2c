//! The command line of `nearflash bench`, with fio's names and meanings.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::str::FromStr;

use nearflash_units::{ByteLen, ByteOffset, Nanos, parse_duration, parse_size};

use crate::floor::FloorCores;
use crate::job::{DriveSpec, JobSpec, Spin};
use crate::options_error::OptionsError;
use crate::placement::CoreId;
use crate::report::PercentileList;
use crate::run::{Jobs, Layout, RunSpec, Threads};
use crate::subject::Target;
use crate::workload::{Pattern, Rate, WorkloadSpec};

/// Duration of a run when neither a time nor a size is given.
const RUNTIME_DEFAULT: Nanos = Nanos::from_secs(10);

/// Measures a file, a remote volume, the bare wire or the tool itself.
#[derive(Clone, Debug, clap::Args)]
pub struct BenchArgs {
    /// Subject of the measurement: file:PATH, null:SIZE,
    /// nvme-tcp://HOST:PORT/NAME[?ns=1&digest=header,data&queues=N&host-nqn=NQN&psk-file=PATH
    /// &psk-derivation=legacy] (NAME is a volume's name or an NQN; the file holds the PSK of the
    /// host, with which the connections use TLS), iscsi://HOST:PORT/NAME[/LUN]
    /// [?sessions=N&connections=N&digest=header,data&user=U&secret-file=PATH
    /// &mutual-user=U&mutual-secret-file=PATH] (NAME is a volume's name or an IQN; LUN defaults to
    /// 0; the mutual user is the one by which the target authenticates itself),
    /// direct://HOST:PORT/VOLUME, direct+tls://HOST:PORT/VOLUME or direct+local:PATH.sock/VOLUME
    /// [?digest=header,data&key=ID&secret-file=PATH], or floor://[?headers=REQUEST,ANSWER] for the
    /// bare exchange over loopback TCP, with headers of these lengths in bytes; floor://relay is the
    /// exchange with a server that passes each request on to a third party
    pub target: Target,

    /// Write even if the target holds files, a file system or the like, which the run destroys
    #[arg(long)]
    pub force: bool,
    /// Direction and order of the operations
    #[arg(long, value_enum, default_value = "read")]
    pub rw: Pattern,
    /// Share of reads in a mix, in per cent
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u8).range(0..=100))]
    pub rwmixread: u8,
    /// Length of one operation
    #[arg(long, default_value = "4k", value_parser = parse_size)]
    pub bs: ByteLen,
    /// Operations in flight per job
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub iodepth: u32,
    /// The system calls for a file. With psync, each job has one operation in flight
    #[arg(long, value_enum, default_value = "io_uring")]
    pub ioengine: IoEngine,
    /// Take this many completions, and submit this many operations, at a time: fio's iodepth_batch
    /// and iodepth_batch_complete_max. With 1, each completion is followed by the submission of one
    /// operation, as on most hosts. Default: 8 for a file, where adjacent operations submitted
    /// together may reach the device as one request; no limit for remote volumes and floor://
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub iodepth_batch: Option<u32>,
    /// Number of identical jobs that run at the same time, each with its own connection
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub numjobs: u32,
    /// Threads that run the jobs in turn; by default one per job. More spinning threads than cores
    /// measure the scheduler
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: Option<u32>,
    /// Length of each job's range, and of the file if it must be created; by default the whole
    /// target, or --offset-increment
    #[arg(long, value_parser = parse_size)]
    pub size: Option<ByteLen>,
    /// Start of the range
    #[arg(long, default_value = "0", value_parser = parse_size)]
    pub offset: ByteLen,
    /// Distance between the starts of successive jobs' ranges
    #[arg(long, alias = "offset_increment", default_value = "0", value_parser = parse_size)]
    pub offset_increment: ByteLen,
    /// Stop after this time; without --time-based also at the end of the range. Without --runtime
    /// and --size a run takes 10 seconds
    #[arg(long, value_parser = parse_duration)]
    pub runtime: Option<Nanos>,
    /// Start over at the end of the range until --runtime has passed
    #[arg(long)]
    pub time_based: bool,
    /// Run for this time before counting
    #[arg(long, default_value = "0", value_parser = parse_duration)]
    pub ramp_time: Nanos,
    /// Upper limit of operations per second for each job; latency is then measured from the
    /// intended start
    #[arg(long, default_value_t = 0)]
    pub rate_iops: u64,
    /// Write a checksum into every block, and check every block read
    #[arg(long, value_enum)]
    pub verify: Option<Verify>,
    /// Make the writes durable at the end, by fdatasync or Flush
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=1))]
    pub end_fsync: u8,
    /// Allow random offsets to repeat before all have been used
    #[arg(long)]
    pub norandommap: bool,
    /// Seed of all random numbers
    #[arg(long, default_value_t = 0x6E66)]
    pub randseed: u64,
    /// Bypass the page cache (1) or use it (0)
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(0..=1))]
    pub direct: u8,
    /// How threads wait for completions; with 'never', the sides of the floor sleep, too
    #[arg(long, value_enum, default_value = "adaptive")]
    pub spin: Spin,
    /// Pin the threads to these cores, in turn: 0,2 or 0-3
    #[arg(long)]
    pub cores: Option<CoreList>,
    /// Also measure the floor, immediately before and after, and print the ratio
    #[arg(long)]
    pub floor: bool,
    /// The floor's cores: the server's, the client's, and that of the third party of floor://relay,
    /// which by default is the client's
    #[arg(long, default_value = "0,1", value_name = "S,C[,T]")]
    pub floor_cores: FloorCores,

    /// Also print where the time of a remote operation goes. If the target's node runs on this machine, its
    /// control socket tells its stages; otherwise the node is one part with the network
    #[arg(long)]
    pub breakdown: bool,
    /// The data directory of the target's node, for --breakdown [default: $NEARFLASH_DATA_DIR;
    /// otherwise /var/lib/nearflash for root, $XDG_STATE_HOME/nearflash for others]
    #[arg(long, value_name = "DIR", requires = "breakdown")]
    pub data_dir: Option<PathBuf>,

    /// Name of the run in the report
    #[arg(long, default_value = "bench")]
    pub name: String,
    /// Percentiles to report, separated by colons: 50:99:99.9
    #[arg(long)]
    pub percentile_list: Option<PercentileList>,
    /// Plain text, or fio's JSON
    #[arg(long, value_enum, default_value = "normal")]
    pub output_format: OutputFormat,
    /// Write the report here instead of to standard output
    #[arg(long)]
    pub output: Option<PathBuf>,
}

/// The system calls by which a file is read and written.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum IoEngine {
    /// io_uring(7).
    IoUring,
    /// pread(2) and pwrite(2).
    Psync,
}

/// The checksum of `--verify`.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
#[value(rename_all = "lower")]
pub enum Verify {
    /// CRC-32C.
    Crc32c,
}

/// The form of the report.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
#[value(rename_all = "lower")]
pub enum OutputFormat {
    /// Plain text.
    Normal,
    /// JSON in fio's layout.
    Json,
}

impl BenchArgs {
    /// The job on a target of this length; `None` for one without a length.
    ///
    /// # Errors
    /// When the options contradict each other or the target.
    pub fn job(&self, target_len: Option<ByteLen>) -> Result<JobSpec, OptionsError> {
        self.check()?;
        let range_len = self.range_len(target_len)?;
        Ok(JobSpec {
            workload: WorkloadSpec {
                pattern: self.rw,
                read_percent: self.rwmixread,
                op_len: self.bs,
                offset: ByteOffset(self.offset.0),
                range_len,
                repeats: self.norandommap,
                endless: self.time_based || self.is_open_ended(),
                seed: self.randseed,
            },
            depth: usize::try_from(self.iodepth).expect("usize is at least 32 bits wide"),
            rate: Rate::new(self.rate_iops),
            verify_seed: self.verify.map(|Verify::Crc32c| self.randseed),
            end_fsync: self.end_fsync == 1,
        })
    }

    /// The run on a target of this length; `None` for one without a length.
    ///
    /// # Errors
    /// As for [`Self::job`].
    pub fn run_spec(&self, target_len: Option<ByteLen>) -> Result<RunSpec, OptionsError> {
        let layout = match self.offset_increment {
            ByteLen(0) => Layout::Shared,
            increment => Layout::Apart(increment),
        };
        Ok(RunSpec {
            jobs: Jobs { layout, ..Jobs::new(self.job(target_len)?, self.numjobs) },
            drive: self.drive(),
            threads: Threads {
                count: self.threads,
                cores: self.cores.clone().map_or_else(Vec::new, |list| list.0),
            },
        })
    }

    /// Duration of the run, and how its threads wait.
    pub fn drive(&self) -> DriveSpec {
        let is_timed = self.time_based || self.is_open_ended();
        DriveSpec {
            ramp: self.ramp_time,
            runtime: self.runtime.or(is_timed.then_some(RUNTIME_DEFAULT)),
            spin: self.spin,
            stall_max: None,
            // The engine for files limits batches itself.
            batch: self.batch().filter(|_| self.target.is_remote()),
            sides: self.breakdown,
        }
    }

    /// The value of `--iodepth-batch`.
    pub(crate) fn batch(&self) -> Option<NonZeroUsize> {
        let batch = self.iodepth_batch?;
        NonZeroUsize::new(usize::try_from(batch).expect("usize is at least 32 bits wide"))
    }

    /// Whether neither a time nor a size ends the run.
    fn is_open_ended(&self) -> bool {
        self.runtime.is_none() && self.size.is_none()
    }

    /// Distance from the start of the first job's range to that of the last.
    pub(crate) fn stride(&self) -> ByteLen {
        ByteLen(self.offset_increment.0.saturating_mul(u64::from(self.numjobs - 1)))
    }

    fn check(&self) -> Result<(), OptionsError> {
        let is_floor = self.target.is_floor();
        let is_relay = matches!(self.target, Target::Relay(_));
        let shares_core = self.floor_cores.third.is_none() && self.spin != Spin::Never;
        let is_null = matches!(self.target, Target::Null(_));
        let is_file = matches!(self.target, Target::File(_));
        let is_blocking = self.ioengine == IoEngine::Psync;
        let refusals = [
            (is_floor && self.rw.single_direction().is_none(), OptionsError::MixedFloor),
            (is_relay && shares_core, OptionsError::RelayOnTwoCores),
            (is_floor && self.verify.is_some(), OptionsError::NothingToVerify),
            (self.verify.is_some() && self.bs < ByteLen(512), OptionsError::BlockTooSmallToVerify),
            (self.floor && !self.target.is_remote(), OptionsError::FloorOfLocal),
            (self.floor && self.rw.single_direction().is_none(), OptionsError::MixedFloor),
            (self.breakdown && !self.target.is_remote(), OptionsError::BreakdownOfLocal),
            (self.breakdown && self.rw.single_direction().is_none(), OptionsError::BreakdownOfMix),
            (self.is_unaligned(), OptionsError::Unaligned),
            (self.iodepth_batch.is_some() && is_null, OptionsError::BatchOfNothing),
            (is_blocking && !is_file, OptionsError::BlockingRemote),
            (is_blocking && self.iodepth > 1, OptionsError::BlockingDepth),
        ];
        match refusals.into_iter().find(|(refused, _)| *refused) {
            Some((_, refusal)) => Err(refusal),
            None => Ok(()),
        }
    }

    fn is_unaligned(&self) -> bool {
        let is_direct = matches!(self.target, Target::File(_)) && self.direct == 1;
        let lens = [self.bs, self.offset, self.offset_increment];
        is_direct && !lens.iter().all(|len| len.0.is_multiple_of(512))
    }

    fn range_len(&self, target_len: Option<ByteLen>) -> Result<ByteLen, OptionsError> {
        let Some(target_len) = target_len else {
            return Ok(self.size.unwrap_or(self.bs));
        };
        let begin = self.offset.0.saturating_add(self.stride().0);
        let rest = ByteLen(target_len.0.saturating_sub(begin));
        let all = match self.offset_increment {
            ByteLen(0) => rest,
            increment => rest.min(increment),
        };
        let wanted = self.size.unwrap_or(all);
        if wanted > rest || rest.0 == 0 {
            return Err(OptionsError::BeyondTarget {
                end: ByteLen(begin.saturating_add(wanted.0)),
                target: self.target.to_string(),
                len: target_len,
            });
        }
        Ok(wanted)
    }
}

/// Cores, in the order in which they are assigned.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CoreList(pub Vec<CoreId>);

/// The reason why a list is not valid.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ListError {
    /// Not a list of cores.
    #[error("'{0}' is not a valid list of cores: write 0,2 or 0-3")]
    Cores(String),
    /// Not a pair of cores.
    #[error(
        "'{0}' does not name two processors: write that of the node or server and that of the client, for \
         example 0,1; for floor://relay, a third one can follow"
    )]
    CorePair(String),
}

impl FromStr for CoreList {
    type Err = ListError;

    fn from_str(text: &str) -> Result<Self, ListError> {
        let refused = || ListError::Cores(text.to_owned());
        let number = |digits: &str| digits.trim().parse::<u16>().map_err(|_| refused());
        let mut cores = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return Err(refused());
            }
            cores.extend((first..=last).map(CoreId));
        }
        Ok(Self(cores))
    }
}

impl FromStr for FloorCores {
    type Err = ListError;

    fn from_str(text: &str) -> Result<Self, ListError> {
        let refused = || ListError::CorePair(text.to_owned());
        let cores = CoreList::from_str(text).map_err(|_| refused())?;
        match cores.0[..] {
            [server, client] => Ok(Self { server, client, third: None }),
            [server, client, third] => Ok(Self { server, client, third: Some(third) }),
            _ => Err(refused()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        bench: BenchArgs,
    }

    fn parse(line: &str) -> BenchArgs {
        let words = std::iter::once("bench").chain(line.split(' '));
        Command::try_parse_from(words).unwrap_or_else(|error| panic!("{error}")).bench
    }

    fn refusal(line: &str) -> String {
        let words = std::iter::once("bench").chain(line.split(' '));
        match Command::try_parse_from(words) {
            Err(error) => error.to_string(),
            Ok(command) => command.bench.job(Some(ByteLen(1 << 30))).expect_err(line).to_string(),
        }
    }

    #[test]
    fn fio_options_have_fio_meanings() {
        let args = parse(
            "null:1GiB --rw randrw --rwmixread 70 --bs 8k --iodepth 32 --numjobs 2 --size 512m \
             --offset 1m --runtime 5 --ramp-time 500ms --rate-iops 1000 --verify crc32c \
             --percentile-list 99.9:50",
        );
        let job = args.job(Some(ByteLen(1 << 30))).unwrap();
        assert_eq!(job.workload.pattern, Pattern::RandRw);
        assert_eq!((job.workload.read_percent, job.depth), (70, 32));
        assert_eq!(job.workload.op_len, ByteLen(8192));
        assert_eq!(job.workload.range_len, ByteLen(512 << 20));
        assert_eq!(job.workload.offset, ByteOffset(1 << 20));
        let drive = args.drive();
        let spans = (drive.ramp, drive.runtime);
        assert_eq!(spans, (Nanos::from_millis(500), Some(Nanos::from_secs(5))));
        assert_eq!((job.rate, job.workload.endless), (Rate::new(1000), false));
        assert!(job.verify_seed.is_some());
        assert_eq!(args.percentile_list, Some(PercentileList(vec![50.0, 99.9])));
    }

    #[test]
    fn a_batch_is_the_engines_of_a_file_and_the_drivers_of_a_remote_volume() {
        let batch = |line| parse(line).drive().batch.map(NonZeroUsize::get);
        assert_eq!(batch("direct://a/b --iodepth-batch 1"), Some(1));
        assert_eq!(batch("direct://a/b"), None);
        assert_eq!(batch("file:/tmp/x --iodepth-batch 1"), None);
    }

    #[test]
    fn without_time_and_size_a_run_takes_ten_seconds() {
        let ends = |line| {
            let args = parse(line);
            let job = args.job(Some(ByteLen(1 << 30))).unwrap();
            (args.drive().runtime, job.workload.endless)
        };
        assert_eq!(ends("null:1GiB"), (Some(RUNTIME_DEFAULT), true));
        assert_eq!(ends("null:1GiB --size 1m"), (None, false));
    }

    #[test]
    fn jobs_of_few_threads_work_on_ranges_of_their_own() {
        let line = "null:1GiB --numjobs 64 --threads 2 --offset_increment 16m";
        let spec = parse(line).run_spec(Some(ByteLen(1 << 30))).unwrap();
        assert_eq!(spec.threads.count_for(64), 2);
        let ranges: Vec<(u64, u64)> = (0..64)
            .map(|index| spec.jobs.job(index).workload)
            .map(|workload| (workload.offset.0, workload.range_len.0))
            .collect();
        let expected: Vec<(u64, u64)> = (0..64).map(|index| (index << 24, 1 << 24)).collect();
        assert_eq!(ranges, expected);
        let alone = parse("null:1GiB --numjobs 64").run_spec(Some(ByteLen(1 << 30))).unwrap();
        assert_eq!((alone.threads.count_for(64), alone.jobs.layout), (64, Layout::Shared));
    }

    #[test]
    fn cores_are_lists_and_ranges() {
        let cores = |text: &str| text.parse::<CoreList>().map(|list| list.0);
        assert_eq!(cores("0,2-4"), Ok(vec![CoreId(0), CoreId(2), CoreId(3), CoreId(4)]));
        assert!(cores("3-1").is_err() && cores("").is_err() && cores("a").is_err());
        let floor: FloorCores = "2,3".parse().unwrap();
        assert_eq!((floor.server, floor.client, floor.third), (CoreId(2), CoreId(3), None));
        let floor: FloorCores = "2,3,1".parse().unwrap();
        assert_eq!(floor.third, Some(CoreId(1)));
        assert!("1".parse::<FloorCores>().is_err());
    }

    #[test]
    fn contradictions_are_refused_with_their_remedy() {
        let cases = [
            ("floor:// --rw randrw", "--rw read"),
            ("floor:// --verify crc32c", "drop --verify"),
            ("floor://relay", "--spin never"),
            ("null:1GiB --verify crc32c --bs 256", "larger --bs"),
            ("null:1GiB --floor", "direct://"),
            ("null:1GiB --breakdown", "direct://"),
            ("direct://a/b --breakdown --rw randrw", "--rw read"),
            ("null:1GiB --iodepth-batch 1", "applies to a file"),
            ("direct://a/b --ioengine psync", "file:PATH"),
            ("file:/tmp/x --ioengine psync --iodepth 2", "--numjobs"),
            ("file:/tmp/x --bs 1000", "--direct 0"),
            ("file:/tmp/x --numjobs 2 --offset-increment 1000", "--direct 0"),
            ("null:1GiB --size 2GiB", "reduce one"),
            ("null:1GiB --offset 1GiB", "reduce one"),
            ("null:1GiB --numjobs 65 --offset-increment 16m", "--offset-increment"),
            ("null:1GiB --numjobs 2 --offset-increment 768m --size 512m", "reduce one"),
            ("null:1GiB --threads 0", "1..=1024"),
            ("null:1GiB --bs 4q", "64KiB"),
            ("null:1GiB --percentile-list 101", "up to 100"),
            ("null:1GiB --cores x", "0-3"),
            ("/dev/null", "file:PATH"),
        ];
        for (line, remedy) in cases {
            let message = refusal(line);
            assert!(message.contains(remedy), "{line}: {message}");
        }
    }
}
