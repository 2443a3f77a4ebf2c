//! The contests of the direct protocol.

use std::path::PathBuf;

use nearflash::direct::Url;
use nearflash_bench::compare::Ops;
use nearflash_bench::floor::Headers;
use nearflash_bench::subject::NvmeTcpTarget;
use nearflash_units::{ByteLen, KIB};

use crate::contest::{Contest, ContestSide, Score};

/// The targets of the contests.
#[derive(Clone, Debug)]
pub struct DirectTargets {
    /// A volume on the null device, over TCP.
    pub tcp: Url,
    /// The same volume, over shared memory.
    pub local: Url,
    /// The same volume, over NVMe/TCP.
    pub nvme_tcp: NvmeTcpTarget,
    /// A volume on a file, over shared memory.
    pub local_file: Url,
    /// A local file on the same disk.
    pub file: PathBuf,
    /// The volume on the null device as a sealed object, over TCP.
    pub sealed_tcp: Url,
    /// The same, over shared memory.
    pub sealed_local: Url,
    /// The volume on the null device, with a credential that has one grant.
    pub one_grant: Url,
    /// The same volume, with a credential that has a thousand grants.
    pub many_grants: Url,
}

/// The sides of contests.
#[derive(Clone, Copy)]
enum Who {
    Floor,
    Tcp,
    NvmeTcp,
    Local,
    LocalFile,
    File,
    SealedTcp,
    SealedLocal,
    Handles(usize),
    OneGrant,
    ManyGrants,
}

/// Description, subject, base, operations, score, and the score that must be reached and that is
/// desired.
type Row = (&'static str, Who, Option<Who>, Ops, Score, (Option<f64>, Option<f64>));

const SMALL: ByteLen = ByteLen(4 * KIB);
const TINY: ByteLen = ByteLen(512);

const ROWS: [Row; 15] = [
    (
        "TCP, 4 KiB reads, depth 1: mean latency / floor",
        Who::Tcp,
        Some(Who::Floor),
        Ops::reads(SMALL, 1),
        Score::Latency,
        (Some(1.10), Some(1.03)),
    ),
    (
        "TCP, 4 KiB reads, depth 128: IOPS / floor",
        Who::Tcp,
        Some(Who::Floor),
        Ops::reads(SMALL, 128),
        Score::Iops,
        (Some(0.88), Some(0.95)),
    ),
    (
        "TCP, 4 KiB reads one by one, depth 8: IOPS / floor one by one",
        Who::Tcp,
        Some(Who::Floor),
        Ops::reads(SMALL, 8).one_by_one(),
        Score::Iops,
        (Some(0.85), Some(0.95)),
    ),
    (
        "TCP, 4 KiB reads one by one, depth 32: IOPS / floor one by one",
        Who::Tcp,
        Some(Who::Floor),
        Ops::reads(SMALL, 32).one_by_one(),
        Score::Iops,
        (Some(0.85), Some(0.95)),
    ),
    (
        "TCP, 4 KiB reads, depth 32: own code of the client in ns",
        Who::Tcp,
        None,
        Ops::reads(SMALL, 32),
        Score::HostOwn,
        (None, None),
    ),
    (
        "TCP, 512 B reads, depth 128: IOPS / floor of the same byte counts",
        Who::Tcp,
        Some(Who::Floor),
        Ops::reads(TINY, 128),
        Score::Iops,
        (Some(0.65), Some(0.85)),
    ),
    (
        "TCP, 512 B reads, depth 128: IOPS / NVMe/TCP",
        Who::Tcp,
        Some(Who::NvmeTcp),
        Ops::reads(TINY, 128),
        Score::Iops,
        (Some(1.2), Some(1.5)),
    ),
    (
        "TCP, 4 KiB reads, depth 128: CPU time per read, client and node / NVMe/TCP",
        Who::Tcp,
        Some(Who::NvmeTcp),
        Ops::reads(SMALL, 128),
        Score::CpuTime,
        (Some(0.95), Some(0.85)),
    ),
    (
        "shared memory, 4 KiB reads, depth 1: mean latency in µs",
        Who::Local,
        None,
        Ops::reads(SMALL, 1),
        Score::Micros,
        (Some(2.5), Some(1.0)),
    ),
    (
        "shared memory, 4 KiB reads, depth 32: IOPS / TCP",
        Who::Local,
        Some(Who::Tcp),
        Ops::reads(SMALL, 32),
        Score::Iops,
        (Some(1.5), Some(3.0)),
    ),
    (
        "file device, shared memory, 4 KiB reads, depth 1: mean latency / io_uring on the file",
        Who::LocalFile,
        Some(Who::File),
        Ops::reads(SMALL, 1),
        Score::Latency,
        (Some(1.05), Some(1.02)),
    ),
    (
        "shared memory, 4 KiB reads, depth 1: mean latency of a sealed object / volume",
        Who::SealedLocal,
        Some(Who::Local),
        Ops::reads(SMALL, 1),
        Score::Latency,
        (Some(1.02), None),
    ),
    (
        "TCP, 4 KiB reads, depth 128: IOPS of a sealed object / volume",
        Who::SealedTcp,
        Some(Who::Tcp),
        Ops::reads(SMALL, 128),
        Score::Iops,
        (Some(0.99), None),
    ),
    (
        "TCP, 4 KiB reads, depth 128: IOPS over 1,000 handles of sealed objects / over one",
        Who::Handles(1000),
        Some(Who::Handles(1)),
        Ops::reads(SMALL, 128),
        Score::Iops,
        (Some(0.99), None),
    ),
    (
        GRANTS,
        Who::ManyGrants,
        Some(Who::OneGrant),
        Ops::reads(SMALL, 128),
        Score::Iops,
        (Some(0.99), None),
    ),
];

/// Description of the contest that needs credentials.
pub const GRANTS: &str = "TCP, 4 KiB reads, depth 128: IOPS with 1,000 grants / with one";

/// All contests. The last one needs credentials; once there are any, access without one is refused.
pub fn contests(targets: &DirectTargets) -> Vec<Contest> {
    let contest = |(what, subject, base, ops, score, (must, aim)): Row| Contest {
        what,
        subject: targets.side(subject),
        base: base.map(|base| targets.side(base)),
        ops,
        score,
        must,
        aim,
    };
    ROWS.into_iter().map(contest).collect()
}

impl DirectTargets {
    fn side(&self, who: Who) -> ContestSide {
        match who {
            Who::Floor => ContestSide::Floor(Headers::DIRECT),
            Who::Tcp => ContestSide::Direct(self.tcp.clone()),
            Who::NvmeTcp => ContestSide::NvmeTcp(self.nvme_tcp.clone()),
            Who::Local => ContestSide::Direct(self.local.clone()),
            Who::LocalFile => ContestSide::Direct(self.local_file.clone()),
            Who::File => ContestSide::File(self.file.clone()),
            Who::SealedTcp => ContestSide::Direct(self.sealed_tcp.clone()),
            Who::SealedLocal => ContestSide::Direct(self.sealed_local.clone()),
            Who::Handles(count) => ContestSide::Handles(self.sealed_tcp.clone(), count),
            Who::OneGrant => ContestSide::EverySecond(self.one_grant.clone()),
            Who::ManyGrants => ContestSide::EverySecond(self.many_grants.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contest::ContestResult;
    use crate::results::{to_json, to_markdown};
    use nearflash_bench::compare::{Figure, OwnTime, Part, Ratio, Round};
    use nearflash_units::Nanos;

    fn results() -> Vec<ContestResult> {
        let url = |text: &str| text.parse::<Url>().unwrap();
        let targets = DirectTargets {
            tcp: url("direct://a/null"),
            local: url("direct+local:a.sock/null"),
            nvme_tcp: match "nvme-tcp://a/null".parse().unwrap() {
                nearflash_bench::subject::Target::NvmeTcp(target) => target,
                other => panic!("{other}"),
            },
            local_file: url("direct+local:a.sock/file"),
            file: "local.img".into(),
            sealed_tcp: url("direct://a/null"),
            sealed_local: url("direct+local:a.sock/null"),
            one_grant: url("direct://a/null?key=one"),
            many_grants: url("direct://a/null?key=many"),
        };
        let part = |iops: f64| Part {
            figure: Figure { iops, latency_ns: 1e9 / iops, core_share: 1.0 },
            cpu_ns: 2e9 / iops,
            own_ns: OwnTime { node: 1e8 / iops, host: 2e8 / iops },
        };
        let results = contests(&targets).into_iter().map(|contest| {
            let base = contest.base.is_some().then(|| part(400_000.0));
            let parts = base.into_iter().chain([part(500_000.0)]).collect();
            let rounds = vec![Round { parts, before: Nanos(30), after: Nanos(31) }];
            let ratio = Ratio::of(&rounds, |round| contest.score.of(round));
            ContestResult { contest, ratio, rounds }
        });
        results.collect()
    }

    #[test]
    fn the_table_says_what_was_reached() {
        insta::assert_snapshot!(to_markdown(&results()));
    }

    #[test]
    fn the_document_has_every_round() {
        insta::assert_snapshot!(to_json(&results()[..1], None));
    }
}
