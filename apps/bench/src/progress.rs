//! Live progress of a run, on a terminal only.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use nearflash_units::{ByteLen, MIB, Nanos};

use crate::recorder::per_second;
use crate::report::{Sample, count};

/// A progress line; hidden unless stderr is a terminal.
pub(crate) struct Progress {
    bar: ProgressBar,
    op_len: ByteLen,
}

impl Progress {
    /// For a run of about `total`; `None` if its duration is unknown.
    pub(crate) fn new(total: Option<Nanos>, op_len: ByteLen) -> Self {
        let is_watched = std::io::stderr().is_terminal();
        let target =
            if is_watched { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(total.map(|span| span.0 / 1_000_000), target);
        let template = match total {
            Some(_) => "{bar:30} {elapsed} of {prefix}  {msg}",
            None => "{elapsed}  {msg}",
        };
        let style = ProgressStyle::with_template(template).expect("the template is well formed");
        bar.set_style(style);
        if let Some(total) = total {
            bar.set_prefix(format!("{:.0} s", total.0 as f64 / 1e9));
        }
        Self { bar, op_len }
    }

    /// Shows the rate of the last interval.
    pub(crate) fn show(&self, at: Nanos, sample: Sample) {
        let rate = per_second(sample.reads + sample.writes, sample.span);
        let bandwidth = rate * self.op_len.0 as f64 / MIB as f64;
        self.bar.set_position(at.0 / 1_000_000);
        self.bar.set_message(format!("{} IOPS, {bandwidth:.0} MiB/s", count(rate)));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
