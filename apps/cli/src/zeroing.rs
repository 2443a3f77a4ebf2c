//! The progress of a node that zeroes a new volume of the cluster.

use std::io::{IsTerminal as _, Write};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use nearflash_api::VolumeLayout;

use crate::tables;

/// Interval of the progress display.
const PERIOD: Duration = Duration::from_secs(1);

/// Makes a call, and shows its progress on a terminal.
pub(crate) fn shown<T: Send>(
    call: impl FnOnce() -> T + Send,
    progress: impl Fn() -> Option<VolumeLayout>,
) -> T {
    match std::io::stderr() {
        stderr if stderr.is_terminal() => shown_on(stderr, PERIOD, call, progress),
        _ => call(),
    }
}

fn shown_on<T: Send>(
    mut terminal: impl Write,
    period: Duration,
    call: impl FnOnce() -> T + Send,
    progress: impl Fn() -> Option<VolumeLayout>,
) -> T {
    std::thread::scope(|scope| {
        let (sender, receiver) = channel();
        scope.spawn(move || {
            // The receiver lives until the answer is there.
            let _ = sender.send(call());
        });
        let mut is_shown = false;
        loop {
            match receiver.recv_timeout(period) {
                Ok(answer) => {
                    if is_shown {
                        // A failure to show progress is ignored.
                        let _ = write!(terminal, "\r\x1b[K");
                    }
                    return answer;
                }
                Err(RecvTimeoutError::Timeout) => {
                    let layout = progress().filter(|it| it.zeroed_bytes < it.space_bytes);
                    if let Some(VolumeLayout { zeroed_bytes, space_bytes, .. }) = layout {
                        let (done, total) = (tables::size(zeroed_bytes), tables::size(space_bytes));
                        let _ = write!(terminal, "\r\x1b[Kzeroing: {done} of {total}");
                        let _ = terminal.flush();
                        is_shown = true;
                    }
                }
                Err(RecvTimeoutError::Disconnected) => unreachable!("the call does not panic"),
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn progress_is_shown_until_the_answer_is_there_and_then_removed() {
        let (sender, receiver) = channel();
        let (asked, mut terminal) = (Cell::new(0), Vec::new());
        let progress = || {
            asked.set(asked.get() + 1);
            if asked.get() == 4 {
                sender.send(7).unwrap();
            }
            let layout = VolumeLayout {
                replicas: 2,
                stripe_unit: 65_536,
                width: 1,
                placement: "spread".to_owned(),
                space_bytes: 8 << 30,
                zeroed_bytes: (asked.get() - 1) << 30,
                mirrors: Vec::new(),
            };
            Some(layout).filter(|_| asked.get() > 1)
        };
        let call = move || receiver.recv().unwrap();
        assert_eq!(shown_on(&mut terminal, Duration::from_millis(1), call, progress), 7);
        let text = String::from_utf8(terminal).unwrap();
        let expected = "\r\x1b[Kzeroing: 1GiB of 8GiB\r\x1b[Kzeroing: 2GiB of 8GiB";
        assert!(text.starts_with(expected), "{text:?}");
        assert!(text.ends_with("\r\x1b[K"), "{text:?}");
    }

    #[test]
    fn a_call_that_is_answered_at_once_shows_nothing() {
        let mut terminal = Vec::new();
        assert_eq!(shown_on(&mut terminal, Duration::from_secs(60), || 7, || None), 7);
        assert!(terminal.is_empty());
    }
}
