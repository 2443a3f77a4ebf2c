//! The property of bytes at the port for pulses, for tests and fuzzers.

use std::time::Duration;

use super::listen::Messages;
use super::wire::{self, Hello};

/// Any bytes of an opener end its pulse in an orderly way or with an error, and what is understood is
/// written as it was read.
///
/// # Panics
/// When the property does not hold.
pub fn check_pulse(input: &[u8]) {
    if let Some((hello, _)) = input.split_first_chunk()
        && let Ok(read) = Hello::decode(hello)
    {
        assert_eq!(read.encode(), *hello);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.expect("a runtime without sockets needs nothing of the system");
    runtime.block_on(async {
        let mut messages = Messages { stream: input, silence: Duration::from_secs(1) };
        while let Ok(Some(pulse)) = messages.next().await {
            // A long message may be longer in our form.
            if let Ok(bytes) = wire::encode(&pulse) {
                let mut again = Messages { stream: &bytes[..], silence: Duration::from_secs(1) };
                assert_eq!(again.next().await.ok().flatten(), Some(pulse));
            }
        }
    });
}
