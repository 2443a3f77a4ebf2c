//! The contests of NVMe/TCP, which are a node's performance goals.

use std::path::PathBuf;

use nearflash_bench::compare::Ops;
use nearflash_bench::floor::Headers;
use nearflash_bench::subject::NvmeTcpTarget;
use nearflash_units::{ByteLen, KIB};

use crate::contest::{Contest, ContestSide, Score};

/// The targets of the contests.
#[derive(Clone, Debug)]
pub struct NvmeTcpTargets {
    /// A volume on the null device: only the wire and the node.
    pub null: NvmeTcpTarget,
    /// A volume on a RAM device, filled.
    pub ram: NvmeTcpTarget,
    /// A volume on a file.
    pub file: NvmeTcpTarget,
    /// A local file on the same disk: the device without the network.
    pub local: PathBuf,
}

/// The sides of contests.
#[derive(Clone, Copy)]
enum Who {
    Floor,
    Null,
    Ram,
    File,
    Local,
    LocalAndFloor,
}

/// Description, subject, base, operations, score, and the score that must be reached and that is
/// desired.
type Row = (&'static str, Who, Option<Who>, Ops, Score, Option<(f64, f64)>);

const SMALL: ByteLen = ByteLen(4 * KIB);
const LARGE: ByteLen = ByteLen(128 * KIB);
const FLOOR: Option<Who> = Some(Who::Floor);

const ROWS: [Row; 13] = [
    (
        "4 KiB random reads, depth 1: mean latency / floor",
        Who::Null,
        FLOOR,
        Ops::reads(SMALL, 1),
        Score::Latency,
        Some((1.06, 1.03)),
    ),
    (
        "4 KiB random reads, depth 8: IOPS / floor",
        Who::Null,
        FLOOR,
        Ops::reads(SMALL, 8),
        Score::Iops,
        Some((0.85, 0.95)),
    ),
    (
        "4 KiB random reads, depth 32: IOPS / floor",
        Who::Null,
        FLOOR,
        Ops::reads(SMALL, 32),
        Score::Iops,
        Some((0.88, 0.95)),
    ),
    (
        "4 KiB random reads, depth 128: IOPS / floor",
        Who::Null,
        FLOOR,
        Ops::reads(SMALL, 128),
        Score::Iops,
        Some((0.88, 0.95)),
    ),
    (
        "RAM device, 256 MiB that were written, 4 KiB random reads, depth 32: IOPS / floor",
        Who::Ram,
        FLOOR,
        Ops::reads(SMALL, 32),
        Score::Iops,
        Some((0.60, 0.75)),
    ),
    (
        "4 KiB random writes, depth 32: IOPS / floor",
        Who::Null,
        FLOOR,
        Ops::writes(SMALL, 32),
        Score::Iops,
        Some((0.85, 0.95)),
    ),
    (
        "4 KiB random reads one by one, depth 8: IOPS / floor one by one",
        Who::Null,
        FLOOR,
        Ops::reads(SMALL, 8).one_by_one(),
        Score::Iops,
        Some((0.85, 0.95)),
    ),
    (
        "4 KiB random reads one by one, depth 32: IOPS / floor one by one",
        Who::Null,
        FLOOR,
        Ops::reads(SMALL, 32).one_by_one(),
        Score::Iops,
        Some((0.85, 0.95)),
    ),
    (
        "128 KiB reads, depth 16: bandwidth / floor",
        Who::Null,
        FLOOR,
        Ops::reads(LARGE, 16),
        Score::Iops,
        Some((0.90, 0.98)),
    ),
    (
        "4 KiB random reads, depth 32: own code of the node in ns",
        Who::Null,
        None,
        Ops::reads(SMALL, 32),
        Score::NodeOwn,
        None,
    ),
    (
        "4 KiB random reads, depth 32: own code of the host in ns",
        Who::Null,
        None,
        Ops::reads(SMALL, 32),
        Score::HostOwn,
        None,
    ),
    (
        "file device, 4 KiB random reads, depth 1: mean latency / (local + floor)",
        Who::File,
        Some(Who::LocalAndFloor),
        Ops::reads(SMALL, 1),
        Score::Latency,
        Some((1.10, 1.03)),
    ),
    (
        "file device, 4 KiB random reads, depth 32: IOPS / local",
        Who::File,
        Some(Who::Local),
        Ops::reads(SMALL, 32),
        Score::Iops,
        Some((0.95, 1.00)),
    ),
];

/// All contests.
pub fn nvme_tcp_contests(targets: &NvmeTcpTargets) -> Vec<Contest> {
    let contest = |(what, subject, base, ops, score, bounds): Row| Contest {
        what,
        subject: targets.side(subject),
        base: base.map(|base| targets.side(base)),
        ops,
        score,
        must: bounds.map(|(must, _)| must),
        aim: bounds.map(|(_, aim)| aim),
    };
    ROWS.into_iter().map(contest).collect()
}

impl NvmeTcpTargets {
    fn side(&self, who: Who) -> ContestSide {
        match who {
            Who::Floor => ContestSide::Floor(Headers::NVME_TCP),
            Who::Null => ContestSide::NvmeTcp(self.null.clone()),
            Who::Ram => ContestSide::NvmeTcp(self.ram.clone()),
            Who::File => ContestSide::NvmeTcp(self.file.clone()),
            Who::Local => ContestSide::File(self.local.clone()),
            Who::LocalAndFloor => ContestSide::FileAndFloor(self.local.clone(), Headers::NVME_TCP),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contest::ContestResult;
    use crate::resources::Resources;
    use crate::results::{to_json, to_markdown};
    use nearflash_bench::compare::{Figure, OwnTime, Part, Ratio, Round};
    use nearflash_bench::subject::Target;
    use nearflash_units::Nanos;

    fn results() -> Vec<ContestResult> {
        let volume = |name: &str| match format!("nvme-tcp://a/{name}").parse().unwrap() {
            Target::NvmeTcp(target) => target,
            other => panic!("{other}"),
        };
        let targets = NvmeTcpTargets {
            null: volume("null"),
            ram: volume("ram"),
            file: volume("file"),
            local: "local.img".into(),
        };
        let part = |iops: f64| Part {
            figure: Figure { iops, latency_ns: 1e9 / iops, core_share: 1.0 },
            cpu_ns: 2e9 / iops,
            own_ns: OwnTime { node: 1e8 / iops, host: 2e8 / iops },
        };
        let results = nvme_tcp_contests(&targets).into_iter().map(|contest| {
            let base = contest.base.is_some().then(|| part(100_000.0));
            let parts = base.into_iter().chain([part(90_000.0)]).collect();
            let rounds = vec![Round { parts, before: Nanos(30), after: Nanos(31) }];
            let ratio = Ratio::of(&rounds, |round| contest.score.of(round));
            ContestResult { contest, ratio, rounds }
        });
        results.collect()
    }

    const RESOURCES: Resources = Resources {
        busy_len: ByteLen(20 << 20),
        per_connection_len: ByteLen(9 << 10),
        connections: 200,
        idle_share: 0.002,
    };

    #[test]
    fn the_table_says_what_was_reached() {
        insta::assert_snapshot!(to_markdown(&results()) + &RESOURCES.to_markdown());
    }

    #[test]
    fn the_document_has_every_round() {
        insta::assert_snapshot!(to_json(&results()[..1], Some(&RESOURCES)));
    }
}
