//! The last events of the node, for those who ask: the lines of its log from level `info` on. Changes are recorded in a
//! file, too.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Debug;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nearflash_api::{EventInfo, EventLevel};
use nearflash_rest::CHANGES;
use nearflash_units::OneLine;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

use crate::changes::Trail;
use crate::refusals::PEERS;

/// The number of events of each kind that are kept. Peers that come and go, or are refused, therefore displace
/// neither a failure nor a change.
const EVENTS_MAX: usize = 1024;

/// The length in bytes of the longest text or field that is kept; the rest is cut off.
const TEXT_LEN_MAX: usize = 2048;

/// The events of this process, which runs one node.
static EVENTS: LazyLock<Arc<EventLog>> = LazyLock::new(Arc::default);

/// The lines of the log that were dropped because its reader is slow, as far as somebody counts them.
static DROPPED: OnceLock<Box<dyn Fn() -> usize + Send + Sync>> = OnceLock::new();

/// Sets the function that counts the lines of the log that were dropped because its reader is slow.
pub fn count_dropped(count: impl Fn() -> usize + Send + Sync + 'static) {
    // A process has one log.
    let _ = DROPPED.set(Box::new(count));
}

/// The number of lines that were dropped.
pub fn dropped() -> usize {
    DROPPED.get().map_or(0, |count| count())
}

/// Records changes in a file of that data directory from now on.
pub fn record_changes_in(data_dir: &Path) -> io::Result<()> {
    *EVENTS.trail() = Some(Trail::open(data_dir)?);
    Ok(())
}

/// Reports the faults of the log itself. To be called every few seconds.
pub fn report_faults() {
    let (dropped, fault) = (dropped(), EVENTS.kept().fault.take());
    let before = EVENTS.reported.swap(dropped, Ordering::Relaxed);
    if let Some(lines) = dropped.checked_sub(before).filter(|lines| *lines > 0) {
        tracing::warn!("{lines} lines of the log were dropped: its reader is too slow");
    }
    if let Some(error) = fault {
        tracing::error!("a change is not in the file of changes: {error}");
    }
}

/// The changes that a data directory has recorded, also while no node runs.
///
/// # Errors
/// When a file of the directory cannot be read.
pub fn recorded_changes(data_dir: &Path) -> io::Result<Vec<EventInfo>> {
    crate::changes::recorded(data_dir)
}

/// The events of this process after that number.
pub fn after(number: Option<u64>) -> Vec<EventInfo> {
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
    trail: Mutex<Option<Trail>>,
    /// The number of dropped lines that was reported last.
    reported: AtomicUsize,
}

#[derive(Debug)]
struct Kept {
    last_number: u64,
    /// By [`Ring`].
    rings: [VecDeque<EventInfo>; 4],
    /// The last change that could not be recorded.
    fault: Option<io::Error>,
}

/// The events that are kept together.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Ring {
    Notices,
    Failures,
    Peers,
    Changes,
}

impl Ring {
    fn of(target: &str, level: EventLevel) -> Self {
        match target {
            CHANGES => Self::Changes,
            PEERS => Self::Peers,
            _ if level == EventLevel::Info => Self::Notices,
            _ => Self::Failures,
        }
    }
}

impl Default for EventLog {
    fn default() -> Self {
        // A node that is started again begins with a higher number, also within a second: no node has a million
        // events a second. The numbers stay below 2^53, so that every program can read them.
        let last_number = u64::try_from(since_1970().as_micros()).unwrap_or(u64::MAX);
        let kept = Mutex::new(Kept { last_number, rings: Default::default(), fault: None });
        Self { kept, trail: Mutex::default(), reported: AtomicUsize::new(0) }
    }
}

fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

impl EventLog {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn trail(&self) -> MutexGuard<'_, Option<Trail>> {
        self.trail.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, ring: Ring, level: EventLevel, Fields { text, fields }: Fields) {
        // First, so that the file has the changes in their order. Cores make no changes.
        let mut trail = (ring == Ring::Changes).then(|| self.trail());
        let at_ms = u64::try_from(since_1970().as_millis()).unwrap_or(u64::MAX);
        let mut kept = self.kept();
        kept.last_number += 1;
        let event = EventInfo { number: kept.last_number, at_ms, level, text, fields };
        let queue = &mut kept.rings[ring as usize];
        if queue.len() == EVENTS_MAX {
            queue.pop_front();
        }
        let change = trail.is_some().then(|| event.clone());
        queue.push_back(event);
        drop(kept);
        let trail = trail.as_mut().and_then(|trail| trail.as_mut());
        if let Some(Err(error)) = trail.zip(change).map(|(trail, change)| trail.append(&change)) {
            // No line of the log can be written from here.
            self.kept().fault = Some(error);
        }
    }

    fn after(&self, number: Option<u64>) -> Vec<EventInfo> {
        let kept = self.kept();
        let all = kept.rings.iter().flatten();
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
        self.0.push(Ring::of(metadata.target(), level), level, read);
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
    fn many_notices_and_refusals_displace_no_failure_and_no_change() {
        let log = recorded(|| {
            warn!("a failure");
            info!(target: CHANGES, "change");
            (0..3 * EVENTS_MAX).for_each(|at| info!("notice {at}"));
            (0..3 * EVENTS_MAX).for_each(|at| warn!(target: PEERS, "refused {at}"));
            warn!("{}", "ü".repeat(TEXT_LEN_MAX));
        });
        let events = log.after(None);
        assert_eq!(events.len(), 2 * EVENTS_MAX + 3);
        assert_eq!(events[0].text, "a failure");
        assert_eq!(events[1].text, "change");
        assert_eq!(events[EVENTS_MAX + 1].text, format!("notice {}", 3 * EVENTS_MAX - 1));
        assert!(events.iter().all(|it| it.text.len() <= TEXT_LEN_MAX));
        assert!(events.is_sorted_by_key(|it| it.number));
    }
}
