//! The last events of the node, for those who ask: the lines of its log from level `info` on.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Debug;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nearflash_api::{EventInfo, EventLevel};
use nearflash_units::OneLine;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

/// The number of events of level `info` that are kept, and that of the more severe ones. Hosts that
/// come and go therefore do not displace a failure.
const EVENTS_MAX: usize = 1024;

/// The length in bytes of the longest text or field that is kept; the rest is cut off.
const TEXT_LEN_MAX: usize = 2048;

/// The events of this process, which runs one node.
static EVENTS: LazyLock<Arc<EventLog>> = LazyLock::new(Arc::default);

/// The events of this process after that number.
pub(crate) fn after(number: Option<u64>) -> Vec<EventInfo> {
    EVENTS.after(number)
}

/// The part of the log's subscriber that keeps the last events, for `nearflash events`.
pub fn recorder<S: Subscriber + for<'a> LookupSpan<'a>>() -> impl Layer<S> {
    Recorder(Arc::clone(&EVENTS)).with_filter(LevelFilter::INFO)
}

/// The last events.
#[derive(Debug)]
struct EventLog {
    kept: Mutex<Kept>,
}

#[derive(Debug)]
struct Kept {
    last_number: u64,
    notices: VecDeque<EventInfo>,
    failures: VecDeque<EventInfo>,
}

impl Default for EventLog {
    fn default() -> Self {
        // A node that is started again begins with a higher number: no node has a million events a
        // second. The numbers stay below 2^53, so that every program can read them.
        let last_number = since_1970().as_secs() * 1_000_000;
        let (notices, failures) = (VecDeque::new(), VecDeque::new());
        Self { kept: Mutex::new(Kept { last_number, notices, failures }) }
    }
}

fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

impl EventLog {
    fn push(&self, level: EventLevel, text: String, fields: BTreeMap<String, String>) {
        let at_ms = u64::try_from(since_1970().as_millis()).unwrap_or(u64::MAX);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.last_number += 1;
        let event = EventInfo { number: kept.last_number, at_ms, level, text, fields };
        let queue = if level == EventLevel::Info { &mut kept.notices } else { &mut kept.failures };
        if queue.len() == EVENTS_MAX {
            queue.pop_front();
        }
        queue.push_back(event);
    }

    fn after(&self, number: Option<u64>) -> Vec<EventInfo> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let all = kept.notices.iter().chain(&kept.failures);
        let mut events: Vec<EventInfo> =
            all.filter(|it| number.is_none_or(|number| it.number > number)).cloned().collect();
        drop(kept);
        events.sort_unstable_by_key(|it| it.number);
        events
    }
}

/// Keeps the events of an `EventLog`.
struct Recorder(Arc<EventLog>);

impl<S: Subscriber> Layer<S> for Recorder {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let metadata = event.metadata();
        // Libraries report what only developers need.
        if !metadata.target().starts_with("nearflash") {
            return;
        }
        let level = match *metadata.level() {
            Level::ERROR => EventLevel::Error,
            Level::WARN => EventLevel::Warning,
            _ => EventLevel::Info,
        };
        let mut read = Fields::default();
        event.record(&mut read);
        self.0.push(level, read.text, read.fields);
    }
}

/// The fields of an event, as they are read.
#[derive(Debug, Default)]
struct Fields {
    text: String,
    fields: BTreeMap<String, String>,
}

impl Fields {
    fn keep(&mut self, field: &Field, value: &str) {
        let mut value = OneLine(value).to_string();
        if value.len() > TEXT_LEN_MAX {
            let end =
                (0..=TEXT_LEN_MAX - '…'.len_utf8()).rev().find(|at| value.is_char_boundary(*at));
            value.truncate(end.unwrap_or(0));
            value.push('…');
        }
        match field.name() {
            "message" => self.text = value,
            _ if value.is_empty() => {}
            name => drop(self.fields.insert(name.to_owned(), value)),
        }
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.keep(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.keep(field, &format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use tracing::{debug, error, info, warn};
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    fn recorded(act: impl FnOnce()) -> Arc<EventLog> {
        let log = Arc::<EventLog>::default();
        let recorder = Recorder(Arc::clone(&log)).with_filter(LevelFilter::INFO);
        tracing::subscriber::with_default(tracing_subscriber::registry().with(recorder), act);
        log
    }

    #[test]
    fn events_are_kept_with_their_fields_and_numbers() {
        let log = recorded(|| {
            debug!("not an event");
            info!(host = %"nqn.x", none = "", controller = 7, "host connected");
            info!(target: "a_library", "not ours");
            error!("a\nb {}", "\u{1b}[2J");
        });
        let events = log.after(None);
        let text = |it: &EventInfo| format!("{} {} {:?}", it.level.as_str(), it.text, it.fields);
        insta::assert_snapshot!(events.iter().map(text).collect::<Vec<_>>().join("\n"), @r#"
        info host connected {"controller": "7", "host": "nqn.x"}
        error a\nb \u{1b}[2J {}
        "#);
        assert_eq!(events[0].number + 1, events[1].number);
        assert!(events[1].number < 1 << 53);
        assert_eq!(log.after(Some(events[0].number)), events[1..]);
        assert_eq!(log.after(Some(events[1].number)), []);
    }

    #[test]
    fn many_notices_displace_no_failure_and_the_rest_is_bounded() {
        let log = recorded(|| {
            warn!("a failure");
            (0..3 * EVENTS_MAX).for_each(|at| info!("notice {at}"));
            warn!("{}", "ü".repeat(TEXT_LEN_MAX));
        });
        let events = log.after(None);
        assert_eq!(events.len(), EVENTS_MAX + 2);
        assert_eq!(events[0].text, "a failure");
        assert_eq!(events[EVENTS_MAX].text, format!("notice {}", 3 * EVENTS_MAX - 1));
        assert!(events.iter().all(|it| it.text.len() <= TEXT_LEN_MAX));
        assert!(events.is_sorted_by_key(|it| it.number));
    }
}
