//! The summary of a chapter: the number of points per outcome, and what could not be measured.

use super::{About, Chapter};
use crate::plan::Unable;
use crate::result::{Outcome, Results};

/// The number of points per outcome.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Counts {
    /// Measured and comparable.
    pub(super) sound: usize,
    /// Measured, but not comparable.
    pub(super) doubtful: usize,
    pub(super) failed: usize,
    /// Not measured yet.
    pub(super) pending: usize,
}

impl Counts {
    /// Counts the points of one chapter.
    pub(super) fn of(chapter: &Chapter) -> Self {
        let mut counts = Self { pending: chapter.pending.len(), ..Self::default() };
        let results = results(chapter);
        for end in &chapter.points {
            match &end.outcome {
                Outcome::Failed(_) => counts.failed += 1,
                Outcome::Measured(_) if results.is_doubtful(&end.id) => counts.doubtful += 1,
                Outcome::Measured(_) | Outcome::Simulated(_) => counts.sound += 1,
            }
        }
        counts
    }

    /// Counts the points of all chapters.
    pub(super) fn all(chapters: &[Chapter]) -> Self {
        chapters.iter().map(Self::of).fold(Self::default(), |sum, one| Self {
            sound: sum.sound + one.sound,
            doubtful: sum.doubtful + one.doubtful,
            failed: sum.failed + one.failed,
            pending: sum.pending + one.pending,
        })
    }

    /// In words: `24 points measured, 2 of them doubtful; 1 failed`.
    pub(super) fn words(self) -> String {
        let measured = self.sound + self.doubtful;
        let mut words = match measured {
            0 => "no point measured".to_owned(),
            1 => "1 point measured".to_owned(),
            count => format!("{count} points measured"),
        };
        match (self.doubtful, measured) {
            (0, _) => {}
            (1, 1) => words += ", doubtful",
            (doubtful, all) if doubtful == all => words += ", all of them doubtful",
            (doubtful, _) => words += &format!(", {doubtful} of them doubtful"),
        }
        if self.failed > 0 {
            words += &format!("; {} failed", self.failed);
        }
        if self.pending > 0 {
            words += &format!("; {} not run yet", self.pending);
        }
        words
    }
}

/// The results of a chapter, with the home of the whole run.
pub(super) fn results(chapter: &Chapter) -> Results {
    let ends = chapter.points.iter();
    let outcomes = ends.map(|end| (end.id.clone(), end.outcome.clone())).collect();
    match chapter.home {
        None => Results::new(outcomes),
        home => Results::at(home, outcomes),
    }
}

/// The parts that could not be measured, each once with the studies that need it.
pub(super) fn all_unable(chapters: &[Chapter]) -> Vec<(Vec<&str>, &Unable)> {
    let mut all: Vec<(Vec<&str>, &Unable)> = Vec::new();
    for chapter in chapters {
        for unable in &chapter.unable {
            match all.iter_mut().find(|(_, it)| *it == unable) {
                Some((studies, _)) => studies.push(&chapter.study),
                None => all.push((vec![&chapter.study], unable)),
            }
        }
    }
    all
}

/// The version and, if known, start time and duration of a run.
pub(super) fn run_words(about: &About) -> String {
    let mut words = format!("nearflash {}", about.version);
    if !about.started_at.is_empty() {
        words += &format!(", begun {}", about.started_at);
    }
    // Unknown until the run has ended.
    if about.seconds > 0.0 {
        words += &format!(", {}", duration(about.seconds));
    }
    words
}

/// A duration for people: `30 min 34 s`.
pub(super) fn duration(seconds: f64) -> String {
    if !(0.0..1e9).contains(&seconds) {
        return "unknown".to_owned();
    }
    if seconds < 60.0 {
        return format!("{seconds:.0} s");
    }
    let minutes = (seconds / 60.0).floor();
    if minutes < 60.0 {
        return format!("{minutes:.0} min {:.0} s", (seconds - minutes * 60.0).floor());
    }
    let hours = (minutes / 60.0).floor();
    format!("{hours:.0} h {:.0} min", minutes - hours * 60.0)
}

/// The terms and symbols of figures and tables, one line each.
pub(super) const WORDS: [(&str, &str); 10] = [
    (
        "claim, paper, here, verdict",
        "A claim of a paper, or of this study, with the paper's numbers and the range of this \
         run's. It holds partly if it holds for some of the compared ways, curves or loads. In the \
         small charts, each dot is one of them; it is hollow if the claim does not hold for it. \
         The tick is the number that the dots are compared with.",
    ),
    (
        "median and spread",
        "Each point was measured several times. The number is the median of the runs. The \
         whiskers, and “low” and “high”, enclose the middle half of the runs.",
    ),
    (
        "doubtful",
        "In every run of the point, another program used its cores, the virtual machine moved, or \
         its cores were placed differently from most runs. The point is drawn hollow, with a “?”. \
         Do not base a decision on it.",
    ),
    (
        "protocol",
        "How clients reach the node: iSCSI, NVMe/TCP, direct over TCP, or direct over memory that \
         they share with the node.",
    ),
    (
        "way",
        "A path to the stored data: the medium alone, a protocol of the node, another program, or a \
         --target.",
    ),
    (
        "the device alone, the wire alone",
        "The device alone: the same operations without a node. The wire alone: messages of the \
         same lengths as the protocol's, over a bare TCP connection.",
    ),
    (
        "floor",
        "The result of the wire or the device alone, in the same run. A way that uses them should \
         not do better. Drawn dotted.",
    ),
    (
        "published",
        "Printed in a paper, for the paper's own hardware and time. Drawn open and dashed. Compare \
         the shape, not the height.",
    ),
    (
        "model",
        "Calculated from measured numbers and stated assumptions. Drawn dash-dotted, or pale.",
    ),
    (
        "p99, p99.9",
        "99 of 100 operations, or 999 of 1000, were faster. The latency is counted from the moment \
         when the operation should have started.",
    ),
];

#[cfg(test)]
mod tests {
    use super::{About, Chapter, Counts, Unable, all_unable, duration, run_words};

    #[test]
    fn counts_are_said_in_words() {
        let counts = Counts { sound: 22, doubtful: 2, failed: 1, pending: 3 };
        assert_eq!(
            counts.words(),
            "24 points measured, 2 of them doubtful; 1 failed; 3 not run yet"
        );
        let one = Counts { sound: 0, doubtful: 1, failed: 0, pending: 0 };
        assert_eq!(one.words(), "1 point measured, doubtful");
        assert_eq!(Counts::default().words(), "no point measured");
    }

    #[test]
    fn what_several_studies_lack_is_listed_once_with_all_of_them() {
        let unable = |what: &str| Unable { what: what.to_owned(), ..Unable::default() };
        let chapter = |study: &str, parts: &[&str]| Chapter {
            study: study.to_owned(),
            unable: parts.iter().map(|what| unable(what)).collect(),
            ..Chapter::default()
        };
        let chapters =
            [chapter("a", &["fio", "tgt"]), chapter("b", &["rdma"]), chapter("c", &["tgt"])];
        let all = all_unable(&chapters);
        let listed: Vec<_> = all.iter().map(|(of, it)| (of.join(" "), it.what.as_str())).collect();
        let meant = [("a", "fio"), ("a c", "tgt"), ("b", "rdma")];
        assert_eq!(listed, meant.map(|(of, what)| (of.to_owned(), what)));
    }

    #[test]
    fn of_a_run_under_way_it_is_not_said_how_long_it_took() {
        let mut about = About { version: "1.2".to_owned(), ..About::default() };
        assert_eq!(run_words(&about), "nearflash 1.2");
        about.started_at = "2026-11-22 04:05 UTC".to_owned();
        assert_eq!(run_words(&about), "nearflash 1.2, begun 2026-11-22 04:05 UTC");
        about.seconds = 61.0;
        assert_eq!(run_words(&about), "nearflash 1.2, begun 2026-11-22 04:05 UTC, 1 min 1 s");
    }

    #[test]
    fn durations_are_said_as_people_do() {
        assert_eq!(duration(4.2), "4 s");
        assert_eq!(duration(1834.0), "30 min 34 s");
        assert_eq!(duration(7265.0), "2 h 1 min");
        assert_eq!(duration(f64::NAN), "unknown");
    }
}
