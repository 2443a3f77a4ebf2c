//! The contests of iSCSI: compared with Debian's target using the same client, with the floor using
//! our own initiator, and with several connections and sessions of one client.

use std::fmt::Write as _;

use nearflash_bench::compare::{
    Figure, ISCSI_PERF_NOT_INSTALLED, Ops, Ratio, TGT_NOT_INSTALLED, find,
};
use nearflash_bench::floor::Headers;
use nearflash_bench::subject::IscsiTarget;
use nearflash_units::{ByteLen, KIB};

use crate::contest::{Contest, ContestResult, ContestSide, Score};

/// The targets of the contests.
#[derive(Clone, Debug)]
pub struct IscsiTargets {
    /// A volume on a RAM device.
    pub own: IscsiTarget,
    /// The peer's logical unit, if the peer is installed.
    pub tgt: Option<IscsiTarget>,
}

/// A contest that cannot be held here.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Skipped {
    /// Its description.
    pub what: &'static str,
    /// The reason.
    pub reason: &'static str,
}

/// The sides of contests.
#[derive(Clone, Copy)]
enum Who {
    /// The bare exchange.
    Floor,
    /// The node, with `iscsi-perf`.
    OwnByPerf,
    /// The peer, with `iscsi-perf`.
    TgtByPerf,
    /// The node, with our own initiator: number of sessions, and of connections per session.
    Own(u16, u16),
    /// One connection with one read in flight, whatever the other side's depth is.
    OneRead,
}

/// Description, subject, base, reads, score, and the score that must be reached.
type Row = (&'static str, Who, Who, Ops, Score, Option<f64>);

/// One session with one connection.
const ONE: Who = Who::Own(1, 1);

const ROWS: [Row; 13] = [
    (
        "iscsi-perf, 4 KiB reads, depth 32: IOPS / tgt",
        Who::OwnByPerf,
        Who::TgtByPerf,
        reads(32),
        Score::Iops,
        Some(3.0),
    ),
    ("4 KiB reads, depth 32: IOPS / floor", ONE, Who::Floor, reads(32), Score::Iops, Some(0.55)),
    (
        "4 KiB reads, depth 1: mean latency / floor",
        ONE,
        Who::Floor,
        reads(1),
        Score::Latency,
        Some(1.35),
    ),
    (
        "4 KiB reads one by one, depth 8: IOPS / floor one by one",
        ONE,
        Who::Floor,
        reads(8).one_by_one(),
        Score::Iops,
        None,
    ),
    (
        "4 KiB reads one by one, depth 32: IOPS / floor one by one",
        ONE,
        Who::Floor,
        reads(32).one_by_one(),
        Score::Iops,
        None,
    ),
    (
        "2 connections, one read on each: IOPS / 1",
        Who::Own(1, 2),
        Who::OneRead,
        reads(2),
        Score::Iops,
        None,
    ),
    (
        "4 connections, one read on each: IOPS / 1",
        Who::Own(1, 4),
        Who::OneRead,
        reads(4),
        Score::Iops,
        None,
    ),
    (
        "2 sessions, one read on each: IOPS / 1",
        Who::Own(2, 1),
        Who::OneRead,
        reads(2),
        Score::Iops,
        None,
    ),
    (
        "4 sessions, one read on each: IOPS / 1",
        Who::Own(4, 1),
        Who::OneRead,
        reads(4),
        Score::Iops,
        None,
    ),
    ("2 connections, depth 32 in all: IOPS / 1", Who::Own(1, 2), ONE, reads(32), Score::Iops, None),
    ("4 connections, depth 32 in all: IOPS / 1", Who::Own(1, 4), ONE, reads(32), Score::Iops, None),
    ("2 sessions, depth 32 in all: IOPS / 1", Who::Own(2, 1), ONE, reads(32), Score::Iops, None),
    ("4 sessions, depth 32 in all: IOPS / 1", Who::Own(4, 1), ONE, reads(32), Score::Iops, None),
];

const fn reads(depth: u32) -> Ops {
    Ops::reads(ByteLen(4 * KIB), depth)
}

/// All contests, or the reason why one cannot be held.
pub fn iscsi_contests(targets: &IscsiTargets) -> Vec<Result<Contest, Skipped>> {
    let has_perf = find("iscsi-perf").is_some();
    ROWS.iter().map(|row| targets.contest(*row, has_perf)).collect()
}

impl IscsiTargets {
    fn contest(&self, row: Row, has_perf: bool) -> Result<Contest, Skipped> {
        let (what, subject, base, ops, score, must) = row;
        let side = |who| self.side(who, has_perf).map_err(|reason| Skipped { what, reason });
        Ok(Contest {
            what,
            subject: side(subject)?,
            base: Some(side(base)?),
            ops,
            score,
            must,
            aim: None,
        })
    }

    fn side(&self, who: Who, has_perf: bool) -> Result<ContestSide, &'static str> {
        let by_perf = |target: &IscsiTarget| match has_perf {
            true => Ok(ContestSide::IscsiPerf(target.clone())),
            false => Err(ISCSI_PERF_NOT_INSTALLED),
        };
        match who {
            Who::Floor => Ok(ContestSide::Floor(Headers::ISCSI)),
            Who::OwnByPerf => by_perf(&self.own),
            Who::TgtByPerf => by_perf(self.tgt.as_ref().ok_or(TGT_NOT_INSTALLED)?),
            Who::Own(sessions, connections) => {
                Ok(ContestSide::Iscsi(IscsiTarget { sessions, connections, ..self.own.clone() }))
            }
            Who::OneRead => Ok(ContestSide::IscsiOneRead(self.own.clone())),
        }
    }
}

/// The skipped contests as rows of the table.
pub fn skipped_to_markdown(skipped: &[Skipped]) -> String {
    let line = |Skipped { what, reason }: &Skipped| format!("| {what} | | | skipped: {reason} |\n");
    skipped.iter().map(line).collect()
}

/// The absolute figures of both sides of each contest as Markdown: medians of the rounds that
/// count.
pub fn figures_to_markdown(results: &[ContestResult]) -> String {
    let mut text = "| what | IOPS | mean latency | base: IOPS | mean latency |\n\
                    | --- | --- | --- | --- | --- |\n"
        .to_owned();
    for ContestResult { contest, rounds, .. } in results {
        let median = |of: &dyn Fn(Figure) -> f64, is_base: bool| {
            let ratio = Ratio::of(rounds, |round| {
                let part = if is_base { round.base() } else { Some(round.subject()) };
                part.map_or(f64::NAN, |part| of(part.figure))
            });
            ratio.median
        };
        let kilo = |is_base| median(&|figure| figure.iops, is_base) / 1e3;
        let micros = |is_base| median(&|figure| figure.latency_ns, is_base) / 1e3;
        writeln!(
            text,
            "| {} | {:.1} k | {:.1} µs | {:.1} k | {:.1} µs |",
            contest.what,
            kilo(false),
            micros(false),
            kilo(true),
            micros(true),
        )
        .expect("a text takes all that is written to it");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearflash_bench::compare::{OwnTime, Part, Round};
    use nearflash_bench::subject::Target;
    use nearflash_units::Nanos;

    fn target(text: &str) -> IscsiTarget {
        match text.parse().unwrap() {
            Target::Iscsi(target) => target,
            other => panic!("{other}"),
        }
    }

    fn targets(tgt: Option<IscsiTarget>) -> IscsiTargets {
        IscsiTargets { own: target("iscsi://127.0.0.1:3260/ram"), tgt }
    }

    #[test]
    fn a_peer_that_is_not_installed_is_skipped_with_the_reason() {
        let row = ROWS[0];
        let skipped = targets(None).contest(row, true).unwrap_err();
        assert_eq!(skipped, Skipped { what: row.0, reason: TGT_NOT_INSTALLED });
        let skipped = targets(Some(target("iscsi://a/x"))).contest(row, false).unwrap_err();
        assert_eq!(skipped.reason, ISCSI_PERF_NOT_INSTALLED);
        let text = skipped_to_markdown(&[skipped]);
        assert!(text.contains("skipped: iscsi-perf is not installed"), "{text}");
        assert!(targets(Some(target("iscsi://a/x"))).contest(row, true).is_ok());
    }

    #[test]
    fn what_needs_no_peer_is_held_without_one() {
        let held = ROWS[1..].iter().map(|row| targets(None).contest(*row, false));
        assert!(held.into_iter().all(|contest| contest.is_ok()));
    }

    #[test]
    fn figures_are_those_of_both_sides() {
        let contest = targets(None).contest(ROWS[1], false).unwrap();
        let part = |iops: f64| Part {
            figure: Figure { iops, latency_ns: 1e9 / iops, core_share: 1.0 },
            cpu_ns: 2e9 / iops,
            own_ns: OwnTime::NONE,
        };
        let parts = vec![part(1_000_000.0), part(500_000.0)];
        let rounds = vec![Round { parts, before: Nanos(30), after: Nanos(31) }];
        let ratio = Ratio::of(&rounds, |round| contest.score.of(round));
        let text = figures_to_markdown(&[ContestResult { contest, ratio, rounds }]);
        let line = "| 4 KiB reads, depth 32: IOPS / floor | 500.0 k | 2.0 µs | 1000.0 k | 1.0 µs |";
        assert_eq!(text.lines().last(), Some(line));
    }
}
