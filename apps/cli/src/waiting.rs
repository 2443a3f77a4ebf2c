//! A command that waits says for what, on a terminal.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// The time after which a command says that it waits.
const PERIOD: Duration = Duration::from_secs(1);

/// Does something that may wait, and says for what, on a terminal, if it takes longer than a second.
pub(crate) fn waiting_for<T>(reason: &str, act: impl FnOnce() -> T) -> T {
    match io::stderr().is_terminal() {
        true => saying_what_for(reason, act),
        false => act(),
    }
}

/// Says what it waits for, with or without a terminal: the wait depends on something that an operator can end.
pub(crate) fn saying_what_for<T>(reason: &str, act: impl FnOnce() -> T) -> T {
    let (alive, is_over) = channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            if is_over.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
                // A failure to show progress is ignored.
                let _ = writeln!(io::stderr(), "nearflash: waiting {reason}");
            }
        });
        let result = act();
        drop(alive);
        result
    })
}
