//! `nearflash events`: the last events of a running node, and those to come.

use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use nearflash_api::client::{ControlError, ask};
use nearflash_api::{Document, EventInfo, EventLevel, EventList};
use nearflash_journal::events::recorded_changes;

use crate::args::EventsArgs;
use crate::calendar::show_time;
use crate::control::data_dir;
use crate::failure::Failure;

/// The time between two looks at the node.
const PERIOD: Duration = Duration::from_millis(500);

pub(crate) fn run_events(args: &EventsArgs) -> Result<ExitCode, Failure> {
    let data_dir = data_dir(&args.node)?;
    let mut after = args.after;
    if args.changes {
        return print_changes(args, &data_dir);
    }
    // A node that does not run is reported at once; one that ends later may be started again.
    let mut events = ask(&data_dir, EventList { after })?.events;
    loop {
        after = events.last().map(|it| it.number).or(after);
        events.retain(|it| it.level >= level(args));
        let is_read = print_all(&events, args)?;
        if !args.follow || !is_read {
            return Ok(ExitCode::SUCCESS);
        }
        events = next(&data_dir, after)?;
    }
}

fn print_changes(args: &EventsArgs, data_dir: &Path) -> Result<ExitCode, Failure> {
    let failed = |source| Failure::Changes { data_dir: data_dir.to_owned(), source };
    let mut changes = recorded_changes(data_dir).map_err(failed)?;
    changes.retain(|it| args.after.is_none_or(|after| it.number > after));
    print_all(&changes, args)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints events. Returns whether somebody still reads them.
fn print_all(events: &[EventInfo], args: &EventsArgs) -> io::Result<bool> {
    match print(events, args.node.json) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        printed => printed.map(|()| true),
    }
}

fn level(args: &EventsArgs) -> EventLevel {
    if args.warnings { EventLevel::Warning } else { EventLevel::Info }
}

/// The next events. Waits for a node that has ended.
fn next(data_dir: &Path, after: Option<u64>) -> Result<Vec<EventInfo>, Failure> {
    loop {
        std::thread::sleep(PERIOD);
        match ask(data_dir, EventList { after }) {
            Err(ControlError::NotRunning { .. } | ControlError::Io { .. }) => {}
            answer => return Ok(answer?.events),
        }
    }
}

fn print(events: &[EventInfo], json: bool) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    for event in events {
        match json {
            true => writeln!(stdout, "{}", Document::new(event).to_line())?,
            false => writeln!(stdout, "{}", line(event))?,
        }
    }
    stdout.flush()
}

/// An event in one line: `2026-11-27 20:48:01.123Z warning connection closed: … (peer 192.0.2.7:4711)`.
fn line(event: &EventInfo) -> String {
    let EventInfo { at_ms, level, text, fields, .. } = event;
    let fields: Vec<String> =
        fields.iter().map(|(name, value)| format!("{name} {value}")).collect();
    let fields =
        if fields.is_empty() { String::new() } else { format!(" ({})", fields.join(", ")) };
    format!("{} {:<7} {text}{fields}", show_time(*at_ms), level.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line_with_its_time_and_fields() {
        let fields = [("who", "uid 0"), ("call", "volume-create")];
        let event = EventInfo {
            number: 7,
            at_ms: 1_795_812_481_123,
            level: EventLevel::Info,
            text: "change".to_owned(),
            fields: fields.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        };
        assert_eq!(
            line(&event),
            "2026-11-27 20:48:01.123Z info    change (call volume-create, who uid 0)"
        );
    }
}
