//! A trace as text: the stages with their shares, and the slowest requests.

use std::fmt::Write;

use nearflash_api::{StageSummary, StageTimes, Trace, TracedRequest};

use crate::tables::{rendered, size, table};

/// The number of requests that are shown one by one.
const SLOWEST: usize = 5;

pub(super) fn text(trace: &Trace) -> String {
    let mut text = String::new();
    if trace.requests.is_empty() {
        text += "no traced request was answered: trace while hosts read or write, for longer \
                 (--seconds) or more of their requests (--every 1)\n";
    } else {
        text += &head(trace);
        text += &stages(&trace.requests);
        text += "\nThe slowest requests:\n\n";
        text += &slowest(&trace.requests);
    }
    for core in &trace.silent {
        let _ = writeln!(text, "the core on processor {core} did not answer");
    }
    text
}

/// The number of requests, and what is missing.
fn head(trace: &Trace) -> String {
    let count = trace.requests.len();
    let mut head = match trace.every {
        1 => format!("{count} requests, every one"),
        every => format!("{count} requests, one in {every}"),
    };
    if trace.unfinished > 0 {
        let _ = write!(head, "; {} were not answered at the end", trace.unfinished);
    }
    if trace.is_full {
        head += "; all records were used before the end (--records, --every)";
    }
    head + "\n\n"
}

fn stages(requests: &[TracedRequest]) -> String {
    let whole = StageSummary::of(requests.iter().map(|it| it.stages.whole_ns()));
    let mut table = table(&["STAGE", "MEAN", "SHARE", "P50", "P99", "MAX"], &[1, 2, 3, 4, 5]);
    let mut add = |name: &str, summary: &StageSummary| {
        let share = 100.0 * summary.mean_ns / whole.mean_ns.max(1.0);
        let [p50, p99, max] =
            [summary.p50_ns, summary.p99_ns, summary.max_ns].map(|nanos| micros(nanos as f64));
        let mean = micros(summary.mean_ns);
        table.add_row([name.to_owned(), mean, format!("{share:.1}%"), p50, p99, max]);
    };
    for (name, summary) in StageTimes::NAMES.iter().zip(StageSummary::of_stages(requests)) {
        add(name, &summary);
    }
    add("all", &whole);
    rendered(&table)
}

fn slowest(requests: &[TracedRequest]) -> String {
    let mut slowest: Vec<&TracedRequest> = requests.iter().collect();
    slowest.sort_by_key(|request| std::cmp::Reverse(request.stages.whole_ns()));
    let header =
        ["ALL", "LONGEST STAGE", "OPERATION", "SIZE", "IN FLIGHT", "CORE", "VOLUME", "HOST"];
    let mut table = table(&header, &[0, 3, 4, 5]);
    for request in slowest.into_iter().take(SLOWEST) {
        let stages = StageTimes::NAMES.iter().zip(request.stages.all());
        let longest = stages.max_by_key(|(_, nanos)| *nanos);
        let longest = longest.map(|(name, nanos)| format!("{name} {}", micros(nanos as f64)));
        table.add_row([
            micros(request.stages.whole_ns() as f64),
            longest.unwrap_or_default(),
            request.operation.clone(),
            size(request.bytes),
            request.in_flight.to_string(),
            request.core.to_string(),
            request.volume.clone().unwrap_or_else(|| "(removed)".to_owned()),
            request.host.clone().unwrap_or_else(|| "(unnamed)".to_owned()),
        ]);
    }
    rendered(&table)
}

/// A time in microseconds, with the digits that matter.
fn micros(nanos: f64) -> String {
    match nanos / 1000.0 {
        micros if micros >= 1000.0 => format!("{micros:.0}µs"),
        micros if micros >= 10.0 => format!("{micros:.1}µs"),
        micros => format!("{micros:.2}µs"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(stages: [u64; 6]) -> TracedRequest {
        TracedRequest {
            core: 2,
            protocol: "nvme-tcp".to_owned(),
            host: Some("nqn.2014-08.org.example:a".to_owned()),
            volume: Some("data".to_owned()),
            operation: "read".to_owned(),
            bytes: 4096,
            in_flight: 3,
            stages: StageTimes::of(stages),
            ..TracedRequest::default()
        }
    }

    #[test]
    fn a_trace_shows_its_stages_and_its_slowest_requests() {
        let mut requests: Vec<TracedRequest> =
            (0..10).map(|i| request([900, 0, 1100, 20_000 + i * 1000, 500, 2500])).collect();
        requests.push(request([900, 1_500_000, 1100, 20_000, 500, 2500]));
        requests[0].host = None;
        requests[1].volume = None;
        let trace = Trace { every: 7, requests, unfinished: 2, is_full: true, silent: vec![5] };
        let text = text(&trace);
        let lines: Vec<&str> = text.lines().collect();
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert!(lines[0].starts_with("11 requests, one in 7; 2 were not answered at the end; all"));
        // The table begins after an empty line: its header, six stages, and the whole.
        assert_eq!(words(lines[2]), ["STAGE", "MEAN", "SHARE", "P50", "P99", "MAX"]);
        let stages: Vec<Vec<String>> = lines[3..10].iter().map(|line| words(line)).collect();
        let names: Vec<&str> = stages.iter().map(|stage| stage[0].as_str()).collect();
        let all = ["decode", "admission", "submission", "device", "answer", "sending", "all"];
        assert_eq!(names, all);
        assert_eq!(stages[0][1], "0.90µs");
        assert_eq!(stages[1][3..], ["0.00µs", "1500µs", "1500µs"]);
        assert_eq!(stages[6][2], "100.0%");
        let slowest = words(lines[14]);
        assert_eq!(slowest[..5], ["1525µs", "admission", "1500µs", "read", "4KiB"]);
        let shown = lines[14..].iter().filter(|line| line.contains("read")).count();
        assert_eq!(shown, SLOWEST);
        assert_eq!(lines.last(), Some(&"the core on processor 5 did not answer"));
    }

    #[test]
    fn a_trace_without_requests_says_what_to_do() {
        let text = text(&Trace::default());
        assert!(text.contains("--every 1") && text.lines().count() == 1, "{text}");
    }
}
