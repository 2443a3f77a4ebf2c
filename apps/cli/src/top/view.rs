//! The display of `nearflash top`.

use nearflash_api::{Interval, Io, JobInfo, Latency, Level, Status};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize as _};
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Axis, Block, Cell, Chart, Dataset, GraphType, Paragraph, Row, Table};

use super::series::{INTERVALS_MAX, Series, per_second};
use crate::tables::{size, time, uptime};

/// The heights of the charts, and the width from which there are two next to each other.
const CHART_HEIGHT: u16 = 10;
const WIDE: u16 = 100;

/// The order of the lines' colours in all charts.
const READS: Color = Color::Cyan;
const WRITES: Color = Color::Yellow;

/// Draws everything.
pub(super) fn draw(frame: &mut Frame<'_>, series: &Series) {
    let Some(status) = &series.status else { return };
    let heading = heading(status, series);
    let lines = u16::try_from(heading.len()).unwrap_or(u16::MAX);
    let charts = if frame.area().height < 24 { 0 } else { CHART_HEIGHT };
    let [head, graphs, volumes, hosts, rest, keys] = Layout::vertical([
        Constraint::Length(lines),
        Constraint::Length(charts),
        Constraint::Fill(2),
        Constraint::Fill(1),
        Constraint::Length(below_height(status)),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(Paragraph::new(heading), head);
    if charts > 0 {
        draw_charts(frame, graphs, series);
    }
    let millis = series.last().map_or(1000, |last| last.millis);
    let table = |what, rows| io_table(what, rows, millis, frame.area().width);
    let (of_volumes, of_hosts) =
        (table("VOLUME", &series.volumes()), table("HOST", &series.hosts()));
    frame.render_widget(of_volumes, volumes);
    frame.render_widget(of_hosts, hosts);
    frame.render_widget(below(status), rest);
    let paused = if series.is_paused { "  PAUSED" } else { "" };
    let order = series.order.as_str();
    let help = format!("q end   s order: {order}   p pause{paused}");
    frame.render_widget(Paragraph::new(help).dim(), keys);
}

/// The verdict with its reasons, and the totals of the last second.
fn heading<'a>(status: &'a Status, series: &'a Series) -> Vec<Line<'a>> {
    let colour = match status.verdict.level {
        Level::Ok => Color::Green,
        Level::Warning => Color::Yellow,
        Level::Problem => Color::Red,
    };
    let about = format!(
        "  node {}, version {}, serving for {}",
        status.node,
        status.version,
        uptime(status.uptime_seconds)
    );
    let verdict = Span::from(status.verdict.level.as_str().to_uppercase());
    let mut lines = vec![Line::from(vec![verdict.fg(colour).bold(), Span::from(about)])];
    lines
        .extend(status.verdict.reasons.iter().map(|reason| Line::from(reason.as_str()).fg(colour)));
    lines.extend(series.failure.iter().map(|failure| Line::from(failure.as_str()).red()));
    lines.push(match series.last() {
        None => Line::from("measuring the first second").dim(),
        Some(last) => Line::from(totals(last)),
    });
    lines
}

fn totals(last: &Interval) -> String {
    let Interval { io, millis, .. } = last;
    let rate = |count| number(per_second(count, *millis));
    let bytes = |count| bytes_per_second(count, *millis);
    let mut text = format!(
        "reads {}/s {}   writes {}/s {}   others {}/s   in flight {}   waiting {}",
        rate(io.reads),
        bytes(io.read_bytes),
        rate(io.writes),
        bytes(io.written_bytes),
        rate(io.others),
        io.in_flight,
        io.waiting
    );
    if io.errors > 0 {
        text += &format!("   ERRORS {}/s", rate(io.errors));
    }
    text
}

fn draw_charts(frame: &mut Frame<'_>, area: Rect, series: &Series) {
    let parts = if area.width < WIDE { 1 } else { 2 };
    let halves = Layout::horizontal(vec![Constraint::Fill(1); parts]).split(area);
    let rate = |of: fn(&Io) -> u64| {
        series.points(|interval| Some(per_second(of(&interval.io), interval.millis)))
    };
    draw_chart(
        frame,
        halves[0],
        "requests/s",
        &[("reads", READS, rate(|io| io.reads)), ("writes", WRITES, rate(|io| io.writes))],
        number,
    );
    if let Some(half) = halves.get(1) {
        let p99 = |of: fn(&Io) -> Option<Latency>| {
            series.points(|interval| of(&interval.io).map(|it| micros(it.p99_ns)))
        };
        let lines = [
            ("reads", READS, p99(|io| io.read_latency)),
            ("writes", WRITES, p99(|io| io.write_latency)),
        ];
        draw_chart(frame, *half, "latency p99, µs", &lines, number);
    }
}

type NamedLine = (&'static str, Color, Vec<(f64, f64)>);

fn draw_chart(
    frame: &mut Frame<'_>,
    area: Rect,
    title: &str,
    lines: &[NamedLine],
    label: fn(f64) -> String,
) {
    let values = lines.iter().flat_map(|(_, _, points)| points).map(|(_, value)| *value);
    let top = values.fold(1.0, f64::max) * 1.1;
    let dataset = |(name, colour, points): &'_ NamedLine| {
        // The points live as long as the lines.
        (name.to_owned(), *colour, points.clone())
    };
    let owned: Vec<NamedLine> = lines.iter().map(dataset).collect();
    let datasets = owned.iter().map(|(name, colour, points)| {
        Dataset::default()
            .name(*name)
            .marker(Marker::Braille)
            .graph_type(GraphType::Line)
            .style(Style::new().fg(*colour))
            .data(points)
    });
    let oldest = -f64::from(u16::try_from(INTERVALS_MAX).unwrap_or(u16::MAX));
    let age = Axis::default().bounds([oldest, 0.0]).labels(["-2 min", "now"]);
    let value = Axis::default().bounds([0.0, top]).labels(["0".to_owned(), label(top)]);
    let chart = Chart::new(datasets.collect())
        .block(Block::bordered().title(title.to_owned()).dim())
        .x_axis(age)
        .y_axis(value);
    frame.render_widget(chart, area);
}

/// A column of the tables.
struct Column {
    title: &'static str,
    width: u16,
    /// The lower, the longer it is shown on a narrow terminal.
    rank: u8,
    text: fn(&Io, u64) -> String,
}

/// The width that the first column has at least, and the space between columns.
const NAME_WIDTH_MIN: u16 = 16;
const SPACING: u16 = 1;

const COLUMNS: [Column; 11] = [
    column("READS/s", 8, 0, |io, millis| number(per_second(io.reads, millis))),
    column("WRITES/s", 8, 1, |io, millis| number(per_second(io.writes, millis))),
    column("READ", 11, 2, |io, millis| bytes_per_second(io.read_bytes, millis)),
    column("WRITTEN", 11, 3, |io, millis| bytes_per_second(io.written_bytes, millis)),
    column("R P50", 8, 8, |io, _| latency(io.read_latency, |it| it.p50_ns)),
    column("R P99", 8, 4, |io, _| latency(io.read_latency, |it| it.p99_ns)),
    column("W P50", 8, 9, |io, _| latency(io.write_latency, |it| it.p50_ns)),
    column("W P99", 8, 5, |io, _| latency(io.write_latency, |it| it.p99_ns)),
    column("FLIGHT", 7, 10, |io, _| io.in_flight.to_string()),
    column("WAIT", 6, 7, |io, _| io.waiting.to_string()),
    column("ERRORS/s", 8, 6, |io, millis| number(per_second(io.errors, millis))),
];

const fn column(title: &'static str, width: u16, rank: u8, text: fn(&Io, u64) -> String) -> Column {
    Column { title, width, rank, text }
}

fn latency(latency: Option<Latency>, of: fn(Latency) -> u64) -> String {
    latency.map_or("-".to_owned(), |latency| time(of(latency)))
}

/// The columns for which a terminal of this width has room, by their rank.
fn columns(width: u16) -> impl Iterator<Item = &'static Column> {
    let is_shown = move |column: &&Column| {
        let before = COLUMNS.iter().filter(|other| other.rank <= column.rank);
        let widths: u16 = before.map(|column| column.width + SPACING).sum();
        NAME_WIDTH_MIN + widths <= width
    };
    COLUMNS.iter().filter(is_shown)
}

fn io_table(what: &'static str, rows: &[(&str, &Io)], millis: u64, width: u16) -> Table<'static> {
    let cells = |(name, io): &(&str, &Io)| {
        let right = |column: &Column| Line::from((column.text)(io, millis)).right_aligned();
        let numbers = columns(width).map(|column| Cell::from(right(column)));
        Row::new([Cell::from((*name).to_owned())].into_iter().chain(numbers))
    };
    let titles = columns(width).map(|column| Cell::from(Line::from(column.title).right_aligned()));
    let titles = [Cell::from(what)].into_iter().chain(titles);
    let widths = columns(width).map(|column| Constraint::Length(column.width));
    Table::new(rows.iter().map(cells), [Constraint::Fill(1)].into_iter().chain(widths))
        .column_spacing(SPACING)
        .header(Row::new(titles).bold())
}

fn below_height(status: &Status) -> u16 {
    u16::try_from(1 + status.jobs.len().min(4)).unwrap_or(u16::MAX)
}

/// The cores, and the jobs that run.
fn below(status: &Status) -> Paragraph<'static> {
    let core = |core: &nearflash_api::CoreInfo| {
        format!(
            "core {}: {} connections, {} in flight",
            core.core, core.connections, core.in_flight
        )
    };
    let cores: Vec<String> = status.cores.iter().map(core).collect();
    let mut lines = vec![Line::from(cores.join("   ")).dim()];
    lines.extend(status.jobs.iter().take(4).map(|it| Line::from(job(it))));
    Paragraph::new(lines)
}

fn job(job: &JobInfo) -> String {
    let percent = job.done_bytes.saturating_mul(100).checked_div(job.total_bytes).unwrap_or(0);
    let (id, kind, volume, state) = (job.id, &job.kind, &job.volume, job.state.as_str());
    let (done, total) = (size(job.done_bytes), size(job.total_bytes));
    format!("job {id}: {kind} of '{volume}' {state}, {percent}% ({done} of {total})")
}

/// A number with three digits and a unit.
fn number(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        ..10.0 => format!("{value:.1}"),
        ..10e3 => format!("{value:.0}"),
        ..10e6 => format!("{:.0}k", value / 1e3),
        _ => format!("{:.1}M", value / 1e6),
    }
}

fn bytes_per_second(count: u64, millis: u64) -> String {
    let bytes = u128::from(count) * 1000 / u128::from(millis.max(1));
    size(u64::try_from(bytes).unwrap_or(u64::MAX)) + "/s"
}

#[allow(clippy::cast_precision_loss)] // a chart has no more than three digits
fn micros(nanos: u64) -> f64 {
    nanos as f64 / 1000.0
}

#[cfg(test)]
mod tests;
