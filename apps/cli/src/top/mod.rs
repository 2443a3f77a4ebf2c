//! `nearflash top`: a running node live, on a terminal or as lines of JSON.

mod series;
mod view;

use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use nearflash_api::client::ask;
use nearflash_api::{ActivityShow, Document, StatusShow};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::args::NodeArgs;
use crate::control::data_dir;
use crate::failure::Failure;
use series::Series;
use view::draw;

/// The time between two looks at the node.
const PERIOD: Duration = Duration::from_secs(1);

type Done = Result<ExitCode, Failure>;

pub(crate) fn run_top(node: &NodeArgs) -> Done {
    let data_dir = data_dir(node)?;
    if node.json {
        return print_lines(&data_dir);
    }
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        return Err(Failure::NoTerminal);
    }
    // A node that does not answer is reported before the terminal changes.
    let mut series = Series::default();
    look(&data_dir, &mut series)?;
    let mut terminal = ratatui::try_init().map_err(Failure::Display)?;
    let shown = show(&mut terminal, &data_dir, &mut series);
    ratatui::restore();
    shown?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the activity of each second, until the reader closes.
fn print_lines(data_dir: &Path) -> Done {
    let mut since = None;
    loop {
        let activity = ask(data_dir, ActivityShow { since })?;
        if let Some(last) = activity.intervals.last() {
            since = Some(last.number);
            let mut stdout = io::stdout().lock();
            let written = writeln!(stdout, "{}", Document::new(activity).to_line());
            match written.and_then(|()| stdout.flush()) {
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => break,
                written => written?,
            }
        }
        std::thread::sleep(PERIOD);
    }
    Ok(ExitCode::SUCCESS)
}

fn look(data_dir: &Path, series: &mut Series) -> Result<(), Failure> {
    let activity = ask(data_dir, ActivityShow { since: series.last_number() })?;
    series.take(ask(data_dir, StatusShow {})?, activity);
    Ok(())
}

/// Draws the series until a person ends it.
fn show(
    terminal: &mut DefaultTerminal,
    data_dir: &Path,
    series: &mut Series,
) -> Result<(), Failure> {
    let mut next = Instant::now() + PERIOD;
    loop {
        terminal.draw(|frame| draw(frame, series)).map_err(Failure::Display)?;
        let left = next.saturating_duration_since(Instant::now());
        if event::poll(left).map_err(Failure::Display)? {
            let pressed = event::read().map_err(Failure::Display)?;
            if is_end(&pressed, series) {
                return Ok(());
            }
            continue;
        }
        next = Instant::now() + PERIOD;
        if !series.is_paused {
            match look(data_dir, series) {
                Ok(()) => series.failure = None,
                // A node that restarts is shown again.
                Err(failure) => series.failure = Some(failure.to_string()),
            }
        }
    }
}

/// Does what a key says. Returns whether it ends the display.
fn is_end(event: &Event, series: &mut Series) -> bool {
    let Event::Key(KeyEvent { code, modifiers, kind: KeyEventKind::Press, .. }) = event else {
        return false;
    };
    match code {
        KeyCode::Char('q') | KeyCode::Esc => return true,
        KeyCode::Char('c') if modifiers.contains(KeyModifiers::CONTROL) => return true,
        KeyCode::Char('s') => series.order = series.order.next(),
        KeyCode::Char('p') => series.is_paused = !series.is_paused,
        _ => {}
    }
    false
}
