//! The progress of a run, and the time that remains.

use std::time::{Duration, Instant};

use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A progress bar on a terminal; elsewhere a line now and then.
pub(super) struct Progress {
    bar: ProgressBar,
    is_terminal: bool,
    start: Instant,
    total: u64,
    done: u64,
    /// Expected time per point, until the first has been measured.
    expected: Duration,
    said_at: Option<Instant>,
}

/// Interval of the lines without a terminal.
const SAY_SPAN: Duration = Duration::from_secs(30);

impl Progress {
    pub(super) fn new(total: u64, expected: Duration) -> Self {
        let is_terminal = std::io::IsTerminal::is_terminal(&std::io::stderr());
        let target =
            if is_terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(total), target);
        let style = ProgressStyle::with_template("{bar:24} {pos}/{len} {msg}");
        bar.set_style(style.expect("the template is valid"));
        Self { bar, is_terminal, start: Instant::now(), total, done: 0, expected, said_at: None }
    }

    /// A point begins.
    pub(super) fn show(&mut self, what: &str) {
        let left = self.left();
        if self.is_terminal {
            self.bar.set_message(format!("{what}, {} left", HumanDuration(left)));
            self.bar.tick();
        } else if self.said_at.is_none_or(|at| at.elapsed() >= SAY_SPAN) {
            self.said_at = Some(Instant::now());
            eprintln!("{}/{} {what}, {} left", self.done, self.total, HumanDuration(left));
        }
    }

    /// A point has ended.
    pub(super) fn advance(&mut self) {
        self.done += 1;
        self.bar.set_position(self.done);
    }

    /// Prints a line above the bar.
    pub(super) fn say(&self, line: &str) {
        self.bar.suspend(|| eprintln!("{line}"));
    }

    pub(super) fn end(&self) {
        self.bar.finish_and_clear();
    }

    fn left(&self) -> Duration {
        let each = match u32::try_from(self.done) {
            Ok(0) | Err(_) => self.expected,
            Ok(done) => self.start.elapsed() / done,
        };
        each * u32::try_from(self.total - self.done).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn before_the_first_point_the_time_left_is_what_points_are_expected_to_take() {
        let progress = Progress::new(30, Duration::from_secs(2));
        assert_eq!(progress.left(), Duration::from_secs(60));
    }
}
