//! A trace in the JSON format of Chrome's trace viewer: complete events, with times in microseconds.
//!
//! A process of the viewer is a core, a thread is a connection. The viewer nests the events of a thread, so
//! requests of one connection that overlap are in threads of their own.

use std::collections::BTreeMap;

use nearflash_api::{StageTimes, Trace, TracedRequest};
use serde::Serialize;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'a> {
    display_time_unit: &'static str,
    trace_events: Vec<Event<'a>>,
}

#[derive(Serialize)]
struct Event<'a> {
    name: &'a str,
    ph: &'static str,
    pid: usize,
    tid: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    ts: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dur: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    args: Option<Args<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Args<'a> {
    Name {
        name: String,
    },
    Request {
        volume: Option<&'a str>,
        host: Option<&'a str>,
        protocol: &'a str,
        bytes: u64,
        in_flight: u32,
    },
}

/// The rows of one core: for each connection, the threads that show it, and the end of the last request in each.
#[derive(Default)]
struct Rows {
    by_connection: BTreeMap<u32, Vec<(usize, u64)>>,
    count: usize,
}

impl Rows {
    /// The thread for a request, and whether it is a new one.
    fn place(&mut self, request: &TracedRequest) -> (usize, bool) {
        let end = request.received_ns + request.stages.whole_ns();
        let rows = self.by_connection.entry(request.connection).or_default();
        if let Some((row, busy_until)) =
            rows.iter_mut().find(|(_, busy_until)| *busy_until <= request.received_ns)
        {
            *busy_until = end;
            return (*row, false);
        }
        self.count += 1;
        rows.push((self.count, end));
        (self.count, true)
    }
}

pub(super) fn document(trace: &Trace) -> String {
    let mut requests: Vec<&TracedRequest> = trace.requests.iter().collect();
    requests.sort_by_key(|request| (request.core, request.received_ns));
    let mut cores: BTreeMap<usize, Rows> = BTreeMap::new();
    let mut events = Vec::new();
    for request in requests {
        if !cores.contains_key(&request.core) {
            events.push(named("process_name", (request.core, 0), format!("core {}", request.core)));
        }
        let (row, is_new) = cores.entry(request.core).or_default().place(request);
        let place = (request.core, row);
        if is_new {
            let name = format!("{} connection {}", request.protocol, request.connection);
            events.push(named("thread_name", place, name));
        }
        add_request(request, place, &mut events);
    }
    let document = Document { display_time_unit: "ns", trace_events: events };
    serde_json::to_string(&document).expect("numbers and strings serialize")
}

/// The name of a process or a thread.
fn named<'a>(kind: &'a str, (pid, tid): (usize, usize), name: String) -> Event<'a> {
    let args = Some(Args::Name { name });
    Event { name: kind, ph: "M", pid, tid, ts: None, dur: None, args }
}

/// A request, and within it the stages that took any time.
fn add_request<'a>(
    request: &'a TracedRequest,
    (pid, tid): (usize, usize),
    events: &mut Vec<Event<'a>>,
) {
    let complete = |name, begin: u64, nanos: u64, args| {
        let (ts, dur) = (Some(micros(begin)), Some(micros(nanos)));
        Event { name, ph: "X", pid, tid, ts, dur, args }
    };
    let args = Args::Request {
        volume: request.volume.as_deref(),
        host: request.host.as_deref(),
        protocol: &request.protocol,
        bytes: request.bytes,
        in_flight: request.in_flight,
    };
    let mut begin = request.received_ns;
    events.push(complete(&*request.operation, begin, request.stages.whole_ns(), Some(args)));
    for (name, nanos) in StageTimes::NAMES.into_iter().zip(request.stages.all()) {
        if nanos > 0 {
            events.push(complete(name, begin, nanos, None));
        }
        begin += nanos;
    }
}

fn micros(nanos: u64) -> f64 {
    nanos as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn request(core: usize, connection: u32, received_ns: u64, stages: [u64; 6]) -> TracedRequest {
        TracedRequest {
            core,
            connection,
            received_ns,
            protocol: "direct".to_owned(),
            volume: Some("a \"volume\"".to_owned()),
            operation: "read".to_owned(),
            bytes: 4096,
            stages: StageTimes::of(stages),
            ..TracedRequest::default()
        }
    }

    fn events(requests: Vec<TracedRequest>) -> Vec<Value> {
        let trace = Trace { every: 1, requests, ..Trace::default() };
        let document: Value = serde_json::from_str(&document(&trace)).unwrap();
        document["traceEvents"].as_array().unwrap().clone()
    }

    fn complete(events: &[Value]) -> Vec<&Value> {
        events.iter().filter(|event| event["ph"] == "X").collect()
    }

    #[test]
    fn the_document_has_a_complete_event_for_each_request_and_each_stage_that_took_time() {
        let events = events(vec![request(2, 7, 1_234_567, [500, 0, 250, 9000, 125, 2125])]);
        let complete = complete(&events);
        let names: Vec<&str> = complete.iter().map(|it| it["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["read", "decode", "submission", "device", "answer", "sending"]);
        assert_eq!((&complete[0]["ts"], &complete[0]["dur"]), (&1234.567.into(), &12.0.into()));
        assert_eq!(complete[0]["args"]["volume"], "a \"volume\"");
        assert_eq!((&complete[0]["pid"], &complete[0]["tid"]), (&2.into(), &1.into()));
        let within: f64 = complete[1..].iter().map(|it| it["dur"].as_f64().unwrap()).sum();
        assert!((within - 12.0).abs() < 1e-9, "the stages fill the request");
        let names: Vec<&Value> = events.iter().filter(|it| it["ph"] == "M").collect();
        assert_eq!(names[0]["args"]["name"], "core 2");
        assert_eq!(names[1]["args"]["name"], "direct connection 7");
    }

    #[test]
    fn events_of_one_thread_never_overlap_unless_one_is_within_the_other() {
        let requests = (0..40u32)
            .map(|i| {
                let (core, begin) = (usize::from(i % 2 == 0), u64::from(i) * 700);
                request(core, 1 + i % 3, begin, [0, u64::from(i) * 90, 0, 1000, 0, 1])
            })
            .collect();
        let events = events(requests);
        let requests: Vec<&Value> =
            complete(&events).into_iter().filter(|it| it["name"] == "read").collect();
        assert_eq!(requests.len(), 40);
        for (index, one) in requests.iter().enumerate() {
            for other in &requests[index + 1..] {
                let place = |event: &Value| (event["pid"].clone(), event["tid"].clone());
                let span = |event: &Value| {
                    let begin = event["ts"].as_f64().unwrap();
                    (begin, begin + event["dur"].as_f64().unwrap())
                };
                let ((a, b), (c, d)) = (span(one), span(other));
                let apart = b <= c + 1e-6 || d <= a + 1e-6;
                assert!(place(one) != place(other) || apart, "{one} {other}");
            }
        }
    }

    #[test]
    fn an_empty_trace_is_a_document_too() {
        assert!(events(Vec::new()).is_empty());
    }
}
